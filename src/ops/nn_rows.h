/* Selected rows of a gradient that is gathered by row number: which rows there are, each once. */
#ifndef PD_OPS_NN_ROWS_H
#define PD_OPS_NN_ROWS_H

#include "program/op.h"

/* Makes `value` selected rows [distinct ids, width] of a [height, width] matrix, rows ascending and zeroed,
 * and tells for each of the n ids its place among them. `place` is scratch memory of pd_nn_rows_scratch(n)
 * bytes; its first n numbers are the answer. */
pd_status pd_nn_rows_make(struct pd_value *value, const int64_t *ids, int64_t n, int64_t height,
                          int64_t width, enum pd_dtype dtype, int64_t *place);
static inline size_t pd_nn_rows_scratch(int64_t n)
{
    return (size_t)(3 * n + 1) * sizeof(int64_t);
}

#endif
