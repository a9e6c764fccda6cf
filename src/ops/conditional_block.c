/* conditional_block: runs a block of the Program when a condition holds. Only running can tell what it
 * writes, so variables that its block touches are sized then. Its gradient is a block of its own that runs
 * when the forward block ran; else gradients of what it would have written go on as they are and all others
 * are zero. */
#include "ops/control_flow.h"

enum { COND, INPUT };
enum { SUB_BLOCK, SCALAR };

static pd_status run(const struct pd_run *r)
{
    int holds = 0;
    if (r->attr[SCALAR].b)
        PD_TRY(pd_condition_read(pd_run_in(r, COND), "Cond", &holds));
    else
        holds = pd_condition_none_empty(&r->in[COND]) && pd_condition_none_empty(&r->in[INPUT]);
    struct pd_value *steps = pd_control_flow_steps(r);
    if (!holds) return PD_OK;
    PD_TRY(r->step->run_block(r, r->attr[SUB_BLOCK].block));
    return steps ? r->step->push_step(r, r->attr[SUB_BLOCK].block, steps) : PD_OK;
}

static pd_status make_grad(struct pd_grad_maker *g)
{
    static const struct pd_block_grad how = {"conditional_block_grad", "Input", "Out", "Scope", 0};
    const struct pd_io *cond = pd_opdesc_slot(g->op, 0, "Cond");
    struct pd_opdesc *op;
    PD_TRY(pd_block_grad_make(g, &how, &op));
    pd_status status = pd_opdesc_set_args(op, 0, "Cond", cond->args.n, cond->args.at);
    if (status == PD_OK)
        status =
            pd_opdesc_set_attr(op, "is_scalar_condition", pd_opdesc_attr(g->op, "is_scalar_condition"), 0);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
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
    .flags = PD_OP_DYNAMIC | PD_OP_EFFECT | PD_OP_UPDATES | PD_OP_ON_SERVER,
    .infer = pd_control_flow_infer,
    .run = run,
    .make_grad = make_grad,
};

static pd_status grad_run(const struct pd_run *r)
{
    int ran = 0, block = r->attr[PD_GRAD_SUB_BLOCK].block;
    PD_TRY(r->step->pop_step(r, block, pd_run_in_value(r, PD_GRAD_STEPS), &ran));
    if (ran) {
        PD_TRY(pd_block_grad_fill(r));
        PD_TRY(r->step->run_block(r, block));
    }
    for (int i = 0; i < r->out[PD_GRAD_IN_GRAD].n; i++) {
        struct pd_value *to = r->out[PD_GRAD_IN_GRAD].at[i], *from = NULL;
        if (!to) continue;
        pd_block_grad_carries(r, i, &from);
        if (ran) PD_TRY(pd_block_grad_inner(r, i, &from));
        PD_TRY(from ? pd_value_copy(to, from) : pd_block_grad_zeros(to, r->in[PD_GRAD_IN].at[i]));
    }
    return pd_block_grad_left(r, ran);
}

const struct pd_op pd_op_conditional_block_grad = {
    .type = "conditional_block_grad",
    .doc = "Runs the gradient block of a conditional_block when its forward block ran.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Input", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {"Out@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE | PD_SLOT_UNWRITTEN},
            {"Scope", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
            {"Cond", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
            {0}},
    .outputs = (const struct pd_slot_def[]){{"Input@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {"Out@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {"Cond@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = (const struct pd_attr_def[]){PD_GRAD_ATTRS,
                                          PD_DEF_BOOL("is_scalar_condition", 0),
                                          PD_DEF_STRINGS("skip_eager_deletion_vars"),
                                          {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = pd_block_grad_infer,
    .run = grad_run,
};
