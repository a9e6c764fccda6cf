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

int pd_blas_gemm(const struct pd_gemm *g)
{
    pthread_once(&once, open_library);
    if (!sgemm || g->m > INT_MAX || g->n > INT_MAX || g->k > INT_MAX || g->a.ld > INT_MAX ||
        g->b.ld > INT_MAX || g->ldc > INT_MAX)
        return 0;
    sgemm(ROW_MAJOR, g->a.trans ? TRANS : NO_TRANS, g->b.trans ? TRANS : NO_TRANS, (int)g->m, (int)g->n,
          (int)g->k, (float)g->alpha, g->a.at, (int)g->a.ld, g->b.at, (int)g->b.ld, (float)g->beta, g->c,
          (int)g->ldc);
    return 1;
}
