/* adam: a rule that keeps running means of the gradient and its size.
 *
 * The beta powers that come in are those of this step. Older Programs advance them by scale ops of their own;
 * newer ones let adam do it through Beta1PowOut and Beta2PowOut. */
#include "ops/adam.h"

#include <math.h>

#include "ops/elements.h"
#include "ops/out.h"

enum { BETA1_TENSOR = PD_ADAM_INPUTS_N, BETA2_TENSOR };
enum { BETA1_POW_OUT = PD_ADAM_OUTPUTS_N, BETA2_POW_OUT };
enum { BETA1, BETA2, EPSILON, LAZY };

const struct pd_opt pd_adam_slots = {.grad = PD_ADAM_GRAD,
                                     .lr = PD_ADAM_LR,
                                     .n = 3,
                                     .in = {PD_ADAM_PARAM, PD_ADAM_MOMENT1, PD_ADAM_MOMENT2},
                                     .out = {PD_ADAM_PARAM_OUT, PD_ADAM_MOMENT1_OUT, PD_ADAM_MOMENT2_OUT}};

static pd_status infer(const struct pd_infer *c)
{
    PD_TRY(pd_opt_infer(c, &pd_adam_slots));
    pd_out_same(c, BETA1_POW_OUT, PD_ADAM_BETA1_POW);
    pd_out_same(c, BETA2_POW_OUT, PD_ADAM_BETA2_POW);
    return PD_OK;
}

static pd_status set_number(struct pd_tensor *t, double value)
{
    return t ? pd_elements_fill(t->data, t->meta.dtype, pd_tensor_numel(t), value) : PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    double lr, pow1, pow2, beta1 = r->attr[BETA1].f, beta2 = r->attr[BETA2].f;
    int empty;
    PD_TRY(pd_opt_number(r, PD_ADAM_LR, &lr));
    PD_TRY(pd_opt_number(r, PD_ADAM_BETA1_POW, &pow1));
    PD_TRY(pd_opt_number(r, PD_ADAM_BETA2_POW, &pow2));
    if (r->in[BETA1_TENSOR].n) PD_TRY(pd_opt_number(r, BETA1_TENSOR, &beta1));
    if (r->in[BETA2_TENSOR].n) PD_TRY(pd_opt_number(r, BETA2_TENSOR, &beta2));
    lr *= sqrt(1 - pow2) / (1 - pow1);
    PD_TRY(pd_opt_run(r, &pd_adam_slots, PD_RULE_ADAM, (double[4]){lr, beta1, beta2, r->attr[EPSILON].f},
                      r->attr[LAZY].b ? PD_OPT_SKIP : PD_OPT_UPDATE, &empty));
    /* Without a gradient this was no step: the powers stay. */
    PD_TRY(set_number(pd_run_out(r, BETA1_POW_OUT), empty ? pow1 : pow1 * beta1));
    return set_number(pd_run_out(r, BETA2_POW_OUT), empty ? pow2 : pow2 * beta2);
}

const struct pd_op pd_op_adam = {
    .type = "adam",
    .doc = "Adam; with lazy_mode a sparse Grad changes its own rows only.",
    .inputs = (const struct pd_slot_def[]){PD_ADAM_INPUTS,
                                           {"Beta1Tensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Beta2Tensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            PD_ADAM_OUTPUTS, {"Beta1PowOut", PD_SLOT_OPTIONAL}, {"Beta2PowOut", PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("beta1", 0.9f),
                                          PD_DEF_FLOAT("beta2", 0.999f),
                                          PD_DEF_FLOAT("epsilon", 1e-8f),
                                          PD_DEF_BOOL("lazy_mode", 0),
                                          PD_DEF_LONG("min_row_size_to_use_multithread", 1000),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = run,
};
