/* See control_flow.h; block_grad.c has what the gradients share. */
#include "ops/control_flow.h"

enum { SCOPE = 1 };

pd_status pd_control_flow_infer(const struct pd_infer *c)
{
    struct pd_meta *scope = pd_infer_out(c, SCOPE);
    if (scope) scope->kind = PD_KIND_STEP_SCOPES;
    return PD_OK;
}

pd_status pd_condition_read(const struct pd_tensor *cond, const char *slot, int *holds)
{
    if (!cond || !cond->data)
        return pd_fail(PD_INVALID, "%s has no value; an op before this one must write it", slot);
    if (pd_tensor_numel(cond) != 1)
        return pd_fail(PD_SHAPE, "%s has shape %s; a condition is one value: use shape [1]", slot,
                       pd_meta_dims_text(&cond->meta));
    PD_SWITCH_ANY(cond->meta.dtype, T, *holds = *(const T *)cond->data != 0; return PD_OK)
    return pd_fail(PD_TYPE, "%s is %s; a condition is bool", slot, pd_dtype_name(cond->meta.dtype));
}

/* Without a single condition the block runs when none of the tensors is empty. */
int pd_condition_none_empty(const struct pd_values *values)
{
    for (int i = 0; i < values->n; i++) {
        const struct pd_value *v = values->at[i];
        if (v && v->tensor.meta.kind == PD_KIND_TENSOR &&
            (!v->tensor.data || pd_tensor_numel(&v->tensor) == 0))
            return 0;
    }
    return 1;
}

struct pd_value *pd_control_flow_steps(const struct pd_run *r)
{
    struct pd_value *steps = pd_run_out_value(r, SCOPE);
    if (steps) pd_value_reset(steps, PD_KIND_STEP_SCOPES);
    return steps && r->step->keeps_steps(r, SCOPE) ? steps : NULL;
}
