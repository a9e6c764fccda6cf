/* See finite.h. */
#include "tensor/finite.h"

#include <math.h>

#define FIRST_FN(name, T)                                                                                    \
    static int64_t name(const T *x, int64_t n)                                                               \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                      \
            if (!isfinite(x[i])) return i;                                                                   \
        return -1;                                                                                           \
    }
FIRST_FN(first_f32, float)
FIRST_FN(first_f64, double)

int64_t pd_first_not_finite(enum pd_dtype dtype, const void *data, int64_t n)
{
    if (dtype == PD_DTYPE_FP32) return first_f32(data, n);
    return dtype == PD_DTYPE_FP64 ? first_f64(data, n) : -1;
}
