/* A growable array of any type: PD_VEC(int) numbers = {0}; pd_vec_push(&numbers, 3) is 0 when memory is
 * short. */
#ifndef PD_BASE_VEC_H
#define PD_BASE_VEC_H

#include "base/alloc.h"

#define PD_VEC(type)                                                                                         \
    struct {                                                                                                 \
        type *at;                                                                                            \
        int n, cap;                                                                                          \
    }

#define pd_vec_reserve(v, count)                                                                             \
    ((v)->cap >= (count) || pd_vec_grow((void **)&(v)->at, &(v)->cap, (count), sizeof *(v)->at))
#define pd_vec_push(v, item) (pd_vec_reserve(v, (v)->n + 1) ? ((v)->at[(v)->n++] = (item), 1) : 0)
#define pd_vec_insert(v, index, item)                                                                        \
    (pd_vec_reserve(v, (v)->n + 1) ? (__builtin_memmove((v)->at + (index) + 1, (v)->at + (index),            \
                                                        (size_t)((v)->n - (index)) * sizeof *(v)->at),       \
                                      (v)->at[index] = (item), (v)->n++, 1)                                  \
                                   : 0)
#define pd_vec_remove(v, index)                                                                              \
    (__builtin_memmove((v)->at + (index), (v)->at + (index) + 1,                                             \
                       (size_t)((v)->n - (index)-1) * sizeof *(v)->at),                                      \
     (v)->n--)
/* Takes one out that is equal to `item`, if there is one. */
#define pd_vec_drop(v, item)                                                                                 \
    do {                                                                                                     \
        for (int pd_vec_i = (v)->n - 1; pd_vec_i >= 0; pd_vec_i--)                                           \
            if ((v)->at[pd_vec_i] == (item)) {                                                               \
                pd_vec_remove(v, pd_vec_i);                                                                  \
                break;                                                                                       \
            }                                                                                                \
    } while (0)
#define pd_vec_free(v) (pd_free((v)->at), (v)->at = NULL, (v)->n = (v)->cap = 0)

/* Makes room for `need` items; 0 when memory is short (the array stays as it was). */
int pd_vec_grow(void **at, int *cap, int need, size_t item_size);

#endif
