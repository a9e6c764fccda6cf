/* proximal_gd and proximal_adagrad: rules that pull small weights to zero. */
#include "ops/opt.h"

static const struct pd_opt gd = {.grad = 1, .lr = 2, .n = 1, .in = {0}, .out = {0}};

static const struct pd_attr_def proximal_attrs[] = {PD_DEF_FLOAT("l1", 0), PD_DEF_FLOAT("l2", 0), {0}};

/* Without regularization a gradient of zero changes nothing. */
static enum pd_opt_rest rest_of(const struct pd_run *r)
{
    return r->attr[0].f != 0 || r->attr[1].f != 0 ? PD_OPT_UPDATE : PD_OPT_KEEP;
}

static pd_status gd_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &gd);
}

static pd_status gd_run(const struct pd_run *r)
{
    double lr, l1 = r->attr[0].f;
    PD_TRY(pd_opt_number(r, 2, &lr));
    return pd_opt_run(r, &gd, PD_RULE_PROXIMAL_GD, (double[4]){lr, l1 > 0 ? l1 : 0, r->attr[1].f}, rest_of(r),
                      NULL);
}

const struct pd_op pd_op_proximal_gd = {
    .type = "proximal_gd",
    .doc = "Gradient descent, then the proximal step of an L1 and an L2 term.",
    .inputs =
        (const struct pd_slot_def[]){{"Param", 0}, {"Grad", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", 0}, {0}},
    .attrs = proximal_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = gd_infer,
    .run = gd_run,
};

/* ---- proximal_adagrad ---- */

static const struct pd_opt pada = {.grad = 2, .lr = 3, .n = 2, .in = {0, 1}, .out = {0, 1}};

static pd_status pada_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &pada);
}

static pd_status pada_run(const struct pd_run *r)
{
    double lr, l1 = r->attr[0].f;
    PD_TRY(pd_opt_number(r, 3, &lr));
    return pd_opt_run(r, &pada, PD_RULE_PROXIMAL_ADAGRAD, (double[4]){lr, l1 > 0 ? l1 : 0, r->attr[1].f},
                      rest_of(r), NULL);
}

const struct pd_op pd_op_proximal_adagrad = {
    .type = "proximal_adagrad",
    .doc = "Adagrad, then the proximal step of an L1 and an L2 term.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Param", 0}, {"Moment", 0}, {"Grad", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", 0}, {"MomentOut", 0}, {0}},
    .attrs = proximal_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = pada_infer,
    .run = pada_run,
};
