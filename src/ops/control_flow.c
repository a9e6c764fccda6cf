/* conditional_block and while: run a block of the Program when, or as long as, a condition holds. Only
 * running can tell what they write, so variables that their blocks touch are sized then. */
#include "ops/control_flow.h"
#include "ops/shape_util.h"

enum { COND, INPUT };
enum { X, CONDITION };
enum { OUT, SCOPE };
enum { SUB_BLOCK, SCALAR, IS_TEST = SCALAR };

static pd_status infer(const struct pd_infer *c)
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

/* Where the block's runs are kept for the gradient, emptied; NULL when no op asks for them. */
static struct pd_value *steps_of(const struct pd_run *r)
{
    struct pd_value *steps = pd_run_out_value(r, SCOPE);
    if (steps) pd_value_reset(steps, PD_KIND_STEP_SCOPES);
    return steps && r->step->keeps_steps(r, SCOPE) ? steps : NULL;
}

static pd_status conditional_run(const struct pd_run *r)
{
    int holds = 0;
    if (r->attr[SCALAR].b)
        PD_TRY(pd_condition_read(pd_run_in(r, COND), "Cond", &holds));
    else
        holds = pd_condition_none_empty(&r->in[COND]) && pd_condition_none_empty(&r->in[INPUT]);
    struct pd_value *steps = steps_of(r);
    if (!holds) return PD_OK;
    PD_TRY(r->step->run_block(r, r->attr[SUB_BLOCK].block));
    return steps ? r->step->push_step(r, r->attr[SUB_BLOCK].block, steps) : PD_OK;
}

static pd_status while_run(const struct pd_run *r)
{
    struct pd_value *steps = steps_of(r);
    if (r->attr[IS_TEST].b) steps = NULL;
    for (;;) {
        int holds = 0;
        PD_TRY(pd_condition_read(pd_run_in(r, CONDITION), "Condition", &holds));
        if (!holds) return PD_OK;
        PD_TRY(r->step->run_block(r, r->attr[SUB_BLOCK].block));
        if (steps) PD_TRY(r->step->push_step(r, r->attr[SUB_BLOCK].block, steps));
        PD_TRY(r->step->poll(r));
    }
}

const struct pd_op pd_op_conditional_block = {
    .type = "conditional_block",
    .doc = "Runs sub_block when Cond holds (is_scalar_condition), else when no input is empty.",
    .inputs = (const struct pd_slot_def[]){{"Cond", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"Input", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {"Scope", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BLOCK("sub_block"),
                                          PD_DEF_BOOL("is_scalar_condition", 0),
                                          PD_DEF_STRINGS("skip_eager_deletion_vars"),
                                          {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_EFFECT | PD_OP_UPDATES,
    .infer = infer,
    .run = conditional_run,
    .make_grad = pd_conditional_block_grad_make,
};

const struct pd_op pd_op_while = {
    .type = "while",
    .doc = "Runs sub_block again and again while Condition holds.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                           {"Condition", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {"StepScopes", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_BLOCK("sub_block"),
                                          PD_DEF_BOOL("is_test", 0),
                                          PD_DEF_STRINGS("skip_eager_deletion_vars"),
                                          {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_EFFECT | PD_OP_UPDATES,
    .infer = infer,
    .run = while_run,
    .make_grad = pd_while_grad_make,
};
