/* stack and unstack: tensors of one shape along a new axis, and back. */
#include <string.h>

#include "ops/axis.h"
#include "ops/join.h"
#include "ops/out.h"

enum { X };
enum { Y };
enum { AXIS, NUM };

static const struct pd_attr_def stack_attrs[] = {PD_DEF_INT("axis", 0), {0}};
static const struct pd_attr_def unstack_attrs[] = {PD_DEF_INT("axis", 0), PD_DEF_INT("num", 0), {0}};

/* Dims of the stack of n tensors like x; the axis counts in the result. */
static pd_status stacked(const struct pd_meta *x, int n, int axis, int64_t *dim)
{
    if (x->rank + 1 > PD_MAX_RANK)
        return pd_fail(PD_SHAPE,
                       "the inputs have shape %s; a stack of them would have more than %d dimensions",
                       pd_meta_dims_text(x), PD_MAX_RANK);
    memcpy(dim, x->dim, (size_t)axis * sizeof *dim);
    dim[axis] = n;
    memcpy(dim + axis + 1, x->dim + axis, (size_t)(x->rank - axis) * sizeof *dim);
    return PD_OK;
}

static pd_status infer_stack(const struct pd_infer *c, struct pd_meta *const *x, int n, struct pd_meta *y)
{
    struct pd_meta one = *x[0];
    int64_t dim[PD_MAX_RANK];
    int axis;
    for (int i = 1; i < n; i++) {
        if (!pd_meta_dims_match(&one, x[i]))
            return pd_fail(PD_SHAPE, "input 0 has shape %s, input %d has shape %s; all must have the same",
                           pd_meta_dims_text(x[0]), i, pd_meta_dims_text(x[i]));
        for (int k = 0; k < one.rank; k++)
            if (one.dim[k] < 0) one.dim[k] = x[i]->dim[k];
    }
    PD_TRY(pd_axis_of(c->attr[AXIS].i, one.rank + 1, &axis));
    PD_TRY(stacked(&one, n, axis, dim));
    if (!y) return PD_OK;
    y->dtype = one.dtype;
    return pd_meta_set_dims(y, one.rank + 1, dim);
}

static pd_status infer_unstack(const struct pd_infer *c, const struct pd_meta *y, int n,
                               struct pd_meta *const *x)
{
    int64_t dim[PD_MAX_RANK];
    int axis;
    PD_TRY(pd_axis_of(c->attr[AXIS].i, y->rank, &axis));
    if (y->dim[axis] >= 0 && y->dim[axis] != n)
        return pd_fail(PD_SHAPE, "axis %d has %lld elements, but there are %d outputs", axis,
                       (long long)y->dim[axis], n);
    memcpy(dim, y->dim, (size_t)axis * sizeof *dim);
    memcpy(dim + axis, y->dim + axis + 1, (size_t)(y->rank - axis - 1) * sizeof *dim);
    int rank = y->rank - 1;
    if (rank == 0) dim[rank++] = 1; /* single numbers are [1] */
    for (int i = 0; i < n; i++) {
        if (!x[i]) continue;
        x[i]->dtype = y->dtype;
        PD_TRY(pd_meta_set_dims(x[i], rank, dim));
    }
    return PD_OK;
}

/* `y` is the stack, `slot` holds its parts. */
static pd_status describe(const struct pd_run *r, const struct pd_values *parts, const struct pd_tensor *y,
                          struct pd_join *j, int64_t *rows)
{
    int axis, n = parts->n;
    int64_t *width;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, y->meta.rank, &axis));
    PD_TRY(pd_join_make(r, n, j, &width));
    int64_t inner = pd_meta_span(&y->meta, axis + 1, y->meta.rank) * (int64_t)pd_dtype_size(y->meta.dtype);
    j->whole = y->data;
    j->row = n * inner;
    *rows = pd_meta_span(&y->meta, 0, axis);
    for (int i = 0; i < n; i++) {
        width[i] = inner;
        j->part[i] = parts->at[i] ? parts->at[i]->tensor.data : NULL;
    }
    return PD_OK;
}

static pd_status stack_infer(const struct pd_infer *c)
{
    struct pd_meta *y = pd_infer_out(c, Y);
    PD_TRY(infer_stack(c, c->in[X].at, c->in[X].n, y));
    if (y) pd_meta_share_lod(y, c->in[X].at[0]);
    return PD_OK;
}

static pd_status stack_run(const struct pd_run *r)
{
    struct pd_join j;
    int64_t rows;
    PD_TRY(describe(r, &r->in[X], pd_run_out(r, Y), &j, &rows));
    pd_copy_join(&j, rows);
    return PD_OK;
}

static pd_status parts_infer(const struct pd_infer *c)
{
    const struct pd_meta *y = pd_infer_in(c, 0);
    return infer_unstack(c, y, c->out[0].n, c->out[0].at);
}

static pd_status unstack_infer(const struct pd_infer *c)
{
    if (c->attr[NUM].i != c->out[0].n)
        return pd_fail(PD_INVALID, "num is %d, but there are %d outputs", c->attr[NUM].i, c->out[0].n);
    return parts_infer(c);
}

static pd_status parts_run(const struct pd_run *r)
{
    struct pd_join j;
    int64_t rows;
    if (!r->out[0].n) return PD_OK;
    PD_TRY(describe(r, &r->out[0], pd_run_in(r, 0), &j, &rows));
    pd_copy_part(&j, rows);
    return PD_OK;
}

static pd_status unstack_grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dx = pd_infer_out(c, 0);
    /* X tells [n] from [n, 1], whose parts are both [1]; Programs of upstream come without it. */
    if (pd_infer_in(c, 1)) {
        pd_out_like(c, 0, 1);
        return PD_OK;
    }
    return infer_stack(c, c->in[0].at, c->in[0].n, dx);
}

const struct pd_op pd_op_stack = {
    .type = "stack",
    .doc = "Puts tensors of one shape along a new axis.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = stack_attrs,
    .infer = stack_infer,
    .run = stack_run,
    .grad_type = "stack_grad",
    .grad_in = "Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_stack_grad = {
    .type = "stack_grad",
    .doc = "Gradient of stack: the parts of the gradient.",
    .inputs = (const struct pd_slot_def[]){{"Y@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .attrs = stack_attrs,
    .infer = parts_infer,
    .run = parts_run,
};

const struct pd_op pd_op_unstack = {
    .type = "unstack",
    .doc = "Takes a tensor apart along an axis, which goes.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", PD_SLOT_LIST}, {0}},
    .attrs = unstack_attrs,
    .infer = unstack_infer,
    .run = parts_run,
    .grad_type = "unstack_grad",
    .grad_in = "Y@ X",
    .grad_out = "X@",
};

const struct pd_op pd_op_unstack_grad = {
    .type = "unstack_grad",
    .doc = "Gradient of unstack: the gradients put together.",
    .inputs =
        (const struct pd_slot_def[]){{"Y@GRAD", PD_SLOT_LIST}, {"X", PD_SLOT_META | PD_SLOT_OPTIONAL}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = unstack_attrs,
    .infer = unstack_grad_infer,
    .run = stack_run,
};
