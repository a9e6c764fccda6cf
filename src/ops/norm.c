/* norm: X divided by its length along one dimension. */
#include <math.h>

#include "base/parallel.h"
#include "ops/math_util.h"
#include "ops/shape_util.h"

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
    PD_TRY(pd_shape_axis(c->attr[AXIS].i, x->rank, &axis));
    pd_math_out_like(c, OUT, X);
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
    PD_TRY(pd_math_need_float(x));
    PD_TRY(pd_shape_axis(r->attr[AXIS].i, x->meta.rank, &axis));
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
    .infer = infer,
    .run = run,
    .grad_type = "norm_grad",
    .grad_in = "X Norm Out@",
    .grad_out = "X@",
};

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_math_out_like(c, 0, GRAD_X);
    return PD_OK;
}

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
    .infer = grad_infer,
    .run = grad_run,
};
