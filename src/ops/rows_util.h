/* What ops on selected rows share. */
#ifndef PD_OPS_ROWS_UTIL_H
#define PD_OPS_ROWS_UTIL_H

#include "program/op.h"

/* `to` becomes the sum of n selected rows, of which at least one is not NULL: each row once, ascending. It
 * may be one of them. Borrows `from`; uses the call's scratch memory. */
pd_status pd_rows_merge(const struct pd_run *r, struct pd_value *to, int n, struct pd_value *const *from);

#endif
