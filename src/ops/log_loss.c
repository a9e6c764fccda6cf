/* log_loss: labels 0 and 1 against predicted probabilities. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { PREDICTED, LABELS, D_LOSS };
enum { EPSILON };
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("epsilon", 1e-4f), {0}};

static pd_status infer(const struct pd_infer *c)
{
    PD_TRY(pd_check_rank(pd_infer_in(c, PREDICTED), "Predicted", 2, 2));
    return pd_out_infer_alike(c, 2, PREDICTED, 1);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *predicted = pd_run_in(r, PREDICTED);
    PD_SWITCH_FLOAT(predicted->meta.dtype, T, {
        const T *p = predicted->data;
        const T *label = pd_run_in(r, LABELS)->data;
        T *loss = pd_run_out(r, 0)->data;
        T eps = (T)r->attr[EPSILON].f;
        for (int64_t i = 0, n = pd_tensor_numel(predicted); i < n; i++)
            loss[i] = -label[i] * pd_log(p[i] + eps) - (1 - label[i]) * pd_log(1 - p[i] + eps);
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *predicted = pd_run_in(r, PREDICTED);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (!out) return PD_OK;
    PD_SWITCH_FLOAT(predicted->meta.dtype, T, {
        const T *p = predicted->data;
        const T *label = pd_run_in(r, LABELS)->data;
        const T *d = pd_run_in(r, D_LOSS)->data;
        T *to = out->data;
        T eps = (T)r->attr[EPSILON].f;
        for (int64_t i = 0, n = pd_tensor_numel(predicted); i < n; i++)
            to[i] = d[i] * ((1 - label[i]) / (1 - p[i] + eps) - label[i] / (p[i] + eps));
    })
    return PD_OK;
}

const struct pd_op pd_op_log_loss = {
    .type = "log_loss",
    .doc = "Negative log likelihood of labels 0 and 1 under predicted probabilities.",
    .inputs = (const struct pd_slot_def[]){{"Predicted", 0}, {"Labels", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Loss", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "log_loss_grad",
    .grad_in = "Predicted Labels Loss@",
    .grad_out = "Predicted@",
};

const struct pd_op pd_op_log_loss_grad = {
    .type = "log_loss_grad",
    .doc = "Gradient of log_loss.",
    .inputs = (const struct pd_slot_def[]){{"Predicted", 0}, {"Labels", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Predicted@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
