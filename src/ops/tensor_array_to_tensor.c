/* tensor_array_to_tensor: the items of an array joined along an axis, or stacked along a new one. */
#include <string.h>

#include "ops/axis.h"
#include "ops/join.h"
#include "ops/out.h"

enum { X, DOUT };
enum { OUT, OUT_INDEX };
enum { AXIS, USE_STACK };

static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", 0), PD_DEF_BOOL("use_stack", 0), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT), *index = pd_infer_out(c, OUT_INDEX);
    int stack = c->attr[USE_STACK].b, axis;
    if (index) {
        index->dtype = PD_DTYPE_INT32;
        pd_meta_set_1d(index, -1);
    }
    if (!out || x->rank == 0) return PD_OK;
    int64_t dim[PD_MAX_RANK + 1];
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank + stack, &axis));
    memcpy(dim, x->dim, (size_t)axis * sizeof *dim);
    dim[axis] = -1;
    memcpy(dim + axis + 1, x->dim + axis + !stack, (size_t)(x->rank - axis - !stack) * sizeof *dim);
    out->dtype = x->dtype;
    return pd_meta_set_dims(out, x->rank + stack, dim);
}

/* How the items lie in the whole, whose shape is `sum`. `part` and `width` are memory of this run. */
static pd_status describe(const struct pd_run *r, const struct pd_value *x, struct pd_meta *sum, int *at,
                          struct pd_join *j)
{
    int n = x ? x->items.n : 0, stack = r->attr[USE_STACK].b;
    if (!x || x->tensor.meta.kind != PD_KIND_TENSOR_ARRAY || n == 0)
        return pd_fail(PD_INVALID, "X is no tensor array with items; write to it first");
    const struct pd_meta *first = &x->items.at[0]->tensor.meta;
    int64_t *width;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, first->rank + stack, at));
    PD_TRY(pd_join_make(r, n, j, &width));
    *sum = *first;
    if (stack) {
        if (first->rank == PD_MAX_RANK)
            return pd_fail(PD_SHAPE, "the items have %d dimensions already; they cannot be stacked",
                           PD_MAX_RANK);
        memmove(sum->dim + *at + 1, sum->dim + *at, (size_t)(first->rank - *at) * sizeof *sum->dim);
        sum->rank++;
    }
    sum->dim[*at] = 0;
    for (int i = 0; i < n; i++) {
        const struct pd_tensor *item = &x->items.at[i]->tensor;
        const struct pd_meta *m = &item->meta;
        int fits = item->data && m->dtype == first->dtype && m->rank == first->rank;
        for (int k = 0; fits && k < m->rank; k++)
            fits = m->dim[k] == first->dim[k] || (!stack && k == *at);
        if (!fits)
            return pd_fail(PD_SHAPE,
                           "item %d of the array has shape %s, item 0 has %s; they cannot be put together", i,
                           pd_meta_dims_text(m), pd_meta_dims_text(first));
        sum->dim[*at] += stack ? 1 : m->dim[*at];
        width[i] = pd_meta_span(m, *at, m->rank) * (int64_t)pd_dtype_size(m->dtype);
        j->row += width[i];
        j->part[i] = item->data;
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *index = pd_run_out(r, OUT_INDEX);
    struct pd_meta sum;
    struct pd_join j;
    int axis = 0;
    PD_TRY(describe(r, x, &sum, &axis, &j));
    PD_TRY(pd_tensor_resize(out, sum.dtype, sum.rank, sum.dim));
    pd_meta_take_lod(&out->meta, NULL);
    j.whole = out->data;
    pd_copy_join(&j, pd_meta_span(&sum, 0, axis));
    if (!index) return PD_OK;
    int64_t n = j.n;
    PD_TRY(pd_tensor_resize(index, PD_DTYPE_INT32, 1, &n));
    for (int i = 0; i < n; i++) {
        const struct pd_meta *m = &x->items.at[i]->tensor.meta;
        ((int32_t *)index->data)[i] = axis < m->rank ? (int32_t)m->dim[axis] : 1;
    }
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dx = pd_infer_out(c, 0);
    if (!dx || c->running) return PD_OK;
    pd_out_like(c, 0, X);
    dx->kind = PD_KIND_TENSOR_ARRAY;
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, X);
    const struct pd_tensor *dout = pd_run_in(r, DOUT);
    struct pd_value *dx = pd_run_out_value(r, 0);
    struct pd_meta sum;
    struct pd_join j;
    int axis = 0;
    if (!dx) return PD_OK;
    PD_TRY(describe(r, x, &sum, &axis, &j));
    if (!pd_meta_same_dims(&sum, &dout->meta))
        return pd_fail(PD_SHAPE, "the gradient has shape %s, the items together %s",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&sum));
    pd_value_reset(dx, PD_KIND_TENSOR_ARRAY);
    for (int i = 0; i < j.n; i++) {
        const struct pd_meta *m = &x->items.at[i]->tensor.meta;
        struct pd_value *item;
        PD_TRY(pd_value_new(PD_KIND_TENSOR, &item));
        if (!pd_vec_push(&dx->items, item)) {
            pd_value_unref(item);
            return pd_no_memory();
        }
        PD_TRY(pd_tensor_resize(&item->tensor, m->dtype, m->rank, m->dim));
        pd_meta_share_lod(&item->tensor.meta, m);
        j.part[i] = item->tensor.data;
    }
    j.whole = dout->data;
    pd_copy_part(&j, pd_meta_span(&sum, 0, axis));
    return PD_OK;
}

const struct pd_op pd_op_tensor_array_to_tensor = {
    .type = "tensor_array_to_tensor",
    .doc = "Joins the items of an array along axis, or stacks them; OutIndex holds their sizes there.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OTHERS}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"OutIndex", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .flags = PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
    .grad_type = "tensor_array_to_tensor_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_tensor_array_to_tensor_grad = {
    .type = "tensor_array_to_tensor_grad",
    .doc = "Gradient of tensor_array_to_tensor: the parts as items of an array.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OTHERS}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .flags = PD_OP_DYNAMIC,
    .infer = grad_infer,
    .run = grad_run,
};
