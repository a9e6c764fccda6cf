/* What ops share that move the elements of an image to other places: each is a copy between two orders of the
 * same dimensions. */
#ifndef PD_OPS_REARRANGE_H
#define PD_OPS_REARRANGE_H

#include "ops/out.h"

/* Places of the slots in the tables below. */
enum { PD_REARRANGE_X };
enum { PD_REARRANGE_DOUT, PD_REARRANGE_GRAD_X };

/* X has 4 dimensions. */
pd_status pd_rearrange_need_image(const struct pd_meta *x);

/* Sizes that are not known stay -1. */
static inline int64_t pd_rearrange_times(int64_t a, int64_t b)
{
    return a < 0 ? -1 : a * b;
}
static inline int64_t pd_rearrange_over(int64_t a, int64_t b)
{
    return a < 0 ? -1 : a / b;
}

/* X, seen with `rank` dimensions, goes to the order `axis`; or back, in a gradient op. */
pd_status pd_rearrange_run(const struct pd_run *r, int rank, const int64_t *dim, const int *axis, int back);
/* The tensor that has the shape of X; NULL in a gradient op whose output nobody wants. */
const struct pd_tensor *pd_rearrange_x(const struct pd_run *r, int back);

extern const struct pd_slot_def pd_rearrange_inputs[], pd_rearrange_outputs[], pd_rearrange_grad_inputs[];
/* For gradients that need no X; older Programs name it. */
extern const struct pd_slot_def pd_rearrange_grad_alone[];

/* An op and its gradient op. */
#define PD_REARRANGE_OPS(name, doc_, attrs_, infer_, run_, words_, grad_inputs_, grad_infer_, grad_run_)     \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = doc_,                                                                                         \
        .inputs = pd_rearrange_inputs,                                                                       \
        .outputs = pd_rearrange_outputs,                                                                     \
        .attrs = attrs_,                                                                                     \
        .infer = infer_,                                                                                     \
        .run = run_,                                                                                         \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = words_,                                                                                   \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ": the elements back in their places.",                                  \
        .inputs = grad_inputs_,                                                                              \
        .outputs = pd_out_x_grad,                                                                            \
        .attrs = attrs_,                                                                                     \
        .infer = grad_infer_,                                                                                \
        .run = grad_run_,                                                                                    \
    }

#endif
