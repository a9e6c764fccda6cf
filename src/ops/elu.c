/* elu and selu: straight above 0, exponential below. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_X(elu, "Out = X where X > 0, else alpha (exp(X) - 1).",
         x > 0 ? x : p0 * (pd_exp(x) - 1),
         x > 0 ? dout : dout * p0 * pd_exp(x),
         PD_DEF_FLOAT("alpha", 1.0f))
PD_ACT_OUT(selu, "Out = scale X where X > 0, else scale alpha (exp(X) - 1).",
           p0 * (x > 0 ? x : p1 * (pd_exp(x) - 1)),
           out > 0 ? dout * p0 : dout * (out + p0 * p1),
           PD_DEF_FLOAT("scale", 1.0507009873554804934f), PD_DEF_FLOAT("alpha", 1.6732632423543772848f))
/* clang-format on */
