/* relu and its relatives: straight pieces that bend at one or two places; soft_relu goes round the bend. */
#include "ops/act.h"
#include "ops/out.h"
#include "program/grad.h"

#define BOUND(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))

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
PD_ACT_FLOATS(leaky_relu, x > p0 * x ? x : p0 * x, x, x > 0 ? dout : p0 * dout)
PD_ACT_X(thresholded_relu, "Out = X where X > threshold, else 0.",
         x <= p0 ? 0 : x,
         x <= p0 ? 0 : dout,
         PD_DEF_FLOAT("threshold", 1.0f))
PD_ACT_OUT(soft_relu, "Out = log(1 + exp(X)) with X held within +-threshold.",
           pd_softplus(BOUND(x, -p0, p0)),
           out > pd_softplus(-p0) && out < pd_softplus(p0) ? dout * (1 - pd_exp(-out)) : 0,
           PD_DEF_FLOAT("threshold", 40.0f))
/* clang-format on */

/* Out has the sign of X unless alpha is below 0: then the gradient needs X itself. Programs have either. */
static const struct pd_attr_def leaky_relu_attrs[] = {PD_DEF_FLOAT("alpha", 0.02f), {0}};

static pd_status leaky_relu_run(const struct pd_run *r)
{
    return pd_act_forward(r, leaky_relu_kernels);
}

static pd_status leaky_relu_grad_run(const struct pd_run *r)
{
    return pd_act_backward(r, PD_ACT_SLOT_ANY, leaky_relu_grad_kernels);
}

static pd_status leaky_relu_make_grad(struct pd_grad_maker *g)
{
    const struct pd_attr *alpha = pd_opdesc_attr(g->op, "alpha");
    struct pd_opdesc *op;
    PD_TRY(
        pd_grad_from_table(g, "leaky_relu_grad", alpha && alpha->f < 0 ? "X Out@" : "Out Out@", "X@", &op));
    return g->emit(g, op);
}

const struct pd_op pd_op_leaky_relu = {
    .type = "leaky_relu",
    .doc = "Out = max(X, alpha X).",
    .inputs = pd_act_inputs,
    .outputs = pd_act_outputs,
    .attrs = leaky_relu_attrs,
    .infer = pd_out_infer_same,
    .run = leaky_relu_run,
    .make_grad = leaky_relu_make_grad,
    .share = pd_act_share,
};

const struct pd_op pd_op_leaky_relu_grad = {
    .type = "leaky_relu_grad",
    .doc = "Gradient of leaky_relu.",
    .inputs = pd_act_grad_inputs,
    .outputs = pd_act_grad_outputs,
    .attrs = leaky_relu_attrs,
    .infer = pd_act_infer_grad,
    .run = leaky_relu_grad_run,
    .share = pd_act_grad_share,
};
