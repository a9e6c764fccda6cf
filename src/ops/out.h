/* Outputs of an op: what infer() says of them, and the size that run() gives to those that only it can tell.
 * Outputs that nobody wants, and inputs that are not there, are left alone. */
#ifndef PD_OPS_OUT_H
#define PD_OPS_OUT_H

#include "program/op.h"

/* Output `out` is a tensor with the type, shape and LoD of input `in`. */
void pd_out_like(const struct pd_infer *c, int out, int in);
/* It is what input `in` is: a tensor like it, or selected rows. */
void pd_out_same(const struct pd_infer *c, int out, int in);
/* It is one number: [1]. */
void pd_out_number(const struct pd_infer *c, int out, enum pd_dtype dtype);
/* `out` is like X with these dimensions; X's LoD stays while the first of them is the same. They may be one
 * variable. */
pd_status pd_out_dims(struct pd_meta *out, const struct pd_meta *x, int rank, const int64_t *dim);
/* While running: gives the output this size, when it has another one. */
pd_status pd_out_fit(struct pd_tensor *out, enum pd_dtype dtype, int rank, const int64_t *dim);

/* Outputs of a gradient op that gives X@GRAD alone. */
extern const struct pd_slot_def pd_out_x_grad[];

/* ---- infer() of ops that need no more ---- */

/* Output 0 is like input 0; outputs 0 and 1 are like inputs 0 and 1; both are like input 0. */
pd_status pd_out_infer_like(const struct pd_infer *c);
pd_status pd_out_infer_like_both(const struct pd_infer *c);
pd_status pd_out_infer_both_like_first(const struct pd_infer *c);
/* Output 0 is the same as input 0; outputs 0 and 1 are the same as inputs 0 and 1. */
pd_status pd_out_infer_same(const struct pd_infer *c);
pd_status pd_out_infer_same_both(const struct pd_infer *c);
/* Output 0 is one int64. */
pd_status pd_out_infer_int64(const struct pd_infer *c);
/* Output 0 is a line of numbers of the type of input 0; only running can tell how many. */
pd_status pd_out_infer_line(const struct pd_infer *c);
/* The first `inputs` inputs have the shape and the type, float32 or float64, of input `main`, and so do the
 * first `outputs` outputs. */
pd_status pd_out_infer_alike(const struct pd_infer *c, int inputs, int main, int outputs);

#endif
