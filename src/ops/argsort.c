/* argsort, arg_max and arg_min: order and extremes along one axis. Of equal elements the first is first. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/larger.h"
#include "kernels/sort.h"
#include "ops/shape_util.h"

enum { X };
enum { OUT, INDICES };
enum { AXIS, DESCENDING };          /* argsort */
enum { ARG_AXIS, KEEPDIMS, DTYPE }; /* arg_max, arg_min */
enum { G_INDICES, G_X, G_DOUT };

static const struct pd_attr_def sort_attrs[] = {PD_DEF_INT("axis", -1), PD_DEF_BOOL("descending", 0), {0}};
static const struct pd_attr_def arg_attrs[] = {
    PD_DEF_LONG("axis", 0), PD_DEF_BOOL("keepdims", 0), PD_DEF_INT("dtype", -1), {0}};

/* A tensor as outer x n x inner, n along the axis. */
struct lines {
    int64_t outer, n, inner;
    const void *x;
    void *out;
    int64_t *index;
    char *memory;
    enum pd_dtype dtype, out_dtype;
    int descending; /* argsort; for arg_max 1, for arg_min 0 */
};

static void lines_of(const struct pd_meta *x, int axis, struct lines *l)
{
    l->outer = pd_meta_span(x, 0, axis);
    l->n = x->dim[axis];
    l->inner = pd_meta_span(x, axis + 1, x->rank);
    l->dtype = x->dtype;
}

/* ---- argsort ---- */

static pd_status sort_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *index = pd_infer_out(c, INDICES);
    int axis;
    PD_TRY(pd_shape_axis(c->attr[AXIS].i, x->rank, &axis));
    pd_shape_like(c, OUT, X);
    if (index) {
        pd_meta_like(index, x);
        index->dtype = PD_DTYPE_INT64;
    }
    return PD_OK;
}

#define SORT_LINE(name, T)                                                                                   \
    pd_sort_##name((const T *)l->x + at, l->n, l->inner, l->descending, l->out ? (T *)l->out + at : NULL,    \
                   l->index ? l->index + at : NULL, (struct pd_sort_pair_##name *)memory)

static void sort_lines(void *arg, int64_t begin, int64_t end)
{
    const struct lines *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / l->inner * l->n * l->inner + i % l->inner;
        char *memory = l->memory + i * pd_sort_bytes(l->n);
        switch ((int)l->dtype) {
        case PD_DTYPE_FP32:
            SORT_LINE(f32, float);
            break;
        case PD_DTYPE_FP64:
            SORT_LINE(f64, double);
            break;
        case PD_DTYPE_INT32:
            SORT_LINE(i32, int32_t);
            break;
        case PD_DTYPE_INT64:
            SORT_LINE(i64, int64_t);
            break;
        }
    }
}

static pd_status sort_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *index = pd_run_out(r, INDICES);
    struct lines l = {.x = x->data,
                      .out = out ? out->data : NULL,
                      .index = index ? index->data : NULL,
                      .descending = r->attr[DESCENDING].b};
    int axis;
    PD_TRY(pd_shape_axis(r->attr[AXIS].i, x->meta.rank, &axis));
    if (!pd_dtype_is_float(x->meta.dtype) && !pd_dtype_is_index(x->meta.dtype))
        return pd_fail(PD_TYPE, "X is %s; float32, float64, int32 and int64 can be sorted",
                       pd_dtype_name(x->meta.dtype));
    lines_of(&x->meta, axis, &l);
    if (pd_tensor_numel(x) == 0) return PD_OK;
    PD_TRY(pd_shape_scratch(r, (size_t)(l.outer * l.inner * pd_sort_bytes(l.n)), (void **)&l.memory));
    pd_parallel(l.outer * l.inner, 4096 / l.n + 1, sort_lines, &l);
    return PD_OK;
}

static pd_status sort_grad_infer(const struct pd_infer *c)
{
    pd_shape_like(c, 0, G_X);
    return PD_OK;
}

static pd_status sort_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *index = pd_run_in(r, G_INDICES), *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct lines l = {0};
    int axis;
    if (!dx) return PD_OK;
    PD_TRY(pd_shape_axis(r->attr[AXIS].i, dx->meta.rank, &axis));
    lines_of(&dx->meta, axis, &l);
    const int64_t *at = index->data;
    size_t item = pd_dtype_size(dx->meta.dtype);
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t k = 0; k < l.n; k++)
            for (int64_t i = 0; i < l.inner; i++) {
                int64_t from = (o * l.n + k) * l.inner + i;
                if ((uint64_t)at[from] >= (uint64_t)l.n)
                    return pd_fail(PD_RANGE, "Indices has %lld at position %lld; it must be in 0 to %lld",
                                   (long long)at[from], (long long)from, (long long)l.n - 1);
                int64_t to = (o * l.n + at[from]) * l.inner + i;
                memcpy((char *)dx->data + to * (int64_t)item, (const char *)dout->data + from * (int64_t)item,
                       item);
            }
    return PD_OK;
}

/* ---- arg_max, arg_min ---- */

static pd_status arg_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t dim[PD_MAX_RANK];
    int axis, rank = 0, dtype = c->attr[DTYPE].i;
    PD_TRY(pd_shape_axis(c->attr[ARG_AXIS].l, x->rank, &axis));
    if (dtype >= 0 && dtype != PD_DTYPE_INT32 && dtype != PD_DTYPE_INT64)
        return pd_fail(PD_TYPE, "dtype is %d; positions can be int32 (2) or int64 (3)", dtype);
    if (x->dim[axis] == 0 && pd_meta_span(x, 0, axis) && pd_meta_span(x, axis + 1, x->rank))
        return pd_fail(PD_SHAPE, "X has shape %s: axis %d has no elements", pd_meta_dims_text(x), axis);
    for (int i = 0; i < x->rank; i++)
        if (i != axis || c->attr[KEEPDIMS].b) dim[rank++] = i == axis ? 1 : x->dim[i];
    if (rank == 0) dim[rank++] = 1;
    if (!out) return PD_OK;
    out->dtype = dtype < 0 ? PD_DTYPE_INT64 : (enum pd_dtype)dtype;
    return pd_meta_set_dims(out, rank, dim);
}

#define BEST(T)                                                                                              \
    do {                                                                                                     \
        const T *line = (const T *)l->x + at;                                                                \
        for (int64_t k = 1; k < l->n; k++)                                                                   \
            if (l->descending ? PD_ABOVE(line[k * l->inner], line[best * l->inner])                          \
                              : PD_ABOVE(line[best * l->inner], line[k * l->inner]))                         \
                best = k;                                                                                    \
    } while (0)

static void best_lines(void *arg, int64_t begin, int64_t end)
{
    const struct lines *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / l->inner * l->n * l->inner + i % l->inner, best = 0;
        PD_SWITCH_ANY(l->dtype, T, BEST(T))
        if (l->out_dtype == PD_DTYPE_INT32)
            ((int32_t *)l->out)[i] = (int32_t)best;
        else
            ((int64_t *)l->out)[i] = best;
    }
}

static pd_status best_run(const struct pd_run *r, int largest)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct lines l = {.x = x->data, .out = out->data, .out_dtype = out->meta.dtype, .descending = largest};
    int axis;
    PD_TRY(pd_shape_axis(r->attr[ARG_AXIS].l, x->meta.rank, &axis));
    if (x->meta.dtype == PD_DTYPE_FP16) return pd_fail(PD_TYPE, "X is float16; cast it to float32 first");
    lines_of(&x->meta, axis, &l);
    if (pd_tensor_numel(x) == 0) return PD_OK;
    pd_parallel(l.outer * l.inner, 32768 / l.n + 1, best_lines, &l);
    return PD_OK;
}

static pd_status max_run(const struct pd_run *r)
{
    return best_run(r, 1);
}
static pd_status min_run(const struct pd_run *r)
{
    return best_run(r, 0);
}

static const struct pd_slot_def inputs[] = {{"X", 0}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};

const struct pd_op pd_op_argsort = {
    .type = "argsort",
    .doc = "Sorts along axis; Indices tells where each element came from.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Indices", 0}, {0}},
    .attrs = sort_attrs,
    .infer = sort_infer,
    .run = sort_run,
    .grad_type = "argsort_grad",
    .grad_in = "Indices X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_argsort_grad = {
    .type = "argsort_grad",
    .doc = "Gradient of argsort: each gradient back to where its element came from.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Indices", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_view_grad_outputs,
    .attrs = sort_attrs,
    .infer = sort_grad_infer,
    .run = sort_grad_run,
};

const struct pd_op pd_op_arg_max = {
    .type = "arg_max",
    .doc = "Where the largest element along axis is.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = arg_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = arg_infer,
    .run = max_run,
};

const struct pd_op pd_op_arg_min = {
    .type = "arg_min",
    .doc = "Where the smallest element along axis is.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = arg_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = arg_infer,
    .run = min_run,
};
