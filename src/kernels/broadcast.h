/* Walking two operands of which each may be repeated along some dimensions.
 *
 * Neighbouring dimensions along which both operands behave alike are merged, so that a bias row, a channel
 * vector or a single value come out as one or two loops. The last two dimensions that remain form a tile; a
 * kernel gets one tile per call. */
#ifndef PD_KERNELS_BROADCAST_H
#define PD_KERNELS_BROADCAST_H

#include <stddef.h>
#include <stdint.h>

#define PD_BCAST_RANK 9

struct pd_bcast {
    int rank; /* at least 1 */
    int64_t dim[PD_BCAST_RANK];
    int64_t x_step[PD_BCAST_RANK], y_step[PD_BCAST_RANK]; /* in elements; 0: repeated */
    int64_t count;                                        /* elements of the result */
};

/* `rows` rows of `n` elements. The result is dense; offsets are in elements. */
struct pd_tile {
    int64_t at, x, y; /* where the tile starts in the result and in the operands */
    int64_t rows, n;
    int64_t x_row, y_row;   /* from row to row */
    int64_t x_step, y_step; /* from element to element: 0 or 1 */
};

/* Sizes of the operands, dimension by dimension; where they differ one of them is 1. */
void pd_bcast_make(struct pd_bcast *b, int rank, const int64_t *x_dim, const int64_t *y_dim);
/* Calls body for all tiles, on several threads when the result has more than `grain` elements. */
void pd_bcast_run(const struct pd_bcast *b, int64_t grain,
                  void (*body)(void *arg, const struct pd_tile *tile), void *arg);

#endif
