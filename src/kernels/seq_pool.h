/* Pooling over sequences: rows offset[s] .. offset[s + 1] - 1 of x become row s of out. */
#ifndef PD_KERNELS_SEQ_POOL_H
#define PD_KERNELS_SEQ_POOL_H

#include <stdint.h>

enum pd_seq_pool { PD_SEQ_SUM, PD_SEQ_AVERAGE, PD_SEQ_SQRT, PD_SEQ_MAX, PD_SEQ_LAST, PD_SEQ_FIRST };

/* An empty sequence gives `pad`. `index` (may be NULL) gets the row of each maximum, -1 for an empty
 * sequence. */
void pd_seq_pool_f32(enum pd_seq_pool how, const float *x, const int64_t *offset, int64_t sequences,
                     int64_t width, float pad, float *out, int32_t *index);
void pd_seq_pool_f64(enum pd_seq_pool how, const double *x, const int64_t *offset, int64_t sequences,
                     int64_t width, double pad, double *out, int32_t *index);

/* The gradient of x; every row of it is written. `index` is what the forward call gave, for PD_SEQ_MAX. */
void pd_seq_pool_grad_f32(enum pd_seq_pool how, const float *dout, const int32_t *index,
                          const int64_t *offset, int64_t sequences, int64_t width, float *dx);
void pd_seq_pool_grad_f64(enum pd_seq_pool how, const double *dout, const int32_t *index,
                          const int64_t *offset, int64_t sequences, int64_t width, double *dx);

#endif
