/* Arithmetic of two operands, and its gradients. */
#include "kernels/ew_tile.h"
#include "kernels/larger.h"

#define NO_CLONES

/* Integers wrap around instead of being undefined. */
static inline int32_t i32_div(int32_t x, int32_t y)
{
    return y == 0 ? 0 : y == -1 ? (int32_t)(0u - (uint32_t)x) : x / y;
}
static inline int64_t i64_div(int64_t x, int64_t y)
{
    return y == 0 ? 0 : y == -1 ? (int64_t)(0u - (uint64_t)x) : x / y;
}
static inline int32_t i32_mod(int32_t x, int32_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}
static inline int64_t i64_mod(int64_t x, int64_t y)
{
    return y == 0 || y == -1 ? 0 : x % y;
}
static inline int32_t i32_pow(int32_t x, int32_t y)
{
    return (int32_t)llrint(pow(x, y));
}
static inline int64_t i64_pow(int64_t x, int64_t y)
{
    return (int64_t)llrint(pow((double)x, (double)y));
}

#define FLOATS(name, clones, expr)                                                                           \
    PD_EW_BINARY(name##_f32, clones, float, float, expr)                                                     \
    PD_EW_BINARY(name##_f64, clones, double, double, expr)
#define INTEGERS(name, e32, e64)                                                                             \
    PD_EW_BINARY(name##_i32, NO_CLONES, int32_t, int32_t, e32)                                               \
    PD_EW_BINARY(name##_i64, NO_CLONES, int64_t, int64_t, e64)
#define TABLE(name)                                                                                          \
    const pd_ew_kernel pd_ew_##name[PD_EW_TYPES] = {name##_f32, name##_f64, name##_i32, name##_i64};

#define WRAPPING(op) (int32_t)((uint32_t)x op(uint32_t) y), (int64_t)((uint64_t)x op(uint64_t) y)
#define ARITHMETIC(name, clones, expr, ...)                                                                  \
    FLOATS(name, clones, expr) INTEGERS_OF(name, __VA_ARGS__) TABLE(name)
#define INTEGERS_OF(name, ...) INTEGERS(name, __VA_ARGS__)

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
ARITHMETIC(add, PD_CLONES, x + y, WRAPPING(+))
ARITHMETIC(sub, PD_CLONES, x - y, WRAPPING(-))
ARITHMETIC(mul, PD_CLONES, x * y, WRAPPING(*))
ARITHMETIC(div, PD_CLONES, x / y, i32_div(x, y), i64_div(x, y))
ARITHMETIC(max, PD_CLONES, PD_LARGER(x, y), x > y ? x : y, x > y ? x : y)
ARITHMETIC(min, PD_CLONES, PD_SMALLER(x, y), x < y ? x : y, x < y ? x : y)
ARITHMETIC(pow, NO_CLONES, pd_pow(x, y), i32_pow(x, y), i64_pow(x, y))
/* The sign of a float remainder is the divisor's, that of an integer one the dividend's. */
#define FMOD(x, y) _Generic((x), float : fmodf, double : fmod)(x, y)
ARITHMETIC(mod, NO_CLONES, FMOD(y + FMOD(x, y), y), i32_mod(x, y), i64_mod(x, y))
#define TRUNC(x) _Generic((x), float : truncf, double : trunc)(x)
ARITHMETIC(floordiv, NO_CLONES, TRUNC(x / y), i32_div(x, y), i64_div(x, y))
/* clang-format on */

#define GRADIENT(name, clones, expr, i32_expr, i64_expr)                                                     \
    PD_EW_GRADIENT(name##_f32, clones, float, expr)                                                          \
    PD_EW_GRADIENT(name##_f64, clones, double, expr)                                                         \
    PD_EW_GRADIENT(name##_i32, NO_CLONES, int32_t, i32_expr)                                                 \
    PD_EW_GRADIENT(name##_i64, NO_CLONES, int64_t, i64_expr)                                                 \
    TABLE(name)

/* Products of wrapped integers by way of unsigned ones. */
#define U32(a, b) (int32_t)((uint32_t)(a) * (uint32_t)(b))
#define U64(a, b) (int64_t)((uint64_t)(a) * (uint64_t)(b))

/* clang-format off */
GRADIENT(sub_dy, PD_CLONES, -dout, U32(dout, -1), U64(dout, -1))
GRADIENT(mul_dx, PD_CLONES, dout * y, U32(dout, y), U64(dout, y))
GRADIENT(mul_dy, PD_CLONES, dout * x, U32(dout, x), U64(dout, x))
GRADIENT(div_dx, PD_CLONES, dout / y, i32_div(dout, y), i64_div(dout, y))
GRADIENT(div_dy, PD_CLONES, -dout * out / y,
         i32_div(U32(U32(dout, -1), out), y), i64_div(U64(U64(dout, -1), out), y))
#define CHOOSE(condition) (condition) ? dout : 0, (condition) ? dout : 0, (condition) ? dout : 0
#define GRADIENT_OF(name, clones, ...) GRADIENT(name, clones, __VA_ARGS__)
GRADIENT_OF(max_dx, PD_CLONES, CHOOSE(x > y))
GRADIENT_OF(max_dy, PD_CLONES, CHOOSE(x <= y))
GRADIENT_OF(min_dx, PD_CLONES, CHOOSE(x < y))
GRADIENT_OF(min_dy, PD_CLONES, CHOOSE(x >= y))
GRADIENT(pow_dx, NO_CLONES, dout * y * pd_pow(x, y - 1), (int32_t)(dout * y * pow(x, y - 1)),
         (int64_t)((double)dout * (double)y * pow((double)x, (double)y - 1)))
GRADIENT(pow_dy, NO_CLONES, dout * pd_log(x) * pd_pow(x, y), (int32_t)(dout * log(x) * pow(x, y)),
         (int64_t)((double)dout * log((double)x) * pow((double)x, (double)y)))
/* clang-format on */

/* x where it is positive, else x times the slope y. */
#define FLOAT_TABLE(name) const pd_ew_kernel pd_ew_##name[PD_EW_TYPES] = {name##_f32, name##_f64};
FLOATS(prelu, PD_CLONES, x > 0 ? x : y * x)
FLOAT_TABLE(prelu)
PD_EW_GRADIENT(prelu_dx_f32, PD_CLONES, float, x > 0 ? dout : y * dout)
PD_EW_GRADIENT(prelu_dx_f64, PD_CLONES, double, x > 0 ? dout : y * dout)
FLOAT_TABLE(prelu_dx)
PD_EW_GRADIENT(prelu_dy_f32, PD_CLONES, float, x > 0 ? 0 : x * dout)
PD_EW_GRADIENT(prelu_dy_f64, PD_CLONES, double, x > 0 ? 0 : x * dout)
FLOAT_TABLE(prelu_dy)
