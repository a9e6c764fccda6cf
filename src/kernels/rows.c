/* See rows.h. Tables are often much larger than the caches, so that rows are fetched ahead of their use. */
#include "kernels/rows.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

#define AHEAD 16 /* rows fetched ahead */

#define PD_ROWS_BAD(name, T)                                                                                 \
    PD_CLONES static int64_t count_##name(const T *ids, int64_t n, int64_t height, int64_t skip)             \
    {                                                                                                        \
        int64_t bad = 0;                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                                      \
            bad += (uint64_t)ids[i] >= (uint64_t)height && ((int64_t)ids[i] != skip || skip < 0);            \
        return bad;                                                                                          \
    }                                                                                                        \
    int64_t pd_rows_bad_##name(const T *ids, int64_t n, int64_t height, int64_t skip)                        \
    {                                                                                                        \
        if (!count_##name(ids, n, height, skip)) return -1;                                                  \
        int64_t i = 0;                                                                                       \
        while ((uint64_t)ids[i] < (uint64_t)height || ((int64_t)ids[i] == skip && skip >= 0))                \
            i++;                                                                                             \
        return i;                                                                                            \
    }
PD_ROWS_BAD(i64, int64_t)
PD_ROWS_BAD(i32, int32_t)

/* ---- copying out ---- */

struct copy {
    char *out;
    const char *table;
    size_t bytes;
    const int64_t *ids;
    int64_t skip;
    int64_t n;
};

static inline void fetch(const char *row, size_t bytes)
{
    __builtin_prefetch(row);
    if (bytes > 24) __builtin_prefetch(row + bytes - 1);
}

/* With a constant size the copy becomes a few moves. */
static inline __attribute__((always_inline)) void copy_rows(const struct copy *c, int64_t begin, int64_t end,
                                                            size_t bytes)
{
    for (int64_t i = begin; i < end; i++) {
        int64_t next = i + AHEAD < c->n ? c->ids[i + AHEAD] : -1;
        if (next >= 0 && next != c->skip) fetch(c->table + (size_t)next * bytes, bytes);
        char *to = c->out + (size_t)i * bytes;
        if (c->ids[i] == c->skip)
            memset(to, 0, bytes);
        else
            memcpy(to, c->table + (size_t)c->ids[i] * bytes, bytes);
    }
}

static void copy_part(void *arg, int64_t begin, int64_t end)
{
    const struct copy *c = arg;
    switch (c->bytes) {
    case 4:
        copy_rows(c, begin, end, 4);
        break;
    case 16:
        copy_rows(c, begin, end, 16);
        break;
    case 32:
        copy_rows(c, begin, end, 32);
        break;
    case 40:
        copy_rows(c, begin, end, 40);
        break;
    case 64:
        copy_rows(c, begin, end, 64);
        break;
    case 128:
        copy_rows(c, begin, end, 128);
        break;
    default:
        copy_rows(c, begin, end, c->bytes);
    }
}

void pd_rows_copy(void *out, const void *table, size_t bytes, const int64_t *ids, int64_t n, int64_t skip)
{
    /* Ids are never -1 here, so that -1 skips none. */
    struct copy c = {out, table, bytes, ids, skip < 0 ? -1 : skip, n};
    if (bytes) pd_parallel(n, (int64_t)(65536 / bytes) + 1, copy_part, &c);
}

/* ---- adding in ---- */

/* Rows are dealt out to buckets by their number; a part owns some buckets and adds their rows in order. It
 * first picks its own out of a block of ids, without branches, which would be a toss of a coin each. */
#define BUCKETS 64
#define BLOCK 1024

static inline int64_t bucket_of(int64_t row)
{
    return (int64_t)(((uint64_t)row * 0x9E3779B97F4A7C15ull) >> 58);
}

#define PD_ROWS_ADD(name, T)                                                                                 \
    struct add_##name {                                                                                      \
        T *table;                                                                                            \
        int64_t width, n, skip;                                                                              \
        const int64_t *ids;                                                                                  \
        const T *rows;                                                                                       \
        T scale;                                                                                             \
    };                                                                                                       \
    static inline __attribute__((always_inline)) void add_rows_##name(                                       \
        const struct add_##name *a, int64_t begin, int64_t end, int64_t width)                               \
    {                                                                                                        \
        const T scale = a->scale;                                                                            \
        int32_t mine[BLOCK];                                                                                 \
        for (int64_t first = 0; first < a->n; first += BLOCK) {                                              \
            const int64_t *ids = a->ids + first;                                                             \
            int32_t count = a->n - first < BLOCK ? (int32_t)(a->n - first) : BLOCK, kept = 0;                \
            for (int32_t i = 0; i < count; i++) {                                                            \
                int64_t bucket = bucket_of(ids[i]);                                                          \
                mine[kept] = i;                                                                              \
                kept += bucket >= begin && bucket < end && ids[i] != a->skip;                                \
            }                                                                                                \
            for (int32_t i = 0; i < kept; i++) {                                                             \
                if (i + AHEAD < kept)                                                                        \
                    fetch((const char *)(a->table + ids[mine[i + AHEAD]] * width),                           \
                          (size_t)width * sizeof(T));                                                        \
                T *to = a->table + ids[mine[i]] * width;                                                     \
                const T *from = a->rows + (first + mine[i]) * width;                                         \
                _Pragma("GCC ivdep") for (int64_t k = 0; k < width; k++) to[k] += scale * from[k];           \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void add_span_##name(const struct add_##name *a, int64_t begin, int64_t end)            \
    {                                                                                                        \
        switch (a->width) {                                                                                  \
        case 1:                                                                                              \
            add_rows_##name(a, begin, end, 1);                                                               \
            break;                                                                                           \
        case 8:                                                                                              \
            add_rows_##name(a, begin, end, 8);                                                               \
            break;                                                                                           \
        case 10:                                                                                             \
            add_rows_##name(a, begin, end, 10);                                                              \
            break;                                                                                           \
        case 16:                                                                                             \
            add_rows_##name(a, begin, end, 16);                                                              \
            break;                                                                                           \
        case 32:                                                                                             \
            add_rows_##name(a, begin, end, 32);                                                              \
            break;                                                                                           \
        default:                                                                                             \
            add_rows_##name(a, begin, end, a->width);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void add_part_##name(void *arg, int64_t begin, int64_t end)                                       \
    {                                                                                                        \
        add_span_##name(arg, begin, end);                                                                    \
    }                                                                                                        \
    void pd_rows_add_##name(T *table, int64_t width, const int64_t *ids, int64_t n, const T *rows, T scale,  \
                            int64_t skip)                                                                    \
    {                                                                                                        \
        struct add_##name a = {table, width, n, skip < 0 ? -1 : skip, ids, rows, scale};                     \
        if (width > 0) pd_parallel(BUCKETS, n *width < 32768 ? BUCKETS : 1, add_part_##name, &a);            \
    }
PD_ROWS_ADD(f32, float)
PD_ROWS_ADD(f64, double)

/* ---- grouping ---- */

#define DIGIT 11

size_t pd_rows_group_bytes(int64_t n)
{
    /* ids twice, positions twice, starts, one histogram */
    return (size_t)n * (2 * sizeof(int64_t) + 3 * sizeof(int32_t)) + sizeof(int32_t) +
           (sizeof(int32_t) << DIGIT) + 64;
}

int pd_rows_ascending(const int64_t *ids, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (ids[i] <= ids[i - 1]) return 0;
    return 1;
}

/* A stable sort by one digit after the other, lowest first; digits above the highest id are left out. */
void pd_rows_group(const int64_t *ids, int64_t n, void *memory, struct pd_rows_groups *out)
{
    int64_t *row = memory, *row2 = row + n;
    int32_t *at = (int32_t *)(row2 + n), *at2 = at + n, *start = at2 + n, *count = start + n + 1;
    uint64_t all = 0;
    for (int64_t i = 0; i < n; i++) {
        all |= (uint64_t)ids[i];
        row[i] = ids[i];
        at[i] = (int32_t)i;
    }
    for (int shift = 0; shift < 64 && all >> shift; shift += DIGIT) {
        memset(count, 0, sizeof *count << DIGIT);
        for (int64_t i = 0; i < n; i++)
            count[((uint64_t)row[i] >> shift) & ((1 << DIGIT) - 1)]++;
        int32_t sum = 0;
        for (int d = 0; d < 1 << DIGIT; d++) {
            int32_t c = count[d];
            count[d] = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++) {
            int32_t to = count[((uint64_t)row[i] >> shift) & ((1 << DIGIT) - 1)]++;
            row2[to] = row[i];
            at2[to] = at[i];
        }
        int64_t *r = row;
        int32_t *a = at;
        row = row2, row2 = r;
        at = at2, at2 = a;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i && row[i] == row[i - 1]) continue;
        row2[kept] = row[i];
        start[kept++] = (int32_t)i;
    }
    start[kept] = (int32_t)n;
    *out = (struct pd_rows_groups){kept, row2, start, at};
}

/* ---- adding up groups ---- */

struct sum {
    void *out;
    int64_t width;
    const struct pd_rows_groups *g;
    const void *const *rows;
};

#define PD_ROWS_SUM(name, T, clones)                                                                         \
    clones static void sum_span_##name(const struct sum *s, int64_t begin, int64_t end)                      \
    {                                                                                                        \
        const struct pd_rows_groups *g = s->g;                                                               \
        const int64_t width = s->width;                                                                      \
        for (int64_t i = begin; i < end; i++) {                                                              \
            T *to = (T *)s->out + i * width;                                                                 \
            memcpy(to, s->rows[g->at[g->start[i]]], (size_t)width * sizeof(T));                              \
            for (int32_t k = g->start[i] + 1; k < g->start[i + 1]; k++) {                                    \
                const T *from = s->rows[g->at[k]];                                                           \
                _Pragma("GCC ivdep") for (int64_t w = 0; w < width; w++) to[w] += from[w];                   \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void sum_part_##name(void *arg, int64_t begin, int64_t end)                                       \
    {                                                                                                        \
        sum_span_##name(arg, begin, end);                                                                    \
    }                                                                                                        \
    void pd_rows_sum_##name(T *out, int64_t width, const struct pd_rows_groups *g, const void *const *rows)  \
    {                                                                                                        \
        struct sum s = {out, width, g, rows};                                                                \
        if (width > 0) pd_parallel(g->n, 16384 / width + 1, sum_part_##name, &s);                            \
    }
PD_ROWS_SUM(f32, float, PD_CLONES)
PD_ROWS_SUM(f64, double, PD_CLONES)
PD_ROWS_SUM(i32, int32_t, )
PD_ROWS_SUM(i64, int64_t, )
