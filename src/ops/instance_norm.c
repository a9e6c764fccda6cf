/* instance_norm: each channel of each image is brought to mean 0 and variance 1, then scaled and shifted.
 * SavedVariance holds 1 / sqrt(variance + epsilon). */
#include <math.h>
#include <string.h>

#include "kernels/norm.h"
#include "ops/check.h"
#include "ops/norm_slots.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, SCALE, BIAS };
enum { Y, SAVED_MEAN, SAVED_VARIANCE };
enum { EPSILON };
enum { GRAD_X, GRAD_SCALE, GRAD_MEAN, GRAD_VARIANCE, GRAD_DY };
enum { DX, D_SCALE, D_BIAS };

static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("epsilon", 1e-5f), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, 5));
    int64_t all = pd_meta_span(x, 0, 2);
    PD_TRY(pd_norm_slots_check(c, X, BIAS, x->dim[1], "channels"));
    return pd_norm_slots_infer(c, X, SAVED_VARIANCE, 1, &all);
}

static struct pd_norm norm_of(const struct pd_meta *x)
{
    return (struct pd_norm){.is_double = x->dtype == PD_DTYPE_FP64,
                            .outer = 1,
                            .channels = x->dim[0] * x->dim[1],
                            .inner = pd_meta_span(x, 2, x->rank)};
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *scale_in = pd_run_in(r, SCALE),
                           *bias_in = pd_run_in(r, BIAS);
    struct pd_tensor *saved_mean = pd_run_out(r, SAVED_MEAN), *saved_inv = pd_run_out(r, SAVED_VARIANCE);
    struct pd_norm n = norm_of(&x->meta);
    int64_t channels = x->meta.dim[1];
    double epsilon = r->attr[EPSILON].f;
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *scale = scale_in ? scale_in->data : NULL;
        const T *bias = bias_in ? bias_in->data : NULL;
        void *block;
        PD_TRY(pd_scratch(r, (size_t)n.channels * 4 * sizeof(T), &block));
        T *mul = block;
        T *add = mul + n.channels;
        T *mean = add + n.channels;
        T *variance = mean + n.channels;
        pd_norm_stats(&n, x->data, mean, variance);
        for (int64_t i = 0; i < n.channels; i++) {
            T inv = (T)(1 / sqrt((double)variance[i] + epsilon));
            mul[i] = inv * (scale ? scale[i % channels] : 1);
            add[i] = (bias ? bias[i % channels] : 0) - mean[i] * mul[i];
            if (saved_mean) ((T *)saved_mean->data)[i] = mean[i];
            if (saved_inv) ((T *)saved_inv->data)[i] = inv;
        }
        pd_norm_apply(&n, x->data, mul, add, pd_run_out(r, Y)->data);
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, DX, GRAD_X);
    if (!pd_infer_in(c, GRAD_SCALE)) return PD_OK;
    pd_out_like(c, D_SCALE, GRAD_SCALE);
    pd_out_like(c, D_BIAS, GRAD_SCALE);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X), *dy = pd_run_in(r, GRAD_DY),
                           *scale_in = pd_run_in(r, GRAD_SCALE);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_scale = pd_run_out(r, D_SCALE),
                     *d_bias = pd_run_out(r, D_BIAS);
    struct pd_norm n = norm_of(&x->meta);
    int64_t channels = x->meta.dim[1], count = n.inner;
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *scale = scale_in ? scale_in->data : NULL;
        const T *mean = pd_run_in(r, GRAD_MEAN)->data;
        const T *inv = pd_run_in(r, GRAD_VARIANCE)->data;
        void *block;
        PD_TRY(pd_scratch(r, (size_t)n.channels * 5 * sizeof(T), &block));
        T *sum_dy = block;
        T *sum_dy_x = sum_dy + n.channels;
        T *by_dy = sum_dy_x + n.channels;
        T *by_x = by_dy + n.channels;
        T *add = by_x + n.channels;
        pd_norm_sums(&n, x->data, mean, dy->data, sum_dy, sum_dy_x);
        if (d_scale) memset(d_scale->data, 0, pd_tensor_bytes(d_scale));
        if (d_bias) memset(d_bias->data, 0, pd_tensor_bytes(d_bias));
        for (int64_t i = 0; i < n.channels; i++) {
            if (d_scale) ((T *)d_scale->data)[i % channels] += sum_dy_x[i] * inv[i];
            if (d_bias) ((T *)d_bias->data)[i % channels] += sum_dy[i];
            by_dy[i] = inv[i] * (scale ? scale[i % channels] : 1);
            by_x[i] = -by_dy[i] * inv[i] * inv[i] * sum_dy_x[i] / (T)count;
            add[i] = -by_dy[i] * sum_dy[i] / (T)count - by_x[i] * mean[i];
        }
        if (dx) pd_norm_blend(&n, x->data, dy->data, by_dy, by_x, add, dx->data);
    })
    return PD_OK;
}

const struct pd_op pd_op_instance_norm = {
    .type = "instance_norm",
    .doc = "Normalises each channel of each image.",
    .inputs = pd_norm_slots_inputs,
    .outputs = (const struct pd_slot_def[]){{"Y", 0},
                                            {"SavedMean", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {"SavedVariance", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "instance_norm_grad",
    .grad_in = "X Scale SavedMean SavedVariance Y@",
    .grad_out = "X@ Scale@ Bias@",
};

const struct pd_op pd_op_instance_norm_grad = {
    .type = "instance_norm_grad",
    .doc = "Gradient of instance_norm.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Scale", PD_SLOT_OPTIONAL},
                                           {"SavedMean", 0},
                                           {"SavedVariance", 0},
                                           {"Y@GRAD", 0},
                                           {0}},
    .outputs = pd_norm_slots_grad_outputs,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
