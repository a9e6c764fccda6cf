/* Activations made of straight pieces, and steps. */
#include "ops/act.h"

#define CEIL(x) _Generic((x), float : ceilf, double : ceil)(x)
#define FLOOR(x) _Generic((x), float : floorf, double : floor)(x)
#define ROUND(x) _Generic((x), float : rintf, double : rint)(x)

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
/* NaN stays NaN: it fails every comparison, so that the last choice must be the one that keeps it. */
PD_ACT_OUT(relu, "Out = max(X, 0).", x < 0 ? 0 : x, out <= 0 ? 0 : dout)
PD_ACT_SHOW(relu)
PD_ACT_OUT(relu6, "Out = min(max(X, 0), threshold).",
           x < 0 ? 0 : x > p0 ? p0 : x,
           out <= 0 || out >= p0 ? 0 : dout,
           PD_DEF_FLOAT("threshold", 6.0f))
PD_ACT_X(brelu, "Out is X held within [t_min, t_max].",
         x < p0 ? p0 : x > p1 ? p1 : x,
         x > p0 && x < p1 ? dout : 0,
         PD_DEF_FLOAT("t_min", 0.0f), PD_DEF_FLOAT("t_max", 24.0f))
PD_ACT_X(leaky_relu, "Out = max(X, alpha X).",
         x > p0 * x ? x : p0 * x,
         x > 0 ? dout : p0 * dout,
         PD_DEF_FLOAT("alpha", 0.02f))
PD_ACT_X(thresholded_relu, "Out = X where X > threshold, else 0.",
         x <= p0 ? 0 : x,
         x <= p0 ? 0 : dout,
         PD_DEF_FLOAT("threshold", 1.0f))
PD_ACT_X(softshrink, "X moved towards 0 by lambda, and 0 within it.",
         x > p0 ? x - p0 : x >= -p0 ? 0 : x + p0,
         x > p0 || x < -p0 ? dout : 0,
         PD_DEF_FLOAT("lambda", 0.5f))
/* Old programs carry lambda beside threshold; it has never had a meaning here. */
PD_ACT_X(hard_shrink, "X, and 0 within +-threshold.",
         x <= p0 && x >= -p0 ? 0 : x,
         x > p0 || x < -p0 ? dout : 0,
         PD_DEF_FLOAT("threshold", 0.5f), PD_DEF_FLOAT("lambda", 0.5f))
PD_ACT_OUT(hard_sigmoid, "Out = slope X + offset held within [0, 1].",
           x * p0 + p1 < 0 ? 0 : x * p0 + p1 > 1 ? 1 : x * p0 + p1,
           out > 0 && out < 1 ? dout * p0 : 0,
           PD_DEF_FLOAT("slope", 0.2f), PD_DEF_FLOAT("offset", 0.5f))
PD_ACT_X(hard_swish, "Out = X min(max(X + offset, 0), threshold) / scale.",
         (x + p2 < 0 ? 0 : x + p2 > p0 ? p0 : x + p2) * x / p1,
         x + p2 >= p0 ? dout : x + p2 > 0 ? dout * (2 * x + p2) / p1 : 0,
         PD_DEF_FLOAT("threshold", 6.0f), PD_DEF_FLOAT("scale", 6.0f), PD_DEF_FLOAT("offset", 3.0f))

PD_ACT_STEP(ceil, "The least integer that is not below X.", CEIL(x))
PD_ACT_STEP(floor, "The largest integer that is not above X.", FLOOR(x))
PD_ACT_STEP(round, "The nearest integer; halves go to the even one.", ROUND(x))
/* clang-format on */
