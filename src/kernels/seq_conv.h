/* Context windows of sequences: row t of `col` holds rows t + start .. t + start + length - 1 of the same
 * sequence, one after the other. Places before or after the sequence hold rows of `padding` ([before + after,
 * width]) or zeros. */
#ifndef PD_KERNELS_SEQ_CONV_H
#define PD_KERNELS_SEQ_CONV_H

#include <stdint.h>

struct pd_seq_window {
    int64_t start, length, width;
    const int64_t *offset;
    int64_t sequences;
};

/* Rows of padding data before and after a sequence. */
static inline int64_t pd_seq_window_before(const struct pd_seq_window *w)
{
    return w->start < 0 ? -w->start : 0;
}
static inline int64_t pd_seq_window_after(const struct pd_seq_window *w)
{
    return w->start + w->length > 1 ? w->start + w->length - 1 : 0;
}

/* padding may be NULL: zeros */
void pd_seq_window_f32(const struct pd_seq_window *w, const float *x, const float *padding, float *col);
void pd_seq_window_f64(const struct pd_seq_window *w, const double *x, const double *padding, double *col);
/* The way back: adds the windows up into dx (which is set to zero first) and dpadding (which is added to).
 * Either may be NULL. */
void pd_seq_window_grad_f32(const struct pd_seq_window *w, const float *dcol, float *dx, float *dpadding);
void pd_seq_window_grad_f64(const struct pd_seq_window *w, const double *dcol, double *dx, double *dpadding);

#endif
