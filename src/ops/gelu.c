/* gelu: X weighted by the normal distribution, exactly or by way of tanh. */
#include "ops/act.h"
#include "ops/out.h"

enum { APPROXIMATE };

#define HALF_ROOT (real)0.7071067811865476 /* sqrt(1/2) */
#define DENSITY (real)0.3989422804014327   /* 1 / sqrt(2 pi) */
#define TANH_A (real)0.7978845608028654    /* sqrt(2 / pi) */
#define TANH_B (real)0.044715
/* Formulas: clang-format would take their products for declarations. */
/* clang-format off */
#define TANH_OF(x) pd_tanh(TANH_A * ((x) + TANH_B * (x) * (x) * (x)))
PD_ACT_FLOATS(exact, x * (real)0.5 * (1 + pd_erf(x * HALF_ROOT)), x,
              dout * ((real)0.5 * (1 + pd_erf(x * HALF_ROOT)) + x * DENSITY * pd_exp(-x * x / 2)))
PD_ACT_FLOATS(close, x * (real)0.5 * (1 + TANH_OF(x)), x,
              dout * (real)0.5 * (1 + TANH_OF(x) + x * (1 - TANH_OF(x) * TANH_OF(x)) * TANH_A * (1 + 3 * TANH_B * x * x)))
/* clang-format on */

static const struct pd_attr_def attrs[] = {PD_DEF_BOOL("approximate", 0), {0}};

static pd_status run(const struct pd_run *r)
{
    return pd_act_forward(r, r->attr[APPROXIMATE].b ? close_kernels : exact_kernels);
}

static pd_status grad_run(const struct pd_run *r)
{
    return pd_act_backward(r, PD_ACT_SLOT_X,
                           r->attr[APPROXIMATE].b ? close_grad_kernels : exact_grad_kernels);
}

const struct pd_op pd_op_gelu = {
    .type = "gelu",
    .doc = "Out = X times the chance that a normal number is below X.",
    .inputs = pd_act_inputs,
    .outputs = pd_act_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = run,
    .grad_type = "gelu_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
    .share = pd_act_share,
};

const struct pd_op pd_op_gelu_grad = {
    .type = "gelu_grad",
    .doc = "Gradient of gelu.",
    .inputs = pd_act_grad_inputs,
    .outputs = pd_act_grad_outputs,
    .attrs = attrs,
    .infer = pd_act_infer_grad,
    .run = grad_run,
    .share = pd_act_grad_share,
};
