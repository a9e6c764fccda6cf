/* rmsprop: gradients divided by their running root mean square. */
#include "ops/opt.h"
#include "ops/out.h"

enum { PARAM, SQUARE, MEAN, LR, GRAD, MOMENT };
enum { PARAM_OUT, MOMENT_OUT, SQUARE_OUT, MEAN_OUT };
enum { EPSILON, DECAY, MOMENTUM, CENTERED };

static const struct pd_opt slots = {.grad = GRAD,
                                    .lr = LR,
                                    .n = 3,
                                    .in = {PARAM, SQUARE, MOMENT},
                                    .out = {PARAM_OUT, SQUARE_OUT, MOMENT_OUT}};
static const struct pd_opt slots_centered = {.grad = GRAD,
                                             .lr = LR,
                                             .n = 4,
                                             .in = {PARAM, SQUARE, MOMENT, MEAN},
                                             .out = {PARAM_OUT, SQUARE_OUT, MOMENT_OUT, MEAN_OUT}};

static pd_status infer(const struct pd_infer *c)
{
    if (c->attr[CENTERED].b && (!pd_infer_in(c, MEAN) || !pd_infer_out(c, MEAN_OUT)))
        return pd_fail(PD_INVALID, "with centered=True the op needs MeanGrad and MeanGradOut");
    PD_TRY(pd_opt_infer(c, c->attr[CENTERED].b ? &slots_centered : &slots));
    pd_out_same(c, MEAN_OUT, MEAN);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    double lr;
    int centered = r->attr[CENTERED].b;
    PD_TRY(pd_opt_number(r, LR, &lr));
    if (!centered && pd_run_in(r, MEAN) && pd_run_out(r, MEAN_OUT)) {
        const struct pd_tensor *from = pd_run_in(r, MEAN);
        struct pd_tensor *to = pd_run_out(r, MEAN_OUT);
        if (to->data != from->data) PD_TRY(pd_tensor_copy(to, from));
    }
    return pd_opt_run(
        r, centered ? &slots_centered : &slots, centered ? PD_RULE_RMSPROP_CENTERED : PD_RULE_RMSPROP,
        (double[4]){lr, r->attr[DECAY].f, r->attr[EPSILON].f, r->attr[MOMENTUM].f}, PD_OPT_UPDATE, NULL);
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
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE,
    .infer = infer,
    .run = run,
};
