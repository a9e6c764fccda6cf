/* conv2d, depthwise_conv2d and conv3d: convolution with stride, padding, dilation and groups, channels first
 * or last. */
#include "ops/conv_shape.h"

enum { INPUT, FILTER, BIAS, RESIDUAL };
enum { OUTPUT };
enum { FUSE_RELU = PD_CONV_OWN_ATTRS, FUSE_ACTIVATION, FUSE_RESIDUAL, FUSE_RELU_BEFORE };

#define SHARED_ATTRS PD_DEF_STRING("padding_algorithm", "EXPLICIT"), PD_DEF_INT("groups", 1)
#define OTHER_ATTRS                                                                                          \
    PD_DEF_BOOL("fuse_relu", 0), PD_DEF_STRING("fuse_activation", ""),                                       \
        PD_DEF_BOOL("fuse_residual_connection", 0), PD_DEF_BOOL("fuse_relu_before_depthwise_conv", 0),       \
        PD_DEF_BOOL("is_test", 0), PD_DEF_BOOL("fuse_brelu", 0), PD_DEF_FLOAT("fuse_brelu_threshold", 6),    \
        PD_DEF_FLOAT("fuse_alpha", 0), PD_DEF_FLOAT("fuse_beta", 0), PD_DEF_FLOAT("Scale_in", 1),            \
        PD_DEF_FLOAT("Scale_out", 1), PD_DEF_FLOAT("Scale_in_eltwise", 1),                                   \
        PD_DEF_FLOATS_OF("Scale_weights", 1), PD_DEF_BOOL("force_fp32_output", 0),                           \
        PD_DEF_INT("workspace_size_MB", 512), PD_DEF_BOOL("exhaustive_search", 0)

static const struct pd_attr_def attrs_2d[] = {
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0),
    SHARED_ATTRS,
    PD_DEF_INTS_OF("dilations", 1, 1),
    PD_DEF_STRING("data_format", "NCHW"),
    OTHER_ATTRS,
    {0},
};
static const struct pd_attr_def attrs_3d[] = {
    PD_DEF_INTS_OF("strides", 1, 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0),
    SHARED_ATTRS,
    PD_DEF_INTS_OF("dilations", 1, 1, 1),
    PD_DEF_STRING("data_format", "NCDHW"),
    OTHER_ATTRS,
    {0},
};

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
        c->out[i] = size[i] < 0 || c->kernel[i] < 0
                        ? -1
                        : pd_conv_out_size(size[i], c->kernel[i], c->dilation[i], c->before[i], c->after[i],
                                           c->stride[i]);
        if (c->out[i] == 0)
            return pd_fail(PD_SHAPE,
                           "Axis %d of Input %s is too small for Filter %s with this padding and dilation.",
                           i, pd_meta_dims_text(input), pd_meta_dims_text(filter));
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *input = pd_infer_in(c, INPUT);
    struct pd_meta *out = pd_infer_out(c, OUTPUT);
    struct pd_conv shape;
    PD_TRY(shape_of(c->attr, input, pd_infer_in(c, FILTER), &shape));
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

static void add_bias(const struct pd_conv *c, struct pd_tensor *out, const struct pd_tensor *bias)
{
    int64_t points = 1;
    for (int i = 0; i < c->axes; i++)
        points *= c->out[i];
    PD_SWITCH_FLOAT(out->meta.dtype, T, {
        T *y = out->data;
        const T *b = bias->data;
        for (int64_t n = 0; n < c->batch; n++)
            for (int64_t i = 0; i < (c->channels_last ? points : c->out_channels); i++)
                for (int64_t j = 0; j < (c->channels_last ? c->out_channels : points); j++)
                    *y++ += b[c->channels_last ? j : i];
    })
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *input = pd_run_in(r, INPUT), *filter = pd_run_in(r, FILTER),
                           *bias = pd_run_in(r, BIAS);
    struct pd_tensor *out = pd_run_out(r, OUTPUT);
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    PD_TRY(
        pd_conv_shape_run(r, PD_CONV_FORWARD, &c, input->meta.dtype, input->data, filter->data, out->data));
    if (bias) {
        if (pd_tensor_numel(bias) != c.out_channels)
            return pd_fail(PD_SHAPE, "Bias has shape %s, but there are %lld output channels.",
                           pd_meta_dims_text(&bias->meta), (long long)c.out_channels);
        add_bias(&c, out, bias);
    }
    return PD_OK;
}

/* ---- gradient ---- */

enum { GRAD_BIAS = 2, GRAD_OUTPUT };
enum { D_INPUT, D_FILTER, D_BIAS };

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, D_INPUT, INPUT);
    pd_nn_grad_like(c, D_FILTER, FILTER);
    if (pd_infer_in(c, GRAD_BIAS)) pd_nn_grad_like(c, D_BIAS, GRAD_BIAS);
    return PD_OK;
}

static void bias_grad(const struct pd_conv *c, const struct pd_tensor *g, struct pd_tensor *d_bias)
{
    int64_t points = 1;
    for (int i = 0; i < c->axes; i++)
        points *= c->out[i];
    PD_SWITCH_FLOAT(g->meta.dtype, T, {
        const T *dy = g->data;
        T *to = d_bias->data;
        memset(to, 0, (size_t)c->out_channels * sizeof(T));
        for (int64_t n = 0; n < c->batch; n++)
            for (int64_t i = 0; i < (c->channels_last ? points : c->out_channels); i++)
                for (int64_t j = 0; j < (c->channels_last ? c->out_channels : points); j++)
                    to[c->channels_last ? j : i] += *dy++;
    })
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *input = pd_run_in(r, INPUT), *filter = pd_run_in(r, FILTER),
                           *g = pd_run_in(r, GRAD_OUTPUT);
    struct pd_tensor *d_input = pd_run_out(r, D_INPUT), *d_filter = pd_run_out(r, D_FILTER),
                     *d_bias = pd_run_out(r, D_BIAS);
    enum pd_dtype dtype = g->meta.dtype;
    struct pd_conv c;
    PD_TRY(shape_of(r->attr, &input->meta, &filter->meta, &c));
    if (d_filter)
        PD_TRY(pd_conv_shape_run(r, PD_CONV_FILTER, &c, dtype, input->data, g->data, d_filter->data));
    if (d_input) PD_TRY(pd_conv_shape_run(r, PD_CONV_DATA, &c, dtype, g->data, filter->data, d_input->data));
    if (d_bias && pd_run_in(r, GRAD_BIAS)) bias_grad(&c, g, d_bias);
    return PD_OK;
}

static void state_free(void *state)
{
    pd_conv_cache_free(state);
}

static const struct pd_slot_def inputs[] = {
    {"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {"ResidualData", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_slot_def outputs[] = {{"Output", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"Input", 0}, {"Filter", 0}, {"Bias", PD_SLOT_OPTIONAL}, {"Output@GRAD", 0}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"Input@GRAD", PD_SLOT_OPTIONAL},
                                                  {"Filter@GRAD", PD_SLOT_OPTIONAL},
                                                  {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                                  {0}};

#define CONV_OP(name, axes, text)                                                                            \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "Input Filter Bias Output@",                                                              \
        .grad_out = "Input@ Filter@ Bias@",                                                                  \
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

CONV_OP(conv2d, 2, "Convolution over two axes.")
CONV_OP(depthwise_conv2d, 2, "Convolution of each channel by itself.")
CONV_OP(conv3d, 3, "Convolution over three axes.")
