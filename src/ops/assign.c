/* assign: copies a variable. */
#include <string.h>

#include "ops/out.h"
#include "program/grad.h"

enum { X, LIKE };
enum { OUT };

/* Like: what X is the gradient of, where a user gives it. */
static const struct pd_slot_def any_input[] = {
    {"X", PD_SLOT_OTHERS}, {"Like", PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_share view[] = {{OUT, X, 1}, {-1, -1, 0}};

static pd_status assign_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *like = pd_infer_in(c, LIKE);
    if (like && !pd_meta_dims_match(like, x))
        return pd_fail(PD_SHAPE, "the target has shape %s, its gradient has shape %s; they must be equal",
                       pd_meta_dims_text(like), pd_meta_dims_text(x));
    return pd_out_infer_same(c);
}

static pd_status assign_run(const struct pd_run *r)
{
    struct pd_value *from = pd_run_in_value(r, X), *to = pd_run_out_value(r, OUT);
    if (from->tensor.meta.kind != PD_KIND_TENSOR) return pd_value_copy(to, from);
    if (from->tensor.data != to->tensor.data && pd_tensor_numel(&from->tensor))
        memcpy(to->tensor.data, from->tensor.data, pd_tensor_bytes(&from->tensor));
    return PD_OK;
}

static pd_status assign_grad(struct pd_grad_maker *g)
{
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "assign", "X=Out@", "Out=X@", &op));
    return g->emit(g, op);
}

const struct pd_op pd_op_assign = {
    .type = "assign",
    .doc = "Out is a copy of X.",
    .inputs = any_input,
    .outputs = outputs,
    .flags = PD_OP_ON_SERVER,
    .infer = assign_infer,
    .run = assign_run,
    .make_grad = assign_grad,
    .share = view,
};
