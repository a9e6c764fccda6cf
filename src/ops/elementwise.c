/* elementwise_add, sub, mul, div, max, min, pow, mod, floordiv, and what elementwise.h promises.
 *
 * The operand of lower rank is repeated along the dimensions it lacks (attribute axis says where it begins),
 * and so is an operand along each dimension where it has size 1. Gradients are in elementwise_grad.c. */
#include "ops/elementwise.h"

#include <string.h>

#include "kernels/ew_binary.h"
#include "kernels/reduce.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "ops/rows.h"
#include "ops/scratch.h"

#define GRAIN 32768

/* Lines up the operand of lower rank from dimension `axis` of the other one (-1: the last dimensions).
 * Unknown sizes are carried through. */
static pd_status align(const struct pd_meta *x, const struct pd_meta *y, int axis, struct pd_aligned *a)
{
    const struct pd_meta *small = x->rank < y->rank ? x : y, *large = small == x ? y : x;
    int n = small->rank, from = axis < 0 ? large->rank - n : axis;
    if (large->rank == n)
        from = 0;
    else if (axis < -1 || axis >= large->rank)
        from = -1; /* there is no such dimension */
    /* Ones at the end of the smaller shape stand for dimensions that are not there. */
    while (from + n > large->rank && n > 0 && small->dim[n - 1] == 1)
        n--;
    if (from < 0 || from + n > large->rank)
        return pd_fail(
            PD_SHAPE,
            "shapes %s and %s do not line up at axis %d; axis must be -1 or leave room for all of %s",
            pd_meta_dims_text(x), pd_meta_dims_text(y), axis, pd_meta_dims_text(small));
    int64_t padded[PD_MAX_RANK];
    a->rank = large->rank;
    for (int i = 0; i < a->rank; i++)
        padded[i] = i >= from && i < from + n ? small->dim[i - from] : 1;
    memcpy(small == x ? a->x : a->y, padded, sizeof padded);
    memcpy(small == x ? a->y : a->x, large->dim, sizeof padded);
    for (int i = 0; i < a->rank; i++) {
        int64_t dx = a->x[i], dy = a->y[i];
        if (dx == dy || dy == 1)
            a->out[i] = dx;
        else if (dx == 1)
            a->out[i] = dy;
        else if (dx < 0 || dy < 0)
            a->out[i] = dx > dy ? dx : dy;
        else
            return pd_fail(PD_SHAPE,
                           "shapes %s and %s do not fit: dimension %d is %lld and %lld; they must be equal, "
                           "or one of them 1",
                           pd_meta_dims_text(x), pd_meta_dims_text(y), i, (long long)dx, (long long)dy);
    }
    return PD_OK;
}

pd_status pd_elementwise_infer(const struct pd_infer *c, int axis_attr, enum pd_dtype dtype)
{
    const struct pd_meta *x = pd_infer_in(c, 0), *y = pd_infer_in(c, 1);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    if (y->kind == PD_KIND_SELECTED_ROWS)
        return pd_fail(PD_TYPE, "Y holds selected rows; only X may, with a Y of one element");
    if (!out) return PD_OK;
    if (x->kind == PD_KIND_SELECTED_ROWS) {
        if (c->running && pd_meta_numel(y) != 1)
            return pd_fail(PD_SHAPE, "X holds selected rows, so Y must have one element; it has shape %s",
                           pd_meta_dims_text(y));
        pd_out_same(c, 0, 0);
        return PD_OK;
    }
    out->dtype = dtype == PD_DTYPE_NONE ? x->dtype : dtype;
    if (pd_meta_same_dims(x, y)) {
        pd_meta_copy_dims(out, x);
    } else {
        struct pd_aligned a;
        PD_TRY(align(x, y, axis_attr < 0 ? -1 : c->attr[axis_attr].i, &a));
        PD_TRY(pd_meta_set_dims(out, a.rank, a.out));
    }
    pd_meta_share_lod(out, x);
    return PD_OK;
}

struct job {
    pd_ew_kernel kernel;
    struct pd_ew_arrays arrays;
};

static void run_tile(void *arg, const struct pd_tile *tile)
{
    const struct job *j = arg;
    j->kernel(&j->arrays, tile);
}

void pd_elementwise_apply(const struct pd_bcast *b, pd_ew_kernel kernel, const struct pd_ew_arrays *arrays)
{
    struct job j = {kernel, *arrays};
    pd_bcast_run(b, GRAIN, run_tile, &j);
}

pd_status pd_elementwise_begin(const struct pd_run *r, const pd_ew_kernel *kernels, int axis,
                               struct pd_bcast *b, struct pd_ew_arrays *arrays, pd_ew_kernel *kernel)
{
    const struct pd_tensor *x, *y = pd_run_in(r, 1);
    struct pd_tensor *out;
    int type;
    PD_TRY(pd_elements_type(y->meta.dtype, &type));
    if (!kernels[type])
        return pd_fail(PD_TYPE, "this op does not work on %s; cast the inputs first",
                       pd_dtype_name(y->meta.dtype));
    PD_TRY(pd_rows_pair(r, &x, &out));
    *kernel = kernels[type];
    *arrays = (struct pd_ew_arrays){.to = out->data, .x = x->data, .y = y->data};
    if (pd_meta_same_dims(&x->meta, &y->meta)) {
        int64_t n = pd_tensor_numel(x);
        pd_bcast_make(b, 1, &n, &n);
    } else if (x->meta.kind == PD_KIND_SELECTED_ROWS) {
        int64_t n = pd_tensor_numel(x), one = 1;
        pd_bcast_make(b, 1, &n, &one);
    } else {
        struct pd_aligned a;
        PD_TRY(align(&x->meta, &y->meta, axis, &a));
        pd_bcast_make(b, a.rank, a.x, a.y);
        /* A repeated X cannot be overwritten while it is read. */
        if (x->data == out->data && pd_tensor_numel(x) != b->count) {
            void *copy;
            PD_TRY(pd_scratch(r, pd_tensor_bytes(x), &copy));
            arrays->x = memcpy(copy, x->data, pd_tensor_bytes(x));
        }
    }
    return PD_OK;
}

pd_status pd_elementwise_run(const struct pd_run *r, const pd_ew_kernel *kernels, int axis)
{
    struct pd_bcast b;
    struct pd_ew_arrays arrays;
    pd_ew_kernel kernel;
    PD_TRY(pd_elementwise_begin(r, kernels, axis, &b, &arrays, &kernel));
    pd_elementwise_apply(&b, kernel, &arrays);
    return PD_OK;
}

/* ---- gradients ---- */

pd_status pd_ew_grad_begin(struct pd_ew_grad *g, const struct pd_run *r, const struct pd_tensor *x,
                           const struct pd_tensor *y, const struct pd_tensor *dout, int axis)
{
    g->r = r;
    g->dtype = dout->meta.dtype;
    PD_TRY(pd_elements_type(g->dtype, &g->type));
    if (g->type > PD_EW_I64)
        return pd_fail(PD_TYPE, "there are no gradients of type %s", pd_dtype_name(g->dtype));
    if (pd_meta_same_dims(&x->meta, &y->meta)) {
        g->a.rank = 1;
        g->a.x[0] = g->a.y[0] = g->a.out[0] = pd_tensor_numel(x);
    } else {
        PD_TRY(align(&x->meta, &y->meta, axis, &g->a));
    }
    pd_bcast_make(&g->b, g->a.rank, g->a.x, g->a.y);
    if (g->b.count != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but %s and %s make %lld elements",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&x->meta),
                       pd_meta_dims_text(&y->meta), (long long)g->b.count);
    g->arrays = (struct pd_ew_arrays){.x = x->data ? x->data : dout->data,
                                      .y = y->data ? y->data : dout->data,
                                      .out = dout->data,
                                      .dout = dout->data};
    return PD_OK;
}

static void full(const struct pd_ew_grad *g, const pd_ew_kernel *kernels, void *to)
{
    if (kernels) {
        struct pd_ew_arrays arrays = g->arrays;
        arrays.to = to;
        pd_elementwise_apply(&g->b, kernels[g->type], &arrays);
    } else if (to != g->arrays.dout) {
        memcpy(to, g->arrays.dout, (size_t)g->b.count * pd_dtype_size(g->dtype));
    }
}

pd_status pd_ew_grad_operand(const struct pd_ew_grad *g, const pd_ew_kernel *kernels, const int64_t *own,
                             struct pd_tensor *to)
{
    uint8_t gone[PD_MAX_RANK];
    int summed = 0;
    for (int i = 0; i < g->a.rank; i++)
        summed |= gone[i] = own[i] == 1 && g->a.out[i] != 1;
    if (!summed) {
        full(g, kernels, to->data);
        return PD_OK;
    }
    struct pd_reduce reduce;
    const struct pd_reduce_kernel *sum = &pd_reduce_sum[g->type];
    pd_reduce_make(&reduce, g->a.rank, g->a.out, gone);
    size_t item = pd_dtype_size(g->dtype);
    size_t values = kernels ? pd_scratch_round((size_t)g->b.count * item) : 0;
    size_t parts = pd_scratch_round(pd_reduce_scratch(&reduce, sum));
    char *memory;
    PD_TRY(pd_scratch(g->r, values + parts + (size_t)reduce.outputs * item, (void **)&memory));
    if (kernels) full(g, kernels, memory);
    char *result = to->data == g->arrays.dout ? memory + values + parts : to->data;
    pd_reduce_run(&reduce, sum, kernels ? memory : g->arrays.dout, result, memory + values);
    if (result != to->data) memcpy(to->data, result, (size_t)reduce.outputs * item);
    return PD_OK;
}

/* ---- the ops ---- */

enum { X, Y };
enum { OUT };
enum { AXIS };

static const struct pd_slot_def inputs[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1), PD_DEF_STRING("x_data_format", ""), PD_DEF_STRING("y_data_format", ""), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_elementwise_infer(c, AXIS, PD_DTYPE_NONE);
}

/* Floats have infinities for it; integers have nothing. */
static pd_status refuse_zero(const struct pd_tensor *y)
{
    int64_t n = pd_tensor_numel(y);
    PD_SWITCH_INDEX(y->meta.dtype, T, {
        const T *v = y->data;
        for (int64_t i = 0; i < n; i++)
            if (v[i] == 0)
                return pd_fail(PD_INVALID, "integer division by zero: element %lld of Y is 0", (long long)i);
    })
    return PD_OK;
}

static pd_status divide(const struct pd_run *r, const pd_ew_kernel *kernels)
{
    PD_TRY(refuse_zero(pd_run_in(r, Y)));
    return pd_elementwise_run(r, kernels, r->attr[AXIS].i);
}

static pd_status run_add(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_add, r->attr[AXIS].i);
}
static pd_status run_sub(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_sub, r->attr[AXIS].i);
}
static pd_status run_mul(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_mul, r->attr[AXIS].i);
}
static pd_status run_max(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_max, r->attr[AXIS].i);
}
static pd_status run_min(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_min, r->attr[AXIS].i);
}
static pd_status run_pow(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_pow, r->attr[AXIS].i);
}
static pd_status run_div(const struct pd_run *r)
{
    return divide(r, pd_ew_div);
}
static pd_status run_mod(const struct pd_run *r)
{
    return divide(r, pd_ew_mod);
}
static pd_status run_floordiv(const struct pd_run *r)
{
    return divide(r, pd_ew_floordiv);
}

#define ELEMENTWISE(name, text, ...)                                                                         \
    const struct pd_op pd_op_elementwise_##name = {                                                          \
        .type = "elementwise_" #name,                                                                        \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs,                                                                                      \
        .infer = infer,                                                                                      \
        .run = run_##name,                                                                                   \
        .share = share,                                                                                      \
        __VA_ARGS__,                                                                                         \
    };
#define GRAD(name, in)                                                                                       \
    .flags = PD_OP_ON_SERVER, .grad_type = "elementwise_" #name "_grad", .grad_in = in, .grad_out = "X@ Y@"

ELEMENTWISE(add, "Out = X + Y.", GRAD(add, "X Y Out@"))
ELEMENTWISE(sub, "Out = X - Y.", GRAD(sub, "X Y Out@"))
ELEMENTWISE(mul, "Out = X * Y.", GRAD(mul, "X Y Out@"))
ELEMENTWISE(div, "Out = X / Y; integers are cut towards zero.", GRAD(div, "X Y Out Out@"))
ELEMENTWISE(max, "Out is the larger of X and Y.", GRAD(max, "X Y Out@"))
ELEMENTWISE(min, "Out is the smaller of X and Y.", GRAD(min, "X Y Out@"))
ELEMENTWISE(pow, "Out = X to the power of Y.", GRAD(pow, "X Y Out@"))
ELEMENTWISE(mod, "Out is the remainder of X / Y.", .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER)
ELEMENTWISE(floordiv, "Out = X / Y without the fraction.", .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER)
