/* A CBLAS of the system, opened at first use: the second choice for products, where oneDNN is not there. */
#ifndef PD_KERNELS_BLAS_H
#define PD_KERNELS_BLAS_H

#include "kernels/gemm.h"

/* Row-major product as in gemm.h; 0 when there is no CBLAS. */
int pd_blas_gemm(const struct pd_gemm *g);

#endif
