/* Gradient descent with momentum: momentum (plain or Nesterov's) and lars_momentum, which scales the learning
 * rate by the norms of parameter and gradient. */
#include <string.h>

#include "ops/opt.h"

enum { PARAM, GRAD, VELOCITY, LR };
enum { MU, NESTEROV, REG_METHOD, REG_COEFF };

static const struct pd_opt slots = {.grad = GRAD, .lr = LR, .n = 2, .in = {PARAM, VELOCITY}, .out = {0, 1}};

static const struct pd_slot_def inputs[] = {
    {"Param", 0}, {"Grad", 0}, {"Velocity", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"ParamOut", 0}, {"VelocityOut", 0}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &slots);
}

static pd_status momentum_run(const struct pd_run *r)
{
    double lr, decay = 0;
    const char *method = r->attr[REG_METHOD].s;
    PD_TRY(pd_opt_number(r, LR, &lr));
    if (method && strcmp(method, "l2_decay") == 0)
        decay = r->attr[REG_COEFF].f;
    else if (method && *method)
        return pd_fail(PD_INVALID, "attribute regularization_method is '%s'; it may be '' or 'l2_decay'",
                       method);
    /* Velocity decays in rows without gradient too, so that all rows are updated. */
    return pd_opt_run(r, &slots, r->attr[NESTEROV].b ? PD_RULE_NESTEROV : PD_RULE_MOMENTUM,
                      (double[4]){lr, r->attr[MU].f, decay}, PD_OPT_UPDATE, NULL);
}

const struct pd_op pd_op_momentum = {
    .type = "momentum",
    .doc = "Velocity = mu * Velocity + Grad; Param moves against it by the learning rate.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("mu", 0),
                                          PD_DEF_BOOL("use_nesterov", 0),
                                          PD_DEF_STRING("regularization_method", ""),
                                          PD_DEF_FLOAT("regularization_coeff", 0),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = momentum_run,
};

/* ---- lars_momentum ---- */

enum { L_MU, L_COEFF, L_DECAY };

static pd_status lars_run(const struct pd_run *r)
{
    struct pd_update u;
    void *merged = NULL;
    int empty;
    double lr, decay = r->attr[L_DECAY].f;
    PD_TRY(pd_opt_number(r, LR, &lr));
    PD_TRY(pd_opt_begin(r, &slots, PD_OPT_UPDATE, pd_opt_norm_bytes(r, &slots), &u, &merged, &empty));
    if (empty) return PD_OK;
    double p = pd_update_norm(u.in[0], u.is_double, u.n), g = pd_opt_grad_norm(&u, merged);
    if (p > 0 && g > 0) lr *= r->attr[L_COEFF].f * p / (g + decay * p);
    u.rule = PD_RULE_LARS;
    u.k[0] = lr;
    u.k[1] = r->attr[L_MU].f;
    u.k[2] = decay;
    pd_update_run(&u);
    return PD_OK;
}

const struct pd_op pd_op_lars_momentum = {
    .type = "lars_momentum",
    .doc = "Momentum with a learning rate that follows |Param| / |Grad| of each parameter.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("mu", 0),
                                          PD_DEF_FLOAT("lars_coeff", 0.001f),
                                          PD_DEF_FLOAT("lars_weight_decay", 0.0005f),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = lars_run,
};
