/* tanh, and stanh, which scales it. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_OUT(tanh, "Out = tanh(X).", pd_tanh(x), dout * (1 - out * out))
PD_ACT_SHOW(tanh)
PD_ACT_X(stanh, "Out = scale_b tanh(scale_a X).",
         p1 * pd_tanh(p0 * x),
         dout * p0 * p1 * (1 - pd_tanh(p0 * x) * pd_tanh(p0 * x)),
         PD_DEF_FLOAT("scale_a", 0.67f), PD_DEF_FLOAT("scale_b", 1.7159f))
/* clang-format on */
