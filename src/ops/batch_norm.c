/* batch_norm: each channel is brought to mean 0 and variance 1 over the batch, then scaled and shifted.
 * Running averages of both are kept for testing. SavedVariance holds 1 / sqrt(variance + epsilon), as the
 * gradient wants it. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/norm_slots.h"
#include "ops/out.h"
#include "ops/scratch.h"
#include "program/grad.h"

enum { X, SCALE, BIAS, MEAN, VARIANCE, MOMENTUM_TENSOR };
enum { Y, MEAN_OUT, VARIANCE_OUT, SAVED_MEAN, SAVED_VARIANCE, RESERVE };
enum { IS_TEST, MOMENTUM, EPSILON, LAYOUT, WITH_RELU, GLOBAL_STATS, TRAINABLE_STATS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("is_test", 0),
    PD_DEF_FLOAT("momentum", 0.9f),
    PD_DEF_FLOAT("epsilon", 1e-5f),
    PD_DEF_STRING("data_layout", "NCHW"),
    PD_DEF_BOOL("fuse_with_relu", 0),
    PD_DEF_BOOL("use_global_stats", 0),
    PD_DEF_BOOL("trainable_statistics", 0),
    {0},
};

static int uses_global(const struct pd_attr *attr)
{
    return attr[GLOBAL_STATS].b || (attr[IS_TEST].b && !attr[TRAINABLE_STATS].b);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *reserve = pd_infer_out(c, RESERVE);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, 5));
    int64_t channels = pd_norm_slots_norm(x, c->attr[LAYOUT].s).channels;
    enum pd_dtype dtype = x->dtype;
    PD_TRY(pd_norm_slots_check(c, X, VARIANCE, channels, "channels"));
    PD_TRY(pd_norm_slots_infer(c, X, SAVED_VARIANCE, 1, &channels));
    if (reserve) {
        reserve->dtype = dtype;
        pd_meta_set_1d(reserve, 0);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *momentum_in = pd_run_in(r, MOMENTUM_TENSOR);
    struct pd_tensor *y = pd_run_out(r, Y), *saved_mean = pd_run_out(r, SAVED_MEAN),
                     *saved_inv = pd_run_out(r, SAVED_VARIANCE);
    struct pd_tensor *mean_out = pd_run_out(r, MEAN_OUT), *variance_out = pd_run_out(r, VARIANCE_OUT);
    struct pd_norm n = pd_norm_slots_norm(&x->meta, r->attr[LAYOUT].s);
    int64_t channels = n.channels, count = n.outer * n.inner;
    int global = uses_global(r->attr);
    double momentum = r->attr[MOMENTUM].f, epsilon = r->attr[EPSILON].f;
    if (momentum_in)
        momentum = momentum_in->meta.dtype == PD_DTYPE_FP64 ? *(const double *)momentum_in->data
                                                            : *(const float *)momentum_in->data;
    if (!global && count <= 1) {
        /* One value has no spread to divide by: it passes through, and the averages stay. */
        memcpy(y->data, x->data, pd_tensor_bytes(x));
        if (mean_out) memmove(mean_out->data, pd_run_in(r, MEAN)->data, pd_tensor_bytes(mean_out));
        if (variance_out)
            memmove(variance_out->data, pd_run_in(r, VARIANCE)->data, pd_tensor_bytes(variance_out));
        if (saved_mean) memset(saved_mean->data, 0, pd_tensor_bytes(saved_mean));
        if (saved_inv) memset(saved_inv->data, 0, pd_tensor_bytes(saved_inv));
        return PD_OK;
    }
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *scale = pd_run_in(r, SCALE)->data;
        const T *bias = pd_run_in(r, BIAS)->data;
        const T *old_mean = pd_run_in(r, MEAN)->data;
        const T *old_variance = pd_run_in(r, VARIANCE)->data;
        void *block;
        PD_TRY(pd_scratch(r, (size_t)channels * 4 * sizeof(T), &block));
        T *mul = block;
        T *add = mul + channels;
        T *mean = add + channels;
        T *variance = mean + channels;
        if (!global) pd_norm_stats(&n, x->data, mean, variance);
        for (int64_t i = 0; i < channels; i++) {
            T m = global ? old_mean[i] : mean[i];
            T v = global ? old_variance[i] : variance[i];
            T inv = (T)(1 / sqrt((double)v + epsilon));
            mul[i] = inv * scale[i];
            add[i] = bias[i] - m * inv * scale[i];
            T new_mean = global ? m : (T)(old_mean[i] * momentum + m * (1 - momentum));
            T new_variance = global ? v : (T)(old_variance[i] * momentum + v * (1 - momentum));
            if (mean_out) ((T *)mean_out->data)[i] = new_mean;
            if (variance_out) ((T *)variance_out->data)[i] = new_variance;
            if (saved_mean) ((T *)saved_mean->data)[i] = m;
            if (saved_inv) ((T *)saved_inv->data)[i] = inv;
        }
        pd_norm_apply(&n, x->data, mul, add, y->data);
        if (r->attr[WITH_RELU].b) {
            T *to = y->data;
            for (int64_t i = 0; i < count * channels; i++)
                to[i] = to[i] > 0 ? to[i] : 0;
        }
    })
    return PD_OK;
}

/* ---- gradient ---- */

enum {
    GRAD_X,
    GRAD_DY,
    GRAD_SCALE,
    GRAD_BIAS,
    GRAD_SAVED_MEAN,
    GRAD_SAVED_VARIANCE,
    GRAD_MEAN,
    GRAD_VARIANCE
};
enum { DX, D_SCALE, D_BIAS };

static pd_status make_grad(struct pd_grad_maker *g)
{
    const struct pd_attr *global = pd_opdesc_attr(g->op, "use_global_stats"),
                         *test = pd_opdesc_attr(g->op, "is_test");
    struct pd_opdesc *op;
    int running = (global && global->b) || (test && test->b);
    PD_TRY(pd_grad_from_table(
        g, "batch_norm_grad",
        running ? "X Y@ Scale Bias SavedMean SavedVariance Mean=MeanOut Variance=VarianceOut"
                : "X Y@ Scale Bias SavedMean SavedVariance",
        "X@ Scale@ Bias@", &op));
    return g->emit(g, op);
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, DX, GRAD_X);
    pd_out_like(c, D_SCALE, GRAD_SCALE);
    pd_out_like(c, D_BIAS, GRAD_SCALE);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X), *dy = pd_run_in(r, GRAD_DY);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_scale = pd_run_out(r, D_SCALE),
                     *d_bias = pd_run_out(r, D_BIAS);
    struct pd_norm n = pd_norm_slots_norm(&x->meta, r->attr[LAYOUT].s);
    int64_t channels = n.channels, count = n.outer * n.inner;
    int global = uses_global(r->attr);
    double epsilon = r->attr[EPSILON].f;
    if (global && (!pd_run_in(r, GRAD_MEAN) || !pd_run_in(r, GRAD_VARIANCE)))
        return pd_fail(PD_INVALID,
                       "The gradient with use_global_stats or is_test needs the inputs Mean and Variance.");
    if (count == 0 || (count == 1 && !global)) {
        if (dx) memcpy(dx->data, dy->data, pd_tensor_bytes(dx));
        if (d_scale) memset(d_scale->data, 0, pd_tensor_bytes(d_scale));
        if (d_bias) memset(d_bias->data, 0, pd_tensor_bytes(d_bias));
        return PD_OK;
    }
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *scale = pd_run_in(r, GRAD_SCALE)->data;
        const T *mean = pd_run_in(r, global ? GRAD_MEAN : GRAD_SAVED_MEAN)->data;
        const T *spread = pd_run_in(r, global ? GRAD_VARIANCE : GRAD_SAVED_VARIANCE)->data;
        void *block;
        PD_TRY(pd_scratch(r, (size_t)channels * 5 * sizeof(T), &block));
        T *sum_dy = block;
        T *sum_dy_x = sum_dy + channels;
        T *by_dy = sum_dy_x + channels;
        T *by_x = by_dy + channels;
        T *add = by_x + channels;
        pd_norm_sums(&n, x->data, mean, dy->data, sum_dy, sum_dy_x);
        for (int64_t i = 0; i < channels; i++) {
            T inv = global ? (T)(1 / sqrt((double)spread[i] + epsilon)) : spread[i];
            if (d_scale) ((T *)d_scale->data)[i] = sum_dy_x[i] * inv;
            if (d_bias) ((T *)d_bias->data)[i] = sum_dy[i];
            /* dx = scale * inv * (dy - mean(dy) - (x - mean) * inv^2 * mean(dy * (x - mean))) */
            by_dy[i] = scale[i] * inv;
            by_x[i] = -by_dy[i] * inv * inv * sum_dy_x[i] / (T)count;
            add[i] = -by_dy[i] * sum_dy[i] / (T)count - by_x[i] * mean[i];
        }
        if (dx) pd_norm_blend(&n, x->data, dy->data, by_dy, global ? NULL : by_x, add, dx->data);
    })
    return PD_OK;
}

const struct pd_op pd_op_batch_norm = {
    .type = "batch_norm",
    .doc = "Normalises each channel over the batch.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Scale", 0},
                                           {"Bias", 0},
                                           {"Mean", 0},
                                           {"Variance", 0},
                                           {"MomentumTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0},
                                            {"MeanOut", PD_SLOT_OPTIONAL},
                                            {"VarianceOut", PD_SLOT_OPTIONAL},
                                            {"SavedMean", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {"SavedVariance", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {"ReserveSpace", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
    .grad_like = "Bias=Scale Mean=Scale Variance=Scale",
};

const struct pd_op pd_op_batch_norm_grad = {
    .type = "batch_norm_grad",
    .doc = "Gradient of batch_norm.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Y@GRAD", 0},
                                           {"Scale", 0},
                                           {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"SavedMean", 0},
                                           {"SavedVariance", 0},
                                           {"Mean", PD_SLOT_OPTIONAL},
                                           {"Variance", PD_SLOT_OPTIONAL},
                                           {"ReserveSpace", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = pd_norm_slots_grad_outputs,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
