/* adam, adamax and lamb: rules that keep running means of the gradient and its size.
 *
 * The beta powers that come in are those of this step. Older Programs advance them by scale ops of their own;
 * newer ones let adam do it through Beta1PowOut and Beta2PowOut. */
#include <math.h>
#include <string.h>

#include "ops/opt.h"

enum { PARAM, GRAD, LR, MOMENT1, MOMENT2, BETA1_POW, BETA2_POW, BETA1_TENSOR, BETA2_TENSOR };
enum { PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT, BETA1_POW_OUT, BETA2_POW_OUT };
enum { BETA1, BETA2, EPSILON, LAZY };

/* What adam and lamb both have, in the order of the enums. */
#define ADAM_INPUTS                                                                                          \
    {"Param", 0}, {"Grad", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {"Moment1", 0}, {"Moment2", 0},           \
        {"Beta1Pow", PD_SLOT_OWN_TYPE},                                                                      \
    {                                                                                                        \
        "Beta2Pow", PD_SLOT_OWN_TYPE                                                                         \
    }
#define ADAM_OUTPUTS                                                                                         \
    {"ParamOut", 0}, {"Moment1Out", 0},                                                                      \
    {                                                                                                        \
        "Moment2Out", 0                                                                                      \
    }

static const struct pd_opt adam = {.grad = GRAD,
                                   .lr = LR,
                                   .n = 3,
                                   .in = {PARAM, MOMENT1, MOMENT2},
                                   .out = {PARAM_OUT, MOMENT1_OUT, MOMENT2_OUT}};

static pd_status adam_infer(const struct pd_infer *c)
{
    PD_TRY(pd_opt_infer(c, &adam));
    pd_math_out_like(c, BETA1_POW_OUT, BETA1_POW);
    pd_math_out_like(c, BETA2_POW_OUT, BETA2_POW);
    return PD_OK;
}

static pd_status set_number(struct pd_tensor *t, double value)
{
    return t ? pd_math_fill(t->data, t->meta.dtype, pd_tensor_numel(t), value) : PD_OK;
}

static pd_status adam_run(const struct pd_run *r)
{
    double lr, pow1, pow2, beta1 = r->attr[BETA1].f, beta2 = r->attr[BETA2].f;
    int empty;
    PD_TRY(pd_opt_number(r, LR, &lr));
    PD_TRY(pd_opt_number(r, BETA1_POW, &pow1));
    PD_TRY(pd_opt_number(r, BETA2_POW, &pow2));
    if (r->in[BETA1_TENSOR].n) PD_TRY(pd_opt_number(r, BETA1_TENSOR, &beta1));
    if (r->in[BETA2_TENSOR].n) PD_TRY(pd_opt_number(r, BETA2_TENSOR, &beta2));
    lr *= sqrt(1 - pow2) / (1 - pow1);
    PD_TRY(pd_opt_run(r, &adam, PD_RULE_ADAM, (double[4]){lr, beta1, beta2, r->attr[EPSILON].f},
                      r->attr[LAZY].b ? PD_OPT_SKIP : PD_OPT_UPDATE, &empty));
    /* Without a gradient this was no step: the powers stay. */
    PD_TRY(set_number(pd_run_out(r, BETA1_POW_OUT), empty ? pow1 : pow1 * beta1));
    return set_number(pd_run_out(r, BETA2_POW_OUT), empty ? pow2 : pow2 * beta2);
}

const struct pd_op pd_op_adam = {
    .type = "adam",
    .doc = "Adam; with lazy_mode a sparse Grad changes its own rows only.",
    .inputs = (const struct pd_slot_def[]){ADAM_INPUTS,
                                           {"Beta1Tensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Beta2Tensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            ADAM_OUTPUTS, {"Beta1PowOut", PD_SLOT_OPTIONAL}, {"Beta2PowOut", PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("beta1", 0.9f),
                                          PD_DEF_FLOAT("beta2", 0.999f),
                                          PD_DEF_FLOAT("epsilon", 1e-8f),
                                          PD_DEF_BOOL("lazy_mode", 0),
                                          PD_DEF_LONG("min_row_size_to_use_multithread", 1000),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = adam_infer,
    .run = adam_run,
};

/* ---- adamax ---- */

enum { X_PARAM, X_GRAD, X_LR, X_MOMENT, X_NORM, X_BETA1_POW };

static const struct pd_opt adamax = {
    .grad = X_GRAD, .lr = X_LR, .n = 3, .in = {X_PARAM, X_MOMENT, X_NORM}, .out = {0, 1, 2}};

static pd_status adamax_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &adamax);
}

static pd_status adamax_run(const struct pd_run *r)
{
    double lr, pow1;
    PD_TRY(pd_opt_number(r, X_LR, &lr));
    PD_TRY(pd_opt_number(r, X_BETA1_POW, &pow1));
    return pd_opt_run(r, &adamax, PD_RULE_ADAMAX,
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
    .flags = PD_OP_NO_GRAD,
    .infer = adamax_infer,
    .run = adamax_run,
};

/* ---- lamb ---- */

enum { B_DECAY, B_BETA1, B_BETA2, B_EPSILON };

static pd_status lamb_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &adam);
}

static pd_status lamb_run(const struct pd_run *r)
{
    struct pd_update u;
    void *direction = NULL;
    int empty;
    double lr;
    PD_TRY(pd_opt_number(r, LR, &lr));
    PD_TRY(
        pd_opt_begin(r, &adam, PD_OPT_UPDATE, pd_tensor_bytes(pd_run_in(r, PARAM)), &u, &direction, &empty));
    if (empty) return PD_OK;
    u.rule = PD_RULE_LAMB_MOMENTS;
    u.arrays = 4;
    u.out[3] = direction;
    u.k[0] = r->attr[B_BETA1].f;
    u.k[1] = r->attr[B_BETA2].f;
    u.k[2] = r->attr[B_EPSILON].f;
    u.k[3] = r->attr[B_DECAY].f;
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
    .inputs = (const struct pd_slot_def[]){ADAM_INPUTS, {0}},
    .outputs = (const struct pd_slot_def[]){ADAM_OUTPUTS, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("weight_decay", 0),
                                          PD_DEF_FLOAT("beta1", 0.9f),
                                          PD_DEF_FLOAT("beta2", 0.999f),
                                          PD_DEF_FLOAT("epsilon", 1e-6f),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = lamb_infer,
    .run = lamb_run,
};
