/* adadelta: steps sized by the running means of squared gradients and squared updates. */
#include "ops/opt.h"

static const struct pd_opt slots = {.grad = 1, .lr = -1, .n = 3, .in = {0, 2, 3}, .out = {0, 1, 2}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

static pd_status run(const struct pd_run *r)
{
    return pd_opt_run(r, &slots, PD_RULE_ADADELTA, (double[4]){r->attr[0].f, r->attr[1].f}, PD_OPT_UPDATE,
                      NULL);
}

const struct pd_op pd_op_adadelta = {
    .type = "adadelta",
    .doc = "Steps sized by the running means of squared gradients and squared updates.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Param", 0}, {"Grad", 0}, {"AvgSquaredGrad", 0}, {"AvgSquaredUpdate", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"ParamOut", 0}, {"AvgSquaredGradOut", 0}, {"AvgSquaredUpdateOut", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("rho", 0.95f), PD_DEF_FLOAT("epsilon", 1e-6f), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = run,
};
