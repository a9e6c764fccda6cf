/* Losses that are square near zero and straight far out: huber_loss, modified_huber_loss, smooth_l1_loss. */
#include "kernels/ew_math.h"
#include "ops/nn_util.h"

enum { X, Y };

/* ---- huber_loss ---- */

enum { RESIDUAL, OUT };
enum { DELTA };
static const struct pd_attr_def huber_attrs[] = {PD_DEF_FLOAT("delta", 1), {0}};

static pd_status huber_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_same_type(x, "X", y, "Y"));
    PD_TRY(pd_nn_same_dims(x, "X", y, "Y"));
    for (int i = RESIDUAL; i <= OUT; i++) {
        struct pd_meta *out = pd_infer_out(c, i);
        if (!out) continue;
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, y);
        if (i == OUT) pd_meta_share_lod(out, x);
    }
    return PD_OK;
}

static pd_status huber_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *residual = pd_run_out(r, RESIDUAL);
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *y = pd_run_in(r, Y)->data;
        T *out = pd_run_out(r, OUT)->data;
        T delta = (T)r->attr[DELTA].f;
        for (int64_t i = 0, n = pd_tensor_numel(x_in); i < n; i++) {
            T d = y[i] - x[i];
            T size = pd_abs(d);
            if (residual) ((T *)residual->data)[i] = d;
            out[i] = size <= delta ? d * d / 2 : delta * (size - delta / 2);
        }
    })
    return PD_OK;
}

static pd_status both_grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, 0, 0);
    pd_nn_grad_like(c, 1, 0);
    return PD_OK;
}

static pd_status huber_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *residual = pd_run_in(r, 0);
    struct pd_tensor *dx = pd_run_out(r, 0), *dy = pd_run_out(r, 1);
    PD_SWITCH_FLOAT(residual->meta.dtype, T, {
        const T *d = residual->data;
        const T *g = pd_run_in(r, 1)->data;
        T delta = (T)r->attr[DELTA].f;
        for (int64_t i = 0, n = pd_tensor_numel(residual); i < n; i++) {
            T slope = g[i] * (d[i] > delta ? delta : d[i] < -delta ? -delta : d[i]);
            if (dx) ((T *)dx->data)[i] = -slope;
            if (dy) ((T *)dy->data)[i] = slope;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_huber_loss = {
    .type = "huber_loss",
    .doc = "Half the squared error up to delta, straight beyond it.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Residual", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {"Out", 0}, {0}},
    .attrs = huber_attrs,
    .infer = huber_infer,
    .run = huber_run,
    .grad_type = "huber_loss_grad",
    .grad_in = "Residual Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_huber_loss_grad = {
    .type = "huber_loss_grad",
    .doc = "Gradient of huber_loss.",
    .inputs = (const struct pd_slot_def[]){{"Residual", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = huber_attrs,
    .infer = both_grad_infer,
    .run = huber_grad_run,
};

/* ---- modified_huber_loss: for labels 0 and 1, z = x * (2 * y - 1) ---- */

static pd_status modified_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *z = pd_infer_out(c, 0), *out = pd_infer_out(c, 1);
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_need_rank(x, "X", 2, 2));
    PD_TRY(pd_nn_same_type(x, "X", y, "Y"));
    PD_TRY(pd_nn_same_dims(x, "X", y, "Y"));
    if (x->dim[1] >= 0 && x->dim[1] != 1)
        return pd_fail(PD_SHAPE, "X has shape %s, but needs one column.", pd_meta_dims_text(x));
    if (z) {
        z->dtype = x->dtype;
        pd_meta_copy_dims(z, x);
    }
    if (out) {
        out->dtype = x->dtype;
        pd_meta_set_2d(out, x->dim[0], 1);
    }
    return PD_OK;
}

static pd_status modified_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *kept = pd_run_out(r, 0);
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *y = pd_run_in(r, Y)->data;
        T *out = pd_run_out(r, 1)->data;
        for (int64_t i = 0, n = pd_tensor_numel(x_in); i < n; i++) {
            if (y[i] != 0 && y[i] != 1)
                return pd_fail(PD_RANGE, "Y of row %lld is %g, but labels are 0 or 1.", (long long)i,
                               (double)y[i]);
            T z = x[i] * (2 * y[i] - 1);
            if (kept) ((T *)kept->data)[i] = z;
            out[i] = z < -1 ? -4 * z : z < 1 ? (1 - z) * (1 - z) : 0;
        }
    })
    return PD_OK;
}

static pd_status modified_grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, 0, 0);
    return PD_OK;
}

static pd_status modified_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *y_in = pd_run_in(r, 0);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_SWITCH_FLOAT(y_in->meta.dtype, T, {
        const T *y = y_in->data;
        const T *z = pd_run_in(r, 1)->data;
        const T *g = pd_run_in(r, 2)->data;
        T *to = dx->data;
        for (int64_t i = 0, n = pd_tensor_numel(y_in); i < n; i++) {
            T slope = z[i] < -1 ? -4 : z[i] < 1 ? -2 * (1 - z[i]) : 0;
            to[i] = slope * (2 * y[i] - 1) * g[i];
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_modified_huber_loss = {
    .type = "modified_huber_loss",
    .doc = "A smooth hinge loss for labels 0 and 1.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"IntermediateVal", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {"Out", 0}, {0}},
    .infer = modified_infer,
    .run = modified_run,
    .grad_type = "modified_huber_loss_grad",
    .grad_in = "Y IntermediateVal Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_modified_huber_loss_grad = {
    .type = "modified_huber_loss_grad",
    .doc = "Gradient of modified_huber_loss.",
    .inputs = (const struct pd_slot_def[]){{"Y", 0}, {"IntermediateVal", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = modified_grad_infer,
    .run = modified_grad_run,
};

/* ---- smooth_l1_loss: summed over all but the first dimension, with optional weights ---- */

enum { INSIDE = 2, OUTSIDE };
enum { DIFF, LOSS };
enum { SIGMA };
enum { GRAD_DIFF, GRAD_OUT, GRAD_INSIDE, GRAD_OUTSIDE };
static const struct pd_attr_def smooth_attrs[] = {PD_DEF_FLOAT("sigma", 1), {0}};

static pd_status smooth_infer(const struct pd_infer *c)
{
    static const char *const names[] = {"X", "Y", "InsideWeight", "OutsideWeight"};
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *diff = pd_infer_out(c, DIFF), *loss = pd_infer_out(c, LOSS);
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_need_rank(x, "X", 2, PD_MAX_RANK));
    for (int i = Y; i <= OUTSIDE; i++) {
        const struct pd_meta *other = pd_infer_in(c, i);
        if (!other) continue;
        PD_TRY(pd_nn_same_type(x, "X", other, names[i]));
        PD_TRY(pd_nn_same_dims(x, "X", other, names[i]));
    }
    if (diff) {
        diff->dtype = x->dtype;
        pd_meta_copy_dims(diff, x);
    }
    if (loss) {
        loss->dtype = x->dtype;
        pd_meta_set_2d(loss, x->dim[0], 1);
    }
    return PD_OK;
}

static pd_status smooth_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *inside_in = pd_run_in(r, INSIDE),
                           *outside_in = pd_run_in(r, OUTSIDE);
    struct pd_tensor *diff = pd_run_out(r, DIFF);
    int64_t rows = x_in->meta.dim[0], cols = pd_meta_span(&x_in->meta, 1, x_in->meta.rank);
    int weighted = inside_in && outside_in;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *y = pd_run_in(r, Y)->data;
        const T *inside = weighted ? inside_in->data : NULL;
        const T *outside = weighted ? outside_in->data : NULL;
        T *loss = pd_run_out(r, LOSS)->data;
        T sigma2 = (T)r->attr[SIGMA].f * (T)r->attr[SIGMA].f;
        for (int64_t i = 0; i < rows; i++) {
            T sum = 0;
            for (int64_t j = i * cols; j < (i + 1) * cols; j++) {
                T d = (x[j] - y[j]) * (weighted ? inside[j] : 1);
                T size = pd_abs(d);
                if (diff) ((T *)diff->data)[j] = d;
                sum += (size < 1 / sigma2 ? d * d * sigma2 / 2 : size - (T)0.5 / sigma2) *
                       (weighted ? outside[j] : 1);
            }
            loss[i] = sum;
        }
    })
    return PD_OK;
}

static pd_status smooth_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *diff = pd_run_in(r, GRAD_DIFF), *inside_in = pd_run_in(r, GRAD_INSIDE);
    const struct pd_tensor *outside_in = pd_run_in(r, GRAD_OUTSIDE);
    struct pd_tensor *dx = pd_run_out(r, 0), *dy = pd_run_out(r, 1);
    int64_t rows = diff->meta.dim[0], cols = pd_meta_span(&diff->meta, 1, diff->meta.rank);
    int weighted = inside_in && outside_in;
    PD_SWITCH_FLOAT(diff->meta.dtype, T, {
        const T *d = diff->data;
        const T *g = pd_run_in(r, GRAD_OUT)->data;
        const T *inside = weighted ? inside_in->data : NULL;
        const T *outside = weighted ? outside_in->data : NULL;
        T sigma2 = (T)r->attr[SIGMA].f * (T)r->attr[SIGMA].f;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = i * cols; j < (i + 1) * cols; j++) {
                T slope = pd_abs(d[j]) < 1 / sigma2 ? sigma2 * d[j] : (T)((d[j] > 0) - (d[j] < 0));
                if (weighted) slope *= inside[j] * outside[j];
                slope *= g[i];
                if (dx) ((T *)dx->data)[j] = slope;
                if (dy) ((T *)dy->data)[j] = -slope;
            }
    })
    return PD_OK;
}

const struct pd_op pd_op_smooth_l1_loss = {
    .type = "smooth_l1_loss",
    .doc = "Smooth absolute error, summed for each row.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", 0}, {"Y", 0}, {"InsideWeight", PD_SLOT_OPTIONAL}, {"OutsideWeight", PD_SLOT_OPTIONAL}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Diff", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL}, {"Out", 0}, {0}},
    .attrs = smooth_attrs,
    .infer = smooth_infer,
    .run = smooth_run,
    .grad_type = "smooth_l1_loss_grad",
    .grad_in = "Diff Out@ InsideWeight OutsideWeight",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_smooth_l1_loss_grad = {
    .type = "smooth_l1_loss_grad",
    .doc = "Gradient of smooth_l1_loss.",
    .inputs = (const struct pd_slot_def[]){{"Diff", 0},
                                           {"Out@GRAD", 0},
                                           {"InsideWeight", PD_SLOT_OPTIONAL},
                                           {"OutsideWeight", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = smooth_attrs,
    .infer = both_grad_infer,
    .run = smooth_grad_run,
};
