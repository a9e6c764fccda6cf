/* See gather.h. */
#include "kernels/gather.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"

#define GRAIN (64 * 1024) /* bytes worth a thread */

struct gather {
    char *to;
    const char *from;
    const int64_t *index;
    int64_t width;
};

static void gather_rows(void *arg, int64_t begin, int64_t end)
{
    const struct gather *g = arg;
    const int64_t w = g->width;
    switch (w) {
    case 4:
        for (int64_t i = begin; i < end; i++)
            memcpy(g->to + i * 4, g->from + g->index[i] * 4, 4);
        break;
    case 8:
        for (int64_t i = begin; i < end; i++)
            memcpy(g->to + i * 8, g->from + g->index[i] * 8, 8);
        break;
    default:
        for (int64_t i = begin; i < end; i++)
            memcpy(g->to + i * w, g->from + g->index[i] * w, (size_t)w);
    }
}

void pd_gather_rows(void *to, const void *from, const int64_t *index, int64_t n, int64_t width)
{
    if (n == 0 || width == 0) return;
    struct gather g = {to, from, index, width};
    pd_parallel(n, GRAIN / width + 1, gather_rows, &g);
}

void pd_gather_scatter(void *to, const void *from, const int64_t *index, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n && width; i++)
        memcpy((char *)to + index[i] * width, (const char *)from + i * width, (size_t)width);
}

void pd_gather_zero(void *to, const int64_t *index, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n && width; i++)
        memset((char *)to + index[i] * width, 0, (size_t)width);
}

/* A thread owns rows [begin, end) of `to` and walks the whole list. */
#define ADD(suffix, T)                                                                                       \
    struct add_##suffix {                                                                                    \
        T *to;                                                                                               \
        const T *from;                                                                                       \
        const int64_t *index;                                                                                \
        int64_t n, width;                                                                                    \
    };                                                                                                       \
    PD_CLONES static void add_row_##suffix(T *restrict to, const T *restrict from, int64_t n)                \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            to[i] += from[i];                                                                                \
    }                                                                                                        \
    static void add_rows_##suffix(void *arg, int64_t begin, int64_t end)                                     \
    {                                                                                                        \
        const struct add_##suffix *a = arg;                                                                  \
        for (int64_t i = 0; i < a->n; i++) {                                                                 \
            if (a->index[i] < begin || a->index[i] >= end) continue;                                         \
            if (a->width == 1)                                                                               \
                a->to[a->index[i]] += a->from[i];                                                            \
            else                                                                                             \
                add_row_##suffix(a->to + a->index[i] * a->width, a->from + i * a->width, a->width);          \
        }                                                                                                    \
    }                                                                                                        \
    void pd_gather_add_##suffix(T *to, int64_t rows, const T *from, const int64_t *index, int64_t n,         \
                                int64_t width)                                                               \
    {                                                                                                        \
        struct add_##suffix a = {to, from, index, n, width};                                                 \
        int64_t bytes = n * width * (int64_t)sizeof(T);                                                      \
        if (bytes == 0) return;                                                                              \
        /* The list is read once per thread, so wide rows gain most. */                                      \
        if (bytes < 4 * GRAIN || width < 16)                                                                 \
            add_rows_##suffix(&a, 0, rows);                                                                  \
        else                                                                                                 \
            pd_parallel(rows, 1, add_rows_##suffix, &a);                                                     \
    }

ADD(f32, float)
ADD(f64, double)
ADD(i32, int32_t)
ADD(i64, int64_t)
