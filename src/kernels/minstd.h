/* Many numbers of base/minstd.h at once, and the uniform numbers that upstream makes of them. */
#ifndef PD_KERNELS_MINSTD_H
#define PD_KERNELS_MINSTD_H

#include "base/minstd.h"

enum { PD_MINSTD_SIDE = 64 };

/* Powers 1 to PD_MINSTD_SIDE of the factor. */
struct pd_minstd {
    uint32_t power[PD_MINSTD_SIDE];
};

struct pd_minstd pd_minstd_make(void);
/* The next n numbers after `state`; returns the state after them. */
uint32_t pd_minstd_words(const struct pd_minstd *m, uint32_t state, int64_t n, uint32_t *out);
/* Uniform numbers in [0, 1], 1 itself by rounding: of one word each, and of two. */
void pd_minstd_floats(const uint32_t *word, int64_t n, float *out);
void pd_minstd_doubles(const uint32_t *word, int64_t n, double *out);

#endif
