/* The shape of a convolution from an op's inputs and attributes; shared by conv.c and conv_transpose.c. */
#ifndef PD_OPS_CONV_SHAPE_H
#define PD_OPS_CONV_SHAPE_H

#include "kernels/conv.h"
#include "program/op.h"

/* Every convolution op's attribute table starts with these. */
enum {
    PD_CONV_STRIDES,
    PD_CONV_PADDINGS,
    PD_CONV_ALGORITHM,
    PD_CONV_GROUPS,
    PD_CONV_DILATIONS,
    PD_CONV_FORMAT,
    PD_CONV_OWN_ATTRS
};

/* Fills axes, channels_last, groups, kernel, stride, dilation and padding. `input` is what the op's Input
 * looks like; `size` gets its spatial sizes (-1 where not known). Checks ranks and attributes. */
pd_status pd_conv_shape_read(const struct pd_attr *attr, const struct pd_meta *input,
                             const struct pd_meta *filter, struct pd_conv *conv, int64_t *size);
static inline int64_t pd_conv_shape_channels(const struct pd_conv *conv, const struct pd_meta *data)
{
    return conv->channels_last ? data->dim[data->rank - 1] : data->dim[1];
}
/* [batch, channels, size...] in the right order. */
void pd_conv_shape_write(const struct pd_conv *conv, struct pd_meta *meta, int64_t batch, int64_t channels,
                         const int64_t *size);

/* Paddings, one or two per axis, into before[] and after[]; with SAME and VALID computed from sizes. Shared
 * with pooling. */
pd_status pd_conv_shape_padding(const struct pd_attr *paddings, const char *algorithm, int axes,
                                const int64_t *size, const int64_t *kernel, const int64_t *stride,
                                int64_t *before, int64_t *after);
/* A list attribute with one positive number per axis. */
pd_status pd_conv_shape_ints(const struct pd_attr *attr, const char *name, int axes, int64_t *out);

/* What users call axis `i` of so many spatial ones: "depth", "height", "width". */
const char *pd_conv_shape_axis(int axes, int i);

#endif
