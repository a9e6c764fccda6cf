/* Selected rows: the values of some rows of a matrix, with their numbers. */
#ifndef PD_OPS_ROWS_H
#define PD_OPS_ROWS_H

#include "program/op.h"

/* Input 0 and output 0 of an elementwise op on tensors or selected rows: the output has its size afterwards.
 */
pd_status pd_rows_pair(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out);

/* `to` becomes the sum of n selected rows, of which at least one is not NULL: each row once, ascending. It
 * may be one of them. Borrows `from`; uses the call's scratch memory. */
pd_status pd_rows_merge(const struct pd_run *r, struct pd_value *to, int n, struct pd_value *const *from);
/* Input 0 and output 0 of an op that reads selected rows with their repeated rows added up. These already lie
 * in the output, so that *x is the output then. */
pd_status pd_rows_source(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out);

/* Makes `value` selected rows [distinct ids, width] of a [height, width] matrix, rows ascending and zeroed,
 * and tells for each of the n ids its place among them. `place` is scratch memory of pd_rows_make_scratch(n)
 * bytes; its first n numbers are the answer. */
pd_status pd_rows_make(struct pd_value *value, const int64_t *ids, int64_t n, int64_t height, int64_t width,
                       enum pd_dtype dtype, int64_t *place);
static inline size_t pd_rows_make_scratch(int64_t n)
{
    return (size_t)(3 * n + 1) * sizeof(int64_t);
}

/* What infer says of the gradient of a table, which is the input `w`: the first output, where it is asked
 * for.
 */
void pd_rows_infer_grad(const struct pd_infer *c, int w, int is_sparse);

#endif
