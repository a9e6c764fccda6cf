/* Rows of a matrix picked or written by number: gather, scatter and their gradients.
 *
 * Row numbers are checked by the caller. Sums do not depend on the number of threads: every row of the result
 * belongs to one thread, which adds in the order of the list. */
#ifndef PD_KERNELS_GATHER_H
#define PD_KERNELS_GATHER_H

#include <stddef.h>
#include <stdint.h>

/* to[i] = from[index[i]]; rows of `width` bytes. */
void pd_gather_rows(void *to, const void *from, const int64_t *index, int64_t n, int64_t width);
/* to[index[i]] = from[i]; the last one stays where numbers repeat. */
void pd_gather_scatter(void *to, const void *from, const int64_t *index, int64_t n, int64_t width);
/* Rows index[i] of `to` become 0. */
void pd_gather_zero(void *to, const int64_t *index, int64_t n, int64_t width);

/* to[index[i]] += from[i]; `to` has `rows` rows of `width` elements. */
void pd_gather_add_f32(float *to, int64_t rows, const float *from, const int64_t *index, int64_t n,
                       int64_t width);
void pd_gather_add_f64(double *to, int64_t rows, const double *from, const int64_t *index, int64_t n,
                       int64_t width);
void pd_gather_add_i32(int32_t *to, int64_t rows, const int32_t *from, const int64_t *index, int64_t n,
                       int64_t width);
void pd_gather_add_i64(int64_t *to, int64_t rows, const int64_t *from, const int64_t *index, int64_t n,
                       int64_t width);

#endif
