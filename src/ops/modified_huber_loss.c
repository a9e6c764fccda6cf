/* modified_huber_loss: a smooth hinge loss for labels 0 and 1, of z = x * (2 * y - 1). */
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *z = pd_infer_out(c, 0), *out = pd_infer_out(c, 1);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(pd_check_same_dims(x, "X", y, "Y"));
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

static pd_status run(const struct pd_run *r)
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

static pd_status grad_run(const struct pd_run *r)
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
    .infer = infer,
    .run = run,
    .grad_type = "modified_huber_loss_grad",
    .grad_in = "Y IntermediateVal Out@",
    .grad_like = "X=Y",
    .grad_out = "X@",
};

const struct pd_op pd_op_modified_huber_loss_grad = {
    .type = "modified_huber_loss_grad",
    .doc = "Gradient of modified_huber_loss.",
    .inputs = (const struct pd_slot_def[]){{"Y", 0}, {"IntermediateVal", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like,
    .run = grad_run,
};
