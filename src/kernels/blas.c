/* See blas.h. Only the one function we need is looked up, so no BLAS headers are needed to build. */
#include "kernels/blas.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

static sgemm_fn *sgemm;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void)
{
#ifndef PD_SANITIZED
    static const char *const names[] = {"libopenblas.so.0", "libblas.so.3", "libcblas.so.3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !sgemm; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!library) continue;
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
        if (!sgemm) dlclose(library);
    }
#endif
}

int pd_blas_gemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    pthread_once(&once, open_library);
    if (!sgemm || m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX ||
        ldc > INT_MAX)
        return 0;
    sgemm(ROW_MAJOR, trans_a ? TRANS : NO_TRANS, trans_b ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, alpha, a,
          (int)lda, b, (int)ldb, beta, c, (int)ldc);
    return 1;
}
