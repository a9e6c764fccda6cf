/* softmax_with_cross_entropy: both in one op, along any axis. Softmax is kept for the gradient, which is
 * simply (softmax - label) * dLoss. Rows to ignore have no loss and no gradient. */
#include "kernels/softmax.h"

#include "kernels/ew_math.h"
#include "ops/axis.h"
#include "ops/check.h"
#include "ops/label.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { LOGITS, LABEL };
enum { SOFTMAX, LOSS };
enum { SOFT_LABEL, STABLE, IGNORE_INDEX, AXIS };
enum { GRAD_LABEL, GRAD_SOFTMAX, GRAD_LOSS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("soft_label", 0),
    PD_DEF_BOOL("numeric_stable_mode", 1),
    PD_DEF_INT("ignore_index", -100),
    PD_DEF_INT("axis", -1),
    {0},
};

static pd_status shape_of(const struct pd_meta *x, int axis, struct pd_axis_lines *s)
{
    PD_TRY(pd_axis_of(axis, x->rank, &axis));
    *s = pd_axis_lines(x, axis);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, LOGITS), *label = pd_infer_in(c, LABEL);
    struct pd_meta *softmax = pd_infer_out(c, SOFTMAX), *loss = pd_infer_out(c, LOSS);
    int axis = 0, soft = c->attr[SOFT_LABEL].b;
    PD_TRY(pd_check_float(x, "Logits"));
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank, &axis));
    PD_TRY(pd_label_check_type(label, soft, x, "Logits"));
    /* A label without the dimension for the class stands for one with 1 there. */
    int short_label = !soft && label->rank == x->rank - 1;
    int fits = short_label || label->rank == x->rank;
    for (int i = 0, j = 0; fits && i < x->rank; i++) {
        if (i == axis && short_label) continue;
        int64_t want = i != axis || soft ? x->dim[i] : 1, have = label->dim[j++];
        fits = want == have || want < 0 || have < 0;
    }
    if (!fits)
        return pd_fail(
            PD_SHAPE,
            "Logits has shape %s and Label has shape %s. Label must be like Logits but for axis %d, which "
            "is %s.",
            pd_meta_dims_text(x), pd_meta_dims_text(label), axis,
            soft ? "the same as that of Logits (soft_label is set)" : "1");
    if (softmax) pd_meta_like(softmax, x);
    if (loss) {
        pd_meta_like(loss, x);
        loss->dim[axis] = 1;
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, LOGITS), *label = pd_run_in(r, LABEL);
    int soft = r->attr[SOFT_LABEL].b;
    int64_t ignore = r->attr[IGNORE_INDEX].i;
    struct pd_axis_lines s;
    PD_TRY(shape_of(&x->meta, r->attr[AXIS].i, &s));
    if (!soft) PD_TRY(pd_label_check_range(label, s.outer * s.inner, s.n, ignore));
    struct pd_tensor *kept = pd_run_out(r, SOFTMAX);
    void *softmax = kept ? kept->data : NULL;
    if (!kept) PD_TRY(pd_scratch(r, pd_tensor_bytes(x), &softmax));
    pd_softmax(x->meta.dtype == PD_DTYPE_FP64, s.outer, s.n, s.inner, x->data, softmax);
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *p = softmax, *weight = soft ? label->data : NULL;
        T *loss = pd_run_out(r, LOSS)->data;
        for (int64_t o = 0; o < s.outer; o++)
            for (int64_t l = 0; l < s.inner; l++) {
                const T *row = p + o * s.n * s.inner + l;
                T sum = 0;
                if (soft) {
                    const T *w = weight + o * s.n * s.inner + l;
                    for (int64_t j = 0; j < s.n; j++)
                        sum += w[j * s.inner] * pd_log(row[j * s.inner]);
                } else {
                    int64_t class = pd_label_at(label, o * s.inner + l);
                    if (class != ignore) sum = pd_log(row[class * s.inner]);
                }
                loss[o * s.inner + l] = -sum;
            }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    PD_TRY(pd_label_check_type(pd_infer_in(c, GRAD_LABEL), c->attr[SOFT_LABEL].b,
                               pd_infer_in(c, GRAD_SOFTMAX), "Softmax"));
    pd_out_like(c, 0, GRAD_SOFTMAX);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *label = pd_run_in(r, GRAD_LABEL), *softmax = pd_run_in(r, GRAD_SOFTMAX),
                           *g = pd_run_in(r, GRAD_LOSS);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int soft = r->attr[SOFT_LABEL].b;
    int64_t ignore = r->attr[IGNORE_INDEX].i;
    struct pd_axis_lines s;
    if (!dx) return PD_OK;
    PD_TRY(shape_of(&softmax->meta, r->attr[AXIS].i, &s));
    if (!soft) PD_TRY(pd_label_check_range(label, s.outer * s.inner, s.n, ignore));
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *p = softmax->data, *dloss = g->data, *weight = soft ? label->data : NULL;
        T *to = dx->data;
        int64_t block = s.n * s.inner;
        for (int64_t o = 0; o < s.outer; o++) {
            for (int64_t j = o * block; s.inner == 1 && j < (o + 1) * block; j++)
                to[j] = dloss[o] * (soft ? p[j] - weight[j] : p[j]);
            for (int64_t j = 0; s.inner > 1 && j < s.n; j++)
                for (int64_t l = 0; l < s.inner; l++) {
                    int64_t at = o * block + j * s.inner + l;
                    to[at] = dloss[o * s.inner + l] * (soft ? p[at] - weight[at] : p[at]);
                }
            for (int64_t l = 0; !soft && l < s.inner; l++) {
                int64_t class = pd_label_at(label, o * s.inner + l);
                if (class != ignore)
                    to[o * block + class * s.inner + l] -= dloss[o * s.inner + l];
                else
                    for (int64_t j = 0; j < s.n; j++)
                        to[o * block + j * s.inner + l] = 0;
            }
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_softmax_with_cross_entropy = {
    .type = "softmax_with_cross_entropy",
    .doc = "Softmax of Logits and the cross entropy to Label, in one.",
    .inputs = (const struct pd_slot_def[]){{"Logits", 0}, {"Label", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Softmax", PD_SLOT_OPTIONAL | PD_SLOT_HIDDEN}, {"Loss", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "softmax_with_cross_entropy_grad",
    .grad_in = "Label Softmax Loss@",
    .grad_like = "Logits=Softmax",
    .grad_out = "Logits@",
    .share = (const struct pd_share[]){{SOFTMAX, LOGITS, 0}, {-1, -1, 0}},
};

const struct pd_op pd_op_softmax_with_cross_entropy_grad = {
    .type = "softmax_with_cross_entropy_grad",
    .doc = "Gradient of softmax_with_cross_entropy.",
    .inputs =
        (const struct pd_slot_def[]){{"Label", PD_SLOT_OWN_TYPE}, {"Softmax", 0}, {"Loss@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Logits@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
    .share = (const struct pd_share[]){{0, GRAD_SOFTMAX, 0}, {-1, -1, 0}},
};
