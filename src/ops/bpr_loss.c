/* bpr_loss: how far the right class ranks above each other one. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/label.h"
#include "ops/out.h"

enum { X, LABEL, D_OUT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *label = pd_infer_in(c, LABEL);
    struct pd_meta *y = pd_infer_out(c, 0);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_label_check_index(label, "Label"));
    int fits = x->rank >= 1 && label->rank == x->rank;
    for (int i = 0; fits && i < x->rank; i++) {
        int64_t want = i == x->rank - 1 ? 1 : x->dim[i];
        fits = want < 0 || label->dim[i] < 0 || want == label->dim[i];
    }
    if (!fits)
        return pd_fail(
            PD_SHAPE,
            "X has shape %s and Label has shape %s. Label must be like X, with 1 as its last dimension.",
            pd_meta_dims_text(x), pd_meta_dims_text(label));
    if (!y) return PD_OK;
    pd_meta_like(y, x);
    y->dim[x->rank - 1] = 1;
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    int64_t classes = x_in->meta.dim[x_in->meta.rank - 1],
            rows = pd_meta_span(&x_in->meta, 0, x_in->meta.rank - 1);
    PD_TRY(pd_label_check_range(label, rows, classes, 0));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        T *y = pd_run_out(r, 0)->data;
        for (int64_t i = 0; i < rows; i++) {
            int64_t right = pd_label_at(label, i);
            T sum = 0;
            for (int64_t j = 0; j < classes; j++) {
                T d = x[i * classes + j] - x[i * classes + right];
                if (j != right) sum += (d > 0 ? d : 0) + pd_log1p(pd_exp(-pd_abs(d)));
            }
            y[i] = sum / (T)(classes - 1);
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int64_t classes = x_in->meta.dim[x_in->meta.rank - 1],
            rows = pd_meta_span(&x_in->meta, 0, x_in->meta.rank - 1);
    if (!dx) return PD_OK;
    PD_TRY(pd_label_check_range(label, rows, classes, 0));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *g = pd_run_in(r, D_OUT)->data;
        T *to = dx->data;
        for (int64_t i = 0; i < rows; i++) {
            int64_t right = pd_label_at(label, i);
            T sum = 0;
            for (int64_t j = 0; j < classes; j++) {
                T slope = g[i] * pd_sigmoid(x[i * classes + j] - x[i * classes + right]) / (T)(classes - 1);
                to[i * classes + j] = slope;
                if (j != right) sum += slope;
            }
            to[i * classes + right] = -sum;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_bpr_loss = {
    .type = "bpr_loss",
    .doc = "Bayesian personalised ranking: how far the label's score is above the others.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "bpr_loss_grad",
    .grad_in = "X Label Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_bpr_loss_grad = {
    .type = "bpr_loss_grad",
    .doc = "Gradient of bpr_loss.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like,
    .run = grad_run,
};
