/* See row_store.h. Rows and the batched calls are here; row_index.c finds them. */
#include "kernels/row_store.h"

#include <sys/mman.h>

#include "base/alloc.h"
#include "kernels/row_index.h"

/* Chunks: each doubling of the store is done in SHARE of them. */
enum { FIRST_BITS = 8, SHARE_BITS = 5, SHARE = 1 << SHARE_BITS, CHUNKS = (33 - FIRST_BITS) * SHARE };

/* Ids that are looked up together: their memory is on its way while the first are worked on. */
enum { BATCH = 64 };
#define LINE 64
#define PREFETCHED (4 * LINE) /* bytes of a row; what is behind that the processor fetches by itself */
#define HUGE ((size_t)4 << 20)

struct pd_row_store {
    struct pd_row_index index;
    size_t stride;
    uint32_t numbers; /* of rows that there were at one time */
    uint32_t n_free;
    uint32_t free; /* the first of them, which has the number of the next in place of its id */
    int n_chunks;
    uint64_t chunk_bytes;
    char *chunks[CHUNKS];
};

/* ---- where a row lies ---- */

/* Numbers from 2^FIRST_BITS on, so that the leading bit tells the doubling, and those behind it the chunk. */
static inline struct pd_row *row_at(const struct pd_row_store *s, uint32_t number)
{
    uint64_t k = (uint64_t)number + (1 << FIRST_BITS);
    int shift = 63 - __builtin_clzll(k) - SHARE_BITS;
    uint64_t chunk = ((uint64_t)(shift + SHARE_BITS - FIRST_BITS) << SHARE_BITS) + ((k >> shift) - SHARE);
    return (struct pd_row *)(void *)(s->chunks[chunk] + (k & (((uint64_t)1 << shift) - 1)) * s->stride);
}

static int64_t rows_of_chunk(int chunk)
{
    return (int64_t)1 << ((chunk >> SHARE_BITS) + FIRST_BITS - SHARE_BITS);
}

/* The number of its first row. */
static int64_t first_of_chunk(int chunk)
{
    return ((chunk & (SHARE - 1)) + SHARE) * rows_of_chunk(chunk) - (1 << FIRST_BITS);
}

static pd_status add_chunk(struct pd_row_store *s)
{
    size_t bytes = (size_t)rows_of_chunk(s->n_chunks) * s->stride;
    char *chunk = pd_malloc(bytes);
    if (!chunk) return pd_no_memory();
    /* Rows picked at random from small pages miss the address cache almost each time. */
    uintptr_t from = ((uintptr_t)chunk + 4095) & ~(uintptr_t)4095,
              to = ((uintptr_t)chunk + bytes) & ~(uintptr_t)4095;
    if (bytes >= HUGE) madvise((void *)from, to - from, MADV_HUGEPAGE); /* only a wish */
    s->chunks[s->n_chunks++] = chunk;
    s->chunk_bytes += bytes;
    return PD_OK;
}

/* ---- life ---- */

pd_status pd_row_store_new(int floats, struct pd_row_store **out)
{
    if (floats < 0 || floats > PD_ROW_FLOATS_MOST)
        return pd_fail(PD_RANGE, "rows of %d floats; a row has 0 to %d", floats, PD_ROW_FLOATS_MOST);
    struct pd_row_store *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    s->stride = PD_ROW_HEAD + (size_t)floats * sizeof(float);
    pd_status status = pd_row_index_open(&s->index);
    if (status != PD_OK) {
        pd_free(s);
        return status;
    }
    *out = s;
    return PD_OK;
}

void pd_row_store_free(struct pd_row_store *s)
{
    if (!s) return;
    for (int i = 0; i < s->n_chunks; i++)
        pd_free(s->chunks[i]);
    pd_row_index_close(&s->index);
    pd_free(s);
}

int64_t pd_row_store_rows(const struct pd_row_store *s)
{
    return (int64_t)s->numbers - s->n_free;
}

uint64_t pd_row_store_bytes(const struct pd_row_store *s)
{
    return sizeof *s + s->chunk_bytes + s->index.bytes;
}

int64_t pd_row_store_numbers(const struct pd_row_store *s)
{
    return s->numbers;
}

struct pd_row *pd_row_store_at(const struct pd_row_store *s, int64_t number)
{
    struct pd_row *row = row_at(s, (uint32_t)number);
    return row->count == PD_ROW_FREE ? NULL : row;
}

size_t pd_row_store_stride(const struct pd_row_store *s)
{
    return s->stride;
}

int pd_row_store_chunks(const struct pd_row_store *s)
{
    return s->n_chunks;
}

const void *pd_row_store_chunk(const struct pd_row_store *s, int chunk, int64_t *rows)
{
    int64_t left = (int64_t)s->numbers - first_of_chunk(chunk), most = rows_of_chunk(chunk);
    *rows = left < 0 ? 0 : left < most ? left : most;
    return s->chunks[chunk];
}

/* ---- lookups ---- */

/* Some ids of a batch on their way. */
struct batch {
    uint64_t hash[BATCH];
    const struct pd_row_bucket *bucket[BATCH];
    struct pd_row *row[BATCH]; /* that it is most likely; NULL: there is none */
};

static inline void prefetch_row(const struct pd_row_store *s, const struct pd_row *row)
{
    size_t bytes = s->stride < PREFETCHED ? s->stride : PREFETCHED;
    const char *at = (const char *)row;
    for (const char *line = at; line < at + bytes; line += LINE)
        __builtin_prefetch(line, 1);
    __builtin_prefetch(at + bytes - 1, 1); /* rows begin anywhere in a line */
}

static void prepare(const struct pd_row_store *s, int n, const int64_t *ids, struct batch *b)
{
    for (int i = 0; i < n; i++) {
        b->hash[i] = pd_row_hash(ids[i]);
        b->bucket[i] = pd_row_index_bucket(&s->index, b->hash[i]);
        __builtin_prefetch(b->bucket[i]);
    }
    for (int i = 0; i < n; i++) {
        uint32_t number = pd_row_bucket_first(b->bucket[i], b->hash[i]);
        b->row[i] = number == PD_ROW_NONE ? NULL : row_at(s, number);
        if (b->row[i]) prefetch_row(s, b->row[i]);
    }
}

static int is_of(void *arg, uint32_t number, int64_t id)
{
    return pd_row_id(row_at(arg, number)) == id;
}

static int64_t id_of(void *arg, uint32_t number)
{
    return pd_row_id(row_at(arg, number));
}

static void fetch(void *arg, uint32_t number)
{
    __builtin_prefetch(row_at(arg, number));
}

static struct pd_row_source source_of(const struct pd_row_store *s)
{
    return (struct pd_row_source){.is_of = is_of, .id_of = id_of, .fetch = fetch, .arg = (void *)s};
}

/* The room of a row that was removed may look like one of any id. */
static inline int has_id(const struct pd_row *row, int64_t id)
{
    return pd_row_id(row) == id && row->count != PD_ROW_FREE;
}

static struct pd_row *look(const struct pd_row_store *s, int64_t id, uint64_t hash, struct pd_row *maybe)
{
    if (!maybe || has_id(maybe, id)) return maybe;
    struct pd_row_source source = source_of(s);
    uint32_t number = pd_row_index_find(&s->index, &source, id, hash);
    return number == PD_ROW_NONE ? NULL : row_at(s, number);
}

void pd_row_store_find(const struct pd_row_store *s, int64_t n, const int64_t *ids, struct pd_row **out)
{
    struct batch b;
    for (int64_t at = 0; at < n; at += BATCH) {
        int m = n - at < BATCH ? (int)(n - at) : BATCH;
        prepare(s, m, ids + at, &b);
        for (int i = 0; i < m; i++)
            out[at + i] = look(s, ids[at + i], b.hash[i], b.row[i]);
    }
}

/* ---- rows come and go ---- */

static pd_status add(struct pd_row_store *s, int64_t id, uint64_t hash, struct pd_row **out)
{
    struct pd_row_source source = source_of(s);
    uint32_t number = s->n_free ? s->free : s->numbers;
    if (number == PD_ROW_NONE) return pd_fail(PD_RANGE, "a table has %u rows at most here", PD_ROW_NONE);
    if (!s->n_free &&
        (s->n_chunks == 0 || number >= first_of_chunk(s->n_chunks - 1) + rows_of_chunk(s->n_chunks - 1)))
        PD_TRY(add_chunk(s));
    PD_TRY(pd_row_index_add(&s->index, &source, hash, number));
    struct pd_row *row = row_at(s, number);
    if (s->n_free) {
        s->free = row->id_words[0];
        s->n_free--;
    } else {
        s->numbers++;
    }
    memcpy(row->id_words, &id, sizeof id);
    row->count = row->step = 0;
    *out = row;
    return PD_OK;
}

/* One that others of its batch may have made, or moved within the index. */
static pd_status make(struct pd_row_store *s, int64_t id, uint64_t hash, struct pd_row **out)
{
    struct pd_row_source source = source_of(s);
    uint32_t number = pd_row_index_find(&s->index, &source, id, hash);
    if (number == PD_ROW_NONE) return add(s, id, hash, out);
    *out = row_at(s, number);
    return PD_OK;
}

pd_status pd_row_store_make(struct pd_row_store *s, int64_t n, const int64_t *ids, struct pd_row **out)
{
    struct batch b;
    for (int64_t at = 0; at < n; at += BATCH) {
        int m = n - at < BATCH ? (int)(n - at) : BATCH;
        prepare(s, m, ids + at, &b);
        for (int i = 0; i < m; i++) {
            out[at + i] = b.row[i];
            if (!b.row[i] || !has_id(b.row[i], ids[at + i]))
                PD_TRY(make(s, ids[at + i], b.hash[i], &out[at + i]));
        }
    }
    return PD_OK;
}

pd_status pd_row_store_reserve(struct pd_row_store *s, int64_t rows)
{
    return s->numbers ? PD_OK : pd_row_index_reserve(&s->index, rows);
}

int pd_row_store_remove(struct pd_row_store *s, int64_t id)
{
    struct pd_row_source source = source_of(s);
    uint32_t number = pd_row_index_remove(&s->index, &source, id, pd_row_hash(id));
    if (number == PD_ROW_NONE) return 0;
    struct pd_row *row = row_at(s, number);
    row->id_words[0] = s->free;
    row->id_words[1] = 0;
    row->count = PD_ROW_FREE;
    s->free = number;
    s->n_free++;
    return 1;
}
