/* Copies between two arrays whose elements lie in regular steps: slices, transposes, joins, repeats,
 * reversals.
 *
 * A copy is made once from dimensions and steps; neighbouring dimensions that go on evenly are merged, so
 * that most copies end as a few long rows. Steps may be negative; those of `from` may be 0 (repeat). */
#ifndef PD_KERNELS_COPY_H
#define PD_KERNELS_COPY_H

#include <stddef.h>
#include <stdint.h>

#define PD_COPY_RANK 20

struct pd_copy {
    size_t item; /* bytes of one element: 1, 2, 4 or 8 */
    int rank;    /* after merging; at least 1 */
    int64_t dim[PD_COPY_RANK], to_step[PD_COPY_RANK], from_step[PD_COPY_RANK]; /* steps in elements */
    int64_t count;
    int kind; /* the inner loop */
};

/* Dimensions in the order of `to`, outermost first. */
void pd_copy_make(struct pd_copy *c, size_t item, int rank, const int64_t *dim, const int64_t *to_step,
                  const int64_t *from_step);
void pd_copy_run(const struct pd_copy *c, void *to, const void *from);

/* Row-major steps of an array of these dimensions. */
void pd_copy_steps(int rank, const int64_t *dim, int64_t *step);

/* One block of memory, by several threads when it is large. */
void pd_copy_bytes(void *to, const void *from, size_t bytes);
void pd_copy_zero(void *to, size_t bytes);

#endif
