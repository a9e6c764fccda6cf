/* Rules that divide by the size of past gradients: adagrad, decayed_adagrad, adadelta, rmsprop. */
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
    .flags = PD_OP_NO_GRAD,
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
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = decayed_run,
};

/* ---- adadelta ---- */

static const struct pd_opt delta = {.grad = 1, .lr = -1, .n = 3, .in = {0, 2, 3}, .out = {0, 1, 2}};

static pd_status delta_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &delta);
}

static pd_status delta_run(const struct pd_run *r)
{
    return pd_opt_run(r, &delta, PD_RULE_ADADELTA, (double[4]){r->attr[0].f, r->attr[1].f}, PD_OPT_UPDATE,
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
    .flags = PD_OP_NO_GRAD,
    .infer = delta_infer,
    .run = delta_run,
};

/* ---- rmsprop ---- */

enum { R_PARAM, R_SQUARE, R_MEAN, R_LR, R_GRAD, R_MOMENT };
enum { R_PARAM_OUT, R_MOMENT_OUT, R_SQUARE_OUT, R_MEAN_OUT };
enum { R_EPSILON, R_DECAY, R_MOMENTUM, R_CENTERED };

static const struct pd_opt rms = {.grad = R_GRAD,
                                  .lr = R_LR,
                                  .n = 3,
                                  .in = {R_PARAM, R_SQUARE, R_MOMENT},
                                  .out = {R_PARAM_OUT, R_SQUARE_OUT, R_MOMENT_OUT}};
static const struct pd_opt rms_centered = {.grad = R_GRAD,
                                           .lr = R_LR,
                                           .n = 4,
                                           .in = {R_PARAM, R_SQUARE, R_MOMENT, R_MEAN},
                                           .out = {R_PARAM_OUT, R_SQUARE_OUT, R_MOMENT_OUT, R_MEAN_OUT}};

static pd_status rms_infer(const struct pd_infer *c)
{
    if (c->attr[R_CENTERED].b && (!pd_infer_in(c, R_MEAN) || !pd_infer_out(c, R_MEAN_OUT)))
        return pd_fail(PD_INVALID, "with centered=True the op needs MeanGrad and MeanGradOut");
    PD_TRY(pd_opt_infer(c, c->attr[R_CENTERED].b ? &rms_centered : &rms));
    pd_math_out_like(c, R_MEAN_OUT, R_MEAN);
    return PD_OK;
}

static pd_status rms_run(const struct pd_run *r)
{
    double lr;
    int centered = r->attr[R_CENTERED].b;
    PD_TRY(pd_opt_number(r, R_LR, &lr));
    if (!centered && pd_run_in(r, R_MEAN) && pd_run_out(r, R_MEAN_OUT)) {
        const struct pd_tensor *from = pd_run_in(r, R_MEAN);
        struct pd_tensor *to = pd_run_out(r, R_MEAN_OUT);
        if (to->data != from->data) PD_TRY(pd_tensor_copy(to, from));
    }
    return pd_opt_run(r, centered ? &rms_centered : &rms,
                      centered ? PD_RULE_RMSPROP_CENTERED : PD_RULE_RMSPROP,
                      (double[4]){lr, r->attr[R_DECAY].f, r->attr[R_EPSILON].f, r->attr[R_MOMENTUM].f},
                      PD_OPT_UPDATE, NULL);
}

const struct pd_op pd_op_rmsprop = {
    .type = "rmsprop",
    .doc =
        "Gradients divided by their running root mean square, with momentum; centered: by their deviation.",
    .inputs = (const struct pd_slot_def[]){{"Param", 0},
                                           {"MeanSquare", 0},
                                           {"MeanGrad", PD_SLOT_OPTIONAL},
                                           {"LearningRate", PD_SLOT_OWN_TYPE},
                                           {"Grad", 0},
                                           {"Moment", 0},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){
            {"ParamOut", 0}, {"MomentOut", 0}, {"MeanSquareOut", 0}, {"MeanGradOut", PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_FLOAT("epsilon", 1e-10f),
                                          PD_DEF_FLOAT("decay", 0.9f),
                                          PD_DEF_FLOAT("momentum", 0),
                                          PD_DEF_BOOL("centered", 0),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = rms_infer,
    .run = rms_run,
};
