/* softmax along one axis. */
#include "kernels/softmax.h"

#include "ops/axis.h"
#include "ops/check.h"
#include "ops/out.h"

enum { AXIS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1),
    PD_DEF_STRING("data_format", "AnyLayout"),
    PD_DEF_BOOL("is_test", 0),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    int axis = 0;
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank, &axis));
    pd_out_like(c, 0, 0);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    int axis = 0;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, x->meta.rank, &axis));
    struct pd_axis_lines l = pd_axis_lines(&x->meta, axis);
    pd_softmax(x->meta.dtype == PD_DTYPE_FP64, l.outer, l.n, l.inner, x->data, pd_run_out(r, 0)->data);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *y = pd_run_in(r, 0), *dy = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int axis = 0;
    if (!dx) return PD_OK;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, y->meta.rank, &axis));
    struct pd_axis_lines l = pd_axis_lines(&y->meta, axis);
    pd_softmax_grad(y->meta.dtype == PD_DTYPE_FP64, l.outer, l.n, l.inner, y->data, dy->data, dx->data);
    return PD_OK;
}

const struct pd_op pd_op_softmax = {
    .type = "softmax",
    .doc = "Turns X into probabilities along an axis.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "softmax_grad",
    .grad_in = "Out Out@",
    .grad_like = "X=Out",
    .grad_out = "X@",
    .share = (const struct pd_share[]){{0, 0, 0}, {-1, -1, 0}},
};

const struct pd_op pd_op_softmax_grad = {
    .type = "softmax_grad",
    .doc = "Gradient of softmax.",
    .inputs = (const struct pd_slot_def[]){{"Out", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
    .share = (const struct pd_share[]){{0, 1, 0}, {-1, -1, 0}},
};
