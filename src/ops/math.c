/* Functions of mathematics, elementwise, and the steps ceil, floor and round. */
#include "ops/act.h"

#define COS(x) _Generic((x), float : cosf, double : cos)(x)
#define SIN(x) _Generic((x), float : sinf, double : sin)(x)
#define ACOS(x) _Generic((x), float : acosf, double : acos)(x)
#define ASIN(x) _Generic((x), float : asinf, double : asin)(x)
#define ATAN(x) _Generic((x), float : atanf, double : atan)(x)
#define LOG1P(x) _Generic((x), float : log1pf, double : log1p)(x)
#define CEIL(x) _Generic((x), float : ceilf, double : ceil)(x)
#define FLOOR(x) _Generic((x), float : floorf, double : floor)(x)
#define TRUNC(x) _Generic((x), float : truncf, double : trunc)(x)
/* Exact for all numbers, and without a branch in a loop. */
#define ROUND(x) (x - TRUNC(x) >= 0.5f ? TRUNC(x) + 1 : x - TRUNC(x) <= -0.5f ? TRUNC(x) - 1 : TRUNC(x))

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_OUT(exp, "Out = e to the power of X.", pd_exp(x), dout * out)
PD_ACT_X(log, "Out = natural logarithm of X.", pd_log(x), dout / x)
PD_ACT_X(log1p, "Out = natural logarithm of 1 + X.", LOG1P(x), dout / (1 + x))
PD_ACT_OUT(sqrt, "Out = square root of X.", pd_sqrt(x), dout / (2 * out))
PD_ACT_OUT(rsqrt, "Out = 1 / sqrt(X).", 1 / pd_sqrt(x), -dout * out * out * out / 2)
PD_ACT_NUMBERS(square, x * x, x, 2 * x * dout,
               (uint64_t)x * (uint64_t)x, (uint64_t)2 * (uint64_t)x * (uint64_t)dout)
PD_ACT_OPS(square, "Out = X * X.", PD_ACT_SLOT_X, "X", )
PD_ACT_NUMBERS(abs, pd_abs(x), x, x > 0 ? dout : x < 0 ? -dout : 0,
               x < 0 ? 0 - (uint64_t)x : (uint64_t)x,
               x > 0 ? (uint64_t)dout : x < 0 ? 0 - (uint64_t)dout : 0)
PD_ACT_OPS(abs, "Out = |X|.", PD_ACT_SLOT_X, "X", )
PD_ACT_OUT(reciprocal, "Out = 1 / X.", 1 / x, -dout * out * out)
PD_ACT_X(cos, "Out = cos(X).", COS(x), -dout * SIN(x))
PD_ACT_X(sin, "Out = sin(X).", SIN(x), dout * COS(x))
PD_ACT_X(acos, "Out = acos(X).", ACOS(x), -dout / pd_sqrt(1 - x * x))
PD_ACT_X(asin, "Out = asin(X).", ASIN(x), dout / pd_sqrt(1 - x * x))
PD_ACT_X(atan, "Out = atan(X).", ATAN(x), dout / (1 + x * x))
PD_ACT_X(erf, "Out = error function of X.", pd_erf(x), dout * (real)1.1283791670955126 * pd_exp(-x * x))

PD_ACT_STEP(ceil, "The least integer that is not below X.", CEIL(x))
PD_ACT_STEP(floor, "The largest integer that is not above X.", FLOOR(x))
PD_ACT_STEP(round, "The nearest integer; halves go away from 0.", ROUND(x))
/* clang-format on */
