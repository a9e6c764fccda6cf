/* See embed.h. Samples are done in blocks, item by item, so that the block of the matrix stays in the cache.
 * While one item is done, the table rows of the next one are fetched. */
#include "kernels/embed.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

#define BLOCK 32          /* samples of a block */
#define GRAIN (64 * 1024) /* bytes worth a thread */
#define EMBED_INLINE static inline __attribute__((always_inline))

struct embed {
    const struct pd_embed_item *items;
    int n;
    int64_t row;
    char *whole;
};

/* Positions of ids whose table rows come next. */
struct ahead {
    const struct pd_embed_item *item;
    int64_t at, end;
};

static struct ahead look_ahead(const struct embed *e, int k, int64_t begin, int64_t end)
{
    const struct pd_embed_item *item = e->items + k;
    if (!item->ids || begin >= end) return (struct ahead){item, 0, 0};
    return (struct ahead){item, item->offset ? item->offset[begin] : begin,
                          item->offset ? item->offset[end] : end};
}

/* Widths that are common get loops of their own. */
#define BY_WIDTH(width, call, ...)                                                                           \
    switch (width) {                                                                                         \
    case 1:                                                                                                  \
        call(__VA_ARGS__, 1);                                                                                \
        break;                                                                                               \
    case 8:                                                                                                  \
        call(__VA_ARGS__, 8);                                                                                \
        break;                                                                                               \
    case 10:                                                                                                 \
        call(__VA_ARGS__, 10);                                                                               \
        break;                                                                                               \
    case 16:                                                                                                 \
        call(__VA_ARGS__, 16);                                                                               \
        break;                                                                                               \
    case 32:                                                                                                 \
        call(__VA_ARGS__, 32);                                                                               \
        break;                                                                                               \
    default:                                                                                                 \
        call(__VA_ARGS__, width);                                                                            \
    }

#define EMBED(name, T)                                                                                       \
    EMBED_INLINE void fetch_##name(struct ahead *a)                                                          \
    {                                                                                                        \
        if (a->at >= a->end) return;                                                                         \
        int64_t id = a->item->ids[a->at++];                                                                  \
        if (id == a->item->skip) return;                                                                     \
        const T *from = (const T *)a->item->rows + id * a->item->width;                                      \
        __builtin_prefetch(from);                                                                            \
        __builtin_prefetch(from + a->item->width - 1);                                                       \
    }                                                                                                        \
    /* One row, or zeros. */                                                                                 \
    EMBED_INLINE void put_##name(const struct pd_embed_item *i, int64_t id, T *to, int64_t width)            \
    {                                                                                                        \
        if (id == i->skip)                                                                                   \
            memset(to, 0, (size_t)width * sizeof(T));                                                        \
        else                                                                                                 \
            memcpy(to, (const T *)i->rows + id * width, (size_t)width * sizeof(T));                          \
    }                                                                                                        \
    EMBED_INLINE void gather_item_##name(const struct embed *e, const struct pd_embed_item *i,               \
                                         struct ahead *next, int64_t begin, int64_t end, int64_t width)      \
    {                                                                                                        \
        for (int64_t s = begin; s < end; s++) {                                                              \
            T *to = (T *)e->whole + s * e->row + i->at;                                                      \
            int64_t from = i->offset ? i->offset[s] : s, stop = i->offset ? i->offset[s + 1] : s + 1;        \
            fetch_##name(next);                                                                              \
            if (from == stop) {                                                                              \
                for (int64_t k = 0; k < width; k++)                                                          \
                    to[k] = (T)i->pad;                                                                       \
                continue;                                                                                    \
            }                                                                                                \
            put_##name(i, i->ids ? i->ids[from] : from, to, width);                                          \
            for (int64_t at = from + 1; at < stop; at++) {                                                   \
                fetch_##name(next);                                                                          \
                if (i->ids[at] == i->skip) continue;                                                         \
                const T *row = (const T *)i->rows + i->ids[at] * width;                                      \
                _Pragma("GCC ivdep") for (int64_t k = 0; k < width; k++) to[k] += row[k];                    \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void gather_##name(const struct embed *e, int64_t begin, int64_t end)                   \
    {                                                                                                        \
        for (int64_t s = begin; s < end; s += BLOCK) {                                                       \
            int64_t stop = end - s < BLOCK ? end : s + BLOCK,                                                \
                    after = end - stop < BLOCK ? end : stop + BLOCK;                                         \
            for (int k = 0; k < e->n; k++) {                                                                 \
                const struct pd_embed_item *i = e->items + k;                                                \
                struct ahead next =                                                                          \
                    k + 1 < e->n ? look_ahead(e, k + 1, s, stop) : look_ahead(e, 0, stop, after);            \
                BY_WIDTH(i->width, gather_item_##name, e, i, &next, s, stop)                                 \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    EMBED_INLINE void scatter_item_##name(const struct embed *e, const struct pd_embed_item *i,              \
                                          int64_t begin, int64_t end, int64_t width)                         \
    {                                                                                                        \
        for (int64_t s = begin; s < end; s++) {                                                              \
            const T *from = (const T *)e->whole + s * e->row + i->at;                                        \
            int64_t at = i->offset ? i->offset[s] : s, stop = i->offset ? i->offset[s + 1] : s + 1;          \
            for (; at < stop; at++) {                                                                        \
                T *to = (T *)i->rows + at * width;                                                           \
                if (i->ids[at] == i->skip)                                                                   \
                    memset(to, 0, (size_t)width * sizeof(T));                                                \
                else                                                                                         \
                    memcpy(to, from, (size_t)width * sizeof(T));                                             \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void scatter_##name(const struct embed *e, int64_t begin, int64_t end)                  \
    {                                                                                                        \
        for (int64_t s = begin; s < end; s += BLOCK) {                                                       \
            int64_t stop = end - s < BLOCK ? end : s + BLOCK;                                                \
            for (int k = 0; k < e->n; k++) {                                                                 \
                const struct pd_embed_item *i = e->items + k;                                                \
                if (!i->ids || !i->rows) continue;                                                           \
                BY_WIDTH(i->width, scatter_item_##name, e, i, s, stop)                                       \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void gather_part_##name(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        gather_##name(arg, begin, end);                                                                      \
    }                                                                                                        \
    static void scatter_part_##name(void *arg, int64_t begin, int64_t end)                                   \
    {                                                                                                        \
        scatter_##name(arg, begin, end);                                                                     \
    }
EMBED(f32, float)
EMBED(f64, double)

static int64_t grain(int is_double, int64_t row)
{
    return GRAIN / (row * (is_double ? 8 : 4) + 1) + 1;
}

void pd_embed_gather(int is_double, const struct pd_embed_item *items, int n, int64_t samples, void *whole,
                     int64_t row)
{
    struct embed e = {items, n, row, whole};
    if (row > 0)
        pd_parallel(samples, grain(is_double, row), is_double ? gather_part_f64 : gather_part_f32, &e);
}

void pd_embed_scatter(int is_double, const struct pd_embed_item *items, int n, int64_t samples,
                      const void *whole, int64_t row)
{
    struct embed e = {items, n, row, (char *)whole};
    if (row > 0)
        pd_parallel(samples, grain(is_double, row), is_double ? scatter_part_f64 : scatter_part_f32, &e);
}
