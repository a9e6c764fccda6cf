/* See sort.h: a bottom-up merge sort over short runs that are sorted by insertion. */
#include "kernels/sort.h"

#include <string.h>

#include "kernels/larger.h"

#define RUN 16

#define SORT(name, T)                                                                                        \
    typedef struct pd_sort_pair_##name pair_##name;                                                          \
    /* b goes before a */                                                                                    \
    static inline int before_##name(pair_##name b, pair_##name a, int descending)                            \
    {                                                                                                        \
        return descending ? PD_ABOVE(b.key, a.key) : PD_ABOVE(a.key, b.key);                                 \
    }                                                                                                        \
    static void insert_##name(pair_##name *p, int64_t n, int descending)                                     \
    {                                                                                                        \
        for (int64_t i = 1; i < n; i++) {                                                                    \
            pair_##name x = p[i];                                                                            \
            int64_t k = i;                                                                                   \
            for (; k > 0 && before_##name(x, p[k - 1], descending); k--)                                     \
                p[k] = p[k - 1];                                                                             \
            p[k] = x;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void merge_##name(const pair_##name *a, int64_t na, const pair_##name *b, int64_t nb,             \
                             pair_##name *to, int descending)                                                \
    {                                                                                                        \
        while (na && nb) {                                                                                   \
            if (before_##name(*b, *a, descending))                                                           \
                *to++ = *b++, nb--;                                                                          \
            else                                                                                             \
                *to++ = *a++, na--;                                                                          \
        }                                                                                                    \
        memcpy(to, na ? a : b, (size_t)(na + nb) * sizeof *to);                                              \
    }                                                                                                        \
    void pd_sort_##name(const T *keys, int64_t n, int64_t step, int descending, T *sorted, int64_t *index,   \
                        struct pd_sort_pair_##name *memory)                                                  \
    {                                                                                                        \
        pair_##name *from = memory, *to = memory + n;                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            from[i] = (pair_##name){keys[i * step], i};                                                      \
        for (int64_t i = 0; i < n; i += RUN)                                                                 \
            insert_##name(from + i, n - i < RUN ? n - i : RUN, descending);                                  \
        for (int64_t width = RUN; width < n; width *= 2) {                                                   \
            for (int64_t i = 0; i < n; i += 2 * width) {                                                     \
                int64_t na = n - i < width ? n - i : width;                                                  \
                int64_t nb = n - i - na < width ? n - i - na : width;                                        \
                merge_##name(from + i, na, from + i + na, nb, to + i, descending);                           \
            }                                                                                                \
            pair_##name *swap = from;                                                                        \
            from = to, to = swap;                                                                            \
        }                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            if (sorted) sorted[i * step] = from[i].key;                                                      \
            if (index) index[i * step] = from[i].at;                                                         \
        }                                                                                                    \
    }

SORT(f32, float)
SORT(f64, double)
SORT(i32, int32_t)
SORT(i64, int64_t)
