/* The shape that an op gives its output: numbers (numbers.h) that are sizes. */
#ifndef PD_OPS_SIZES_H
#define PD_OPS_SIZES_H

#include "ops/numbers.h"

/* Sets the dimensions of `out`. In a Program sizes that only running can tell are -1. */
pd_status pd_sizes_infer(const struct pd_infer *c, const struct pd_numbers_source *from, struct pd_meta *out);
/* The shape of an attribute (ints), of which one size is taken from `in`; the last two are attributes that
 * say which. */
pd_status pd_sizes_infer_batch(const struct pd_infer *c, const struct pd_meta *in, int shape_attr,
                               int in_attr, int out_attr, struct pd_meta *out);
/* At run time: the sizes that inputs give; *rank is -1 when none of them does. */
pd_status pd_sizes_given(const struct pd_run *r, const struct pd_numbers_source *from, int64_t *dim,
                         int *rank);
/* Gives `out` the shape that the inputs ask for, when it has another one. */
pd_status pd_sizes_fit(const struct pd_run *r, const struct pd_numbers_source *from, struct pd_tensor *out);
/* As many values were given as the output's shape asks for. */
pd_status pd_sizes_check_count(const struct pd_meta *out, int given);

#endif
