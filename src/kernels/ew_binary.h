/* Elementwise kernels of two operands over tiles (see broadcast.h): arithmetic and its gradients,
 * comparisons, logic. */
#ifndef PD_KERNELS_EW_BINARY_H
#define PD_KERNELS_EW_BINARY_H

#include "kernels/broadcast.h"

enum pd_ew_type { PD_EW_F32, PD_EW_F64, PD_EW_I32, PD_EW_I64, PD_EW_U8, PD_EW_I16, PD_EW_I8, PD_EW_TYPES };

/* Element 0 of each array; the tile says where to begin. */
struct pd_ew_arrays {
    void *to;
    const void *x, *y;
    const void *out, *dout; /* gradients: the result and its gradient, both of the full shape */
};

typedef void (*pd_ew_kernel)(const struct pd_ew_arrays *a, const struct pd_tile *t);

/* By enum pd_ew_type: the first four are there for arithmetic, NULL where a type makes no sense. Integer
 * quotients and remainders by zero give 0; callers look for zeros first. */
extern const pd_ew_kernel pd_ew_add[PD_EW_TYPES], pd_ew_sub[PD_EW_TYPES], pd_ew_mul[PD_EW_TYPES],
    pd_ew_div[PD_EW_TYPES], pd_ew_max[PD_EW_TYPES], pd_ew_min[PD_EW_TYPES], pd_ew_pow[PD_EW_TYPES],
    pd_ew_mod[PD_EW_TYPES], pd_ew_floordiv[PD_EW_TYPES];
/* Gradients towards x and y, one value for each element of the result: to = f(x, y, out, dout). */
extern const pd_ew_kernel pd_ew_sub_dy[PD_EW_TYPES], pd_ew_mul_dx[PD_EW_TYPES], pd_ew_mul_dy[PD_EW_TYPES],
    pd_ew_div_dx[PD_EW_TYPES], pd_ew_div_dy[PD_EW_TYPES], pd_ew_max_dx[PD_EW_TYPES],
    pd_ew_max_dy[PD_EW_TYPES], pd_ew_min_dx[PD_EW_TYPES], pd_ew_min_dy[PD_EW_TYPES],
    pd_ew_pow_dx[PD_EW_TYPES], pd_ew_pow_dy[PD_EW_TYPES];
/* x where it is positive, else x times the slope y; and its gradients. Floats only. */
extern const pd_ew_kernel pd_ew_prelu[PD_EW_TYPES], pd_ew_prelu_dx[PD_EW_TYPES], pd_ew_prelu_dy[PD_EW_TYPES];
/* Results are bytes 0 and 1. */
extern const pd_ew_kernel pd_ew_less[PD_EW_TYPES], pd_ew_less_equal[PD_EW_TYPES], pd_ew_greater[PD_EW_TYPES],
    pd_ew_greater_equal[PD_EW_TYPES], pd_ew_equal[PD_EW_TYPES], pd_ew_not_equal[PD_EW_TYPES];
/* PD_EW_U8 only. */
extern const pd_ew_kernel pd_ew_and[PD_EW_TYPES], pd_ew_or[PD_EW_TYPES], pd_ew_xor[PD_EW_TYPES];

#endif
