/* What ops on selected rows share. */
#ifndef PD_OPS_ROWS_UTIL_H
#define PD_OPS_ROWS_UTIL_H

#include "program/op.h"

/* `to` becomes the sum of n selected rows, of which at least one is not NULL: each row once, ascending. It
 * may be one of them. Borrows `from`; uses the call's scratch memory. */
pd_status pd_rows_merge(const struct pd_run *r, struct pd_value *to, int n, struct pd_value *const *from);
/* Input 0 and output 0 of an op that reads selected rows with their repeated rows added up. These already lie
 * in the output, so that *x is the output then. */
pd_status pd_rows_source(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out);

#endif
