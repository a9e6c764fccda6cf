/* What a window sees while it moves over an image: im2sequence makes rows of it, unfold columns. */
#ifndef PD_OPS_WINDOWS_H
#define PD_OPS_WINDOWS_H

#include "program/op.h"

/* Windows over one image [channels, height, width]; steps are those of the result. */
struct pd_windows {
    int64_t channels, height, width;
    int64_t kernel[2], stride[2], dilation[2], up, left;
    int64_t out[2]; /* windows down and across */
    int64_t by_h, by_w, by_c, by_i, by_j;
};

/* Checks X and the attributes: kernel, stride and dilation (NULL: 1) have 2 numbers, pads 4 (up, left, down,
 * right). */
pd_status pd_windows_check(const struct pd_meta *x, const struct pd_attr *kernel,
                           const struct pd_attr *stride, const struct pd_attr *pads,
                           const struct pd_attr *dilation);
/* All but the steps of the result. */
void pd_windows_make(const struct pd_meta *x, const struct pd_attr *kernel, const struct pd_attr *stride,
                     const struct pd_attr *pads, const struct pd_attr *dilation, struct pd_windows *w);
/* Windows along one side of an image. */
int64_t pd_windows_count(int64_t size, int64_t kernel, int64_t dilation, int64_t before, int64_t after,
                         int64_t stride);
/* Elements that one window sees in all channels; -1 where they are not known. */
int64_t pd_windows_width(const struct pd_meta *x, const struct pd_attr *kernel);
/* Copies what the windows see of one image x to `out`; `back` adds it to x. */
void pd_windows_walk(const struct pd_windows *w, enum pd_dtype dtype, int back, char *x, char *out);

#endif
