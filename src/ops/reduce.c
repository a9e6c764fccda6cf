/* reduce_sum, mean, max, min, prod, all, any over a list of dimensions or all of them; gradients of the first
 * five. */
#include <string.h>

#include "kernels/ew_binary.h"
#include "kernels/ew_spread.h"
#include "kernels/reduce.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "ops/scratch.h"

#define GRAIN 32768

enum { X, OUT, DOUT }; /* inputs of a gradient op; X is input 0 of both */
enum { DIM, KEEP_DIM, REDUCE_ALL, IN_DTYPE, OUT_DTYPE };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INTS_OF("dim", 0),     PD_DEF_BOOL("keep_dim", 0),
                                           PD_DEF_BOOL("reduce_all", 0), PD_DEF_INT("in_dtype", -1),
                                           PD_DEF_INT("out_dtype", -1),  {0}};

/* Marks the dimensions that go. */
static pd_status mark(const struct pd_attr *attr, const struct pd_meta *x, uint8_t *gone)
{
    int all = attr[REDUCE_ALL].b || attr[DIM].n == 0;
    memset(gone, all, PD_MAX_RANK);
    for (int i = 0; i < attr[DIM].n && !all; i++) {
        int d = attr[DIM].ints[i];
        if (d < -x->rank || d >= x->rank)
            return pd_fail(PD_RANGE,
                           "attribute dim asks for dimension %d; X has shape %s, so it must lie in [%d, %d]",
                           d, pd_meta_dims_text(x), -x->rank, x->rank - 1);
        gone[d < 0 ? d + x->rank : d] = 1;
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, 0);
    uint8_t gone[PD_MAX_RANK];
    int64_t dim[PD_MAX_RANK];
    int rank = 0;
    if (!out) return PD_OK;
    PD_TRY(mark(c->attr, x, gone));
    for (int i = 0; i < x->rank; i++) {
        if (!gone[i])
            dim[rank++] = x->dim[i];
        else if (c->attr[KEEP_DIM].b)
            dim[rank++] = 1;
    }
    if (!rank) dim[rank++] = 1;
    out->dtype = x->dtype;
    if (c->attr[OUT_DTYPE].i >= 0) PD_TRY(pd_check_dtype(c->attr[OUT_DTYPE].i, "out_dtype", &out->dtype));
    PD_TRY(pd_meta_set_dims(out, rank, dim));
    if (!gone[0])
        pd_meta_share_lod(out, x);
    else
        pd_meta_take_lod(out, NULL);
    return PD_OK;
}

/* Reduces; the input is converted to the output's type first when these differ. */
static pd_status reduce(const struct pd_run *r, const struct pd_reduce_kernel *kernels,
                        struct pd_reduce *plan)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    uint8_t gone[PD_MAX_RANK];
    int type;
    char *memory;
    PD_TRY(mark(r->attr, &x->meta, gone));
    PD_TRY(pd_elements_type(out->meta.dtype, &type));
    if (type >= PD_REDUCE_TYPES || !kernels[type].fold)
        return pd_fail(PD_TYPE, "X is %s, which this op does not reduce; cast it first",
                       pd_dtype_name(out->meta.dtype));
    pd_reduce_make(plan, x->meta.rank, x->meta.dim, gone);
    size_t parts = pd_scratch_round(pd_reduce_scratch(plan, &kernels[type]));
    int convert = x->meta.dtype != out->meta.dtype;
    int64_t n = pd_tensor_numel(x);
    PD_TRY(pd_scratch(r, parts + (convert ? (size_t)n * kernels[type].item : 0), (void **)&memory));
    const void *from = x->data;
    if (convert) {
        PD_TRY(pd_elements_cast(memory + parts, out->meta.dtype, x->data, x->meta.dtype, n));
        from = memory + parts;
    }
    pd_reduce_run(plan, &kernels[type], from, out->data, memory);
    return PD_OK;
}

static pd_status sum_run(const struct pd_run *r)
{
    struct pd_reduce plan;
    return reduce(r, pd_reduce_sum, &plan);
}

/* The mean of nothing is NaN; whole numbers have none, and stay 0. */
static pd_status mean_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, 0);
    struct pd_reduce plan;
    PD_TRY(reduce(r, pd_reduce_sum, &plan));
    if (!plan.folded && !pd_dtype_is_float(out->meta.dtype)) return PD_OK;
    PD_SWITCH_NUMBER(out->meta.dtype, T, {
        T *v = out->data;
        for (int64_t i = 0; i < plan.outputs; i++)
            v[i] = (T)(v[i] / (T)plan.folded);
    })
    return PD_OK;
}

/* There is no largest element of nothing. */
static pd_status extreme(const struct pd_run *r, const struct pd_reduce_kernel *kernels)
{
    struct pd_reduce plan;
    PD_TRY(reduce(r, kernels, &plan));
    if (!plan.folded && plan.outputs)
        return pd_fail(PD_SHAPE, "X has shape %s: there is nothing to choose from",
                       pd_meta_dims_text(&pd_run_in(r, X)->meta));
    return PD_OK;
}

static pd_status max_run(const struct pd_run *r)
{
    return extreme(r, pd_reduce_max);
}
static pd_status min_run(const struct pd_run *r)
{
    return extreme(r, pd_reduce_min);
}

static pd_status prod_run(const struct pd_run *r)
{
    struct pd_reduce plan;
    return reduce(r, pd_reduce_prod, &plan);
}

static pd_status logic(const struct pd_run *r, const struct pd_reduce_kernel *kernels)
{
    struct pd_reduce plan;
    if (pd_run_in(r, X)->meta.dtype != PD_DTYPE_BOOL)
        return pd_fail(PD_TYPE, "X is %s; it must be bool, cast it or compare it first",
                       pd_dtype_name(pd_run_in(r, X)->meta.dtype));
    return reduce(r, kernels, &plan);
}

static pd_status all_run(const struct pd_run *r)
{
    return logic(r, pd_reduce_min);
}
static pd_status any_run(const struct pd_run *r)
{
    return logic(r, pd_reduce_max);
}

/* ---- gradients ---- */

static const struct pd_slot_def shape_inputs[] = {
    {"X", PD_SLOT_META}, {"Out", PD_SLOT_OPTIONAL | PD_SLOT_META}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def value_inputs[] = {{"X"}, {"Out"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};

struct job {
    pd_spread_kernel kernel;
    struct pd_spread_arrays arrays;
};

static void run_tile(void *arg, const struct pd_tile *tile)
{
    const struct job *j = arg;
    j->kernel(&j->arrays, tile);
}

static pd_status spread(const struct pd_run *r, const pd_spread_kernel *kernels, int is_mean)
{
    const struct pd_tensor *x = pd_run_in(r, X), *out = pd_run_in(r, OUT), *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    uint8_t gone[PD_MAX_RANK];
    int64_t small[PD_MAX_RANK], outputs_n = 1;
    int type;
    if (!dx) return PD_OK;
    PD_TRY(mark(r->attr, &x->meta, gone));
    for (int i = 0; i < x->meta.rank; i++)
        outputs_n *= small[i] = gone[i] ? 1 : x->meta.dim[i];
    if (outputs_n != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but X of shape %s gives %lld results",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&x->meta), (long long)outputs_n);
    PD_TRY(pd_elements_type(dx->meta.dtype, &type));
    if (type > PD_EW_I64)
        return pd_fail(PD_TYPE, "there are no gradients of type %s", pd_dtype_name(dx->meta.dtype));
    const void *from = dout->data;
    if (dout->meta.dtype != dx->meta.dtype) {
        void *memory;
        PD_TRY(pd_scratch(r, (size_t)outputs_n * pd_dtype_size(dx->meta.dtype), &memory));
        PD_TRY(pd_elements_cast(memory, dx->meta.dtype, dout->data, dout->meta.dtype, outputs_n));
        from = memory;
    }
    struct pd_bcast b;
    pd_bcast_make(&b, x->meta.rank, x->meta.dim, small);
    int reads = kernels != pd_spread_scaled;
    /* Kernels read all arrays; those that do not count are stood for by ones of the right size. */
    struct job j = {kernels[type],
                    {.to = dx->data,
                     .x = reads ? x->data : dx->data,
                     .out = reads ? out->data : from,
                     .dout = from,
                     .scale = is_mean && b.count ? (double)outputs_n / (double)b.count : 1}};
    pd_bcast_run(&b, GRAIN, run_tile, &j);
    return PD_OK;
}

static pd_status sum_grad_run(const struct pd_run *r)
{
    return spread(r, pd_spread_scaled, 0);
}
static pd_status mean_grad_run(const struct pd_run *r)
{
    return spread(r, pd_spread_scaled, 1);
}
static pd_status max_grad_run(const struct pd_run *r)
{
    return spread(r, pd_spread_equal, 0);
}
static pd_status min_grad_run(const struct pd_run *r)
{
    return spread(r, pd_spread_equal, 0);
}
static pd_status prod_grad_run(const struct pd_run *r)
{
    return spread(r, pd_spread_prod, 0);
}

#define REDUCE(name, text, ...)                                                                              \
    const struct pd_op pd_op_reduce_##name = {                                                               \
        .type = "reduce_" #name,                                                                             \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs,                                                                                      \
        .infer = infer,                                                                                      \
        .run = name##_run,                                                                                   \
        __VA_ARGS__,                                                                                         \
    };
#define REDUCE_GRAD(name, text, words, in)                                                                   \
    REDUCE(name, text, .flags = PD_OP_ON_SERVER, .grad_type = "reduce_" #name "_grad", .grad_in = words,     \
           .grad_out = "X@")                                                                                 \
    const struct pd_op pd_op_reduce_##name##_grad = {                                                        \
        .type = "reduce_" #name "_grad",                                                                     \
        .doc = "Gradient of reduce_" #name ".",                                                              \
        .inputs = in,                                                                                        \
        .outputs = grad_outputs,                                                                             \
        .attrs = attrs,                                                                                      \
        .infer = pd_out_infer_same,                                                                          \
        .run = name##_grad_run,                                                                              \
    };

REDUCE_GRAD(sum, "The sum over the given dimensions.", "X Out@", shape_inputs)
REDUCE_GRAD(mean, "The mean over the given dimensions.", "X Out@", shape_inputs)
REDUCE_GRAD(max, "The largest element over the given dimensions.", "X Out Out@", value_inputs)
REDUCE_GRAD(min, "The smallest element over the given dimensions.", "X Out Out@", value_inputs)
REDUCE_GRAD(prod, "The product over the given dimensions.", "X Out Out@", value_inputs)
REDUCE(all, "Whether all elements over the given dimensions are true.",
       .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER)
REDUCE(any, "Whether one element over the given dimensions is true.",
       .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER)
