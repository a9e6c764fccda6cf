/* swish: X weighted by its sigmoid, or in hard_swish by a straight line. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_X(swish, "Out = X / (1 + exp(-beta X)).",
         x * pd_sigmoid(p0 * x),
         dout * pd_sigmoid(p0 * x) * (1 + p0 * x * (1 - pd_sigmoid(p0 * x))),
         PD_DEF_FLOAT("beta", 1.0f))
PD_ACT_X(hard_swish, "Out = X min(max(X + offset, 0), threshold) / scale.",
         (x + p2 < 0 ? 0 : x + p2 > p0 ? p0 : x + p2) * x / p1,
         x + p2 >= p0 ? dout : x + p2 > 0 ? dout * (2 * x + p2) / p1 : 0,
         PD_DEF_FLOAT("threshold", 6.0f), PD_DEF_FLOAT("scale", 6.0f), PD_DEF_FLOAT("offset", 3.0f))
/* clang-format on */
