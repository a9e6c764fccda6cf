/* huber_loss: square near zero and straight far out. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y };
enum { RESIDUAL, OUT };
enum { DELTA };
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("delta", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(pd_check_same_dims(x, "X", y, "Y"));
    for (int i = RESIDUAL; i <= OUT; i++) {
        struct pd_meta *out = pd_infer_out(c, i);
        if (!out) continue;
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, y);
        if (i == OUT) pd_meta_share_lod(out, x);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
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

static pd_status grad_run(const struct pd_run *r)
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
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "huber_loss_grad",
    .grad_in = "Residual Out@",
    .grad_like = "X=Residual Y=Residual",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_huber_loss_grad = {
    .type = "huber_loss_grad",
    .doc = "Gradient of huber_loss.",
    .inputs = (const struct pd_slot_def[]){{"Residual", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_both_like_first,
    .run = grad_run,
};
