/* Comparisons that do not lose NaN. `a > b ? a : b` gives b where a is NaN: what a batch with a hole in it
 * computes would depend on where the hole is, and a network could go on as if there were none. */
#ifndef PD_KERNELS_LARGER_H
#define PD_KERNELS_LARGER_H

#include <stdint.h>

#include "kernels/clones.h"

/* For an order: NaN is above all numbers. Of any type. */
#define PD_ABOVE(a, b) (!((a) <= (b)) && (b) == (b))
/* NaN where one of them is. */
#define PD_LARGER(a, b) ((a) != (a) ? (a) : (a) > (b) ? (a) : (b))
#define PD_SMALLER(a, b) ((a) != (a) ? (a) : (a) < (b) ? (a) : (b))

/* Loops that keep one running result are several times faster with the plain comparison; they look for NaN
 * beside it, with this. */
#define PD_HAS_NAN(name, T)                                                                                  \
    PD_CLONES static int name(const T *x, int64_t n)                                                         \
    {                                                                                                        \
        int found = 0;                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                      \
            found |= x[i] != x[i];                                                                           \
        return found;                                                                                        \
    }

#endif
