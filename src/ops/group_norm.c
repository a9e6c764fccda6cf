/* group_norm: the channels of each image are cut into groups (the last may be smaller); each group is brought
 * to mean 0 and variance 1, then each channel is scaled and shifted. */
#include <math.h>

#include "base/parallel.h"
#include "ops/check.h"
#include "ops/layout.h"
#include "ops/norm_slots.h"

enum { X, SCALE, BIAS };
enum { Y, MEAN, VARIANCE };
enum { EPSILON, GROUPS, LAYOUT };
enum { GRAD_Y = PD_NORM_GRAD_OWN_SLOTS };
enum { DX, D_SCALE, D_BIAS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_FLOAT("epsilon", 1e-5f), PD_DEF_INT("groups", 1), PD_DEF_STRING("data_layout", "NCHW"), {0}};

/* Where the elements of a group lie: channels `channel_step` apart, points `point_step` apart. */
struct shape {
    int64_t batch, channels, points, groups, group_size, channel_step, point_step;
};

static struct shape shape_of(const struct pd_meta *x, const struct pd_attr *attr)
{
    int last = pd_layout_channels_last(attr[LAYOUT].s);
    struct shape s = {
        .batch = x->dim[0], .channels = x->dim[last ? x->rank - 1 : 1], .groups = attr[GROUPS].i};
    s.points = last ? pd_meta_span(x, 1, x->rank - 1) : pd_meta_span(x, 2, x->rank);
    s.channel_step = last ? 1 : s.points;
    s.point_step = last ? s.channels : 1;
    s.group_size = (s.channels - 1) / s.groups + 1;
    return s;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, PD_MAX_RANK));
    if (c->attr[GROUPS].i < 1)
        return pd_fail(PD_INVALID, "groups is %d: give a number above 0.", c->attr[GROUPS].i);
    struct shape s = shape_of(x, c->attr);
    if (s.channels >= 0 && s.groups > s.channels)
        return pd_fail(PD_INVALID, "groups is %lld, but X %s has only %lld channels.", (long long)s.groups,
                       pd_meta_dims_text(x), (long long)s.channels);
    PD_TRY(pd_norm_slots_check(c, X, BIAS, s.channels, "channels"));
    return pd_norm_slots_infer(c, X, VARIANCE, 2, (int64_t[]){s.batch, s.groups});
}

struct work {
    struct shape s;
    double epsilon;
    const void *x, *scale, *bias, *dy, *y;
    void *out, *mean, *variance;
};

static int64_t channels_in(const struct shape *s, int64_t group)
{
    int64_t left = s->channels - group * s->group_size;
    return left < 0 ? 0 : left < s->group_size ? left : s->group_size;
}

static int64_t start_of(const struct shape *s, int64_t image, int64_t group)
{
    return image * s->channels * s->points + group * s->group_size * s->channel_step;
}

#define FORWARD(T, name)                                                                                     \
    static void name(void *arg, int64_t begin, int64_t end)                                                  \
    {                                                                                                        \
        const struct work *w = arg;                                                                          \
        const struct shape *s = &w->s;                                                                       \
        for (int64_t i = begin; i < end; i++) {                                                              \
            int64_t group = i % s->groups, at = start_of(s, i / s->groups, group),                           \
                    n = channels_in(s, group);                                                               \
            double count = (double)(n * s->points), sum = 0, squares = 0;                                    \
            const T *x = (const T *)w->x + at;                                                               \
            T *y = (T *)w->out + at;                                                                         \
            for (int64_t c = 0; c < n; c++)                                                                  \
                for (int64_t p = 0; p < s->points; p++)                                                      \
                    sum += (double)x[c * s->channel_step + p * s->point_step];                               \
            double mean = count > 0 ? sum / count : 0;                                                       \
            for (int64_t c = 0; c < n; c++)                                                                  \
                for (int64_t p = 0; p < s->points; p++) {                                                    \
                    double d = (double)x[c * s->channel_step + p * s->point_step] - mean;                    \
                    squares += d * d;                                                                        \
                }                                                                                            \
            double variance = count > 0 ? squares / count : 0, inv = 1 / sqrt(variance + w->epsilon);        \
            if (w->mean) ((T *)w->mean)[i] = (T)mean;                                                        \
            if (w->variance) ((T *)w->variance)[i] = (T)variance;                                            \
            for (int64_t c = 0; c < n; c++) {                                                                \
                int64_t channel = group * s->group_size + c;                                                 \
                T mul = (T)inv * (w->scale ? ((const T *)w->scale)[channel] : 1);                            \
                T add = (w->bias ? ((const T *)w->bias)[channel] : 0) - (T)mean * mul;                       \
                for (int64_t p = 0; p < s->points; p++)                                                      \
                    y[c * s->channel_step + p * s->point_step] =                                             \
                        x[c * s->channel_step + p * s->point_step] * mul + add;                              \
            }                                                                                                \
        }                                                                                                    \
    }
FORWARD(float, forward_f32)
FORWARD(double, forward_f64)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *scale = pd_run_in(r, SCALE), *bias = pd_run_in(r, BIAS);
    struct pd_tensor *mean = pd_run_out(r, MEAN), *variance = pd_run_out(r, VARIANCE);
    struct work w = {.s = shape_of(&x->meta, r->attr),
                     .epsilon = r->attr[EPSILON].f,
                     .x = x->data,
                     .scale = scale ? scale->data : NULL,
                     .bias = bias ? bias->data : NULL,
                     .out = pd_run_out(r, Y)->data,
                     .mean = mean ? mean->data : NULL,
                     .variance = variance ? variance->data : NULL};
    int64_t grain = 16384 / (w.s.group_size * w.s.points + 1) + 1;
    pd_parallel(w.s.batch * w.s.groups, grain, x->meta.dtype == PD_DTYPE_FP64 ? forward_f64 : forward_f32,
                &w);
    return PD_OK;
}

/* The normalised value at an element: from X and the mean, or, in programs that give only Y, by undoing the
 * scale. */
#define NORMALISED(T, k, channel)                                                                            \
    (w->x ? ((double)((const T *)w->x)[k] - mean) * inv                                                      \
          : ((double)((const T *)w->y)[k] - (w->bias ? (double)((const T *)w->bias)[channel] : 0)) /         \
                (w->scale ? (double)((const T *)w->scale)[channel] : 1))

#define BACKWARD(T, name)                                                                                    \
    static void name(void *arg, int64_t begin, int64_t end)                                                  \
    {                                                                                                        \
        const struct work *w = arg;                                                                          \
        const struct shape *s = &w->s;                                                                       \
        for (int64_t i = begin; i < end; i++) {                                                              \
            int64_t group = i % s->groups, at = start_of(s, i / s->groups, group),                           \
                    n = channels_in(s, group);                                                               \
            double count = (double)(n * s->points), sum = 0, products = 0;                                   \
            double mean = w->mean ? (double)((const T *)w->mean)[i] : 0;                                     \
            double inv = 1 / sqrt((double)((const T *)w->variance)[i] + w->epsilon);                         \
            for (int64_t c = 0; c < n; c++) {                                                                \
                int64_t channel = group * s->group_size + c;                                                 \
                double scale = w->scale ? (double)((const T *)w->scale)[channel] : 1;                        \
                for (int64_t p = 0; p < s->points; p++) {                                                    \
                    int64_t k = at + c * s->channel_step + p * s->point_step;                                \
                    double g = (double)((const T *)w->dy)[k] * scale;                                        \
                    sum += g;                                                                                \
                    products += g * NORMALISED(T, k, channel);                                               \
                }                                                                                            \
            }                                                                                                \
            for (int64_t c = 0; c < n; c++) {                                                                \
                int64_t channel = group * s->group_size + c;                                                 \
                double scale = w->scale ? (double)((const T *)w->scale)[channel] : 1;                        \
                for (int64_t p = 0; p < s->points; p++) {                                                    \
                    int64_t k = at + c * s->channel_step + p * s->point_step;                                \
                    double g = (double)((const T *)w->dy)[k] * scale;                                        \
                    ((T *)w->out)[k] =                                                                       \
                        (T)(inv * (g - sum / count - NORMALISED(T, k, channel) * products / count));         \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
BACKWARD(float, backward_f32)
BACKWARD(double, backward_f64)

#define CHANNEL_SUMS(T, name)                                                                                \
    static void name(const struct work *w, T *d_scale, T *d_bias)                                            \
    {                                                                                                        \
        const struct shape *s = &w->s;                                                                       \
        for (int64_t channel = 0; channel < s->channels; channel++) {                                        \
            double sum = 0, products = 0;                                                                    \
            for (int64_t image = 0; image < s->batch; image++) {                                             \
                int64_t i = image * s->groups + channel / s->group_size;                                     \
                double mean = w->mean ? (double)((const T *)w->mean)[i] : 0;                                 \
                double inv = 1 / sqrt((double)((const T *)w->variance)[i] + w->epsilon);                     \
                for (int64_t p = 0; p < s->points; p++) {                                                    \
                    int64_t k =                                                                              \
                        image * s->channels * s->points + channel * s->channel_step + p * s->point_step;     \
                    double g = (double)((const T *)w->dy)[k];                                                \
                    sum += g;                                                                                \
                    products += g * NORMALISED(T, k, channel);                                               \
                }                                                                                            \
            }                                                                                                \
            if (d_scale) d_scale[channel] = (T)products;                                                     \
            if (d_bias) d_bias[channel] = (T)sum;                                                            \
        }                                                                                                    \
    }
CHANNEL_SUMS(float, channel_sums_f32)
CHANNEL_SUMS(double, channel_sums_f64)

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, PD_NORM_GRAD_X), *y = pd_run_in(r, GRAD_Y),
                           *dy = pd_run_in(r, PD_NORM_GRAD_DY);
    const struct pd_tensor *mean = pd_run_in(r, PD_NORM_GRAD_MEAN), *scale = pd_run_in(r, PD_NORM_GRAD_SCALE),
                           *bias = pd_run_in(r, PD_NORM_GRAD_BIAS);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_scale = pd_run_out(r, D_SCALE),
                     *d_bias = pd_run_out(r, D_BIAS);
    int has_x = x && mean, is_double = dy->meta.dtype == PD_DTYPE_FP64;
    if (!has_x && !y) return pd_fail(PD_INVALID, "The gradient of group_norm needs X and Mean, or Y.");
    struct work w = {.s = shape_of(&dy->meta, r->attr),
                     .epsilon = r->attr[EPSILON].f,
                     .x = has_x ? x->data : NULL,
                     .y = y ? y->data : NULL,
                     .scale = scale ? scale->data : NULL,
                     .bias = bias ? bias->data : NULL,
                     .dy = dy->data,
                     .mean = has_x ? mean->data : NULL,
                     .variance = pd_run_in(r, PD_NORM_GRAD_VARIANCE)->data};
    if (dx) {
        w.out = dx->data;
        pd_parallel(w.s.batch * w.s.groups, 16384 / (w.s.group_size * w.s.points + 1) + 1,
                    is_double ? backward_f64 : backward_f32, &w);
    }
    void *to_scale = d_scale && scale ? d_scale->data : NULL, *to_bias = d_bias && bias ? d_bias->data : NULL;
    if (is_double && (to_scale || to_bias)) channel_sums_f64(&w, to_scale, to_bias);
    if (!is_double && (to_scale || to_bias)) channel_sums_f32(&w, to_scale, to_bias);
    return PD_OK;
}

const struct pd_op pd_op_group_norm = {
    .type = "group_norm",
    .doc = "Normalises groups of channels of each image.",
    .inputs = pd_norm_slots_inputs,
    .outputs = (const struct pd_slot_def[]){{"Y", 0},
                                            {"Mean", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {"Variance", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "group_norm_grad",
    .grad_in = "X Mean Variance Scale Bias Y@",
    .grad_out = "X@ Scale@ Bias@",
};

const struct pd_op pd_op_group_norm_grad = {
    .type = "group_norm_grad",
    .doc = "Gradient of group_norm.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OPTIONAL},
                                           {"Mean", PD_SLOT_OPTIONAL},
                                           {"Variance", 0},
                                           {"Scale", PD_SLOT_OPTIONAL},
                                           {"Bias", PD_SLOT_OPTIONAL},
                                           {"Y@GRAD", 0},
                                           {"Y", PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = pd_norm_slots_grad_outputs,
    .attrs = attrs,
    .infer = pd_norm_slots_grad_infer,
    .run = grad_run,
};
