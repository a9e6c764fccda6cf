/* increment: adds a step to a counter. */
#include "ops/out.h"
#include "program/grad.h"

enum { X };
enum { OUT };
enum { STEP };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def increment_attrs[] = {PD_DEF_FLOAT("step", 1.0f), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

static pd_status increment_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int64_t n = pd_meta_numel(x);
    if (n >= 0 && n != 1)
        return pd_fail(PD_SHAPE, "X has shape %s; a counter has one element", pd_meta_dims_text(x));
    return pd_out_infer_same(c);
}

static pd_status increment_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    float step = r->attr[STEP].f;
    int is_real = pd_dtype_is_float(x->meta.dtype);
    if (!is_real && !(step >= -0x1p63f && step < 0x1p63f))
        return pd_fail(PD_RANGE, "step is %g, which %s cannot hold", (double)step,
                       pd_dtype_name(x->meta.dtype));
    PD_SWITCH_NUMBER(x->meta.dtype, T, T before = *(const T *)x->data;
                     *(T *)out->data = PD_ADD_WRAPPING(T, before, is_real ? (T)step : (T)(int64_t)step);
                     return PD_OK)
    return pd_fail(PD_TYPE, "X is %s, which cannot be counted up; use int64 or float32",
                   pd_dtype_name(x->meta.dtype));
}

static pd_status increment_grad(struct pd_grad_maker *g)
{
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "assign", "X=Out@", "Out=X@", &op));
    pd_opdesc_remove_attr(op, "step");
    return g->emit(g, op);
}

/* A counter that is a number of the net: it passes its gradient on. Those of integers have none. */
const struct pd_op pd_op_increment = {
    .type = "increment",
    .doc = "Out = X + step, for a tensor of one element.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = increment_attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = increment_infer,
    .run = increment_run,
    .make_grad = increment_grad,
    .share = share,
};
