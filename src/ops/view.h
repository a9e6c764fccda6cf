/* Ops that give the same elements under another shape: how they run, their gradients, their tables. */
#ifndef PD_OPS_VIEW_H
#define PD_OPS_VIEW_H

#include "ops/out.h"

/* Output 0 takes the elements of input 0 / of input 1. */
pd_status pd_view_run(const struct pd_run *r);
pd_status pd_view_grad_run(const struct pd_run *r);
/* [0, dims of X]: keeps the shape of X for the gradient without keeping its data. */
pd_status pd_view_set_xshape(const struct pd_infer *c, int x, int xshape);
/* The gradient of input 0 (XShape) as output 0. */
pd_status pd_view_infer_from_xshape(const struct pd_infer *c);
extern const struct pd_share pd_view_share[], pd_view_grad_share[];
/* Slots of the gradient ops: X, Out@GRAD -> X@GRAD and XShape, Out@GRAD -> X@GRAD. */
extern const struct pd_slot_def pd_view_grad_inputs[], pd_view_grad2_inputs[];

/* Defines the two gradient ops of a view op that comes with and without XShape. */
#define PD_VIEW_GRADS(name, attrs_)                                                                          \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ": the gradient in the shape of X.",                                     \
        .inputs = pd_view_grad_inputs,                                                                       \
        .outputs = pd_out_x_grad,                                                                            \
        .attrs = attrs_,                                                                                     \
        .infer = pd_out_infer_like,                                                                          \
        .run = pd_view_grad_run,                                                                             \
        .share = pd_view_grad_share,                                                                         \
    };                                                                                                       \
    const struct pd_op pd_op_##name##2_grad = {                                                              \
        .type = #name "2_grad",                                                                              \
        .doc = "Gradient of " #name "2: the gradient in the shape that XShape keeps.",                       \
        .inputs = pd_view_grad2_inputs,                                                                      \
        .outputs = pd_out_x_grad,                                                                            \
        .attrs = attrs_,                                                                                     \
        .infer = pd_view_infer_from_xshape,                                                                  \
        .run = pd_view_grad_run,                                                                             \
        .share = pd_view_grad_share,                                                                         \
    }

/* Slots of view ops: X -> Out, or Out and XShape. */
extern const struct pd_slot_def pd_view_inputs[], pd_view_outputs[], pd_view_outputs2[];
/* Output 0 is input 0 under these dimensions; output 1, where it is there, is XShape. */
pd_status pd_view_set_out(const struct pd_infer *c, int rank, const int64_t *dim);

/* Defines a view op without and with XShape, and their gradient ops. */
#define PD_VIEW_OPS(name, doc_, inputs_, attrs_, infer_, run_)                                               \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = doc_,                                                                                         \
        .inputs = inputs_,                                                                                   \
        .outputs = pd_view_outputs,                                                                          \
        .attrs = attrs_,                                                                                     \
        .flags = PD_OP_ON_SERVER,                                                                            \
        .infer = infer_,                                                                                     \
        .run = run_,                                                                                         \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "X Out@",                                                                                 \
        .grad_out = "X@",                                                                                    \
        .share = pd_view_share,                                                                              \
    };                                                                                                       \
    const struct pd_op pd_op_##name##2 = {                                                                   \
        .type = #name "2",                                                                                   \
        .doc = doc_ " XShape keeps the old shape.",                                                          \
        .inputs = inputs_,                                                                                   \
        .outputs = pd_view_outputs2,                                                                         \
        .attrs = attrs_,                                                                                     \
        .flags = PD_OP_ON_SERVER,                                                                            \
        .infer = infer_,                                                                                     \
        .run = run_,                                                                                         \
        .grad_type = #name "2_grad",                                                                         \
        .grad_in = "XShape Out@",                                                                            \
        .grad_out = "X@",                                                                                    \
        .share = pd_view_share,                                                                              \
    };                                                                                                       \
    PD_VIEW_GRADS(name, attrs_)

#endif
