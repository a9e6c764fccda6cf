/* Numbers that steer an op: from an attribute, or from inputs whose data only running can tell. */
#ifndef PD_OPS_NUMBERS_H
#define PD_OPS_NUMBERS_H

#include "program/op.h"

#define PD_MOST_NUMBERS (2 * PD_MAX_RANK)

struct pd_numbers {
    int n;
    int slot;  /* the input that gives them, -1: the attribute */
    int known; /* 0: only running can tell; `at` then holds what the attribute says, n may be that of the
                  input */
    int64_t at[PD_MOST_NUMBERS];
};

/* Where numbers come from: a tensor of numbers, else a list of one-element tensors, else an attribute. */
struct pd_numbers_source {
    const char *what; /* for messages: "shape", "starts" */
    int tensor, list; /* input slots; -1: none */
    int attr;         /* a list of ints or longs */
    int list_first;   /* the list goes before the tensor */
};

pd_status pd_numbers_infer(const struct pd_infer *c, const struct pd_numbers_source *from,
                           struct pd_numbers *out);
pd_status pd_numbers_run(const struct pd_run *r, const struct pd_numbers_source *from,
                         struct pd_numbers *out);

/* Element i of an int32 or int64 tensor. */
pd_status pd_number_at(const struct pd_tensor *tensor, const char *what, int64_t i, int64_t *out);
/* The number of an int32 or int64 tensor that holds one: number i of `what`. */
pd_status pd_number_one(const struct pd_tensor *tensor, const char *what, int i, int64_t *out);
/* The same, within 0 and `most`. `what` it is ("class", "length") and `slot` are for messages. */
pd_status pd_number_within(const struct pd_tensor *tensor, const char *slot, const char *what, int64_t i,
                           int64_t most, int64_t *out);
/* Refuses a tensor that holds no number or several. */
pd_status pd_number_check(const struct pd_tensor *tensor, const char *what);
/* The first element of a tensor of any type but float16. int64 has more digits than a double. */
pd_status pd_number_any(const struct pd_tensor *tensor, const char *what, double *out);
/* The same as an element of `dtype`, which `out` has room for. Between integers no digit is lost. */
pd_status pd_number_as(const struct pd_tensor *tensor, const char *what, enum pd_dtype dtype, void *out);
/* The same, to count with: a fraction is cut off; NaN and what int64 cannot hold are refused. */
pd_status pd_number_whole(const struct pd_tensor *tensor, const char *what, int64_t *out);
/* One whole number, the first of an input, else from `value`. While a Program is built, *known is 0 when an
 * input decides. */
pd_status pd_number_infer(const struct pd_infer *c, int slot, const char *what, int64_t value, int64_t *out,
                          int *known);
pd_status pd_number_run(const struct pd_run *r, int slot, const char *what, int64_t value, int64_t *out);
/* The tensor of an input whose data can be read while inferring; NULL when they are not there yet. */
const struct pd_tensor *pd_infer_data(const struct pd_infer *c, int slot, int i);

#endif
