/* norm: X divided by its length along one dimension. l1_norm and squared_l2_norm: that of a whole tensor. */
#include <math.h>

#include "base/parallel.h"
#include "kernels/reduce.h"
#include "ops/axis.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X };
enum { NORM, OUT };
enum { GRAD_X, GRAD_NORM, GRAD_DOUT };
enum { AXIS, EPSILON };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Norm", PD_SLOT_HIDDEN}, {"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"X"}, {"Norm"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", -1), PD_DEF_FLOAT("epsilon", 1.0e-10f), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *norm = pd_infer_out(c, NORM);
    int axis;
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank, &axis));
    pd_out_same(c, OUT, X);
    if (norm) {
        norm->dtype = x->dtype;
        pd_meta_copy_dims(norm, x);
        norm->dim[axis] = 1;
    }
    return PD_OK;
}

struct job {
    const void *x, *norms, *dout;
    void *to, *norm;
    int64_t n, post;
    double epsilon;
};

/* Unit u is one of the vectors: element k of it lies at base + k * post. */
#define PARTS(T)                                                                                             \
    static void forward_##T(void *arg, int64_t begin, int64_t end)                                           \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        for (int64_t u = begin; u < end; u++) {                                                              \
            int64_t base = u / j->post * j->post * j->n + u % j->post;                                       \
            const T *x = (const T *)j->x + base;                                                             \
            T *out = (T *)j->to + base;                                                                      \
            double total = j->epsilon;                                                                       \
            for (int64_t k = 0; k < j->n; k++)                                                               \
                total += (double)x[k * j->post] * (double)x[k * j->post];                                    \
            const T length = (T)sqrt(total);                                                                 \
            if (j->norm) ((T *)j->norm)[u] = length;                                                         \
            for (int64_t k = 0; k < j->n; k++)                                                               \
                out[k * j->post] = x[k * j->post] / length;                                                  \
        }                                                                                                    \
    }                                                                                                        \
    static void backward_##T(void *arg, int64_t begin, int64_t end)                                          \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        for (int64_t u = begin; u < end; u++) {                                                              \
            int64_t base = u / j->post * j->post * j->n + u % j->post;                                       \
            const T *x = (const T *)j->x + base, *dout = (const T *)j->dout + base;                          \
            T *dx = (T *)j->to + base;                                                                       \
            const double length = (double)((const T *)j->norms)[u];                                          \
            double along = 0;                                                                                \
            for (int64_t k = 0; k < j->n; k++)                                                               \
                along += (double)x[k * j->post] * (double)dout[k * j->post];                                 \
            along /= length * length;                                                                        \
            for (int64_t k = 0; k < j->n; k++)                                                               \
                dx[k * j->post] =                                                                            \
                    (T)(((double)dout[k * j->post] - (double)x[k * j->post] * along) / length);              \
        }                                                                                                    \
    }
PARTS(float)
PARTS(double)

static pd_status go(const struct pd_run *r, struct job *j, void (*f32)(void *, int64_t, int64_t),
                    void (*f64)(void *, int64_t, int64_t))
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    int axis = 0;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(pd_axis_of(r->attr[AXIS].i, x->meta.rank, &axis));
    j->x = x->data;
    j->n = x->meta.dim[axis];
    j->post = pd_meta_span(&x->meta, axis + 1, x->meta.rank);
    j->epsilon = r->attr[EPSILON].f;
    int64_t units = pd_meta_span(&x->meta, 0, axis) * j->post;
    pd_parallel(units, 16384 / (j->n + 1) + 1, x->meta.dtype == PD_DTYPE_FP32 ? f32 : f64, j);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *norm = pd_run_out(r, NORM);
    struct job j = {.to = pd_run_out(r, OUT)->data, .norm = norm ? norm->data : NULL};
    return go(r, &j, forward_float, forward_double);
}

const struct pd_op pd_op_norm = {
    .type = "norm",
    .doc = "Out = X / sqrt(sum of X squared along axis + epsilon).",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "norm_grad",
    .grad_in = "X Norm Out@",
    .grad_out = "X@",
};

static pd_status grad_run(const struct pd_run *r)
{
    if (!pd_run_out(r, 0)) return PD_OK;
    struct job j = {.to = pd_run_out(r, 0)->data,
                    .norms = pd_run_in(r, GRAD_NORM)->data,
                    .dout = pd_run_in(r, GRAD_DOUT)->data};
    return go(r, &j, backward_float, backward_double);
}

const struct pd_op pd_op_norm_grad = {
    .type = "norm_grad",
    .doc = "Gradient of norm.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = grad_run,
};

/* ---- l1_norm, squared_l2_norm ---- */

enum { WHOLE_DOUT = 1 };

static const struct pd_slot_def whole_outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def whole_grad_inputs[] = {{"X"}, {"Out@GRAD"}, {0}};

static pd_status whole_infer(const struct pd_infer *c)
{
    pd_out_number(c, 0, pd_infer_in(c, X)->dtype);
    return PD_OK;
}

static pd_status reduce_all(const struct pd_run *r, const struct pd_reduce_kernel *kernels)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    int64_t n = pd_tensor_numel(x);
    int type;
    void *memory;
    struct pd_reduce plan;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(pd_elements_type(x->meta.dtype, &type));
    pd_reduce_make(&plan, 1, &n, &(const uint8_t){1});
    PD_TRY(pd_scratch(r, pd_reduce_scratch(&plan, &kernels[type]), &memory));
    pd_reduce_run(&plan, &kernels[type], x->data, pd_run_out(r, 0)->data, memory);
    return PD_OK;
}

static pd_status squared_run(const struct pd_run *r)
{
    return reduce_all(r, pd_reduce_square);
}
static pd_status l1_run(const struct pd_run *r)
{
    return reduce_all(r, pd_reduce_abs);
}

static pd_status whole_grad(const struct pd_run *r, int squared)
{
    const struct pd_tensor *x = pd_run_in(r, X), *dout = pd_run_in(r, WHOLE_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_TRY(pd_check_float_data(x, "X"));
    if (pd_tensor_numel(dout) != 1)
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s; it must have one element",
                       pd_meta_dims_text(&dout->meta));
    int64_t n = pd_tensor_numel(x);
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        const T d = *(const T *)dout->data;
        T *to = dx->data;
        if (squared)
            for (int64_t i = 0; i < n; i++)
                to[i] = 2 * d * from[i];
        else
            for (int64_t i = 0; i < n; i++)
                to[i] = from[i] > 0 ? d : from[i] < 0 ? -d : 0;
    })
    return PD_OK;
}

static pd_status squared_grad_run(const struct pd_run *r)
{
    return whole_grad(r, 1);
}
static pd_status l1_grad_run(const struct pd_run *r)
{
    return whole_grad(r, 0);
}

#define WHOLE_NORM(name, text, action)                                                                       \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = whole_outputs,                                                                            \
        .flags = PD_OP_ON_SERVER,                                                                            \
        .infer = whole_infer,                                                                                \
        .run = action##_run,                                                                                 \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "X Out@",                                                                                 \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = whole_grad_inputs,                                                                         \
        .outputs = grad_outputs,                                                                             \
        .infer = pd_out_infer_same,                                                                          \
        .run = action##_grad_run,                                                                            \
    };

WHOLE_NORM(squared_l2_norm, "The sum of the squares of all elements.", squared)
WHOLE_NORM(l1_norm, "The sum of the magnitudes of all elements.", l1)
