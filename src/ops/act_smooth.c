/* Smooth activations: sigmoid, tanh and their relatives. */
#include "ops/act.h"

/* ln(1 + e^x) without overflow. */
#define SOFTPLUS(x) ((x) > 0 ? (x) + pd_log1p(pd_exp(-(x))) : pd_log1p(pd_exp(x)))
#define BOUND(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))

/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
PD_ACT_OUT(sigmoid, "Out = 1 / (1 + exp(-X)).", pd_sigmoid(x), dout * out * (1 - out))
PD_ACT_OUT(tanh, "Out = tanh(X).", pd_tanh(x), dout * (1 - out * out))
PD_ACT_SHOW(sigmoid)
PD_ACT_SHOW(tanh)
PD_ACT_X(logsigmoid, "Out = log(1 / (1 + exp(-X))).",
         x < 0 ? x - pd_log1p(pd_exp(x)) : -pd_log1p(pd_exp(-x)), dout * pd_sigmoid(-x))
PD_ACT_X(softplus, "Out = log(1 + exp(X)).", SOFTPLUS(x), dout * pd_sigmoid(x))
PD_ACT_X(softsign, "Out = X / (1 + |X|).", x / (1 + pd_abs(x)), dout / ((1 + pd_abs(x)) * (1 + pd_abs(x))))
PD_ACT_X(tanh_shrink, "Out = X - tanh(X).", x - pd_tanh(x), dout * pd_tanh(x) * pd_tanh(x))
PD_ACT_OUT(soft_relu, "Out = log(1 + exp(X)) with X held within +-threshold.",
           SOFTPLUS(BOUND(x, -p0, p0)),
           out > SOFTPLUS(-p0) && out < SOFTPLUS(p0) ? dout * (1 - pd_exp(-out)) : 0,
           PD_DEF_FLOAT("threshold", 40.0f))
PD_ACT_X(elu, "Out = X where X > 0, else alpha (exp(X) - 1).",
         x > 0 ? x : p0 * (pd_exp(x) - 1),
         x > 0 ? dout : dout * p0 * pd_exp(x),
         PD_DEF_FLOAT("alpha", 1.0f))
PD_ACT_X(stanh, "Out = scale_b tanh(scale_a X).",
         p1 * pd_tanh(p0 * x),
         dout * p0 * p1 * (1 - pd_tanh(p0 * x) * pd_tanh(p0 * x)),
         PD_DEF_FLOAT("scale_a", 0.67f), PD_DEF_FLOAT("scale_b", 1.7159f))
PD_ACT_X(swish, "Out = X / (1 + exp(-beta X)).",
         x * pd_sigmoid(p0 * x),
         dout * pd_sigmoid(p0 * x) * (1 + p0 * x * (1 - pd_sigmoid(p0 * x))),
         PD_DEF_FLOAT("beta", 1.0f))
PD_ACT_OUT(selu, "Out = scale X where X > 0, else scale alpha (exp(X) - 1).",
           p0 * (x > 0 ? x : p1 * (pd_exp(x) - 1)),
           out > 0 ? dout * p0 : dout * (out + p0 * p1),
           PD_DEF_FLOAT("scale", 1.0507009873554804934f), PD_DEF_FLOAT("alpha", 1.6732632423543772848f))
/* clang-format on */
