/* Gradients of elementwise_add, sub, mul, div, max, min and pow.
 *
 * Each operand's gradient is first a value for every element of the result. Where the operand was repeated these are
 * summed. For add and sub the values are those of Out@GRAD, so a bias gradient is one column sum. */
#include <string.h>

#include "kernels/reduce.h"
#include "ops/elementwise.h"

#define GRAIN 32768

enum { X, Y, DOUT, RESULT };
enum { DX, DY };
enum { AXIS };

static const struct pd_slot_def shape_inputs[] = {{"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def value_inputs[] = {{"X"}, {"Y"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def div_inputs[] = {{"X", PD_SLOT_META}, {"Y"}, {"Out@GRAD"}, {"Out"}, {0}};
static const struct pd_slot_def outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1), PD_DEF_STRING("x_data_format", ""), PD_DEF_STRING("y_data_format", ""), {0}};
static const struct pd_share share_same[] = {{DX, DOUT, 1}, {-1, -1, 0}};
static const struct pd_share share[] = {{DX, DOUT, 0}, {-1, -1, 0}};

static pd_status infer(const struct pd_infer *c)
{
    pd_math_out_like(c, DX, X);
    pd_math_out_like(c, DY, Y);
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

/* What a gradient op knows; a kernel table that is NULL stands for dout itself. */
struct task {
    const struct pd_run *r;
    struct pd_aligned a;
    struct pd_bcast b;
    struct pd_ew_arrays arrays;
    enum pd_dtype dtype;
    int type;
};

/* The gradient of an operand of the full shape. */
static void full(const struct task *t, const pd_ew_kernel *kernels, void *to)
{
    if (!kernels) {
        if (to != t->arrays.dout) memcpy(to, t->arrays.dout, (size_t)t->b.count * pd_dtype_size(t->dtype));
        return;
    }
    struct job j = {kernels[t->type], t->arrays};
    j.arrays.to = to;
    pd_bcast_run(&t->b, GRAIN, run_tile, &j);
}

static pd_status operand(const struct task *t, const pd_ew_kernel *kernels, const int64_t *own, struct pd_tensor *to)
{
    uint8_t gone[PD_MAX_RANK];
    int summed = 0;
    for (int i = 0; i < t->a.rank; i++)
        summed |= gone[i] = own[i] == 1 && t->a.out[i] != 1;
    if (!summed) {
        full(t, kernels, to->data);
        return PD_OK;
    }
    struct pd_reduce reduce;
    const struct pd_reduce_kernel *sum = &pd_reduce_sum[t->type];
    pd_reduce_make(&reduce, t->a.rank, t->a.out, gone);
    size_t item = pd_dtype_size(t->dtype);
    size_t values = kernels ? ((size_t)t->b.count * item + 63) / 64 * 64 : 0;
    size_t parts = (pd_reduce_scratch(&reduce, sum) + 63) / 64 * 64;
    char *memory;
    PD_TRY(pd_math_scratch(t->r, values + parts + (size_t)reduce.outputs * item, (void **)&memory));
    if (kernels) full(t, kernels, memory);
    /* The result may lie where dout lies. */
    char *result = to->data == t->arrays.dout ? memory + values + parts : to->data;
    pd_reduce_run(&reduce, sum, kernels ? memory : t->arrays.dout, result, memory + values);
    if (result != to->data) memcpy(to->data, result, (size_t)reduce.outputs * item);
    return PD_OK;
}

static pd_status begin(const struct pd_run *r, int reads_x, struct task *t)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *dout = pd_run_in(r, DOUT);
    t->r = r;
    t->dtype = dout->meta.dtype;
    PD_TRY(pd_math_type(t->dtype, &t->type));
    if (t->type > PD_EW_I64) return pd_fail(PD_TYPE, "there are no gradients of type %s", pd_dtype_name(t->dtype));
    if (pd_meta_same_dims(&x->meta, &y->meta)) {
        t->a.rank = 1;
        t->a.x[0] = t->a.y[0] = t->a.out[0] = pd_tensor_numel(x);
    } else {
        PD_TRY(pd_align(&x->meta, &y->meta, r->attr[AXIS].i, &t->a));
    }
    int64_t count = 1;
    for (int i = 0; i < t->a.rank; i++)
        count *= t->a.out[i];
    if (count != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but X %s and Y %s make %lld elements", pd_meta_dims_text(&dout->meta),
                       pd_meta_dims_text(&x->meta), pd_meta_dims_text(&y->meta), (long long)count);
    pd_bcast_make(&t->b, t->a.rank, t->a.x, t->a.y);
    /* Kernels load all arrays, so one that is not there is stood for by dout. */
    t->arrays = (struct pd_ew_arrays){
        .x = reads_x && x->data ? x->data : dout->data, .y = y->data ? y->data : dout->data, .out = dout->data, .dout = dout->data};
    return PD_OK;
}

/* X@GRAD may take the place of Out@GRAD, so it comes last. */
static pd_status run(const struct task *t, const pd_ew_kernel *dx, const pd_ew_kernel *dy)
{
    if (pd_run_out(t->r, DY)) PD_TRY(operand(t, dy, t->a.y, pd_run_out(t->r, DY)));
    if (pd_run_out(t->r, DX)) PD_TRY(operand(t, dx, t->a.x, pd_run_out(t->r, DX)));
    return PD_OK;
}

static pd_status run_add(const struct pd_run *r)
{
    struct task t;
    PD_TRY(begin(r, 0, &t));
    t.arrays.y = t.arrays.dout;
    return run(&t, NULL, NULL);
}

/* A repeated Y is summed first and negated after: there is less of it then. */
static pd_status run_sub(const struct pd_run *r)
{
    struct task t;
    struct pd_tensor *dy = pd_run_out(r, DY), *dx = pd_run_out(r, DX);
    PD_TRY(begin(r, 0, &t));
    t.arrays.y = t.arrays.dout;
    if (dy) {
        PD_TRY(operand(&t, NULL, t.a.y, dy));
        int64_t n = pd_tensor_numel(dy);
        struct job j = {pd_ew_sub_dy[t.type], {dy->data, dy->data, dy->data, dy->data, dy->data}};
        struct pd_bcast flat;
        pd_bcast_make(&flat, 1, &n, &n);
        pd_bcast_run(&flat, GRAIN, run_tile, &j);
    }
    return dx ? operand(&t, NULL, t.a.x, dx) : PD_OK;
}

static pd_status run_values(const struct pd_run *r, const pd_ew_kernel *dx, const pd_ew_kernel *dy)
{
    struct task t;
    PD_TRY(begin(r, 1, &t));
    return run(&t, dx, dy);
}

static pd_status run_mul(const struct pd_run *r) { return run_values(r, pd_ew_mul_dx, pd_ew_mul_dy); }
static pd_status run_max(const struct pd_run *r) { return run_values(r, pd_ew_max_dx, pd_ew_max_dy); }
static pd_status run_min(const struct pd_run *r) { return run_values(r, pd_ew_min_dx, pd_ew_min_dy); }
static pd_status run_pow(const struct pd_run *r) { return run_values(r, pd_ew_pow_dx, pd_ew_pow_dy); }

static pd_status run_div(const struct pd_run *r)
{
    struct task t;
    PD_TRY(begin(r, 0, &t));
    t.arrays.out = pd_run_in(r, RESULT)->data;
    return run(&t, pd_ew_div_dx, pd_ew_div_dy);
}

#define GRADIENT(name, in, shares)                                                                             \
    const struct pd_op pd_op_elementwise_##name##_grad = {                                                     \
        .type = "elementwise_" #name "_grad",                                                                  \
        .doc = "Gradient of elementwise_" #name ".",                                                           \
        .inputs = in,                                                                                          \
        .outputs = outputs,                                                                                    \
        .attrs = attrs,                                                                                        \
        .infer = infer,                                                                                        \
        .run = run_##name,                                                                                     \
        .share = shares,                                                                                       \
    };

GRADIENT(add, shape_inputs, share_same)
GRADIENT(sub, shape_inputs, share_same)
GRADIENT(mul, value_inputs, share)
GRADIENT(div, div_inputs, share)
GRADIENT(max, value_inputs, share)
GRADIENT(min, value_inputs, share)
GRADIENT(pow, value_inputs, share)
