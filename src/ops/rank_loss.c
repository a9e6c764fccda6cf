/* rank_loss: which of two scores is higher, against a label. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { LABEL, LEFT, RIGHT, D_OUT };
enum { D_LEFT, D_RIGHT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *label = pd_infer_in(c, LABEL), *left = pd_infer_in(c, LEFT),
                         *right = pd_infer_in(c, RIGHT);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_check_float(left, "Left"));
    PD_TRY(pd_check_same_type(left, "Left", right, "Right"));
    PD_TRY(pd_check_same_type(left, "Left", label, "Label"));
    PD_TRY(pd_check_rank(label, "Label", 1, 2));
    PD_TRY(pd_check_rank(left, "Left", 1, 2));
    PD_TRY(pd_check_rank(right, "Right", 1, 2));
    int64_t n = pd_meta_numel(label), l = pd_meta_numel(left), m = pd_meta_numel(right);
    if ((l >= 0 && n >= 0 && l != n) || (m >= 0 && n >= 0 && m != n))
        return pd_fail(PD_SHAPE, "Label %s, Left %s and Right %s must have equally many elements.",
                       pd_meta_dims_text(label), pd_meta_dims_text(left), pd_meta_dims_text(right));
    if (!out) return PD_OK;
    out->dtype = left->dtype;
    pd_meta_copy_dims(out, label);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *left = pd_run_in(r, LEFT);
    PD_SWITCH_FLOAT(left->meta.dtype, T, {
        const T *l = left->data;
        const T *m = pd_run_in(r, RIGHT)->data;
        const T *label = pd_run_in(r, LABEL)->data;
        T *loss = pd_run_out(r, 0)->data;
        for (int64_t i = 0, n = pd_tensor_numel(left); i < n; i++) {
            T d = l[i] - m[i];
            loss[i] = pd_softplus(d) - label[i] * d;
        }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, D_LEFT, LEFT);
    pd_out_like(c, D_RIGHT, RIGHT);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *left = pd_run_in(r, LEFT);
    struct pd_tensor *d_left = pd_run_out(r, D_LEFT), *d_right = pd_run_out(r, D_RIGHT);
    PD_SWITCH_FLOAT(left->meta.dtype, T, {
        const T *l = left->data;
        const T *m = pd_run_in(r, RIGHT)->data;
        const T *label = pd_run_in(r, LABEL)->data;
        const T *d = pd_run_in(r, D_OUT)->data;
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
    .infer = infer,
    .run = run,
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
    .infer = grad_infer,
    .run = grad_run,
};
