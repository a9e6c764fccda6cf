/* arg_max and arg_min: where the extremes along one axis are. Of equal elements the first counts. */
#include "base/parallel.h"
#include "kernels/larger.h"
#include "ops/axis.h"

enum { X };
enum { OUT };
enum { AXIS, KEEPDIMS, DTYPE };

static const struct pd_attr_def attrs[] = {
    PD_DEF_LONG("axis", 0), PD_DEF_BOOL("keepdims", 0), PD_DEF_INT("dtype", -1), {0}};

struct job {
    struct pd_axis_lines lines;
    const void *x;
    void *out;
    enum pd_dtype dtype, out_dtype;
    int largest;
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t dim[PD_MAX_RANK];
    int axis, rank = 0, dtype = c->attr[DTYPE].i;
    PD_TRY(pd_axis_of(c->attr[AXIS].l, x->rank, &axis));
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
        for (int64_t k = 1; k < l->lines.n; k++)                                                             \
            if (l->largest ? PD_ABOVE(line[k * l->lines.inner], line[best * l->lines.inner])                 \
                           : PD_ABOVE(line[best * l->lines.inner], line[k * l->lines.inner]))                \
                best = k;                                                                                    \
    } while (0)

static void best_lines(void *arg, int64_t begin, int64_t end)
{
    const struct job *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / l->lines.inner * l->lines.n * l->lines.inner + i % l->lines.inner, best = 0;
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
    struct job l = {.x = x->data,
                    .out = out->data,
                    .out_dtype = out->meta.dtype,
                    .dtype = x->meta.dtype,
                    .largest = largest};
    int axis;
    PD_TRY(pd_axis_of(r->attr[AXIS].l, x->meta.rank, &axis));
    if (x->meta.dtype == PD_DTYPE_FP16) return pd_fail(PD_TYPE, "X is float16; cast it to float32 first");
    l.lines = pd_axis_lines(&x->meta, axis);
    if (pd_tensor_numel(x) == 0) return PD_OK;
    pd_parallel(l.lines.outer * l.lines.inner, 32768 / l.lines.n + 1, best_lines, &l);
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

const struct pd_op pd_op_arg_max = {
    .type = "arg_max",
    .doc = "Where the largest element along axis is.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = max_run,
};

const struct pd_op pd_op_arg_min = {
    .type = "arg_min",
    .doc = "Where the smallest element along axis is.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = min_run,
};
