/* An op of plans: a bias for each column, then softmax over the columns. A row stays in the cache between the
 * two. */
#include "kernels/softmax.h"
#include "ops/check.h"
#include "ops/fused.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };
enum { PART_ADD, PART_SOFTMAX };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    if (c->running &&
        (y->rank != 1 || x->rank < 1 || y->dim[0] != x->dim[x->rank - 1] || y->dtype != x->dtype))
        return pd_fused_part(PART_ADD,
                             pd_fail(PD_SHAPE, "X is %s %s and Y %s %s: Y must fit X's last dimension",
                                     pd_dtype_name(x->dtype), pd_meta_dims_text(x), pd_dtype_name(y->dtype),
                                     pd_meta_dims_text(y)));
    PD_TRY(pd_fused_part(PART_SOFTMAX, pd_check_float(x, "X")));
    pd_out_like(c, OUT, X);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    int last = x->meta.rank - 1;
    pd_softmax_bias(x->meta.dtype == PD_DTYPE_FP64, pd_meta_span(&x->meta, 0, last), x->meta.dim[last],
                    x->data, pd_run_in(r, Y)->data, pd_run_out(r, OUT)->data);
    return PD_OK;
}

const struct pd_op pd_op_fused_add_softmax = {
    .type = "fused_add_softmax",
    .doc = "Only in plans: elementwise_add of a bias for the last dimension, then softmax over it.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
    .share = (const struct pd_share[]){{OUT, X, 0}, {-1, -1, 0}},
};
