/* transpose and transpose2: dimension i of the output is dimension axis[i] of X. */
#include "kernels/copy.h"
#include "ops/out.h"
#include "ops/view.h"

enum { X };
enum { OUT, XSHAPE };
enum { AXIS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS("axis"), PD_DEF_STRING("data_format", "AnyLayout"), {0}};

static pd_status check_axis(const struct pd_attr *axis, const struct pd_meta *x)
{
    unsigned seen = 0;
    if (axis->n != x->rank)
        return pd_fail(PD_SHAPE,
                       "axis has %d entries, but X has shape %s: give each of its %d dimensions once",
                       axis->n, pd_meta_dims_text(x), x->rank);
    for (int i = 0; i < axis->n; i++) {
        if (axis->ints[i] < 0 || axis->ints[i] >= x->rank || seen >> axis->ints[i] & 1)
            return pd_fail(PD_INVALID, "axis[%d] is %d; axis must hold each of 0 to %d once", i,
                           axis->ints[i], x->rank - 1);
        seen |= 1u << axis->ints[i];
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    const struct pd_attr *axis = &c->attr[AXIS];
    PD_TRY(check_axis(axis, x));
    PD_TRY(pd_view_set_xshape(c, X, XSHAPE));
    if (!out) return PD_OK;
    int64_t dim[PD_MAX_RANK];
    for (int i = 0; i < axis->n; i++)
        dim[i] = x->dim[axis->ints[i]];
    out->dtype = x->dtype;
    pd_meta_take_lod(out, NULL);
    return pd_meta_set_dims(out, axis->n, dim);
}

/* dim[i] of `to` is walked in steps of dimension at[i] of `from`. */
static void permute(const struct pd_tensor *from, struct pd_tensor *to, const int *at)
{
    int64_t from_step[PD_MAX_RANK], to_step[PD_MAX_RANK], walk[PD_MAX_RANK];
    struct pd_copy copy;
    int rank = from->meta.rank;
    pd_copy_steps(rank, from->meta.dim, from_step);
    pd_copy_steps(rank, to->meta.dim, to_step);
    for (int i = 0; i < rank; i++)
        walk[i] = from_step[at[i]];
    pd_copy_make(&copy, pd_dtype_size(from->meta.dtype), rank, to->meta.dim, to_step, walk);
    pd_copy_run(&copy, to->data, from->data);
}

static pd_status run(const struct pd_run *r)
{
    permute(pd_run_in(r, X), pd_run_out(r, OUT), r->attr[AXIS].ints);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int back[PD_MAX_RANK] = {0};
    if (!dx) return PD_OK;
    for (int i = 0; i < r->attr[AXIS].n; i++)
        back[r->attr[AXIS].ints[i]] = i;
    permute(dout, dx, back);
    return PD_OK;
}

static const struct pd_slot_def inputs[] = {{"X", 0}, {0}};

const struct pd_op pd_op_transpose = {
    .type = "transpose",
    .doc = "Puts the dimensions of X in another order.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "transpose_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_transpose2 = {
    .type = "transpose2",
    .doc = "Puts the dimensions of X in another order; XShape keeps the old shape for the gradient.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"XShape", PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "transpose2_grad",
    .grad_in = "XShape Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_transpose_grad = {
    .type = "transpose_grad",
    .doc = "Gradient of transpose: the opposite order.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Out@GRAD", 0}, {"Out", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};

const struct pd_op pd_op_transpose2_grad = {
    .type = "transpose2_grad",
    .doc = "Gradient of transpose2: the opposite order.",
    .inputs = (const struct pd_slot_def[]){{"XShape", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_view_infer_from_xshape,
    .run = grad_run,
};
