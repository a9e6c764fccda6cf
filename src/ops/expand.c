/* expand and expand_as: repeats a tensor along its dimensions. The gradient adds the repeats up. */
#include "kernels/copy.h"
#include "kernels/reduce.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, TIMES_TENSOR, TIMES_LIST, EXPAND_GRAD_OUT };
enum { TARGET = 1, AS_GRAD_OUT };
enum { OUT };
enum { TIMES };

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("expand_times"), {0}};
static const struct pd_numbers_source source = {"expand_times", TIMES_TENSOR, TIMES_LIST, TIMES, 0};

static pd_status multiply(const struct pd_meta *x, const struct pd_numbers *times, int64_t *dim)
{
    if (times->known && times->n != x->rank)
        return pd_fail(PD_INVALID,
                       "expand_times has %d numbers, but X has shape %s: give one for each dimension",
                       times->n, pd_meta_dims_text(x));
    for (int i = 0; i < x->rank; i++) {
        int64_t t = i < times->n ? times->at[i] : -1;
        if (times->known && t < 1 && t != -1)
            return pd_fail(PD_INVALID, "expand_times[%d] is %lld; it must be 1 or more", i, (long long)t);
        dim[i] = t < 1 || x->dim[i] < 0 ? -1 : x->dim[i] * t;
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_numbers times;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(pd_numbers_infer(c, &source, &times));
    PD_TRY(multiply(x, &times, dim));
    for (int i = 0; c->running && times.known && i < x->rank; i++)
        if (dim[i] < 0) return pd_fail(PD_INVALID, "expand_times[%d] is -1; it must be 1 or more", i);
    return pd_out_dims(out, x, x->rank, dim);
}

/* Each dimension as (repeats, size); those that do not repeat stay whole. */
struct tiles {
    int rank;
    int64_t dim[2 * PD_MAX_RANK];
    uint8_t repeat[2 * PD_MAX_RANK];
};

static void make_tiles(const struct pd_meta *x, const struct pd_meta *out, struct tiles *t)
{
    t->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        int64_t times = x->dim[i] ? out->dim[i] / x->dim[i] : 1;
        if (times != 1) {
            t->dim[t->rank] = times;
            t->repeat[t->rank++] = 1;
        }
        t->dim[t->rank] = x->dim[i];
        t->repeat[t->rank++] = 0;
    }
}

static void repeat(const struct pd_tensor *x, struct pd_tensor *out)
{
    struct tiles t;
    struct pd_copy copy;
    int64_t to[2 * PD_MAX_RANK], from[2 * PD_MAX_RANK], step = 1;
    make_tiles(&x->meta, &out->meta, &t);
    pd_copy_steps(t.rank, t.dim, to);
    for (int i = t.rank - 1; i >= 0; i--) {
        from[i] = t.repeat[i] ? 0 : step;
        if (!t.repeat[i]) step *= t.dim[i];
    }
    pd_copy_make(&copy, pd_dtype_size(x->meta.dtype), t.rank, t.dim, to, from);
    pd_copy_run(&copy, out->data, x->data);
}

/* Neighbours of one kind are merged first: the reduction takes fewer dimensions than a tile list may have. */
static pd_status add_up(const struct pd_run *r, const struct pd_tensor *dout, struct pd_tensor *dx)
{
    struct tiles t, m = {0};
    struct pd_reduce reduce;
    const struct pd_reduce_kernel *k;
    void *scratch;
    make_tiles(&dx->meta, &dout->meta, &t);
    for (int i = 0; i < t.rank; i++) {
        if (t.dim[i] == 1 && !(i == t.rank - 1 && m.rank == 0)) continue;
        if (m.rank && m.repeat[m.rank - 1] == t.repeat[i]) {
            m.dim[m.rank - 1] *= t.dim[i];
        } else {
            m.dim[m.rank] = t.dim[i];
            m.repeat[m.rank++] = t.repeat[i];
        }
    }
    if (m.rank > PD_REDUCE_RANK)
        return pd_fail(PD_SHAPE, "X of shape %s is repeated along too many dimensions; reshape it first",
                       pd_meta_dims_text(&dx->meta));
    switch ((int)dx->meta.dtype) {
    case PD_DTYPE_FP32:
        k = &pd_reduce_sum[PD_REDUCE_F32];
        break;
    case PD_DTYPE_FP64:
        k = &pd_reduce_sum[PD_REDUCE_F64];
        break;
    case PD_DTYPE_INT32:
        k = &pd_reduce_sum[PD_REDUCE_I32];
        break;
    case PD_DTYPE_INT64:
        k = &pd_reduce_sum[PD_REDUCE_I64];
        break;
    default:
        return pd_fail(PD_TYPE, "the gradient is %s; float32 or float64 is needed",
                       pd_dtype_name(dx->meta.dtype));
    }
    pd_reduce_make(&reduce, m.rank, m.dim, m.repeat);
    PD_TRY(pd_scratch(r, pd_reduce_scratch(&reduce, k), &scratch));
    pd_reduce_run(&reduce, k, dout->data, dx->data, scratch);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    if (r->in[TIMES_TENSOR].n || r->in[TIMES_LIST].n) {
        struct pd_numbers times;
        int64_t dim[PD_MAX_RANK];
        PD_TRY(pd_numbers_run(r, &source, &times));
        PD_TRY(multiply(&x->meta, &times, dim));
        PD_TRY(pd_out_fit(out, x->meta.dtype, x->meta.rank, dim));
    }
    repeat(x, out);
    return PD_OK;
}

static pd_status grad_from(const struct pd_run *r, int slot)
{
    const struct pd_tensor *dout = pd_run_in(r, slot);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    for (int i = 0; i < dx->meta.rank; i++)
        if (dout->meta.rank != dx->meta.rank ||
            (dx->meta.dim[i] ? dout->meta.dim[i] % dx->meta.dim[i] : dout->meta.dim[i]) != 0)
            return pd_fail(PD_SHAPE, "the gradient has shape %s, which is no multiple of X's shape %s",
                           pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&dx->meta));
    return add_up(r, dout, dx);
}

static pd_status grad_run(const struct pd_run *r)
{
    return grad_from(r, EXPAND_GRAD_OUT);
}

/* ---- expand_as ---- */

static pd_status as_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *target = pd_infer_in(c, TARGET);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (x->rank != target->rank)
        return pd_fail(PD_SHAPE, "X has shape %s, target_tensor has shape %s; they need as many dimensions",
                       pd_meta_dims_text(x), pd_meta_dims_text(target));
    for (int i = 0; i < x->rank; i++)
        if (x->dim[i] > 0 && target->dim[i] >= 0 && target->dim[i] % x->dim[i] != 0)
            return pd_fail(PD_SHAPE,
                           "X of shape %s cannot be repeated to shape %s: dimension %d is no multiple",
                           pd_meta_dims_text(x), pd_meta_dims_text(target), i);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, target);
    pd_meta_take_lod(out, NULL);
    return PD_OK;
}

static pd_status as_run(const struct pd_run *r)
{
    repeat(pd_run_in(r, X), pd_run_out(r, OUT));
    return PD_OK;
}

static pd_status as_grad_run(const struct pd_run *r)
{
    return grad_from(r, AS_GRAD_OUT);
}

static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};

const struct pd_op pd_op_expand = {
    .type = "expand",
    .doc = "Repeats X expand_times[i] times along dimension i.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0},
                                     {"ExpandTimes", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                     {"expand_times_tensor", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                     {0}},
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "expand_grad",
    .grad_in = "X ExpandTimes expand_times_tensor Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_expand_grad = {
    .type = "expand_grad",
    .doc = "Gradient of expand: the sum over the repeats.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META},
            {"ExpandTimes", PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"expand_times_tensor", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"Out@GRAD", 0},
            {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};

const struct pd_op pd_op_expand_as = {
    .type = "expand_as",
    .doc = "Repeats X to the shape of target_tensor.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"target_tensor", PD_SLOT_META | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = outputs,
    .infer = as_infer,
    .run = as_run,
    .grad_type = "expand_as_grad",
    .grad_in = "X target_tensor Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_expand_as_grad = {
    .type = "expand_as_grad",
    .doc = "Gradient of expand_as: the sum over the repeats.",
    .inputs =
        (const struct pd_slot_def[]){{"X", PD_SLOT_META},
                                     {"target_tensor", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                     {"Out@GRAD", 0},
                                     {0}},
    .outputs = pd_out_x_grad,
    .infer = pd_out_infer_like,
    .run = as_grad_run,
};
