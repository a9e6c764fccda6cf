/* smooth_l1_loss: square near zero and straight far out, summed over all but the first dimension, with
 * optional weights. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y, INSIDE, OUTSIDE };
enum { DIFF, LOSS };
enum { SIGMA };
enum { GRAD_DIFF, GRAD_OUT, GRAD_INSIDE, GRAD_OUTSIDE };
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("sigma", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    static const char *const names[] = {"X", "Y", "InsideWeight", "OutsideWeight"};
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *diff = pd_infer_out(c, DIFF), *loss = pd_infer_out(c, LOSS);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, PD_MAX_RANK));
    for (int i = Y; i <= OUTSIDE; i++) {
        const struct pd_meta *other = pd_infer_in(c, i);
        if (!other) continue;
        PD_TRY(pd_check_same_type(x, "X", other, names[i]));
        PD_TRY(pd_check_same_dims(x, "X", other, names[i]));
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

static pd_status run(const struct pd_run *r)
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

static pd_status grad_run(const struct pd_run *r)
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
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "smooth_l1_loss_grad",
    .grad_in = "Diff Out@ InsideWeight OutsideWeight",
    .grad_like = "X=Diff Y=Diff",
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
    .attrs = attrs,
    .infer = pd_out_infer_both_like_first,
    .run = grad_run,
};
