/* hinge_loss: labels 0 and 1 against scores. */
#include "ops/check.h"
#include "ops/out.h"

enum { LOGITS, LABELS, D_LOSS };

static pd_status infer(const struct pd_infer *c)
{
    PD_TRY(pd_check_rank(pd_infer_in(c, LOGITS), "Logits", 2, 2));
    return pd_out_infer_alike(c, 2, LOGITS, 1);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *logits = pd_run_in(r, LOGITS);
    PD_SWITCH_FLOAT(logits->meta.dtype, T, {
        const T *x = logits->data;
        const T *label = pd_run_in(r, LABELS)->data;
        T *loss = pd_run_out(r, 0)->data;
        for (int64_t i = 0, n = pd_tensor_numel(logits); i < n; i++) {
            T short_of = 1 - x[i] * (2 * label[i] - 1);
            loss[i] = short_of <= 0 ? 0 : short_of;
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *logits = pd_run_in(r, LOGITS);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (!out) return PD_OK;
    PD_SWITCH_FLOAT(logits->meta.dtype, T, {
        const T *x = logits->data;
        const T *label = pd_run_in(r, LABELS)->data;
        const T *d = pd_run_in(r, D_LOSS)->data;
        T *to = out->data;
        for (int64_t i = 0, n = pd_tensor_numel(logits); i < n; i++) {
            T side = 2 * label[i] - 1;
            to[i] = x[i] * side < 1 ? -d[i] * side : 0;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_hinge_loss = {
    .type = "hinge_loss",
    .doc = "max(0, 1 - x * (2 * label - 1)).",
    .inputs = (const struct pd_slot_def[]){{"Logits", 0}, {"Labels", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Loss", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "hinge_loss_grad",
    .grad_in = "Logits Labels Loss@",
    .grad_out = "Logits@",
};

const struct pd_op pd_op_hinge_loss_grad = {
    .type = "hinge_loss_grad",
    .doc = "Gradient of hinge_loss.",
    .inputs = (const struct pd_slot_def[]){{"Logits", 0}, {"Labels", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Logits@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like,
    .run = grad_run,
};
