/* Numbers that are none: NaN and infinities. */
#ifndef PD_TENSOR_FINITE_H
#define PD_TENSOR_FINITE_H

#include "tensor/meta.h"

/* The first element that is not finite; -1: there is none, or elements of this type cannot be. */
int64_t pd_first_not_finite(enum pd_dtype dtype, const void *data, int64_t n);

#endif
