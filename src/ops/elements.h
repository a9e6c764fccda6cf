/* Elements of arrays whose type only running can tell: which kernel is theirs, filling, converting, copying a
 * part. */
#ifndef PD_OPS_ELEMENTS_H
#define PD_OPS_ELEMENTS_H

#include "program/op.h"

/* Position in kernel tables (enum pd_ew_type); PD_TYPE when the kernels do not know the type. */
pd_status pd_elements_type(enum pd_dtype dtype, int *type);
/* n elements of another type; PD_TYPE when one of the types is none that holds numbers. */
pd_status pd_elements_cast(void *to, enum pd_dtype to_type, const void *from, enum pd_dtype from_type,
                           int64_t n);
/* n elements get this value; a bool is 1 where it is not 0. */
pd_status pd_elements_fill(void *to, enum pd_dtype dtype, int64_t n, double value);
/* Copies the box of `size` elements at `start` of a tensor like `whole` from or to dense memory. */
void pd_elements_copy_box(const struct pd_meta *whole, const int64_t *start, const int64_t *size,
                          int to_whole, void *to, const void *from);

#endif
