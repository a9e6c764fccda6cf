/* while: runs a block of the Program as long as a condition holds. Only running can tell what it writes, so
 * variables that its block touches are sized then. Its gradient is a block of its own that runs once for each
 * step, the last one first. What the loop carries from step to step (variables that it reads and writes) has
 * its gradient carried back; gradients of all else add up over the steps. */
#include "ops/control_flow.h"
#include "ops/sum.h"

enum { X, CONDITION };
enum { SUB_BLOCK, IS_TEST };

static pd_status run(const struct pd_run *r)
{
    struct pd_value *steps = pd_control_flow_steps(r);
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

static pd_status make_grad(struct pd_grad_maker *g)
{
    static const struct pd_block_grad how = {"while_grad", "X", "Out", "StepScopes", 1};
    struct pd_opdesc *op;
    const struct pd_attr *test = pd_opdesc_attr(g->op, "is_test");
    if (test && test->b)
        return pd_fail(PD_INVALID, "a While with is_test=True keeps nothing for a gradient; make it with "
                                   "is_test=False to train through it");
    PD_TRY(pd_block_grad_make(g, &how, &op));
    return g->emit(g, op);
}

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
    .flags = PD_OP_DYNAMIC | PD_OP_EFFECT | PD_OP_UPDATES | PD_OP_ON_SERVER,
    .infer = pd_control_flow_infer,
    .run = run,
    .make_grad = make_grad,
};

/* What one step gives to the inputs that the loop only reads. */
static pd_status add_step(const struct pd_run *r, int first)
{
    for (int i = 0; i < r->out[PD_GRAD_IN_GRAD].n; i++) {
        struct pd_value *to = r->out[PD_GRAD_IN_GRAD].at[i], *from = NULL, *carried;
        if (!to || pd_block_grad_carries(r, i, &carried)) continue;
        PD_TRY(pd_block_grad_inner(r, i, &from));
        if (!from) continue;
        PD_TRY(first ? pd_value_copy(to, from) : pd_sum_into(to, from));
    }
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    struct pd_value *steps = pd_run_in_value(r, PD_GRAD_STEPS);
    int block = r->attr[PD_GRAD_SUB_BLOCK].block, found = 0, ran = 0;
    PD_TRY(pd_block_grad_fill(r));
    for (;; ran++) {
        PD_TRY(r->step->pop_step(r, block, steps, &found));
        if (!found) break;
        PD_TRY(r->step->run_block(r, block));
        PD_TRY(add_step(r, !ran));
        PD_TRY(r->step->poll(r));
    }
    for (int i = 0; i < r->out[PD_GRAD_IN_GRAD].n; i++) {
        struct pd_value *to = r->out[PD_GRAD_IN_GRAD].at[i], *from = NULL;
        if (!to) continue;
        if (pd_block_grad_carries(r, i, &from))
            PD_TRY(pd_block_grad_inner(r, i, &from));
        else if (ran)
            continue;
        PD_TRY(from ? pd_value_copy(to, from) : pd_block_grad_zeros(to, r->in[PD_GRAD_IN].at[i]));
    }
    if (steps) pd_value_reset(steps, PD_KIND_STEP_SCOPES);
    return pd_block_grad_left(r, ran);
}

const struct pd_op pd_op_while_grad = {
    .type = "while_grad",
    .doc = "Runs the gradient block of a loop over its steps, the last one first.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"Out@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE | PD_SLOT_UNWRITTEN},
            {"StepScopes", PD_SLOT_OWN_TYPE},
            {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {"Out@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_GRAD_ATTRS, PD_DEF_BOOL("is_test", 0), PD_DEF_STRINGS("skip_eager_deletion_vars"), {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = pd_block_grad_infer,
    .run = grad_run,
};
