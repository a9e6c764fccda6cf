/* lamb: adam's direction with weight decay, scaled to the norm of each parameter. */
#include "ops/adam.h"

enum { DECAY, BETA1, BETA2, EPSILON };

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &pd_adam_slots);
}

static pd_status run(const struct pd_run *r)
{
    struct pd_update u;
    void *direction = NULL;
    int empty;
    double lr;
    PD_TRY(pd_opt_number(r, PD_ADAM_LR, &lr));
    PD_TRY(pd_opt_begin(r, &pd_adam_slots, PD_OPT_UPDATE, pd_tensor_bytes(pd_run_in(r, PD_ADAM_PARAM)), &u,
                        &direction, &empty));
    if (empty) return PD_OK;
    u.rule = PD_RULE_LAMB_MOMENTS;
    u.arrays = 4;
    u.out[3] = direction;
    u.k[0] = r->attr[BETA1].f;
    u.k[1] = r->attr[BETA2].f;
    u.k[2] = r->attr[EPSILON].f;
    u.k[3] = r->attr[DECAY].f;
    double p = pd_update_norm(u.in[0], u.is_double, u.n);
    pd_update_run(&u);
    double d = pd_update_norm(direction, u.is_double, u.n);
    struct pd_update step = {.rule = PD_RULE_SGD,
                             .is_double = u.is_double,
                             .arrays = 1,
                             .n = u.n,
                             .in = {u.out[0]},
                             .out = {u.out[0]},
                             .grad = direction,
                             .k = {lr * (p > 0 && d > 0 ? p / d : 1)}};
    pd_update_run(&step);
    return PD_OK;
}

const struct pd_op pd_op_lamb = {
    .type = "lamb",
    .doc = "Adam's direction with weight decay, scaled to the norm of each parameter.",
    .inputs = (const struct pd_slot_def[]){PD_ADAM_INPUTS, {0}},
    .outputs = (const struct pd_slot_def[]){PD_ADAM_OUTPUTS, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("weight_decay", 0),
                                          PD_DEF_FLOAT("beta1", 0.9f),
                                          PD_DEF_FLOAT("beta2", 0.999f),
                                          PD_DEF_FLOAT("epsilon", 1e-6f),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
};
