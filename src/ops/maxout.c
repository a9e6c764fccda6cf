/* maxout: the largest of each group of neighbouring channels. */
#include "base/parallel.h"
#include "kernels/larger.h"
#include "ops/axis.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, OUT_IN, DOUT };
enum { GROUPS, AXIS };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"X"}, {"Out"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INT("groups", 0), PD_DEF_INT("axis", 1), {0}};

static pd_status channel_axis(const struct pd_attr *attr, const struct pd_meta *x, int *axis)
{
    int groups = attr[GROUPS].i;
    PD_TRY(pd_axis_of(attr[AXIS].i, x->rank, axis));
    if (groups < 2) return pd_fail(PD_INVALID, "attribute groups is %d; it must be 2 or more", groups);
    if (x->dim[*axis] >= 0 && x->dim[*axis] % groups)
        return pd_fail(PD_SHAPE, "X has %lld channels, which cannot be cut into groups of %d",
                       (long long)x->dim[*axis], groups);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, 0);
    int axis = 0;
    if (!out) return PD_OK;
    PD_TRY(channel_axis(c->attr, x, &axis));
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    if (x->dim[axis] >= 0) out->dim[axis] = x->dim[axis] / c->attr[GROUPS].i;
    return PD_OK;
}

struct job {
    const void *x, *dout;
    void *to;
    int64_t groups, inner; /* elements from channel to channel */
};

/* Result u (a sample and an output channel) takes `groups` rows of `inner` elements. */
#define PARTS(T)                                                                                             \
    static void forward_##T(void *arg, int64_t begin, int64_t end)                                           \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        for (int64_t u = begin; u < end; u++) {                                                              \
            const T *x = (const T *)j->x + u * j->groups * j->inner;                                         \
            T *out = (T *)j->to + u * j->inner;                                                              \
            for (int64_t i = 0; i < j->inner; i++)                                                           \
                out[i] = x[i];                                                                               \
            for (int64_t g = 1; g < j->groups; g++)                                                          \
                for (int64_t i = 0; i < j->inner; i++)                                                       \
                    out[i] = PD_LARGER(x[g * j->inner + i], out[i]);                                         \
        }                                                                                                    \
    }                                                                                                        \
    static void backward_##T(void *arg, int64_t begin, int64_t end)                                          \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        for (int64_t u = begin; u < end; u++) {                                                              \
            const T *x = (const T *)j->x + u * j->groups * j->inner,                                         \
                    *dout = (const T *)j->dout + u * j->inner;                                               \
            T *dx = (T *)j->to + u * j->groups * j->inner;                                                   \
            for (int64_t i = 0; i < j->inner; i++) {                                                         \
                int64_t best = 0;                                                                            \
                for (int64_t g = 1; g < j->groups; g++)                                                      \
                    if (PD_ABOVE(x[g * j->inner + i], x[best * j->inner + i])) best = g;                     \
                for (int64_t g = 0; g < j->groups; g++)                                                      \
                    dx[g * j->inner + i] = g == best ? dout[i] : 0;                                          \
            }                                                                                                \
        }                                                                                                    \
    }
PARTS(float)
PARTS(double)

static pd_status go(const struct pd_run *r, struct job *j, void (*f32)(void *, int64_t, int64_t),
                    void (*f64)(void *, int64_t, int64_t))
{
    const struct pd_tensor *x = pd_run_in(r, X);
    int axis = 0;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(channel_axis(r->attr, &x->meta, &axis));
    j->x = x->data;
    j->groups = r->attr[GROUPS].i;
    j->inner = pd_meta_span(&x->meta, axis + 1, x->meta.rank);
    int64_t units = pd_meta_span(&x->meta, 0, axis + 1) / j->groups;
    pd_parallel(units, 32768 / (j->groups * j->inner + 1) + 1, x->meta.dtype == PD_DTYPE_FP32 ? f32 : f64, j);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct job j = {.to = pd_run_out(r, 0)->data};
    return go(r, &j, forward_float, forward_double);
}

const struct pd_op pd_op_maxout = {
    .type = "maxout",
    .doc = "The largest of each group of channels.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "maxout_grad",
    .grad_in = "X Out Out@",
    .grad_out = "X@",
};

static pd_status grad_run(const struct pd_run *r)
{
    if (!pd_run_out(r, 0)) return PD_OK;
    struct job j = {.to = pd_run_out(r, 0)->data, .dout = pd_run_in(r, DOUT)->data};
    return go(r, &j, backward_float, backward_double);
}

const struct pd_op pd_op_maxout_grad = {
    .type = "maxout_grad",
    .doc = "Gradient of maxout: it goes to the first of the largest.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = grad_run,
};
