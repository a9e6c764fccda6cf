/* adagrad and decayed_adagrad: rules that divide by the size of past gradients. */
#include "ops/opt.h"

enum { PARAM, GRAD, MOMENT, LR };

static const struct pd_opt slots = {.grad = GRAD, .lr = LR, .n = 2, .in = {PARAM, MOMENT}, .out = {0, 1}};

static const struct pd_slot_def inputs[] = {
    {"Param", 0}, {"Grad", 0}, {"Moment", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"ParamOut", 0}, {"MomentOut", 0}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

static pd_status adagrad_run(const struct pd_run *r)
{
    double lr;
    PD_TRY(pd_opt_number(r, LR, &lr));
    /* A gradient of zero changes nothing, so that rows without one are left alone. */
    return pd_opt_run(r, &slots, PD_RULE_ADAGRAD, (double[4]){lr, r->attr[0].f}, PD_OPT_KEEP, NULL);
}

const struct pd_op pd_op_adagrad = {
    .type = "adagrad",
    .doc = "The learning rate of each element falls with the sum of its squared gradients.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("epsilon", 1e-6f), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE | PD_OP_OWN_ROWS,
    .infer = infer,
    .run = adagrad_run,
};

static pd_status decayed_run(const struct pd_run *r)
{
    double lr;
    PD_TRY(pd_opt_number(r, LR, &lr));
    return pd_opt_run(r, &slots, PD_RULE_DECAYED_ADAGRAD, (double[4]){lr, r->attr[0].f, r->attr[1].f},
                      PD_OPT_UPDATE, NULL);
}

const struct pd_op pd_op_decayed_adagrad = {
    .type = "decayed_adagrad",
    .doc = "Adagrad with a sum of squares that fades.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("decay", 0.95f), PD_DEF_FLOAT("epsilon", 1e-6f), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = decayed_run,
};
