/* See deal.h. */
#include "data/deal.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "data/record.h"

enum {
    ROUNDS = 6,
    PIECE_MOST = 256 << 10, /* bytes that are given at a time, */
    PIECE_LEAST = 8 << 10,  /* fewer where there are many workers: */
    HELD_MOST = 64 << 20,   /* what waits for being enough, of all of them */
    OWN_BLOCK = 1 << 20,    /* bytes of a block of samples that stay here */
};

/* A Feistel network over 2 * bits bits, whose numbers past the last are sent through it again. */
struct permutation {
    uint64_t key[ROUNDS], mask;
    int bits;
    uint64_t all;
};

struct pd_deal {
    struct pd_dataset *dataset;
    struct pd_deal_spec spec;
    struct permutation permutation;
    struct pd_store made;
    struct pd_buf *out; /* for each worker */
    int64_t *pieces;    /* that came from each */
    size_t piece;       /* bytes that are enough */
    int64_t got;        /* samples */
};

/* ---- where a sample goes ---- */

static void permutation_init(struct permutation *p, uint64_t seed, int64_t all)
{
    *p = (struct permutation){.all = (uint64_t)all, .bits = 1};
    while (p->bits < 31 && UINT64_C(1) << (2 * p->bits) < p->all)
        p->bits++;
    p->mask = (UINT64_C(1) << p->bits) - 1;
    for (int i = 0; i < ROUNDS; i++)
        p->key[i] = pd_rng_mix(seed + (uint64_t)(i + 1) * UINT64_C(0x9E3779B97F4A7C15));
}

static uint64_t permute(const struct permutation *p, uint64_t x)
{
    do {
        uint64_t left = x >> p->bits, right = x & p->mask;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t next = left ^ (pd_rng_mix(right ^ p->key[i]) >> 20 & p->mask);
            left = right;
            right = next;
        }
        x = left << p->bits | right;
    } while (x >= p->all);
    return x;
}

int64_t pd_deal_place(uint64_t seed, int64_t all, int64_t sample)
{
    struct permutation p;
    permutation_init(&p, seed, all);
    return (int64_t)permute(&p, (uint64_t)sample);
}

/* Worker w has the places from all * w / n on. */
static int worker_of(const struct pd_deal *d, uint64_t place)
{
    return (int)(((place + 1) * (uint64_t)d->spec.n - 1) / d->permutation.all);
}

static int64_t share_of(const struct pd_deal *d, int worker)
{
    uint64_t all = d->permutation.all, n = (uint64_t)d->spec.n, w = (uint64_t)worker;
    return (int64_t)(all * (w + 1) / n - all * w / n);
}

static int worker_of_id(const struct pd_deal *d, const char *record)
{
    uint32_t n;
    const char *id = pd_record_id(&d->dataset->schema, record, &n);
    uint64_t hash = d->spec.seed ^ UINT64_C(0xCBF29CE484222325);
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)id[i]) * UINT64_C(0x100000001B3);
    return (int)(pd_rng_mix(hash) % (uint64_t)d->spec.n);
}

/* ---- samples come ---- */

/* The bytes of the record at `at`; 0: it is none, or does not end before `end`. */
static size_t check_record(const struct pd_schema *s, const char *at, const char *end)
{
    size_t room = (size_t)(end - at), bytes = pd_record_head(s);
    if (bytes > room) return 0;
    for (int i = 0, column = 0; i < s->n; i++) {
        const struct pd_slot *slot = &s->slot[i];
        if (!slot->is_used) continue;
        uint32_t count = pd_record_count(at, column++);
        size_t more = count * pd_slot_bytes(slot);
        if (!count || count % slot->unit || more > room - bytes) return 0;
        bytes += more;
    }
    for (int i = 0; i < !!s->has_id + !!s->has_text; i++) {
        uint32_t length;
        if (room - bytes < 4) return 0;
        memcpy(&length, at + bytes, 4);
        if (i == 0 && s->has_id) length &= ~PD_RECORD_MERGED;
        if (length > room - bytes - 4) return 0;
        bytes += 4 + length;
    }
    return bytes;
}

static pd_status keep(struct pd_deal *d, int from, struct pd_buf *piece)
{
    return pd_store_take(&d->made, piece, (int64_t)from * ((int64_t)1 << 32) + d->pieces[from]++);
}

pd_status pd_deal_take(struct pd_deal *deal, int from, struct pd_buf *piece)
{
    const struct pd_schema *schema = &deal->dataset->schema;
    const char *at = piece->at, *end = piece->at + piece->n;
    while (at < end) {
        size_t bytes = check_record(schema, at, end);
        if (!bytes)
            return pd_fail(PD_FORMAT,
                           "worker %d sends bytes that are no samples of this data set: have both the same "
                           "set_use_var?",
                           from);
        at += bytes;
        deal->got++;
    }
    return keep(deal, from, piece);
}

/* ---- samples go ---- */

static pd_status flush(struct pd_deal *d, const struct pd_deal_way *way, int to)
{
    struct pd_buf *out = &d->out[to];
    if (out->failed) return pd_no_memory();
    if (!out->n) return PD_OK;
    return to == d->spec.self ? keep(d, to, out) : way->give(way->arg, to, out);
}

static pd_status deal_block(struct pd_deal *d, const struct pd_deal_way *way, const char *at, const char *end,
                            uint64_t *sample)
{
    const struct pd_schema *schema = &d->dataset->schema;
    while (at < end) {
        size_t bytes = pd_record_bytes(schema, at);
        int to = d->spec.by_id ? worker_of_id(d, at) : worker_of(d, permute(&d->permutation, *sample));
        struct pd_buf *out = &d->out[to];
        pd_buf_add(out, at, bytes);
        d->got += to == d->spec.self;
        if (out->failed || out->n >= (to == d->spec.self ? OWN_BLOCK : d->piece)) PD_TRY(flush(d, way, to));
        at += bytes;
        ++*sample;
    }
    return PD_OK;
}

/* The order goes first, for it points into the blocks. */
static pd_status deal_all(struct pd_deal *d, const struct pd_deal_way *way)
{
    struct pd_store *store = &d->dataset->store;
    uint64_t sample = 0;
    for (int i = 0; i < d->spec.self; i++)
        sample += (uint64_t)d->spec.counts[i];
    pd_free(store->record);
    store->record = NULL;
    store->n = store->cap = 0;
    for (int i = 0; i < store->blocks.n; i++) {
        struct pd_store_block *block = &store->blocks.at[i];
        PD_TRY(deal_block(d, way, block->at, block->at + block->n, &sample));
        pd_free(block->at);
        block->at = NULL;
        block->n = 0;
    }
    for (int to = 0; to < d->spec.n; to++)
        PD_TRY(flush(d, way, to));
    return way->finish(way->arg);
}

static pd_status check_share(const struct pd_deal *d)
{
    int64_t share = share_of(d, d->spec.self);
    if (d->spec.by_id || d->got == share) return PD_OK;
    return pd_fail(PD_INTERNAL, "worker %d got %" PRId64 " samples; its part is %" PRId64, d->spec.self,
                   d->got, share);
}

pd_status pd_deal_run(struct pd_deal *deal, const struct pd_deal_way *way)
{
    struct pd_store *store = &deal->dataset->store;
    pd_status status = deal_all(deal, way);
    pd_store_clear(store);
    if (status == PD_OK) status = check_share(deal);
    if (status == PD_OK) status = pd_store_arrange(&deal->made, &deal->dataset->schema);
    if (status != PD_OK) return status;
    pd_store_shuffle(&deal->made, pd_rng_mix(deal->spec.seed + (uint64_t)deal->spec.self));
    pthread_mutex_t lock = store->lock;
    *store = deal->made;
    store->lock = lock;
    pd_store_init(&deal->made);
    return PD_OK;
}

pd_status pd_deal_begin(struct pd_dataset *dataset, const struct pd_deal_spec *spec, struct pd_deal **out)
{
    int64_t all = 0, limit = INT64_MAX / 2 / spec->n;
    for (int i = 0; i < spec->n; i++) {
        if (spec->counts[i] < 0 || spec->counts[i] > limit - all)
            return pd_fail(PD_RANGE, "worker %d has %" PRId64 " samples, which are too many to deal out", i,
                           spec->counts[i]);
        all += spec->counts[i];
    }
    if (dataset->store.n != spec->counts[spec->self])
        return pd_fail(PD_INVALID, "this worker has %" PRId64 " samples and told the others of %" PRId64,
                       dataset->store.n, spec->counts[spec->self]);
    if (spec->by_id && !dataset->schema.has_id)
        return pd_fail(PD_INVALID, "samples have no ids to deal them out by; call set_parse_ins_id(True)");
    struct pd_deal *d = pd_calloc(1, sizeof *d);
    if (!d) return pd_no_memory();
    *d = (struct pd_deal){.dataset = dataset, .spec = *spec};
    pd_store_init(&d->made);
    permutation_init(&d->permutation, spec->seed, all);
    d->piece = HELD_MOST / (size_t)spec->n;
    d->piece = d->piece > PIECE_MOST ? PIECE_MOST : d->piece < PIECE_LEAST ? PIECE_LEAST : d->piece;
    d->out = pd_calloc((size_t)spec->n, sizeof *d->out);
    d->pieces = pd_calloc((size_t)spec->n, sizeof *d->pieces);
    if (!d->out || !d->pieces) {
        pd_deal_free(d);
        return pd_no_memory();
    }
    *out = d;
    return PD_OK;
}

void pd_deal_free(struct pd_deal *deal)
{
    if (!deal) return;
    pd_store_clear(&deal->made);
    for (int i = 0; deal->out && i < deal->spec.n; i++)
        pd_buf_free(&deal->out[i]);
    pd_free(deal->out);
    pd_free(deal->pieces);
    pd_free(deal);
}
