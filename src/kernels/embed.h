/* Rows of many tables side by side: the inputs of a wide model in one pass, and their gradients back.
 *
 * A sample is a row of a matrix made of columns, one for each item. An item's columns are a row of a table
 * picked by the sample's id, the sum of the rows of the sample's ids, or a row of a plain array. */
#ifndef PD_KERNELS_EMBED_H
#define PD_KERNELS_EMBED_H

#include <stdint.h>

struct pd_embed_item {
    const int64_t *ids;    /* checked; NULL: a plain array, row i for sample i */
    const int64_t *offset; /* ids of sample i are offset[i] .. offset[i + 1] - 1; NULL: id i */
    int64_t skip;          /* an id that stands for a row of zeros; -1: none */
    int64_t at, width;     /* columns, in elements */
    double pad;            /* for a sample without ids */
    void *rows; /* gather: the table or the array; scatter: where the gradient row of each id goes, NULL:
                   nowhere */
};

/* Fills `whole`, rows of `row` elements. Sums run in the order of the ids. */
void pd_embed_gather(int is_double, const struct pd_embed_item *items, int n, int64_t samples, void *whole,
                     int64_t row);
/* Each id gets its sample's columns of `whole`, zeros where it is the one to skip. Items without ids are left
 * out. */
void pd_embed_scatter(int is_double, const struct pd_embed_item *items, int n, int64_t samples,
                      const void *whole, int64_t row);

#endif
