/* Losses of a prediction (or two) against a label, element by element: log_loss, hinge_loss, rank_loss,
 * margin_rank_loss. */
#include "kernels/ew_math.h"
#include "ops/nn_util.h"

/* All inputs and the result have one shape and one type; `out_slots` results. */
static pd_status infer_alike(const struct pd_infer *c, int inputs, int main, int outputs)
{
    const struct pd_meta *first = pd_infer_in(c, main);
    PD_TRY(pd_nn_need_float(first, c->op->inputs[main].name));
    for (int i = 0; i < inputs; i++) {
        PD_TRY(pd_nn_same_dims(first, c->op->inputs[main].name, pd_infer_in(c, i), c->op->inputs[i].name));
        PD_TRY(pd_nn_same_type(first, c->op->inputs[main].name, pd_infer_in(c, i), c->op->inputs[i].name));
    }
    for (int i = 0; i < outputs; i++)
        pd_nn_grad_like(c, i, main);
    return PD_OK;
}

/* ---- log_loss ---- */

enum { PREDICTED, LABELS, D_LOSS };
enum { EPSILON };
static const struct pd_attr_def log_attrs[] = {PD_DEF_FLOAT("epsilon", 1e-4f), {0}};

static pd_status log_infer(const struct pd_infer *c)
{
    PD_TRY(pd_nn_need_rank(pd_infer_in(c, PREDICTED), "Predicted", 2, 2));
    return infer_alike(c, 2, PREDICTED, 1);
}

static pd_status log_run(const struct pd_run *r)
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

static pd_status first_grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, 0, 0);
    return PD_OK;
}

static pd_status log_grad_run(const struct pd_run *r)
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
    .attrs = log_attrs,
    .infer = log_infer,
    .run = log_run,
    .grad_type = "log_loss_grad",
    .grad_in = "Predicted Labels Loss@",
    .grad_out = "Predicted@",
};

const struct pd_op pd_op_log_loss_grad = {
    .type = "log_loss_grad",
    .doc = "Gradient of log_loss.",
    .inputs = (const struct pd_slot_def[]){{"Predicted", 0}, {"Labels", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Predicted@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = log_attrs,
    .infer = first_grad_infer,
    .run = log_grad_run,
};

/* ---- hinge_loss ---- */

enum { LOGITS };

static pd_status hinge_infer(const struct pd_infer *c)
{
    PD_TRY(pd_nn_need_rank(pd_infer_in(c, LOGITS), "Logits", 2, 2));
    return infer_alike(c, 2, LOGITS, 1);
}

static pd_status hinge_run(const struct pd_run *r)
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

static pd_status hinge_grad_run(const struct pd_run *r)
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
    .infer = hinge_infer,
    .run = hinge_run,
    .grad_type = "hinge_loss_grad",
    .grad_in = "Logits Labels Loss@",
    .grad_out = "Logits@",
};

const struct pd_op pd_op_hinge_loss_grad = {
    .type = "hinge_loss_grad",
    .doc = "Gradient of hinge_loss.",
    .inputs = (const struct pd_slot_def[]){{"Logits", 0}, {"Labels", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Logits@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = first_grad_infer,
    .run = hinge_grad_run,
};

/* ---- rank_loss ---- */

enum { LABEL, LEFT, RIGHT, D_RANK };
enum { D_LEFT, D_RIGHT };

static pd_status rank_infer(const struct pd_infer *c)
{
    const struct pd_meta *label = pd_infer_in(c, LABEL), *left = pd_infer_in(c, LEFT),
                         *right = pd_infer_in(c, RIGHT);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_nn_need_float(left, "Left"));
    PD_TRY(pd_nn_same_type(left, "Left", right, "Right"));
    PD_TRY(pd_nn_same_type(left, "Left", label, "Label"));
    PD_TRY(pd_nn_need_rank(label, "Label", 1, 2));
    PD_TRY(pd_nn_need_rank(left, "Left", 1, 2));
    PD_TRY(pd_nn_need_rank(right, "Right", 1, 2));
    int64_t n = pd_meta_numel(label), l = pd_meta_numel(left), m = pd_meta_numel(right);
    if ((l >= 0 && n >= 0 && l != n) || (m >= 0 && n >= 0 && m != n))
        return pd_fail(PD_SHAPE, "Label %s, Left %s and Right %s must have equally many elements.",
                       pd_meta_dims_text(label), pd_meta_dims_text(left), pd_meta_dims_text(right));
    if (!out) return PD_OK;
    out->dtype = left->dtype;
    pd_meta_copy_dims(out, label);
    return PD_OK;
}

/* log(1 + e^x) without overflow. */
#define SOFTPLUS(x) ((x) > 0 ? (x) : 0) + pd_log1p(pd_exp((x) > 0 ? -(x) : (x)))

static pd_status rank_run(const struct pd_run *r)
{
    const struct pd_tensor *left = pd_run_in(r, LEFT);
    PD_SWITCH_FLOAT(left->meta.dtype, T, {
        const T *l = left->data;
        const T *m = pd_run_in(r, RIGHT)->data;
        const T *label = pd_run_in(r, LABEL)->data;
        T *loss = pd_run_out(r, 0)->data;
        for (int64_t i = 0, n = pd_tensor_numel(left); i < n; i++) {
            T d = l[i] - m[i];
            loss[i] = SOFTPLUS(d) - label[i] * d;
        }
    })
    return PD_OK;
}

static pd_status rank_grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, D_LEFT, LEFT);
    pd_nn_grad_like(c, D_RIGHT, RIGHT);
    return PD_OK;
}

static pd_status rank_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *left = pd_run_in(r, LEFT);
    struct pd_tensor *d_left = pd_run_out(r, D_LEFT), *d_right = pd_run_out(r, D_RIGHT);
    PD_SWITCH_FLOAT(left->meta.dtype, T, {
        const T *l = left->data;
        const T *m = pd_run_in(r, RIGHT)->data;
        const T *label = pd_run_in(r, LABEL)->data;
        const T *d = pd_run_in(r, D_RANK)->data;
        for (int64_t i = 0, n = pd_tensor_numel(left); i < n; i++) {
            T x = l[i] - m[i];
            T slope = d[i] * (pd_sigmoid(x) - label[i]);
            if (d_left) ((T *)d_left->data)[i] = slope;
            if (d_right) ((T *)d_right->data)[i] = -slope;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_rank_loss = {
    .type = "rank_loss",
    .doc = "Cross entropy of which of Left and Right ranks higher.",
    .inputs = (const struct pd_slot_def[]){{"Label", 0}, {"Left", 0}, {"Right", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = rank_infer,
    .run = rank_run,
    .grad_type = "rank_loss_grad",
    .grad_in = "Label Left Right Out@",
    .grad_out = "Left@ Right@",
};

const struct pd_op pd_op_rank_loss_grad = {
    .type = "rank_loss_grad",
    .doc = "Gradient of rank_loss.",
    .inputs = (const struct pd_slot_def[]){{"Label", 0}, {"Left", 0}, {"Right", 0}, {"Out@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"Left@GRAD", PD_SLOT_OPTIONAL}, {"Right@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = rank_grad_infer,
    .run = rank_grad_run,
};

/* ---- margin_rank_loss ---- */

enum { X1, X2, MARGIN_LABEL };
enum { ACTIVATED, MARGIN_OUT };
enum { MARGIN };
enum { GRAD_LABEL, GRAD_ACTIVATED, GRAD_OUT };
static const struct pd_attr_def margin_attrs[] = {PD_DEF_FLOAT("margin", 0), {0}};

static pd_status margin_infer(const struct pd_infer *c)
{
    PD_TRY(pd_nn_need_rank(pd_infer_in(c, MARGIN_LABEL), "Label", 2, 2));
    return infer_alike(c, 3, X1, 2);
}

static pd_status margin_run(const struct pd_run *r)
{
    const struct pd_tensor *label_in = pd_run_in(r, MARGIN_LABEL);
    struct pd_tensor *activated = pd_run_out(r, ACTIVATED);
    PD_SWITCH_FLOAT(label_in->meta.dtype, T, {
        const T *label = label_in->data;
        const T *a = pd_run_in(r, X1)->data;
        const T *b = pd_run_in(r, X2)->data;
        T *out = pd_run_out(r, MARGIN_OUT)->data;
        T margin = (T)r->attr[MARGIN].f;
        for (int64_t i = 0, n = pd_tensor_numel(label_in); i < n; i++) {
            T loss = margin - label[i] * (a[i] - b[i]);
            out[i] = loss <= 0 ? 0 : loss;
            if (activated) ((T *)activated->data)[i] = loss > 0;
        }
    })
    return PD_OK;
}

static pd_status margin_grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, 0, GRAD_LABEL);
    pd_nn_grad_like(c, 1, GRAD_LABEL);
    return PD_OK;
}

static pd_status margin_grad_run(const struct pd_run *r)
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
    .attrs = margin_attrs,
    .infer = margin_infer,
    .run = margin_run,
    .grad_type = "margin_rank_loss_grad",
    .grad_in = "Label Activated Out@",
    .grad_out = "X1@ X2@",
};

const struct pd_op pd_op_margin_rank_loss_grad = {
    .type = "margin_rank_loss_grad",
    .doc = "Gradient of margin_rank_loss.",
    .inputs = (const struct pd_slot_def[]){{"Label", 0}, {"Activated", 0}, {"Out@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"X1@GRAD", PD_SLOT_OPTIONAL}, {"X2@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = margin_attrs,
    .infer = margin_grad_infer,
    .run = margin_grad_run,
};
