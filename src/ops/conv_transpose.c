/* conv2d_transpose, depthwise_conv2d_transpose and conv3d_transpose: the way back of a convolution. */
#include "ops/conv_op.h"

enum { OUTPUT };
enum { OUTPUT_SIZE = PD_CONV_OWN_ATTRS };

#define OTHER_ATTRS                                                                                          \
    PD_DEF_INTS("output_size"), PD_DEF_BOOL("is_test", 0), PD_DEF_BOOL("fuse_relu", 0),                      \
        PD_DEF_STRING("fuse_activation", ""), PD_DEF_FLOAT("fuse_alpha", 0), PD_DEF_FLOAT("fuse_beta", 0),   \
        PD_DEF_INT("workspace_size_MB", 512)

static const struct pd_slot_def inputs[] = {{"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs_2d[] = {PD_CONV_ATTRS(2, "NCHW"), OTHER_ATTRS, {0}};
static const struct pd_attr_def attrs_3d[] = {PD_CONV_ATTRS(3, "NCHW"), OTHER_ATTRS, {0}};

/* The shape of the convolution from Output (in) to Input (out). */
static pd_status shape_of(const struct pd_attr *attr, const struct pd_meta *input,
                          const struct pd_meta *filter, struct pd_conv *c)
{
    int64_t size[PD_CONV_AXES];
    PD_TRY(pd_conv_shape_read(attr, input, filter, c, size));
    c->out_channels = pd_conv_shape_channels(c, input);
    c->in_channels = filter->dim[1] < 0 ? -1 : filter->dim[1] * c->groups;
    if (c->out_channels >= 0 && filter->dim[0] >= 0 && c->out_channels != filter->dim[0])
        return pd_fail(PD_SHAPE, "Input %s has %lld channels (data_format %s), but Filter %s takes %lld.",
                       pd_meta_dims_text(input), (long long)c->out_channels, attr[PD_CONV_FORMAT].s,
                       pd_meta_dims_text(filter), (long long)filter->dim[0]);
    if (c->out_channels >= 0 && c->out_channels % c->groups)
        return pd_fail(PD_SHAPE, "Input %s has %lld channels, which %lld groups do not divide.",
                       pd_meta_dims_text(input), (long long)c->out_channels, (long long)c->groups);
    const struct pd_attr *wanted = &attr[OUTPUT_SIZE];
    if (wanted->n && wanted->n != c->axes)
        return pd_fail(PD_INVALID, "output_size has %d numbers, but there are %d axes.", wanted->n, c->axes);
    for (int i = 0; i < c->axes; i++) {
        c->out[i] = size[i];
        int known = size[i] >= 0 && c->kernel[i] >= 0;
        int64_t least = known ? (size[i] - 1) * c->stride[i] - c->before[i] - c->after[i] +
                                    c->dilation[i] * (c->kernel[i] - 1) + 1
                              : -1;
        if (known && least < 1)
            return pd_fail(PD_SHAPE, "The %s of Input %s gives no output with this padding.",
                           pd_conv_shape_axis(c->axes, i), pd_meta_dims_text(input));
        c->in[i] = wanted->n ? wanted->ints[i] : least;
        if (wanted->n && least >= 0 && (c->in[i] < least || c->in[i] >= least + c->stride[i]))
            return pd_fail(PD_INVALID, "output_size %d for the %s cannot be reached: give %lld to %lld.",
                           wanted->ints[i], pd_conv_shape_axis(c->axes, i), (long long)least,
                           (long long)(least + c->stride[i] - 1));
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *input = pd_infer_in(c, PD_CONV_SLOT_INPUT);
    struct pd_meta *out = pd_infer_out(c, OUTPUT);
    struct pd_conv shape;
    PD_TRY(shape_of(c->attr, input, pd_infer_in(c, PD_CONV_SLOT_FILTER), &shape));
    if (!out) return PD_OK;
    out->dtype = input->dtype;
    pd_conv_shape_write(&shape, out, shape.batch, shape.in_channels, shape.in);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    return pd_conv_op_run(r, shape_of, 1);
}

static pd_status grad_run(const struct pd_run *r)
{
    return pd_conv_op_grad_run(r, shape_of, 1);
}

PD_CONV_OPS(conv2d_transpose, 2, "Transposed convolution over two axes.");
PD_CONV_OPS(depthwise_conv2d_transpose, 2, "Transposed convolution of each channel by itself.");
PD_CONV_OPS(conv3d_transpose, 3, "Transposed convolution over three axes.");
