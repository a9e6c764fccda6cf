/* lrn: each value is divided by a power of the sum of squares of its neighbours across channels. MidOut is
 * that sum, k + alpha * sum(x^2), which the gradient needs again. */
#include "base/parallel.h"
#include "kernels/ew_math.h"
#include "ops/check.h"
#include "ops/layout.h"
#include "ops/out.h"

enum { X };
enum { OUT, MID };
enum { N, K, ALPHA, BETA, FORMAT };
enum { GRAD_X, GRAD_OUT, GRAD_MID, GRAD_DOUT };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("n", 5),
    PD_DEF_FLOAT("k", 2),
    PD_DEF_FLOAT("alpha", 1e-4f),
    PD_DEF_FLOAT("beta", 0.75f),
    PD_DEF_STRING("data_format", "AnyLayout"),
    PD_DEF_BOOL("is_test", 0),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *mid = pd_infer_out(c, MID);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    if (c->attr[N].i < 1 || c->attr[N].i % 2 == 0)
        return pd_fail(PD_INVALID, "n is %d: give an odd number above 0.", c->attr[N].i);
    pd_out_like(c, OUT, X);
    if (mid) {
        mid->dtype = x->dtype;
        pd_meta_copy_dims(mid, x);
    }
    return PD_OK;
}

struct work {
    int64_t channels, points, channel_step, point_step;
    int reach; /* neighbours on each side */
    double k, alpha, beta;
    const void *x, *out, *mid, *dout;
    void *to, *to_mid;
};

static struct work work_of(const struct pd_meta *x, const struct pd_attr *attr)
{
    int last = pd_layout_channels_last(attr[FORMAT].s);
    struct work w = {.channels = x->dim[last ? 3 : 1],
                     .points = last ? x->dim[1] * x->dim[2] : x->dim[2] * x->dim[3],
                     .reach = (attr[N].i - 1) / 2,
                     .k = attr[K].f,
                     .alpha = attr[ALPHA].f,
                     .beta = attr[BETA].f};
    w.channel_step = last ? 1 : w.points;
    w.point_step = last ? w.channels : 1;
    return w;
}

/* Images [begin, end). */
#define LOOPS(T, S)                                                                                          \
    static void forward_##S(void *arg, int64_t begin, int64_t end)                                           \
    {                                                                                                        \
        const struct work *w = arg;                                                                          \
        for (int64_t i = begin; i < end; i++)                                                                \
            for (int64_t c = 0; c < w->channels; c++) {                                                      \
                int64_t base = i * w->channels * w->points, from = c - w->reach < 0 ? 0 : c - w->reach;      \
                int64_t to = c + w->reach + 1 > w->channels ? w->channels : c + w->reach + 1;                \
                for (int64_t p = 0; p < w->points; p++) {                                                    \
                    const T *x = (const T *)w->x + base + p * w->point_step;                                 \
                    T sum = 0;                                                                               \
                    for (int64_t j = from; j < to; j++)                                                      \
                        sum += x[j * w->channel_step] * x[j * w->channel_step];                              \
                    T mid = (T)w->k + (T)w->alpha * sum;                                                     \
                    int64_t at = base + c * w->channel_step + p * w->point_step;                             \
                    if (w->to_mid) ((T *)w->to_mid)[at] = mid;                                               \
                    ((T *)w->to)[at] = x[c * w->channel_step] * pd_pow(mid, (T)-w->beta);                    \
                }                                                                                            \
            }                                                                                                \
    }                                                                                                        \
    static void backward_##S(void *arg, int64_t begin, int64_t end)                                          \
    {                                                                                                        \
        const struct work *w = arg;                                                                          \
        T ratio = (T)(-2 * w->alpha * w->beta);                                                              \
        for (int64_t i = begin; i < end; i++)                                                                \
            for (int64_t c = 0; c < w->channels; c++) {                                                      \
                int64_t base = i * w->channels * w->points, from = c - w->reach < 0 ? 0 : c - w->reach;      \
                int64_t to = c + w->reach + 1 > w->channels ? w->channels : c + w->reach + 1;                \
                for (int64_t p = 0; p < w->points; p++) {                                                    \
                    int64_t row = base + p * w->point_step, at = row + c * w->channel_step;                  \
                    T sum = 0;                                                                               \
                    for (int64_t j = from; j < to; j++) {                                                    \
                        int64_t n = row + j * w->channel_step;                                               \
                        sum += ((const T *)w->dout)[n] * ((const T *)w->out)[n] / ((const T *)w->mid)[n];    \
                    }                                                                                        \
                    ((T *)w->to)[at] =                                                                       \
                        pd_pow(((const T *)w->mid)[at], (T)-w->beta) * ((const T *)w->dout)[at] +            \
                        ratio * ((const T *)w->x)[at] * sum;                                                 \
                }                                                                                            \
            }                                                                                                \
    }
LOOPS(float, f32)
LOOPS(double, f64)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *mid = pd_run_out(r, MID);
    struct work w = work_of(&x->meta, r->attr);
    w.x = x->data;
    w.to = pd_run_out(r, OUT)->data;
    w.to_mid = mid ? mid->data : NULL;
    pd_parallel(x->meta.dim[0], 1, x->meta.dtype == PD_DTYPE_FP64 ? forward_f64 : forward_f32, &w);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    struct work w = work_of(&x->meta, r->attr);
    w.x = x->data;
    w.out = pd_run_in(r, GRAD_OUT)->data;
    w.mid = pd_run_in(r, GRAD_MID)->data;
    w.dout = pd_run_in(r, GRAD_DOUT)->data;
    w.to = dx->data;
    pd_parallel(x->meta.dim[0], 1, x->meta.dtype == PD_DTYPE_FP64 ? backward_f64 : backward_f32, &w);
    return PD_OK;
}

const struct pd_op pd_op_lrn = {
    .type = "lrn",
    .doc = "Local response normalisation across channels.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"MidOut", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "lrn_grad",
    .grad_in = "X Out MidOut Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_lrn_grad = {
    .type = "lrn_grad",
    .doc = "Gradient of lrn.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Out", 0}, {"MidOut", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
