/* oneDNN, opened at first use. Each call returns whether it did the work; the caller has a plain path for
 * when not.
 *
 * The library is looked for in PADDLE_ONEDNN_LIBRARY, then near our own library (where pip puts it), then by
 * name. */
#ifndef PD_KERNELS_DNNL_H
#define PD_KERNELS_DNNL_H

#include "kernels/conv.h"
#include "kernels/gemm.h"

/* Row-major product as in gemm.h, in the calling thread alone. */
int pd_dnnl_gemm(const struct pd_gemm *g);

/* A prepared float32 pass from the cache (a handful of shapes, the least used goes), and the scratch bytes it
 * wants. NULL: oneDNN is not there or cannot do it. */
void *pd_dnnl_conv_prepare(void **cache, enum pd_conv_pass pass, const struct pd_conv *conv, size_t *scratch);
/* 0: it failed, `out` is not defined. */
int pd_dnnl_conv_run(void *prepared, const float *first, const float *second, float *out, void *scratch);
void pd_dnnl_cache_free(void *cache);

/* "oneDNN 3.2.0", or NULL when it is not there. */
const char *pd_dnnl_version(void);

#endif
