/* What the optimizer ops share: a parameter and its state go in, the same come out changed by a gradient that
 * is dense or selected rows. */
#ifndef PD_OPS_OPT_H
#define PD_OPS_OPT_H

#include "kernels/update.h"
#include "program/op.h"

/* Slots of an optimizer op. in[0] and out[0] are the parameter, the others its state. */
struct pd_opt {
    int grad, lr; /* lr is -1 where the rule has none */
    int n;
    int in[PD_UPDATE_ARRAYS], out[PD_UPDATE_ARRAYS];
};

/* Checks shapes and types against the parameter's; outputs become like their inputs. */
pd_status pd_opt_infer(const struct pd_infer *c, const struct pd_opt *o);

/* What happens to rows for which a sparse gradient has nothing. */
enum pd_opt_rest {
    PD_OPT_KEEP,   /* they stay as they are: a gradient of zero changes nothing */
    PD_OPT_UPDATE, /* they are updated with a gradient of zero */
    PD_OPT_SKIP,   /* they are not touched; outputs that are not their inputs keep what they held there */
};

/* Fills `u` but for rule and numbers; finds the rows of a sparse gradient that come together. `extra` bytes
 * of scratch memory are handed out where asked for. *empty is 1 when there is a sparse gradient without rows:
 * then there is nothing left to do. */
pd_status pd_opt_begin(const struct pd_run *r, const struct pd_opt *o, enum pd_opt_rest rest,
                       size_t extra_bytes, struct pd_update *u, void **extra, int *empty);
/* Begins and runs a rule with its numbers. *empty may be NULL. */
pd_status pd_opt_run(const struct pd_run *r, const struct pd_opt *o, enum pd_rule rule, const double k[4],
                     enum pd_opt_rest rest, int *empty);

/* The norm of a gradient, with rows that repeat added up. `room` is what pd_opt_begin gave for
 * pd_opt_norm_bytes: NULL for a dense gradient. */
size_t pd_opt_norm_bytes(const struct pd_run *r, const struct pd_opt *o);
double pd_opt_grad_norm(const struct pd_update *u, void *room);

/* The single number of an input. */
pd_status pd_opt_number(const struct pd_run *r, int slot, double *number);

#endif
