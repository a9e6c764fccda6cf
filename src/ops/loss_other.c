/* bpr_loss (how far the right class ranks above each other one) and kldiv_loss (Kullback-Leibler divergence).
 */
#include "kernels/ew_math.h"
#include "ops/nn_util.h"

enum { X, LABEL, D_OUT };

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, 0, X);
    return PD_OK;
}

/* ---- bpr_loss ---- */

static pd_status bpr_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *label = pd_infer_in(c, LABEL);
    struct pd_meta *y = pd_infer_out(c, 0);
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_need_labels(label, "Label"));
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

static pd_status bpr_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    int64_t classes = x_in->meta.dim[x_in->meta.rank - 1],
            rows = pd_meta_span(&x_in->meta, 0, x_in->meta.rank - 1);
    PD_TRY(pd_nn_check_labels(label, rows, classes, 0));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        T *y = pd_run_out(r, 0)->data;
        for (int64_t i = 0; i < rows; i++) {
            int64_t right = pd_nn_label(label, i);
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

static pd_status bpr_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label = pd_run_in(r, LABEL);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int64_t classes = x_in->meta.dim[x_in->meta.rank - 1],
            rows = pd_meta_span(&x_in->meta, 0, x_in->meta.rank - 1);
    if (!dx) return PD_OK;
    PD_TRY(pd_nn_check_labels(label, rows, classes, 0));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *g = pd_run_in(r, D_OUT)->data;
        T *to = dx->data;
        for (int64_t i = 0; i < rows; i++) {
            int64_t right = pd_nn_label(label, i);
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
    .infer = bpr_infer,
    .run = bpr_run,
    .grad_type = "bpr_loss_grad",
    .grad_in = "X Label Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_bpr_loss_grad = {
    .type = "bpr_loss_grad",
    .doc = "Gradient of bpr_loss.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", PD_SLOT_OWN_TYPE}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = grad_infer,
    .run = bpr_grad_run,
};

/* ---- kldiv_loss: target * (log target - x) where the target is above 0 ---- */

enum { TARGET = 1 };
enum { REDUCTION };
static const struct pd_attr_def kl_attrs[] = {PD_DEF_STRING("reduction", "mean"), {0}};

static pd_status kl_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *target = pd_infer_in(c, TARGET);
    struct pd_meta *loss = pd_infer_out(c, 0);
    const char *how = c->attr[REDUCTION].s;
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_same_type(x, "X", target, "Target"));
    PD_TRY(pd_nn_same_dims(x, "X", target, "Target"));
    if (strcmp(how, "none") && strcmp(how, "mean") && strcmp(how, "sum") && strcmp(how, "batchmean"))
        return pd_fail(PD_INVALID, "reduction is '%s': give none, mean, sum or batchmean.", how);
    if (!loss) return PD_OK;
    loss->dtype = x->dtype;
    if (!strcmp(how, "none"))
        pd_meta_copy_dims(loss, x);
    else
        pd_meta_set_1d(loss, 1);
    return PD_OK;
}

/* What the sum is divided by. */
static double kl_divisor(const struct pd_run *r, const struct pd_tensor *x)
{
    const char *how = r->attr[REDUCTION].s;
    double n = !strcmp(how, "mean")        ? (double)pd_tensor_numel(x)
               : !strcmp(how, "batchmean") ? (double)x->meta.dim[0]
                                           : 1;
    return n > 0 ? n : 1;
}

static pd_status kl_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    int each = !strcmp(r->attr[REDUCTION].s, "none");
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *target = pd_run_in(r, TARGET)->data;
        T *out = pd_run_out(r, 0)->data;
        double sum = 0;
        for (int64_t i = 0, n = pd_tensor_numel(x_in); i < n; i++) {
            T loss = target[i] <= 0 ? 0 : target[i] * (pd_log(target[i]) - x[i]);
            if (each)
                out[i] = loss;
            else
                sum += (double)loss;
        }
        if (!each) out[0] = (T)(sum / kl_divisor(r, x_in));
    })
    return PD_OK;
}

static pd_status kl_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int each = !strcmp(r->attr[REDUCTION].s, "none");
    if (!dx) return PD_OK;
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *target = pd_run_in(r, TARGET)->data;
        const T *g = pd_run_in(r, D_OUT)->data;
        T *to = dx->data;
        T factor = (T)(1 / kl_divisor(r, x_in));
        for (int64_t i = 0, n = pd_tensor_numel(dx); i < n; i++)
            to[i] = target[i] <= 0 ? 0 : -target[i] * g[each ? i : 0] * factor;
    })
    return PD_OK;
}

const struct pd_op pd_op_kldiv_loss = {
    .type = "kldiv_loss",
    .doc = "Kullback-Leibler divergence of Target from the distribution whose logarithms are X.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Target", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Loss", 0}, {0}},
    .attrs = kl_attrs,
    .infer = kl_infer,
    .run = kl_run,
    .grad_type = "kldiv_loss_grad",
    .grad_in = "X Target Loss@",
    .grad_out = "X@",
};

const struct pd_op pd_op_kldiv_loss_grad = {
    .type = "kldiv_loss_grad",
    .doc = "Gradient of kldiv_loss.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Target", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = kl_attrs,
    .infer = grad_infer,
    .run = kl_grad_run,
};
