/* teacher_student_sigmoid_loss: a label below 0 says clicked or not (-1, -2); from 0 on it also carries the
 * teacher's score: score, or 1 + score when clicked. */
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, LABEL, D_OUT };
enum { UP_BOUND, LOW_BOUND };
static const struct pd_attr_def attrs[] = {
    PD_DEF_FLOAT("soft_max_up_bound", 15), PD_DEF_FLOAT("soft_max_lower_bound", -15), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *label = pd_infer_in(c, LABEL);
    struct pd_meta *y = pd_infer_out(c, 0);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", label, "Label"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    PD_TRY(pd_check_rank(label, "Label", 2, 2));
    PD_TRY(pd_check_same_dims(x, "X", label, "Label"));
    if (!y) return PD_OK;
    pd_meta_like(y, x);
    y->dim[1] = 1;
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *label = pd_run_in(r, LABEL)->data;
        T *out = pd_run_out(r, 0)->data;
        for (int64_t i = 0, n = x_in->meta.dim[0]; i < n; i++) {
            T base = pd_softplus(x[i]);
            T l = label[i];
            /* Both sums of 1 + score stay one product: clicked adds x, the score adds x * score. */
            out[i] = l < -1 ? base : l < 0 ? base - x[i] : 2 * base - x[i] * l;
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *label = pd_run_in(r, LABEL)->data;
        const T *g = pd_run_in(r, D_OUT)->data;
        T *to = dx->data;
        T high = (T)r->attr[UP_BOUND].f;
        T low = (T)r->attr[LOW_BOUND].f;
        for (int64_t i = 0, n = x_in->meta.dim[0]; i < n; i++) {
            T p = pd_sigmoid(x[i]);
            T l = label[i];
            T slope = l < -1 ? p : l < 0 ? p - 1 : 2 * p - l;
            to[i] = x[i] >= high || x[i] <= low ? 0 : g[i] * slope;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_teacher_student_sigmoid_loss = {
    .type = "teacher_student_sigmoid_loss",
    .doc = "Cross entropy with a click label and, where there is one, a teacher's score.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "teacher_student_sigmoid_loss_grad",
    .grad_in = "X Label Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_teacher_student_sigmoid_loss_grad = {
    .type = "teacher_student_sigmoid_loss_grad",
    .doc = "Gradient of teacher_student_sigmoid_loss.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Label", 0}, {"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
