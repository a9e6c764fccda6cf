/* label_smooth: labels mixed with a distribution. */
#include "ops/check.h"
#include "ops/out.h"

enum { X, PRIOR };
enum { OUT };
enum { EPSILON };

static const struct pd_slot_def inputs[] = {{"X"}, {"PriorDist", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("epsilon", 0.0f), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *prior = pd_infer_in(c, PRIOR);
    int64_t classes = x->rank ? x->dim[x->rank - 1] : 1, n = prior ? pd_meta_numel(prior) : classes;
    if (n >= 0 && classes >= 0 && n != classes)
        return pd_fail(PD_SHAPE, "PriorDist has %lld elements; a label of X has %lld", (long long)n,
                       (long long)classes);
    return pd_out_infer_same(c);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *prior = pd_run_in(r, PRIOR);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t n = pd_tensor_numel(x), classes = x->meta.rank ? x->meta.dim[x->meta.rank - 1] : 1;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        const T *p = prior ? prior->data : NULL;
        const T epsilon = (T)r->attr[EPSILON].f;
        const T even = classes ? epsilon / (T)classes : 0;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (1 - epsilon) * from[i] + (p ? epsilon * p[i % classes] : even);
    })
    return PD_OK;
}

const struct pd_op pd_op_label_smooth = {
    .type = "label_smooth",
    .doc = "Out = (1 - epsilon) X + epsilon PriorDist, which is even when it is left out.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "label_smooth_grad",
    .grad_in = "Out@",
    .grad_like = "X=Out@",
    .grad_out = "X@",
};

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 0);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t n = pd_tensor_numel(dout);
    PD_SWITCH_FLOAT(dout->meta.dtype, T, {
        const T *from = dout->data;
        T *to = dx->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (1 - (T)r->attr[EPSILON].f) * from[i];
    })
    return PD_OK;
}

const struct pd_op pd_op_label_smooth_grad = {
    .type = "label_smooth_grad",
    .doc = "Gradient of label_smooth.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = grad_run,
};
