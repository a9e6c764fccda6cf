/* One pass of a convolution by oneDNN, for one shape. Who calls says how many threads oneDNN has
 * (dnnl_lib.h), the same when a pass is made and when it runs. A pass runs in one thread at a time. */
#ifndef PD_KERNELS_DNNL_CONV_PASS_H
#define PD_KERNELS_DNNL_CONV_PASS_H

#include "kernels/conv.h"

struct pd_dnnl_pass;

/* NULL: oneDNN cannot do it. */
struct pd_dnnl_pass *pd_dnnl_pass_new(enum pd_conv_pass pass, const struct pd_conv *conv);
void pd_dnnl_pass_free(struct pd_dnnl_pass *pass);
/* Bytes that a run needs, a multiple of 64. */
size_t pd_dnnl_pass_scratch(const struct pd_dnnl_pass *pass);
/* 0: it failed, `out` is not defined. */
int pd_dnnl_pass_run(struct pd_dnnl_pass *pass, const float *first, const float *second, float *out,
                     void *scratch);

#endif
