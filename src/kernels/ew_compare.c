/* Comparisons and logic: results are bytes 0 and 1. */
#include <math.h>

#include "kernels/ew_tile.h"

/* `real` is what it is for floats. */
#define COMPARE(name, op, real)                                                                              \
    PD_EW_BINARY(name##_f32, , float, uint8_t, real)                                                         \
    PD_EW_BINARY(name##_f64, , double, uint8_t, real)                                                        \
    PD_EW_BINARY(name##_i32, , int32_t, uint8_t, x op y)                                                     \
    PD_EW_BINARY(name##_i64, , int64_t, uint8_t, x op y)                                                     \
    PD_EW_BINARY(name##_u8, , uint8_t, uint8_t, x op y)                                                      \
    PD_EW_BINARY(name##_i16, , int16_t, uint8_t, x op y)                                                     \
    PD_EW_BINARY(name##_i8, , int8_t, uint8_t, x op y)                                                       \
    const pd_ew_kernel pd_ew_##name[PD_EW_TYPES] = {                                                         \
        name##_f32, name##_f64, name##_i32, name##_i64, name##_u8, name##_i16, name##_i8,                    \
    };

COMPARE(less, <, x < y)
COMPARE(less_equal, <=, x <= y)
COMPARE(greater, >, x > y)
COMPARE(greater_equal, >=, x >= y)
/* Floats that are as near as this count as equal, as upstream has it. Infinities equal themselves, which they
 * do not there. */
#define NEAR 1e-8
COMPARE(equal, ==, (x == y) | (fabs((double)(x - y)) < NEAR))
COMPARE(not_equal, !=, !((x == y) | (fabs((double)(x - y)) < NEAR)))

#define LOGIC(name, expr)                                                                                    \
    PD_EW_BINARY(logic_##name, , uint8_t, uint8_t, expr)                                                     \
    const pd_ew_kernel pd_ew_##name[PD_EW_TYPES] = {[PD_EW_U8] = logic_##name};

LOGIC(and, (x != 0) & (y != 0))
LOGIC(or, (x != 0) | (y != 0))
LOGIC(xor, (x != 0) ^ (y != 0))
