/* softshrink, hard_shrink and tanh_shrink: what is close to 0 comes closer to it. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_X(softshrink, "X moved towards 0 by lambda, and 0 within it.",
         x > p0 ? x - p0 : x >= -p0 ? 0 : x + p0,
         x > p0 || x < -p0 ? dout : 0,
         PD_DEF_FLOAT("lambda", 0.5f))
/* Old programs carry lambda beside threshold; it has never had a meaning here. */
PD_ACT_X(hard_shrink, "X, and 0 within +-threshold.",
         x <= p0 && x >= -p0 ? 0 : x,
         x > p0 || x < -p0 ? dout : 0,
         PD_DEF_FLOAT("threshold", 0.5f), PD_DEF_FLOAT("lambda", 0.5f))
PD_ACT_X(tanh_shrink, "Out = X - tanh(X).", x - pd_tanh(x), dout * pd_tanh(x) * pd_tanh(x))
/* clang-format on */
