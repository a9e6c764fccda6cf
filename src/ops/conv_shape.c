/* See conv_shape.h. */
#include "ops/conv_shape.h"

#include <string.h>

#include "ops/check.h"
#include "ops/layout.h"

const char *pd_conv_shape_axis(int axes, int i)
{
    static const char *const names[] = {"depth", "height", "width"};
    return names[3 - axes + i];
}

pd_status pd_conv_shape_ints(const struct pd_attr *attr, const char *name, int axes, int64_t *out)
{
    if (attr->n != axes)
        return pd_fail(PD_INVALID, "%s has %d numbers, but the input has %d spatial axes: give one for each.",
                       name, attr->n, axes);
    for (int i = 0; i < axes; i++) {
        if (attr->ints[i] < 1)
            return pd_fail(PD_INVALID, "%s has %d for axis %d: give a number above 0.", name, attr->ints[i],
                           i);
        out[i] = attr->ints[i];
    }
    return PD_OK;
}

pd_status pd_conv_shape_padding(const struct pd_attr *paddings, const char *algorithm, int axes,
                                const int64_t *size, const int64_t *kernel, const int64_t *stride,
                                int64_t *before, int64_t *after)
{
    if (paddings->n != axes && paddings->n != 2 * axes)
        return pd_fail(PD_INVALID,
                       "paddings has %d numbers, but the input has %d spatial axes: give %d or %d.",
                       paddings->n, axes, axes, 2 * axes);
    int both = paddings->n == 2 * axes;
    for (int i = 0; i < axes; i++) {
        before[i] = paddings->ints[both ? 2 * i : i];
        after[i] = paddings->ints[both ? 2 * i + 1 : i];
        if (before[i] < 0 || after[i] < 0)
            return pd_fail(PD_INVALID, "paddings for axis %d are negative.", i);
        if (!strcmp(algorithm, "VALID")) {
            before[i] = after[i] = 0;
        } else if (!strcmp(algorithm, "SAME")) {
            int64_t out = (size[i] + stride[i] - 1) / stride[i];
            int64_t sum = (out - 1) * stride[i] + kernel[i] - size[i];
            if (sum < 0 || size[i] < 0) sum = 0;
            before[i] = sum / 2;
            after[i] = sum - before[i];
        } else if (strcmp(algorithm, "EXPLICIT")) {
            return pd_fail(PD_INVALID, "padding_algorithm is '%s': give EXPLICIT, SAME or VALID.", algorithm);
        }
    }
    return PD_OK;
}

pd_status pd_conv_shape_read(const struct pd_attr *attr, const struct pd_meta *input,
                             const struct pd_meta *filter, struct pd_conv *conv, int64_t *size)
{
    memset(conv, 0, sizeof *conv);
    PD_TRY(pd_check_float(input, "Input"));
    PD_TRY(pd_check_same_type(input, "Input", filter, "Filter"));
    PD_TRY(pd_check_rank(input, "Input", 3, 2 + PD_CONV_AXES));
    PD_TRY(pd_check_rank(filter, "Filter", input->rank, input->rank));
    int axes = conv->axes = input->rank - 2;
    conv->channels_last = pd_layout_channels_last(attr[PD_CONV_FORMAT].s);
    conv->groups = attr[PD_CONV_GROUPS].i;
    if (conv->groups < 1)
        return pd_fail(PD_INVALID, "groups is %d: give a number above 0.", attr[PD_CONV_GROUPS].i);
    conv->batch = input->dim[0];
    for (int i = 0; i < axes; i++) {
        size[i] = input->dim[(conv->channels_last ? 1 : 2) + i];
        conv->kernel[i] = filter->dim[2 + i];
    }
    PD_TRY(pd_conv_shape_ints(&attr[PD_CONV_STRIDES], "strides", axes, conv->stride));
    PD_TRY(pd_conv_shape_ints(&attr[PD_CONV_DILATIONS], "dilations", axes, conv->dilation));
    PD_TRY(pd_conv_shape_padding(&attr[PD_CONV_PADDINGS], attr[PD_CONV_ALGORITHM].s, axes, size, conv->kernel,
                                 conv->stride, conv->before, conv->after));
    for (int i = 0; i < axes; i++)
        if (!strcmp(attr[PD_CONV_ALGORITHM].s, "SAME")) conv->dilation[i] = 1;
    return PD_OK;
}

void pd_conv_shape_write(const struct pd_conv *conv, struct pd_meta *meta, int64_t batch, int64_t channels,
                         const int64_t *size)
{
    meta->rank = 2 + conv->axes;
    meta->dim[0] = batch;
    meta->dim[conv->channels_last ? meta->rank - 1 : 1] = channels;
    for (int i = 0; i < conv->axes; i++)
        meta->dim[(conv->channels_last ? 1 : 2) + i] = size[i];
}
