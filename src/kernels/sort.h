/* Sorting keys together with their positions. Equal keys stay in the order of their positions. */
#ifndef PD_KERNELS_SORT_H
#define PD_KERNELS_SORT_H

#include <stdint.h>

/* Sorts n keys that lie `step` elements apart: keys to `sorted`, where they came from to `index` (each n,
 * also `step` apart; either may be NULL). `memory` holds 2 n pairs. */
#define PD_SORT_DECLARE(name, T)                                                                             \
    struct pd_sort_pair_##name {                                                                             \
        T key;                                                                                               \
        int64_t at;                                                                                          \
    };                                                                                                       \
    void pd_sort_##name(const T *keys, int64_t n, int64_t step, int descending, T *sorted, int64_t *index,   \
                        struct pd_sort_pair_##name *memory)

PD_SORT_DECLARE(f32, float);
PD_SORT_DECLARE(f64, double);
PD_SORT_DECLARE(i32, int32_t);
PD_SORT_DECLARE(i64, int64_t);

/* Bytes of `memory` for n keys of any type. */
static inline int64_t pd_sort_bytes(int64_t n)
{
    return 2 * n * (int64_t)sizeof(struct pd_sort_pair_f64);
}

#endif
