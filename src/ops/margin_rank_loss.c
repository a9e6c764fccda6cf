/* margin_rank_loss: one score is to be higher than another by a margin. */
#include "ops/check.h"
#include "ops/out.h"

enum { X1, X2, LABEL };
enum { ACTIVATED, OUT };
enum { MARGIN };
enum { GRAD_LABEL, GRAD_ACTIVATED, GRAD_OUT };
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("margin", 0), {0}};

static pd_status infer(const struct pd_infer *c)
{
    PD_TRY(pd_check_rank(pd_infer_in(c, LABEL), "Label", 2, 2));
    return pd_out_infer_alike(c, 3, X1, 2);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *label_in = pd_run_in(r, LABEL);
    struct pd_tensor *activated = pd_run_out(r, ACTIVATED);
    PD_SWITCH_FLOAT(label_in->meta.dtype, T, {
        const T *label = label_in->data;
        const T *a = pd_run_in(r, X1)->data;
        const T *b = pd_run_in(r, X2)->data;
        T *out = pd_run_out(r, OUT)->data;
        T margin = (T)r->attr[MARGIN].f;
        for (int64_t i = 0, n = pd_tensor_numel(label_in); i < n; i++) {
            T loss = margin - label[i] * (a[i] - b[i]);
            out[i] = loss <= 0 ? 0 : loss;
            if (activated) ((T *)activated->data)[i] = loss > 0;
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *label_in = pd_run_in(r, GRAD_LABEL);
    struct pd_tensor *d1 = pd_run_out(r, 0), *d2 = pd_run_out(r, 1);
    PD_SWITCH_FLOAT(label_in->meta.dtype, T, {
        const T *label = label_in->data;
        const T *active = pd_run_in(r, GRAD_ACTIVATED)->data;
        const T *d = pd_run_in(r, GRAD_OUT)->data;
        for (int64_t i = 0, n = pd_tensor_numel(label_in); i < n; i++) {
            T slope = d[i] * active[i] * label[i];
            if (d1) ((T *)d1->data)[i] = -slope;
            if (d2) ((T *)d2->data)[i] = slope;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_margin_rank_loss = {
    .type = "margin_rank_loss",
    .doc = "max(0, margin - label * (x1 - x2)).",
    .inputs = (const struct pd_slot_def[]){{"X1", 0}, {"X2", 0}, {"Label", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"Activated", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "margin_rank_loss_grad",
    .grad_in = "Label Activated Out@",
    .grad_like = "X1=Label X2=Label",
    .grad_out = "X1@ X2@",
};

const struct pd_op pd_op_margin_rank_loss_grad = {
    .type = "margin_rank_loss_grad",
    .doc = "Gradient of margin_rank_loss.",
    .inputs = (const struct pd_slot_def[]){{"Label", 0}, {"Activated", 0}, {"Out@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"X1@GRAD", PD_SLOT_OPTIONAL}, {"X2@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_both_like_first,
    .run = grad_run,
};
