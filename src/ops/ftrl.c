/* ftrl: follow the regularized leader, which pulls small weights to zero. */
#include "ops/opt.h"

enum { PARAM, SQUARES, LINEAR, GRAD, LR };

static const struct pd_opt slots = {
    .grad = GRAD, .lr = LR, .n = 3, .in = {PARAM, SQUARES, LINEAR}, .out = {0, 1, 2}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

static pd_status run(const struct pd_run *r)
{
    double lr, power = r->attr[2].f;
    PD_TRY(pd_opt_number(r, LR, &lr));
    /* The parameter is made anew from its state, also where the gradient is zero. */
    return pd_opt_run(r, &slots, power == -0.5 ? PD_RULE_FTRL : PD_RULE_FTRL_POWER,
                      (double[4]){lr, r->attr[0].f, r->attr[1].f, power}, PD_OPT_UPDATE, NULL);
}

const struct pd_op pd_op_ftrl = {
    .type = "ftrl",
    .doc = "Follow the regularized leader, with L1 and L2 terms.",
    .inputs = (const struct pd_slot_def[]){{"Param", 0},
                                           {"SquaredAccumulator", 0},
                                           {"LinearAccumulator", 0},
                                           {"Grad", 0},
                                           {"LearningRate", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){{"ParamOut", 0}, {"SquaredAccumOut", 0}, {"LinearAccumOut", 0}, {0}},
    /* learning_rate is accepted from old Programs; the input counts. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("l1", 0),
                                          PD_DEF_FLOAT("l2", 0),
                                          PD_DEF_FLOAT("lr_power", -0.5f),
                                          PD_DEF_FLOATS("learning_rate"),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = run,
};
