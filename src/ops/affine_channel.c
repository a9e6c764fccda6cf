/* affine_channel: each channel scaled and shifted by its own numbers. */
#include <string.h>

#include "ops/check.h"
#include "ops/norm_slots.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, SCALE, BIAS };
enum { LAYOUT };
enum { GRAD_X, GRAD_SCALE, GRAD_BIAS, GRAD_DOUT };
enum { DX, D_SCALE, D_BIAS };

static const struct pd_attr_def attrs[] = {PD_DEF_STRING("data_layout", "AnyLayout"), {0}};

static pd_status infer(const struct pd_infer *c)
{
    static const char *const names[] = {"X", "Scale", "Bias"};
    const struct pd_meta *x = pd_infer_in(c, X);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, PD_MAX_RANK));
    int64_t channels = pd_norm_slots_norm(x, c->attr[LAYOUT].s).channels;
    for (int slot = SCALE; slot <= BIAS; slot++) {
        const struct pd_meta *each = pd_infer_in(c, slot);
        PD_TRY(pd_check_same_type(x, "X", each, names[slot]));
        int64_t n = pd_meta_numel(each);
        if (n >= 0 && channels >= 0 && n != channels)
            return pd_fail(PD_SHAPE, "%s has shape %s, but X %s has %lld channels.", names[slot],
                           pd_meta_dims_text(each), pd_meta_dims_text(x), (long long)channels);
    }
    pd_out_like(c, 0, X);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_norm n = pd_norm_slots_norm(&x->meta, r->attr[LAYOUT].s);
    pd_norm_apply(&n, x->data, pd_run_in(r, SCALE)->data, pd_run_in(r, BIAS)->data, pd_run_out(r, 0)->data);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, DX, GRAD_DOUT);
    pd_out_like(c, D_SCALE, GRAD_SCALE);
    pd_out_like(c, D_BIAS, GRAD_SCALE);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X), *scale = pd_run_in(r, GRAD_SCALE),
                           *g = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_scale = pd_run_out(r, D_SCALE),
                     *d_bias = pd_run_out(r, D_BIAS);
    struct pd_norm n = pd_norm_slots_norm(&g->meta, r->attr[LAYOUT].s);
    size_t bytes = (size_t)n.channels * pd_dtype_size(g->meta.dtype);
    if (d_scale || d_bias) {
        /* Sums of dy and of dy * (x - 0). */
        void *block;
        if (!x) return pd_fail(PD_INVALID, "The gradients of Scale and Bias need X.");
        PD_TRY(pd_scratch(r, 3 * bytes, &block));
        char *zero = block, *sum = zero + bytes, *products = sum + bytes;
        memset(zero, 0, bytes);
        pd_norm_sums(&n, x->data, zero, g->data, sum, products);
        if (d_scale) memcpy(d_scale->data, products, bytes);
        if (d_bias) memcpy(d_bias->data, sum, bytes);
    }
    if (dx) pd_norm_blend(&n, NULL, g->data, scale->data, NULL, NULL, dx->data);
    return PD_OK;
}

const struct pd_op pd_op_affine_channel = {
    .type = "affine_channel",
    .doc = "Scales and shifts each channel.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Scale", 0}, {"Bias", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "affine_channel_grad",
    .grad_in = "X Scale Bias Out@",
    .grad_out = "X@ Scale@ Bias@",
};

const struct pd_op pd_op_affine_channel_grad = {
    .type = "affine_channel_grad",
    .doc = "Gradient of affine_channel.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OPTIONAL},
                                           {"Scale", 0},
                                           {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL},
                                            {"Scale@GRAD", PD_SLOT_OPTIONAL},
                                            {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
