/* conv2d, depthwise_conv2d and conv3d: convolution with stride, padding, dilation and groups, channels first
 * or last. */
#include "ops/conv_op.h"

enum { OUTPUT };
enum { FUSE_RELU = PD_CONV_OWN_ATTRS, FUSE_ACTIVATION, FUSE_RESIDUAL, FUSE_RELU_BEFORE };

#define OTHER_ATTRS                                                                                          \
    PD_DEF_BOOL("fuse_relu", 0), PD_DEF_STRING("fuse_activation", ""),                                       \
        PD_DEF_BOOL("fuse_residual_connection", 0), PD_DEF_BOOL("fuse_relu_before_depthwise_conv", 0),       \
        PD_DEF_BOOL("is_test", 0), PD_DEF_BOOL("fuse_brelu", 0), PD_DEF_FLOAT("fuse_brelu_threshold", 6),    \
        PD_DEF_FLOAT("fuse_alpha", 0), PD_DEF_FLOAT("fuse_beta", 0), PD_DEF_FLOAT("Scale_in", 1),            \
        PD_DEF_FLOAT("Scale_out", 1), PD_DEF_FLOAT("Scale_in_eltwise", 1),                                   \
        PD_DEF_FLOATS_OF("Scale_weights", 1), PD_DEF_BOOL("force_fp32_output", 0),                           \
        PD_DEF_INT("workspace_size_MB", 512), PD_DEF_BOOL("exhaustive_search", 0)

static const struct pd_slot_def inputs[] = {
    {"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {"ResidualData", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs_2d[] = {PD_CONV_ATTRS(2, "NCHW"), OTHER_ATTRS, {0}};
static const struct pd_attr_def attrs_3d[] = {PD_CONV_ATTRS(3, "NCDHW"), OTHER_ATTRS, {0}};

/* The whole shape; sizes may be -1 while a Program is built. */
static pd_status shape_of(const struct pd_attr *attr, const struct pd_meta *input,
                          const struct pd_meta *filter, struct pd_conv *c)
{
    int64_t size[PD_CONV_AXES];
    PD_TRY(pd_conv_shape_read(attr, input, filter, c, size));
    c->in_channels = pd_conv_shape_channels(c, input);
    c->out_channels = filter->dim[0];
    if (c->in_channels >= 0 && filter->dim[1] >= 0 && c->in_channels != filter->dim[1] * c->groups)
        return pd_fail(
            PD_SHAPE,
            "Input %s has %lld channels (data_format %s), but Filter %s takes %lld in each of %lld groups.",
            pd_meta_dims_text(input), (long long)c->in_channels, attr[PD_CONV_FORMAT].s,
            pd_meta_dims_text(filter), (long long)filter->dim[1], (long long)c->groups);
    if (c->out_channels >= 0 && c->out_channels % c->groups)
        return pd_fail(PD_SHAPE, "Filter %s gives %lld channels, which %lld groups do not divide.",
                       pd_meta_dims_text(filter), (long long)c->out_channels, (long long)c->groups);
    for (int i = 0; i < c->axes; i++) {
        c->in[i] = size[i];
        /* A filter that is too large by less than a stride is applied once, past the end onto zeros. */
        int64_t lack = c->dilation[i] * (c->kernel[i] - 1) + 1 - (size[i] + c->before[i] + c->after[i]);
        if (size[i] >= 0 && lack > 0 && lack < c->stride[i]) c->after[i] += lack;
        c->out[i] = size[i] < 0 || c->kernel[i] < 0
                        ? -1
                        : pd_conv_out_size(size[i], c->kernel[i], c->dilation[i], c->before[i], c->after[i],
                                           c->stride[i]);
        if (c->out[i] == 0)
            return pd_fail(
                PD_SHAPE,
                "The %s of Input %s is %lld, too small for Filter %s with this padding and dilation.",
                pd_conv_shape_axis(c->axes, i), pd_meta_dims_text(input), (long long)size[i],
                pd_meta_dims_text(filter));
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *input = pd_infer_in(c, PD_CONV_SLOT_INPUT);
    struct pd_meta *out = pd_infer_out(c, OUTPUT);
    struct pd_conv shape;
    PD_TRY(shape_of(c->attr, input, pd_infer_in(c, PD_CONV_SLOT_FILTER), &shape));
    if (c->attr[FUSE_RELU].b || c->attr[FUSE_RESIDUAL].b || c->attr[FUSE_RELU_BEFORE].b ||
        c->attr[FUSE_ACTIVATION].s[0])
        return pd_fail(PD_UNSUPPORTED,
                       "This op was fused with others for another backend (an attribute fuse_* is set). "
                       "Save the model again without that pass.");
    if (!out) return PD_OK;
    out->dtype = input->dtype;
    pd_conv_shape_write(&shape, out, shape.batch, shape.out_channels, shape.out);
    pd_meta_share_lod(out, input);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    return pd_conv_op_run(r, shape_of, 0);
}

static pd_status grad_run(const struct pd_run *r)
{
    return pd_conv_op_grad_run(r, shape_of, 0);
}

PD_CONV_OPS(conv2d, 2, "Convolution over two axes.");
PD_CONV_OPS(depthwise_conv2d, 2, "Convolution of each channel by itself.");
PD_CONV_OPS(conv3d, 3, "Convolution over three axes.");
