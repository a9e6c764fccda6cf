/* Reductions of dense arrays over any set of dimensions.
 *
 * The work is cut by shape alone, never by the number of threads, so results are the same on any machine
 * size. */
#ifndef PD_KERNELS_REDUCE_H
#define PD_KERNELS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#define PD_REDUCE_RANK 9

struct pd_reduce {
    int kept, gone; /* merged dimensions that stay, that go */
    int64_t kept_dim[PD_REDUCE_RANK], kept_step[PD_REDUCE_RANK];
    int64_t gone_dim[PD_REDUCE_RANK], gone_step[PD_REDUCE_RANK];
    int inner_gone;          /* the last dimension is one that goes */
    int64_t outputs, folded; /* elements of the result; elements that make one of them */
    int64_t parts;           /* cuts of the first dimension that goes; 1: none */
};

/* One reduction for one element type. */
struct pd_reduce_kernel {
    size_t item;
    const void *start; /* the result over nothing */
    /* *acc = *acc with x[0..n) */
    void (*fold)(void *acc, const void *x, int64_t n);
    /* acc[j] = acc[j] with x[j], x[step + j], ... for `rows` rows of n */
    void (*merge)(void *acc, const void *x, int64_t n, int64_t rows, int64_t step);
    /* The same where x holds results of this reduction already (a sum, where merge adds squares). */
    void (*join)(void *acc, const void *x, int64_t n, int64_t rows, int64_t step);
};

enum pd_reduce_type {
    PD_REDUCE_F32,
    PD_REDUCE_F64,
    PD_REDUCE_I32,
    PD_REDUCE_I64,
    PD_REDUCE_U8,
    PD_REDUCE_TYPES
};

extern const struct pd_reduce_kernel pd_reduce_sum[PD_REDUCE_TYPES], pd_reduce_max[PD_REDUCE_TYPES],
    pd_reduce_min[PD_REDUCE_TYPES], pd_reduce_prod[PD_REDUCE_TYPES];
/* Sums of squares and of magnitudes; float types only. */
extern const struct pd_reduce_kernel pd_reduce_square[PD_REDUCE_TYPES], pd_reduce_abs[PD_REDUCE_TYPES];

/* gone[i] is not 0 for each dimension to reduce. */
void pd_reduce_make(struct pd_reduce *r, int rank, const int64_t *dim, const uint8_t *gone);
/* Bytes of scratch memory that pd_reduce_run needs; often 0. */
size_t pd_reduce_scratch(const struct pd_reduce *r, const struct pd_reduce_kernel *k);
void pd_reduce_run(const struct pd_reduce *r, const struct pd_reduce_kernel *k, const void *in, void *out,
                   void *scratch);

#endif
