/* See shape_util.h. */
#include "ops/shape_util.h"

#include <string.h>

#include "kernels/copy.h"
#include "ops/out.h"

/* ---- dimensions ---- */

pd_status pd_shape_axis(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return pd_fail(PD_RANGE, "axis is %lld, but the input has %d dimensions: give one of %d to %d",
                       (long long)axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return PD_OK;
}

void pd_shape_lines(const struct pd_meta *x, int axis, int64_t *outer, int64_t *n, int64_t *inner)
{
    *outer = pd_meta_span(x, 0, axis);
    *n = x->dim[axis];
    *inner = pd_meta_span(x, axis + 1, x->rank);
}

pd_status pd_shape_index_count(const struct pd_meta *index, const char *slot, int64_t *n)
{
    if (index->dtype != PD_DTYPE_NONE && !pd_dtype_is_index(index->dtype))
        return pd_fail(PD_TYPE, "%s is %s; row numbers must be int32 or int64", slot,
                       pd_dtype_name(index->dtype));
    if (index->rank != 1 && !(index->rank == 2 && (index->dim[1] == 1 || index->dim[0] == 1)))
        return pd_fail(PD_SHAPE, "%s has shape %s; give one row number each, as [n] or [n, 1]", slot,
                       pd_meta_dims_text(index));
    *n = pd_meta_numel(index);
    return PD_OK;
}

pd_status pd_shape_read_index(const struct pd_tensor *index, const char *slot, int64_t limit, int64_t *to)
{
    int64_t n = pd_tensor_numel(index);
    PD_SWITCH_INDEX(index->meta.dtype, T, {
        const T *from = index->data;
        for (int64_t i = 0; i < n; i++) {
            if ((uint64_t)(int64_t)from[i] >= (uint64_t)limit)
                return pd_fail(PD_RANGE, "%s has %lld at position %lld; it must be in 0 to %lld", slot,
                               (long long)from[i], (long long)i, (long long)limit - 1);
            to[i] = from[i];
        }
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "%s is %s; row numbers must be int32 or int64", slot,
                   pd_dtype_name(index->meta.dtype));
}

void pd_shape_copy_box(const struct pd_meta *whole, const int64_t *start, const int64_t *size, int to_whole,
                       void *to, const void *from)
{
    int64_t wide[PD_MAX_RANK], dense[PD_MAX_RANK], at = 0, item = (int64_t)pd_dtype_size(whole->dtype);
    struct pd_copy copy;
    pd_copy_steps(whole->rank, whole->dim, wide);
    pd_copy_steps(whole->rank, size, dense);
    for (int i = 0; i < whole->rank; i++)
        at += start[i] * wide[i] * item;
    pd_copy_make(&copy, (size_t)item, whole->rank, size, to_whole ? wide : dense, to_whole ? dense : wide);
    if (copy.count == 0) return;
    if (to_whole)
        pd_copy_run(&copy, (char *)to + at, from);
    else
        pd_copy_run(&copy, to, (const char *)from + at);
}

pd_status pd_shape_fill(struct pd_tensor *tensor, double value)
{
    int64_t n = pd_tensor_numel(tensor), step = 1, none = 0;
    struct pd_copy copy;
    if (value == 0) {
        pd_copy_zero(tensor->data, pd_tensor_bytes(tensor));
        return PD_OK;
    }
    pd_copy_make(&copy, pd_dtype_size(tensor->meta.dtype), 1, &n, &step, &none);
    PD_SWITCH_ANY(tensor->meta.dtype, T, {
        T number = (T)value;
        pd_copy_run(&copy, tensor->data, &number);
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "a tensor of %s cannot be filled with a number; cast it first",
                   pd_dtype_name(tensor->meta.dtype));
}

pd_status pd_shape_scratch(const struct pd_run *r, size_t bytes, void **out)
{
    *out = r->step->scratch(r, bytes ? bytes : 1);
    return *out ? PD_OK : pd_no_memory();
}

/* ---- views ---- */

static pd_status copy_same(const struct pd_tensor *from, struct pd_tensor *to)
{
    if (to && to->data != from->data) pd_copy_bytes(to->data, from->data, pd_tensor_bytes(from));
    return PD_OK;
}

pd_status pd_view_run(const struct pd_run *r)
{
    return copy_same(pd_run_in(r, 0), pd_run_out(r, 0));
}

pd_status pd_view_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (dx && pd_tensor_numel(dx) != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "the gradient of the output has shape %s, which does not fit X of shape %s",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&dx->meta));
    return copy_same(dout, dx);
}

pd_status pd_view_set_xshape(const struct pd_infer *c, int x, int xshape)
{
    const struct pd_meta *from = pd_infer_in(c, x);
    /* The form of the op without the 2 has no such slot. */
    struct pd_meta *to = c->op->outputs[xshape].name ? pd_infer_out(c, xshape) : NULL;
    if (!to) return PD_OK;
    int64_t dim[PD_MAX_RANK + 1] = {0};
    memcpy(dim + 1, from->dim, (size_t)from->rank * sizeof *dim);
    to->dtype = from->dtype;
    PD_TRY(pd_meta_set_dims(to, from->rank + 1, dim));
    pd_meta_share_lod(to, from);
    return PD_OK;
}

const struct pd_slot_def pd_view_inputs[] = {{"X", 0}, {0}};
const struct pd_slot_def pd_view_outputs[] = {{"Out", 0}, {0}};
const struct pd_slot_def pd_view_outputs2[] = {{"Out", 0}, {"XShape", PD_SLOT_HIDDEN}, {0}};

pd_status pd_view_set_out(const struct pd_infer *c, int rank, const int64_t *dim)
{
    PD_TRY(pd_view_set_xshape(c, 0, 1));
    return pd_out_dims(pd_infer_out(c, 0), pd_infer_in(c, 0), rank, dim);
}

pd_status pd_view_infer_from_xshape(const struct pd_infer *c)
{
    const struct pd_meta *xshape = pd_infer_in(c, 0), *dout = pd_infer_in(c, 1);
    struct pd_meta *dx = pd_infer_out(c, 0);
    if (!dx) return PD_OK;
    dx->dtype = dout->dtype;
    PD_TRY(pd_meta_set_dims(dx, xshape->rank - 1, xshape->dim + 1));
    pd_meta_share_lod(dx, xshape);
    return PD_OK;
}

const struct pd_share pd_view_share[] = {{0, 0, 1}, {-1, -1, 0}};
const struct pd_share pd_view_grad_share[] = {{0, 1, 1}, {-1, -1, 0}};

/* ShapeTensor and AxesTensor come along in Programs that upstream wrote. */
const struct pd_slot_def pd_view_grad_inputs[] = {
    {"X", PD_SLOT_META},
    {"Out@GRAD", 0},
    {"ShapeTensor", PD_SLOT_META | PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"AxesTensor", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {0},
};
const struct pd_slot_def pd_view_grad2_inputs[] = {
    {"XShape", PD_SLOT_META},
    {"Out@GRAD", 0},
    {"ShapeTensor", PD_SLOT_META | PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"AxesTensor", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {0},
};
const struct pd_slot_def pd_view_grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
