/* conv2d_transpose, depthwise_conv2d_transpose and conv3d_transpose. A transposed convolution is the data
 * gradient of the convolution that leads from its output to its input, so all passes come from there with the
 * sides swapped. */
#include "ops/conv_shape.h"

enum { INPUT, FILTER, BIAS };
enum { OUTPUT };
enum { OUTPUT_SIZE = PD_CONV_OWN_ATTRS };

#define OTHER_ATTRS                                                                                          \
    PD_DEF_INTS("output_size"), PD_DEF_BOOL("is_test", 0), PD_DEF_BOOL("fuse_relu", 0),                      \
        PD_DEF_STRING("fuse_activation", ""), PD_DEF_FLOAT("fuse_alpha", 0), PD_DEF_FLOAT("fuse_beta", 0),   \
        PD_DEF_INT("workspace_size_MB", 512)

static const struct pd_attr_def attrs_2d[] = {
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0),
    PD_DEF_STRING("padding_algorithm", "EXPLICIT"),
    PD_DEF_INT("groups", 1),
    PD_DEF_INTS_OF("dilations", 1, 1),
    PD_DEF_STRING("data_format", "NCHW"),
    OTHER_ATTRS,
    {0},
};
static const struct pd_attr_def attrs_3d[] = {
    PD_DEF_INTS_OF("strides", 1, 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0),
    PD_DEF_STRING("padding_algorithm", "EXPLICIT"),
    PD_DEF_INT("groups", 1),
    PD_DEF_INTS_OF("dilations", 1, 1, 1),
    PD_DEF_STRING("data_format", "NCHW"),
    OTHER_ATTRS,
    {0},
};

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
        int64_t least = size[i] < 0 || c->kernel[i] < 0
                            ? -1
                            : (size[i] - 1) * c->stride[i] - c->before[i] - c->after[i] +
                                  c->dilation[i] * (c->kernel[i] - 1) + 1;
        if (least == 0 || least < -1)
            return pd_fail(PD_SHAPE, "Axis %d of Input %s gives no output with this padding.", i,
                           pd_meta_dims_text(input));
        c->in[i] = wanted->n ? wanted->ints[i] : least;
        if (wanted->n && least >= 0 && (c->in[i] < least || c->in[i] >= least + c->stride[i]))
            return pd_fail(PD_INVALID, "output_size %d for axis %d cannot be reached: give %lld to %lld.",
                           wanted->ints[i], i, (long long)least, (long long)(least + c->stride[i] - 1));
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *input = pd_infer_in(c, INPUT);
    struct pd_meta *out = pd_infer_out(c, OUTPUT);
    struct pd_conv shape;
    PD_TRY(shape_of(c->attr, input, pd_infer_in(c, FILTER), &shape));
    if (!out) return PD_OK;
    out->dtype = input->dtype;
    pd_conv_shape_write(&shape, out, shape.batch, shape.in_channels, shape.in);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *input = pd_run_in(r, INPUT), *filter = pd_run_in(r, FILTER),
                           *bias = pd_run_in(r, BIAS);
    struct pd_tensor *out = pd_run_out(r, OUTPUT);
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    PD_TRY(pd_conv_shape_run(r, PD_CONV_DATA, &c, input->meta.dtype, input->data, filter->data, out->data));
    if (!bias) return PD_OK;
    if (pd_tensor_numel(bias) != c.in_channels)
        return pd_fail(PD_SHAPE, "Bias has shape %s, but there are %lld output channels.",
                       pd_meta_dims_text(&bias->meta), (long long)c.in_channels);
    int64_t points = pd_tensor_numel(out) / (c.batch * c.in_channels > 0 ? c.batch * c.in_channels : 1);
    PD_SWITCH_FLOAT(out->meta.dtype, T, {
        T *y = out->data;
        const T *b = bias->data;
        for (int64_t n = 0; n < c.batch; n++)
            for (int64_t i = 0; i < (c.channels_last ? points : c.in_channels); i++)
                for (int64_t j = 0; j < (c.channels_last ? c.in_channels : points); j++)
                    *y++ += b[c.channels_last ? j : i];
    })
    return PD_OK;
}

enum { GRAD_OUTPUT = 2 };
enum { D_INPUT, D_FILTER };

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, D_INPUT, INPUT);
    pd_nn_grad_like(c, D_FILTER, FILTER);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *input = pd_run_in(r, INPUT), *filter = pd_run_in(r, FILTER),
                           *g = pd_run_in(r, GRAD_OUTPUT);
    struct pd_tensor *d_input = pd_run_out(r, D_INPUT), *d_filter = pd_run_out(r, D_FILTER);
    enum pd_dtype dtype = g->meta.dtype;
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    if (d_filter)
        PD_TRY(pd_conv_shape_run(r, PD_CONV_FILTER, &c, dtype, g->data, input->data, d_filter->data));
    if (d_input)
        PD_TRY(pd_conv_shape_run(r, PD_CONV_FORWARD, &c, dtype, g->data, filter->data, d_input->data));
    return PD_OK;
}

static void state_free(void *state)
{
    pd_conv_cache_free(state);
}

static const struct pd_slot_def inputs[] = {{"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_slot_def outputs[] = {{"Output", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"Input", 0}, {"Filter", 0}, {"Output@GRAD", 0}, {0}};
static const struct pd_slot_def grad_outputs[] = {
    {"Input@GRAD", PD_SLOT_OPTIONAL}, {"Filter@GRAD", PD_SLOT_OPTIONAL}, {0}};

#define TRANSPOSE_OP(name, axes, text)                                                                       \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "Input Filter Output@",                                                                   \
        .grad_out = "Input@ Filter@",                                                                        \
        .state_size = sizeof(struct pd_conv_cache),                                                          \
        .state_free = state_free,                                                                            \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = grad_inputs,                                                                               \
        .outputs = grad_outputs,                                                                             \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = grad_infer,                                                                                 \
        .run = grad_run,                                                                                     \
        .state_size = sizeof(struct pd_conv_cache),                                                          \
        .state_free = state_free,                                                                            \
    };

TRANSPOSE_OP(conv2d_transpose, 2, "Transposed convolution over two axes.")
TRANSPOSE_OP(depthwise_conv2d_transpose, 2, "Transposed convolution of each channel by itself.")
TRANSPOSE_OP(conv3d_transpose, 3, "Transposed convolution over three axes.")
