/* Rows of a tensor that an input picks, by their numbers or by coordinates: what gather and scatter ops
 * share. The numbers are checked against the tensor before use. */
#ifndef PD_OPS_ROW_NUMBERS_H
#define PD_OPS_ROW_NUMBERS_H

#include "program/op.h"

/* How many rows are picked, and how wide they are in elements. */
struct pd_row_numbers {
    const char *slot;
    int by_coordinates;
    int64_t n;            /* numbers */
    int64_t count, width; /* rows of the tensor */
};

/* Rows of an index tensor [n], [n, 1] or [1, n]; its element type is checked too. */
pd_status pd_row_numbers_count(const struct pd_meta *index, const char *slot, int64_t *n);
/* int32 or int64 numbers as int64 in [0, limit) into `to`. */
pd_status pd_row_numbers_copy(const struct pd_tensor *index, const char *slot, int64_t limit, int64_t *to);

/* Looks at shapes and types only. `slot` names the input in messages. */
pd_status pd_row_numbers_infer(const struct pd_meta *x, const struct pd_meta *index, const char *slot,
                               int by_coordinates, struct pd_row_numbers *rows);
/* Dims of what coordinates pick: those of the index without the last, then what is left of X. */
pd_status pd_row_numbers_dims(const struct pd_meta *x, const struct pd_meta *index, int64_t *dim, int *rank);
/* The row numbers as int64, where they lie or in memory of this run. */
pd_status pd_row_numbers_read(const struct pd_run *r, int slot, const char *name, int by_coordinates,
                              const struct pd_meta *x, struct pd_row_numbers *rows, int64_t **index);
/* Adds row k of `from` to row index[k] of `to`. */
pd_status pd_row_numbers_add(enum pd_dtype dtype, void *to, const struct pd_row_numbers *rows,
                             const void *from, const int64_t *index);

#endif
