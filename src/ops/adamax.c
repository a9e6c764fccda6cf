/* adamax: adam with the infinity norm of past gradients. */
#include "ops/opt.h"

enum { PARAM, GRAD, LR, MOMENT, NORM, BETA1_POW };
enum { BETA1, BETA2, EPSILON };

static const struct pd_opt slots = {
    .grad = GRAD, .lr = LR, .n = 3, .in = {PARAM, MOMENT, NORM}, .out = {0, 1, 2}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

static pd_status run(const struct pd_run *r)
{
    double lr, pow1;
    PD_TRY(pd_opt_number(r, LR, &lr));
    PD_TRY(pd_opt_number(r, BETA1_POW, &pow1));
    return pd_opt_run(r, &slots, PD_RULE_ADAMAX,
                      (double[4]){lr / (1 - pow1), r->attr[BETA1].f, r->attr[BETA2].f, r->attr[EPSILON].f},
                      PD_OPT_UPDATE, NULL);
}

const struct pd_op pd_op_adamax = {
    .type = "adamax",
    .doc = "Adam with the infinity norm of past gradients.",
    .inputs = (const struct pd_slot_def[]){{"Param", 0},
                                           {"Grad", 0},
                                           {"LearningRate", PD_SLOT_OWN_TYPE},
                                           {"Moment", 0},
                                           {"InfNorm", 0},
                                           {"Beta1Pow", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", 0}, {"MomentOut", 0}, {"InfNormOut", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_FLOAT("beta1", 0.9f), PD_DEF_FLOAT("beta2", 0.999f), PD_DEF_FLOAT("epsilon", 1e-8f), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = run,
};
