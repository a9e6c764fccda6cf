/* What the files of the shape family share: numbers from attributes or tensors, axes, views. */
#ifndef PD_OPS_SHAPE_UTIL_H
#define PD_OPS_SHAPE_UTIL_H

#include "ops/out.h"
#include "program/op.h"

/* ---- dimensions ---- */

/* An axis that may count from the end, in [-rank, rank). */
pd_status pd_shape_axis(int64_t axis, int rank, int *out);
/* A tensor as outer x n x inner, n along the axis. */
void pd_shape_lines(const struct pd_meta *x, int axis, int64_t *outer, int64_t *n, int64_t *inner);
/* Rows of an index tensor [n], [n, 1] or [1, n]; its element type is checked too. */
pd_status pd_shape_index_count(const struct pd_meta *index, const char *slot, int64_t *n);
/* int32 or int64 ids as int64 in [0, limit) into `to`. */
pd_status pd_shape_read_index(const struct pd_tensor *index, const char *slot, int64_t limit, int64_t *to);
/* Copies the box of `size` elements at `start` of a tensor like `whole` from or to dense memory. */
void pd_shape_copy_box(const struct pd_meta *whole, const int64_t *start, const int64_t *size, int to_whole,
                       void *to, const void *from);
/* Fills with a number, converted to the tensor's type. */
pd_status pd_shape_fill(struct pd_tensor *tensor, double value);
/* Memory of this run; never NULL on success. */
pd_status pd_shape_scratch(const struct pd_run *r, size_t bytes, void **out);

/* ---- views: the same elements under another shape ---- */

/* Output 0 takes the elements of input 0 / of input 1. */
pd_status pd_view_run(const struct pd_run *r);
pd_status pd_view_grad_run(const struct pd_run *r);
/* [0, dims of X]: keeps the shape of X for the gradient without keeping its data. */
pd_status pd_view_set_xshape(const struct pd_infer *c, int x, int xshape);
/* The gradient of input 0 (XShape) as output 0. */
pd_status pd_view_infer_from_xshape(const struct pd_infer *c);
extern const struct pd_share pd_view_share[], pd_view_grad_share[];
/* Slots of the gradient ops: X, Out@GRAD -> X@GRAD and XShape, Out@GRAD -> X@GRAD. */
extern const struct pd_slot_def pd_view_grad_inputs[], pd_view_grad2_inputs[], pd_view_grad_outputs[];

/* Defines the two gradient ops of a view op that comes with and without XShape. */
#define PD_VIEW_GRADS(name, attrs_)                                                                          \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ": the gradient in the shape of X.",                                     \
        .inputs = pd_view_grad_inputs,                                                                       \
        .outputs = pd_view_grad_outputs,                                                                     \
        .attrs = attrs_,                                                                                     \
        .infer = pd_out_infer_like,                                                                          \
        .run = pd_view_grad_run,                                                                             \
        .share = pd_view_grad_share,                                                                         \
    };                                                                                                       \
    const struct pd_op pd_op_##name##2_grad = {                                                              \
        .type = #name "2_grad",                                                                              \
        .doc = "Gradient of " #name "2: the gradient in the shape that XShape keeps.",                       \
        .inputs = pd_view_grad2_inputs,                                                                      \
        .outputs = pd_view_grad_outputs,                                                                     \
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
