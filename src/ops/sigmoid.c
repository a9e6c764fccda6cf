/* sigmoid, its logarithm, and the straight line that stands for it. */
#include "ops/act.h"

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_OUT(sigmoid, "Out = 1 / (1 + exp(-X)).", pd_sigmoid(x), dout * out * (1 - out))
PD_ACT_SHOW(sigmoid)
PD_ACT_X(logsigmoid, "Out = log(1 / (1 + exp(-X))).",
         x < 0 ? x - pd_log1p(pd_exp(x)) : -pd_log1p(pd_exp(-x)), dout * pd_sigmoid(-x))
PD_ACT_OUT(hard_sigmoid, "Out = slope X + offset held within [0, 1].",
           x * p0 + p1 < 0 ? 0 : x * p0 + p1 > 1 ? 1 : x * p0 + p1,
           out > 0 && out < 1 ? dout * p0 : 0,
           PD_DEF_FLOAT("slope", 0.2f), PD_DEF_FLOAT("offset", 0.5f))
/* clang-format on */
