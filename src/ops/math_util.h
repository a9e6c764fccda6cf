/* What the files of the math family share: small steps of shape inference and of running. */
#ifndef PD_OPS_MATH_UTIL_H
#define PD_OPS_MATH_UTIL_H

#include "base/rng.h"
#include "kernels/ew_binary.h"
#include "program/op.h"

/* ---- types ---- */

/* Position in kernel tables (enum pd_ew_type); PD_TYPE when the kernels do not know the type. */
pd_status pd_math_type(enum pd_dtype dtype, int *type);

/* ---- inference ---- */

/* The shape that an op gets from a tensor of sizes, from a list of one-element tensors, or from its
 * attribute, in this order of precedence. In a Program sizes that only running can tell are -1. */
struct pd_shape_source {
    int tensor, list; /* input slots; -1: the op has none */
    int attr;         /* of type longs or ints */
};
pd_status pd_math_infer_shape(const struct pd_infer *c, const struct pd_shape_source *s, struct pd_meta *out);
/* As many values were given as the output's shape asks for. */
pd_status pd_math_check_count(const struct pd_meta *out, int given);
/* The shape of an attribute (ints), of which one size is taken from `in`; the last two are attributes that
 * say which. */
pd_status pd_math_infer_like_batch(const struct pd_infer *c, const struct pd_meta *in, int shape_attr,
                                   int in_attr, int out_attr, struct pd_meta *out);
/* At run time: the sizes that inputs give; *rank is -1 when there are none. */
pd_status pd_math_given_sizes(const struct pd_run *r, const struct pd_shape_source *s, int64_t *dim,
                              int *rank);
/* Gives `out` the shape that the inputs ask for, when it has another one. */
pd_status pd_math_size_output(const struct pd_run *r, const struct pd_shape_source *s, struct pd_tensor *out);

/* ---- running ---- */

/* `to` becomes selected rows with the rows, height, dtype and width of `from`, without the values. */
pd_status pd_math_rows_like(struct pd_value *to, const struct pd_value *from);
/* Input 0 and output 0 of an elementwise op on tensors or selected rows: the output has its size afterwards.
 */
pd_status pd_math_pair(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out);
/* One number of a one-element tensor. */
pd_status pd_math_number(const struct pd_tensor *t, const char *what, double *number);
/* Element i of an int32 or int64 tensor: a class in [0, classes). `name` is the slot, for messages. */
pd_status pd_math_class_at(const struct pd_tensor *t, const char *name, int64_t i, int64_t classes,
                           int64_t *out);
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
