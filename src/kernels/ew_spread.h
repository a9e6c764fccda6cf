/* Gradients of reductions: a value per result is spread over the elements it came from. Tiles are those of
 * broadcast.h with the elements as x and the results as y. */
#ifndef PD_KERNELS_EW_SPREAD_H
#define PD_KERNELS_EW_SPREAD_H

#include "kernels/broadcast.h"

struct pd_spread_arrays {
    void *to;
    const void *x;          /* elements */
    const void *out, *dout; /* results and their gradients */
    double scale;
};

typedef void (*pd_spread_kernel)(const struct pd_spread_arrays *a, const struct pd_tile *t);

/* By enum pd_ew_type; float32, float64, int32, int64. */
extern const pd_spread_kernel pd_spread_scaled[4]; /* dout * scale */
extern const pd_spread_kernel pd_spread_equal[4];  /* dout where x is the result, else 0 */
extern const pd_spread_kernel pd_spread_prod[4];   /* dout * out / x */

#endif
