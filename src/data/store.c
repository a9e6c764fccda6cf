/* See store.h. */
#include "data/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "data/record.h"

enum { BLOCK = 1 << 20 };

void pd_store_init(struct pd_store *store)
{
    *store = (struct pd_store){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void pd_store_clear(struct pd_store *store)
{
    for (int i = 0; i < store->blocks.n; i++)
        pd_free(store->blocks.at[i].at);
    pd_vec_free(&store->blocks);
    pd_free(store->record);
    store->record = NULL;
    store->n = store->cap = store->bytes = 0;
    store->n_arranged = 0;
}

static pd_status reserve(struct pd_store *s, int64_t more)
{
    if (s->n + more <= s->cap) return PD_OK;
    int64_t cap = s->cap ? s->cap : 1024;
    while (cap < s->n + more)
        cap += cap / 2;
    const char **grown = pd_realloc_array(s->record, (size_t)cap, sizeof *grown);
    if (!grown) return pd_no_memory();
    s->bytes += (cap - s->cap) * (int64_t)sizeof *grown;
    s->record = grown;
    s->cap = cap;
    return PD_OK;
}

pd_status pd_store_take(struct pd_store *store, struct pd_buf *records, int64_t rank)
{
    if (records->n == 0) return PD_OK;
    char *at = pd_realloc_array(records->at, records->n, 1); /* what is not used goes back */
    if (!at) return pd_no_memory();
    records->at = at;
    records->cap = records->n;
    struct pd_store_block block = {at, records->n, rank};
    pthread_mutex_lock(&store->lock);
    int is_taken = pd_vec_push(&store->blocks, block);
    store->bytes += (int64_t)block.n;
    pthread_mutex_unlock(&store->lock);
    if (!is_taken) return pd_no_memory();
    *records = (struct pd_buf){0};
    return PD_OK;
}

void pd_store_forget(struct pd_store *store)
{
    while (store->blocks.n > store->n_arranged) {
        struct pd_store_block *block = &store->blocks.at[--store->blocks.n];
        store->bytes -= (int64_t)block->n;
        pd_free(block->at);
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct pd_store_block *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

pd_status pd_store_arrange(struct pd_store *store, const struct pd_schema *schema)
{
    int begin = store->n_arranged, n = store->blocks.n - begin;
    int64_t before = store->n;
    if (n) qsort(store->blocks.at + begin, (size_t)n, sizeof *store->blocks.at, by_rank);
    for (; store->n_arranged < store->blocks.n; store->n_arranged++) {
        const struct pd_store_block *block = &store->blocks.at[store->n_arranged];
        for (const char *at = block->at; at < block->at + block->n; at += pd_record_bytes(schema, at)) {
            pd_status status = reserve(store, 1);
            if (status != PD_OK) {
                store->n_arranged = begin;
                store->n = before;
                return status;
            }
            store->record[store->n++] = at;
        }
    }
    return PD_OK;
}

/* A number below `limit`, each as likely, from 64 random bits. */
static int64_t below(uint64_t bits, int64_t limit)
{
    return (int64_t)(((unsigned __int128)bits * (uint64_t)limit) >> 64);
}

static void shuffle(const char **record, int64_t n, uint64_t seed)
{
    struct pd_rng rng = pd_rng_make(seed, 0);
    uint32_t word[4];
    for (int64_t i = n - 1; i > 0; i--) {
        if (i % 2 || i == n - 1) pd_rng_block(&rng, (uint64_t)i / 2, word);
        uint64_t bits = (uint64_t)word[2 * (i % 2)] << 32 | word[2 * (i % 2) + 1];
        int64_t k = below(bits, i + 1);
        const char *other = record[k];
        record[k] = record[i];
        record[i] = other;
    }
}

void pd_store_shuffle(struct pd_store *store, uint64_t seed)
{
    shuffle(store->record, store->n, seed);
}

/* A store that is made from another: buffers become blocks when they are large. */
static pd_status flush(struct pd_store *made, struct pd_buf *out, int is_last)
{
    if (out->failed) return pd_no_memory();
    return is_last || out->n >= BLOCK ? pd_store_take(made, out, made->blocks.n) : PD_OK;
}

/* It takes the place of the other. */
static pd_status replace(struct pd_store *store, const struct pd_schema *schema, struct pd_store *made,
                         pd_status status)
{
    if (status == PD_OK) status = pd_store_arrange(made, schema);
    if (status != PD_OK) {
        pd_store_clear(made);
        return status;
    }
    pd_store_clear(store);
    pthread_mutex_t lock = store->lock;
    *store = *made;
    store->lock = lock;
    return PD_OK;
}

/* ---- numbers that change places ---- */

static void mix(const struct pd_schema *schema, const char *own, const char *other, const char *moves,
                struct pd_buf *out)
{
    size_t head = pd_record_head(schema), at[2] = {head, head}, begin = out->n;
    const char *from[2] = {own, other};
    if (!pd_buf_reserve(out, head)) return;
    out->n += head;
    for (int i = 0, column = 0; i < schema->n; i++) {
        if (!schema->slot[i].is_used) continue;
        size_t size = pd_slot_bytes(&schema->slot[i]);
        int which = moves[column] != 0;
        uint32_t count = pd_record_count(from[which], column);
        pd_buf_add(out, from[which] + at[which], count * size);
        if (out->failed) return;
        memcpy(out->at + begin + 4 * (size_t)column, &count, 4);
        for (int k = 0; k < 2; k++)
            at[k] += pd_record_count(from[k], column) * size;
        column++;
    }
    pd_buf_add(out, own + at[0], pd_record_bytes(schema, own) - at[0]);
}

pd_status pd_store_exchange(struct pd_store *store, const struct pd_schema *schema, const char *moves,
                            uint64_t seed)
{
    struct pd_store made;
    struct pd_buf out = {0};
    const char **other = pd_calloc((size_t)store->n, sizeof *other);
    pd_status status = PD_OK;
    if (!other) return pd_no_memory();
    pd_store_init(&made);
    if (store->n) memcpy(other, store->record, (size_t)store->n * sizeof *other);
    shuffle(other, store->n, seed);
    for (int64_t i = 0; i < store->n && status == PD_OK; i++) {
        mix(schema, store->record[i], other[i], moves, &out);
        status = flush(&made, &out, i == store->n - 1);
    }
    pd_buf_free(&out);
    pd_free(other);
    return replace(store, schema, &made, status);
}

/* ---- samples of one id ---- */

static int by_id(const void *a, const void *b, void *arg)
{
    uint32_t n, m;
    const char *x = pd_record_id(arg, *(const char *const *)a, &n),
               *y = pd_record_id(arg, *(const char *const *)b, &m);
    int order = memcmp(x, y, n < m ? n : m);
    if (!order) order = (n > m) - (n < m);
    return order ? order
                 : pd_record_is_merged(arg, *(const char *const *)b) -
                       pd_record_is_merged(arg, *(const char *const *)a);
}

static int is_same_id(const struct pd_schema *schema, const char *a, const char *b)
{
    uint32_t n, m;
    const char *x = pd_record_id(schema, a, &n), *y = pd_record_id(schema, b, &m);
    return n == m && memcmp(x, y, n) == 0;
}

/* One record with the numbers of n of them, slot by slot. A dense slot is that of the first. `mark`: what its
 * id's length gets beside. */
static void join(const struct pd_schema *schema, const char *const *record, int64_t n, uint32_t mark,
                 size_t *at, struct pd_buf *out)
{
    size_t head = pd_record_head(schema), begin = out->n;
    if (!pd_buf_reserve(out, head)) return;
    memset(out->at + out->n, 0, head);
    out->n += head;
    for (int64_t k = 0; k < n; k++)
        at[k] = head;
    for (int i = 0, column = 0; i < schema->n; i++) {
        const struct pd_slot *slot = &schema->slot[i];
        if (!slot->is_used) continue;
        uint32_t all = 0;
        for (int64_t k = 0; k < n; k++) {
            uint32_t count = pd_record_count(record[k], column);
            if (k == 0 || !slot->is_dense) {
                pd_buf_add(out, record[k] + at[k], count * pd_slot_bytes(slot));
                all += count;
            }
            at[k] += count * pd_slot_bytes(slot);
        }
        if (out->failed) return;
        memcpy(out->at + begin + 4 * (size_t)column++, &all, 4);
    }
    uint32_t length;
    memcpy(&length, record[0] + at[0], 4);
    length |= mark;
    pd_buf_add(out, &length, 4);
    pd_buf_add(out, record[0] + at[0] + 4, pd_record_bytes(schema, record[0]) - at[0] - 4);
}

pd_status pd_store_merge(struct pd_store *store, const struct pd_schema *schema, int size, int64_t *dropped)
{
    struct pd_store merged;
    struct pd_buf out = {0};
    size_t *at = NULL;
    pd_status status = PD_OK;
    *dropped = 0;
    pd_store_init(&merged);
    if (store->n) qsort_r(store->record, (size_t)store->n, sizeof *store->record, by_id, (void *)schema);
    for (int64_t i = 0, end; i < store->n && status == PD_OK; i = end) {
        int is_whole =
            size && pd_record_is_merged(schema, store->record[i]); /* before those of its id that are not */
        for (end = i + 1;
             !is_whole && end < store->n && is_same_id(schema, store->record[i], store->record[end]); end++)
            ;
        if (size && !is_whole && end - i != size) {
            *dropped += end - i;
            continue;
        }
        size_t *larger = pd_realloc_array(at, (size_t)(end - i), sizeof *at);
        if (!larger) {
            status = pd_no_memory();
            break;
        }
        at = larger;
        join(schema, store->record + i, end - i, size ? PD_RECORD_MERGED : 0, at, &out);
        status = flush(&merged, &out, 0);
    }
    if (status == PD_OK) status = flush(&merged, &out, 1);
    pd_buf_free(&out);
    pd_free(at);
    return replace(store, schema, &merged, status);
}
