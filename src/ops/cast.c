/* cast: the same numbers in another element type. */
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "program/grad.h"

enum { X };
enum { OUT };
enum { OUT_DTYPE, IN_DTYPE };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("out_dtype", PD_DTYPE_FP32), PD_DEF_INT("in_dtype", PD_DTYPE_FP32), {0}};

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (!out) return PD_OK;
    pd_out_same(c, OUT, X);
    return pd_check_dtype(c->attr[OUT_DTYPE].i, "out_dtype", &out->dtype);
}

static pd_status run(const struct pd_run *r)
{
    struct pd_value *from = pd_run_in_value(r, X), *to = pd_run_out_value(r, OUT);
    enum pd_dtype dtype = (enum pd_dtype)r->attr[OUT_DTYPE].i;
    if (pd_value_is_rows(from)) {
        const struct pd_meta *m = &from->tensor.meta;
        PD_TRY(pd_rows_resize(to, from->rows.n, from->height, dtype, m->rank, m->dim));
        for (int i = 0; i < from->rows.n; i++)
            to->rows.at[i] = from->rows.at[i];
    }
    return pd_elements_cast(to->tensor.data, dtype, from->tensor.data, from->tensor.meta.dtype,
                            pd_tensor_numel(&from->tensor));
}

/* The gradient is cast back. */
static pd_status make_grad(struct pd_grad_maker *g)
{
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "cast", "X=Out@", "Out=X@", &op));
    pd_status status = pd_opdesc_set_int(op, "out_dtype", pd_opdesc_attr(g->op, "in_dtype")->i);
    if (status == PD_OK) status = pd_opdesc_set_int(op, "in_dtype", pd_opdesc_attr(g->op, "out_dtype")->i);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
}

const struct pd_op pd_op_cast = {
    .type = "cast",
    .doc = "X in the element type out_dtype.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
};
