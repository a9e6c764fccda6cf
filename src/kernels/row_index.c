/* See row_index.h. Rows are put in order again a segment at a time; to know their hashes they are read. */
#include "kernels/row_index.h"

#include <string.h>

#include "base/alloc.h"

/* Of a segment: buckets at most, before it is cut in two. In the directory: bits at most; after that segments
 * grow without end, which only ids that were chosen for that can bring about. */
enum { BUCKETS_MOST = 256, BITS_MOST = 26 };

/* Rows that so many buckets take: one more, and a lookup would often have to go on to the next bucket. */
static uint32_t most_rows(uint32_t buckets)
{
    return (uint32_t)((uint64_t)buckets * PD_ROW_BUCKET * 55 / 64);
}

/* Buckets for some rows, with room for more. */
static uint32_t buckets_for(uint32_t rows)
{
    return rows / (PD_ROW_BUCKET * 3 / 4) + 1;
}

static struct pd_row_bucket *buckets_new(struct pd_row_index *x, uint32_t n)
{
    size_t bytes = (size_t)n * sizeof(struct pd_row_bucket);
    struct pd_row_bucket *b = pd_malloc_aligned(bytes);
    if (!b) return NULL;
    memset(b, 0, bytes);
    x->bytes += bytes;
    return b;
}

static void buckets_free(struct pd_row_index *x, struct pd_row_bucket *b, uint32_t n)
{
    if (!b) return;
    x->bytes -= (uint64_t)n * sizeof *b;
    pd_free_aligned(b);
}

pd_status pd_row_index_open(struct pd_row_index *x)
{
    x->places = pd_malloc(sizeof *x->places);
    x->segments = pd_calloc(1, sizeof *x->segments);
    struct pd_row_bucket *first = buckets_new(x, 1);
    if (!x->places || !x->segments || !first) {
        pd_free(x->places);
        pd_free(x->segments);
        pd_free_aligned(first);
        return pd_no_memory();
    }
    x->places[0] = (struct pd_row_place){first, 1, 0};
    x->n_segments = x->room = 1;
    x->bytes += sizeof *x->places + sizeof *x->segments;
    return PD_OK;
}

void pd_row_index_close(struct pd_row_index *x)
{
    for (uint64_t i = 0; i < (uint64_t)1 << x->bits;) {
        const struct pd_row_place *p = &x->places[i];
        pd_free_aligned(p->buckets);
        i += (uint64_t)1 << (x->bits - x->segments[p->segment].bits);
    }
    pd_free(x->places);
    pd_free(x->segments);
}

/* ---- finding ---- */

/* Where it stands: its bucket, and the place in it. */
static struct pd_row_bucket *search(const struct pd_row_index *x, const struct pd_row_source *source,
                                    int64_t id, uint64_t hash, int *at)
{
    const struct pd_row_place *p = pd_row_index_place(x, hash);
    uint32_t from = pd_row_bucket_of(hash, p->n);
    for (uint32_t k = 0, i = from; k < p->n; k++, i = i + 1 < p->n ? i + 1 : 0) {
        struct pd_row_bucket *b = &p->buckets[i];
        for (uint32_t m = pd_row_bucket_match(b, pd_row_tag(hash)); m; m &= m - 1) {
            *at = __builtin_ctz(m);
            if (source->is_of(source->arg, b->row[*at], id)) return b;
        }
        if (!b->is_passed) return NULL;
    }
    return NULL;
}

uint32_t pd_row_index_find(const struct pd_row_index *x, const struct pd_row_source *source, int64_t id,
                           uint64_t hash)
{
    int at;
    const struct pd_row_bucket *b = search(x, source, id, hash, &at);
    return b ? b->row[at] : PD_ROW_NONE;
}

/* ---- segments ---- */

/* There is room. */
static void put(struct pd_row_bucket *buckets, uint32_t n, uint64_t hash, uint32_t row)
{
    uint32_t i = pd_row_bucket_of(hash, n);
    for (;; i = i + 1 < n ? i + 1 : 0) {
        struct pd_row_bucket *b = &buckets[i];
        uint32_t m = pd_row_bucket_match(b, 0);
        if (m) {
            int at = __builtin_ctz(m);
            b->tag[at] = pd_row_tag(hash);
            b->row[at] = row;
            return;
        }
        b->is_passed = 1;
    }
}

static void fetch_bucket(const struct pd_row_source *source, const struct pd_row_bucket *b)
{
    for (int k = 0; k < PD_ROW_BUCKET; k++)
        if (b->tag[k]) source->fetch(source->arg, b->row[k]);
}

/* Puts the rows of a segment into one or two arrays of buckets: `bit` of the hash says which. */
struct move {
    struct pd_row_bucket *to[2];
    uint32_t n[2], rows[2];
    uint64_t bit;
};

/* Only counts while there is nothing to put them into. */
static void move_rows(const struct pd_row_place *from, const struct pd_row_source *source, struct move *m)
{
    enum { AHEAD = 3 };
    m->rows[0] = m->rows[1] = 0;
    for (uint32_t i = 0; i < AHEAD && i < from->n; i++)
        fetch_bucket(source, &from->buckets[i]);
    for (uint32_t i = 0; i < from->n; i++) {
        const struct pd_row_bucket *b = &from->buckets[i];
        if (i + AHEAD < from->n) fetch_bucket(source, &from->buckets[i + AHEAD]);
        for (int k = 0; k < PD_ROW_BUCKET; k++) {
            if (!b->tag[k]) continue;
            uint64_t hash = pd_row_hash(source->id_of(source->arg, b->row[k]));
            int side = (hash & m->bit) != 0;
            m->rows[side]++;
            if (m->to[side]) put(m->to[side], m->n[side], hash, b->row[k]);
        }
    }
}

/* All places of the directory whose leading bits are those of the hash. */
static void set_places(struct pd_row_index *x, uint64_t hash, int bits, struct pd_row_place place)
{
    uint64_t first = bits ? hash >> (64 - bits) << (x->bits - bits) : 0;
    for (uint64_t i = 0; i < (uint64_t)1 << (x->bits - bits); i++)
        x->places[first + i] = place;
}

/* Gives the segment that the hash belongs to `n` buckets. */
static pd_status rebuild(struct pd_row_index *x, const struct pd_row_source *source, uint64_t hash,
                         uint32_t n)
{
    struct pd_row_place from = *pd_row_index_place(x, hash);
    struct pd_row_segment *s = &x->segments[from.segment];
    struct move m = {.to = {buckets_new(x, n)}, .n = {n}};
    if (!m.to[0]) return pd_no_memory();
    move_rows(&from, source, &m);
    s->removed = 0;
    set_places(x, hash, s->bits, (struct pd_row_place){m.to[0], n, from.segment});
    buckets_free(x, from.buckets, from.n);
    return PD_OK;
}

static pd_status double_places(struct pd_row_index *x)
{
    uint64_t n = (uint64_t)1 << x->bits;
    struct pd_row_place *places = pd_malloc((size_t)n * 2 * sizeof *places);
    if (!places) return pd_no_memory();
    for (uint64_t i = 0; i < n; i++)
        places[2 * i] = places[2 * i + 1] = x->places[i];
    pd_free(x->places);
    x->places = places;
    x->bits++;
    x->bytes += n * sizeof *places;
    return PD_OK;
}

static pd_status reserve_segment(struct pd_row_index *x)
{
    if (x->n_segments < x->room) return PD_OK;
    uint32_t room = x->room + x->room / 4 + 1;
    struct pd_row_segment *more = pd_realloc_array(x->segments, room, sizeof *more);
    if (!more) return pd_no_memory();
    x->bytes += (uint64_t)(room - x->room) * sizeof *more;
    x->segments = more;
    x->room = room;
    return PD_OK;
}

static pd_status split(struct pd_row_index *x, const struct pd_row_source *source, uint64_t hash)
{
    uint32_t old = pd_row_index_place(x, hash)->segment;
    PD_TRY(reserve_segment(x));
    if (x->segments[old].bits == x->bits) PD_TRY(double_places(x));
    struct pd_row_place from = *pd_row_index_place(x, hash);
    int bits = x->segments[old].bits + 1;
    struct move m = {.bit = (uint64_t)1 << (64 - bits)};
    move_rows(&from, source, &m);
    for (int side = 0; side < 2; side++) {
        m.n[side] = buckets_for(m.rows[side]);
        m.to[side] = buckets_new(x, m.n[side]);
    }
    if (!m.to[0] || !m.to[1]) {
        for (int side = 0; side < 2; side++)
            buckets_free(x, m.to[side], m.n[side]);
        return pd_no_memory();
    }
    move_rows(&from, source, &m);
    uint32_t added = x->n_segments++;
    x->segments[old] = (struct pd_row_segment){.rows = m.rows[0], .bits = bits};
    x->segments[added] = (struct pd_row_segment){.rows = m.rows[1], .bits = bits};
    set_places(x, hash & ~m.bit, bits, (struct pd_row_place){m.to[0], m.n[0], old});
    set_places(x, hash | m.bit, bits, (struct pd_row_place){m.to[1], m.n[1], added});
    buckets_free(x, from.buckets, from.n);
    return PD_OK;
}

enum {
    RESERVED = 1500
}; /* rows of a segment that is made for them: it will grow for a while before it is cut */

pd_status pd_row_index_reserve(struct pd_row_index *x, int64_t rows)
{
    int bits = 0;
    while (bits < BITS_MOST && rows >> bits > RESERVED)
        bits++;
    if (x->bits || x->segments[0].rows || !bits) return PD_OK;
    uint32_t count = (uint32_t)1 << bits, each = (uint32_t)(rows >> bits), n = 1, made = 0;
    while (most_rows(n) < each + each / 10) /* hashes spread: hardly any has more */
        n++;
    struct pd_row_place *places = pd_malloc(count * sizeof *places);
    struct pd_row_segment *segments = pd_calloc(count, sizeof *segments);
    int is_made = places && segments;
    for (; is_made && made < count; made += (uint32_t)is_made) {
        places[made] = (struct pd_row_place){buckets_new(x, n), n, made};
        segments[made].bits = bits;
        is_made = places[made].buckets != NULL;
    }
    if (!is_made) {
        while (made)
            buckets_free(x, places[--made].buckets, n);
        pd_free(places);
        pd_free(segments);
        return pd_no_memory();
    }
    buckets_free(x, x->places[0].buckets, x->places[0].n);
    x->bytes -= sizeof *x->places + x->room * sizeof *x->segments;
    x->bytes += count * (sizeof *places + sizeof *segments);
    pd_free(x->places);
    pd_free(x->segments);
    x->places = places;
    x->segments = segments;
    x->bits = bits;
    x->n_segments = x->room = count;
    return PD_OK;
}

/* ---- rows come and go ---- */

static pd_status make_room(struct pd_row_index *x, const struct pd_row_source *source, uint64_t hash)
{
    for (;;) {
        const struct pd_row_place *p = pd_row_index_place(x, hash);
        const struct pd_row_segment *s = &x->segments[p->segment];
        if (s->rows < most_rows(p->n)) return PD_OK;
        if (p->n < BUCKETS_MOST || s->bits >= BITS_MOST) {
            uint32_t n = p->n + p->n / 5 + 1;
            PD_TRY(rebuild(x, source, hash, p->n < BUCKETS_MOST && n > BUCKETS_MOST ? BUCKETS_MOST : n));
        } else {
            PD_TRY(split(x, source, hash));
        }
    }
}

pd_status pd_row_index_add(struct pd_row_index *x, const struct pd_row_source *source, uint64_t hash,
                           uint32_t row)
{
    PD_TRY(make_room(x, source, hash));
    const struct pd_row_place *p = pd_row_index_place(x, hash);
    put(p->buckets, p->n, hash, row);
    x->segments[p->segment].rows++;
    return PD_OK;
}

uint32_t pd_row_index_remove(struct pd_row_index *x, const struct pd_row_source *source, int64_t id,
                             uint64_t hash)
{
    int at;
    struct pd_row_bucket *b = search(x, source, id, hash, &at);
    if (!b) return PD_ROW_NONE;
    const struct pd_row_place *p = pd_row_index_place(x, hash);
    struct pd_row_segment *s = &x->segments[p->segment];
    uint32_t row = b->row[at];
    b->tag[at] = 0;
    s->rows--;
    /* Buckets stay passed when those that went past are gone: lookups would go further and further. Where
     * memory is short, they do. */
    if (++s->removed > p->n * PD_ROW_BUCKET / 2) (void)rebuild(x, source, hash, buckets_for(s->rows));
    return row;
}
