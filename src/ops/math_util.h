/* What the files of the math family share: small steps of shape inference and of running. */
#ifndef PD_OPS_MATH_UTIL_H
#define PD_OPS_MATH_UTIL_H

#include "base/rng.h"
#include "kernels/ew_binary.h"
#include "program/op.h"

/* ---- types ---- */

/* Position in kernel tables (enum pd_ew_type); PD_TYPE when the kernels do not know the type. */
pd_status pd_math_type(enum pd_dtype dtype, int *type);

/* ---- running ---- */

/* `to` becomes selected rows with the rows, height, dtype and width of `from`, without the values. */
pd_status pd_math_rows_like(struct pd_value *to, const struct pd_value *from);
/* Input 0 and output 0 of an elementwise op on tensors or selected rows: the output has its size afterwards.
 */
pd_status pd_math_pair(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out);
/* n elements of another type; PD_TYPE when one of the types is none that holds numbers. */
pd_status pd_math_cast(void *to, enum pd_dtype to_type, const void *from, enum pd_dtype from_type, int64_t n);
/* Fills n elements. */
pd_status pd_math_fill(void *to, enum pd_dtype dtype, int64_t n, double value);
/* Memory for this call; never NULL on success, also for 0 bytes. */
pd_status pd_math_scratch(const struct pd_run *r, size_t bytes, void **memory);

/* Random numbers of an op without a seed: a function of the Program's seed, the op's place in the user's
 * Program, how often the Program ran, and how often the op did in this run. */
struct pd_math_draws { /* the op's state */
    uint64_t number, count;
};
struct pd_rng pd_math_rng(const struct pd_run *r);

#endif
