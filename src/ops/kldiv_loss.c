/* kldiv_loss: the Kullback-Leibler divergence, target * (log target - x) where the target is above 0. */
#include <string.h>

#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, TARGET, D_LOSS };
enum { REDUCTION };
static const struct pd_attr_def attrs[] = {PD_DEF_STRING("reduction", "mean"), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *target = pd_infer_in(c, TARGET);
    struct pd_meta *loss = pd_infer_out(c, 0);
    const char *how = c->attr[REDUCTION].s;
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", target, "Target"));
    PD_TRY(pd_check_same_dims(x, "X", target, "Target"));
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
static double divisor(const struct pd_run *r, const struct pd_tensor *x)
{
    const char *how = r->attr[REDUCTION].s;
    double n = !strcmp(how, "mean")        ? (double)pd_tensor_numel(x)
               : !strcmp(how, "batchmean") ? (double)x->meta.dim[0]
                                           : 1;
    return n > 0 ? n : 1;
}

static pd_status run(const struct pd_run *r)
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
        if (!each) out[0] = (T)(sum / divisor(r, x_in));
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int each = !strcmp(r->attr[REDUCTION].s, "none");
    if (!dx) return PD_OK;
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *target = pd_run_in(r, TARGET)->data;
        const T *g = pd_run_in(r, D_LOSS)->data;
        T *to = dx->data;
        T factor = (T)(1 / divisor(r, x_in));
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
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "kldiv_loss_grad",
    .grad_in = "X Target Loss@",
    .grad_out = "X@",
};

const struct pd_op pd_op_kldiv_loss_grad = {
    .type = "kldiv_loss_grad",
    .doc = "Gradient of kldiv_loss.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Target", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
