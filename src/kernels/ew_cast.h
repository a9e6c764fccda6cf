/* Conversion between element types. */
#ifndef PD_KERNELS_EW_CAST_H
#define PD_KERNELS_EW_CAST_H

#include <stdint.h>

enum pd_cast_type {
    PD_CAST_F32,
    PD_CAST_F64,
    PD_CAST_I32,
    PD_CAST_I64,
    PD_CAST_I16,
    PD_CAST_I8,
    PD_CAST_U8,
    PD_CAST_BOOL, /* stored as 0 or 1; any other number than 0 becomes 1 */
    PD_CAST_F16,
    PD_CAST_TYPES
};

/* On several threads when there is much of it. `to` and `from` may be the same array if the types have the
 * same size. */
void pd_cast(enum pd_cast_type to_type, void *to, enum pd_cast_type from_type, const void *from, int64_t n);

#endif
