/* sigmoid_cross_entropy_with_logits: labels against the sigmoid of scores. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, LABEL, D_OUT };
enum { NORMALIZE, IGNORE_INDEX };
static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("normalize", 0), PD_DEF_INT("ignore_index", -100), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *label = pd_infer_in(c, LABEL);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", label, "Label"));
    PD_TRY(pd_check_same_dims(x, "X", label, "Label"));
    pd_out_like(c, 0, X);
    return PD_OK;
}

/* One over the number of labels that count, where that is wanted. */
static double normalizer(const struct pd_run *r, const struct pd_tensor *label)
{
    int64_t n = pd_tensor_numel(label), counted = 0;
    double ignore = r->attr[IGNORE_INDEX].i;
    if (!r->attr[NORMALIZE].b) return 1;
    for (int64_t i = 0; i < n; i++) {
        double v = label->meta.dtype == PD_DTYPE_FP64 ? ((const double *)label->data)[i]
                                                      : (double)((const float *)label->data)[i];
        counted += fabs(v - ignore) > 1e-6;
    }
    return 1.0 / (counted ? (double)counted : 1e-5);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label_in = pd_run_in(r, LABEL);
    double factor = normalizer(r, label_in);
    int ignore = r->attr[IGNORE_INDEX].i;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *label = label_in->data;
        T *out = pd_run_out(r, 0)->data;
        for (int64_t i = 0, n = pd_tensor_numel(x_in); i < n; i++) {
            T loss = (pd_softplus(x[i]) - x[i] * label[i]) * (T)factor;
            out[i] = (int)label[i] == ignore ? 0 : loss;
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *label_in = pd_run_in(r, LABEL);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    double factor = normalizer(r, label_in);
    int ignore = r->attr[IGNORE_INDEX].i;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *label = label_in->data;
        const T *g = pd_run_in(r, D_OUT)->data;
        T *to = dx->data;
        for (int64_t i = 0, n = pd_tensor_numel(x_in); i < n; i++) {
            T slope = g[i] * (pd_sigmoid(x[i]) - label[i]) * (T)factor;
            to[i] = (int)label[i] == ignore ? 0 : slope;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_sigmoid_cross_entropy_with_logits = {
    .type = "sigmoid_cross_entropy_with_logits",
    .doc = "Cross entropy of labels and the sigmoid of X, element by element.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "sigmoid_cross_entropy_with_logits_grad",
    .grad_in = "X Label Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sigmoid_cross_entropy_with_logits_grad = {
    .type = "sigmoid_cross_entropy_with_logits_grad",
    .doc = "Gradient of sigmoid_cross_entropy_with_logits.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
