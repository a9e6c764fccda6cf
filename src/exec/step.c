/* What a running op may ask of its step: scratch memory, interruption, sub-blocks, names. */
#include "base/clock.h"
#include "exec/frame.h"

enum { POLL_EVERY_NS = 100 * 1000 * 1000 };

static struct pd_frame *frame_of(const struct pd_run *run)
{
    return ((struct pd_frame_op *)run->frame)->frame;
}

static void *step_scratch(const struct pd_run *run, size_t bytes)
{
    struct pd_frame *f = frame_of(run);
    if (!pd_room_growing(&f->scratch, &f->scratch_size, bytes)) (void)pd_no_memory();
    return f->scratch;
}

pd_status pd_frame_poll(struct pd_frame *f)
{
    int64_t now = pd_clock_coarse_ns();
    if (!f->poll || now < f->next_poll) return PD_OK;
    f->next_poll = now + POLL_EVERY_NS;
    return f->poll(f->poll_arg) ? pd_fail(PD_INTERRUPTED, "interrupted") : PD_OK;
}

static pd_status step_poll(const struct pd_run *run)
{
    return pd_frame_poll(frame_of(run));
}

static struct pd_value *step_find(const struct pd_run *run, const char *name)
{
    return pd_scope_lookup(frame_of(run)->scope, name);
}

/* As the Program has it: a value may have several names. */
static const char *step_name(const struct pd_run *run, int is_output, int slot, int i)
{
    const struct pd_plan_op *op = ((const struct pd_frame_op *)run->frame)->plan;
    const struct pd_slot_def *defs = is_output ? op->def->outputs : op->def->inputs;
    const struct pd_io *io = pd_opdesc_slot(op->desc, is_output, defs[slot].name);
    return io && i < io->args.n ? io->args.at[i] : PD_EMPTY_VAR;
}

static const struct pd_meta *step_declared(const struct pd_run *run, int is_output, int slot, int i)
{
    const struct pd_frame *f = ((const struct pd_frame_op *)run->frame)->frame;
    const struct pd_var *var = pd_block_find(f->plan->block, step_name(run, is_output, slot, i));
    return var && var->meta.rank && var->meta.dtype != PD_DTYPE_NONE ? &var->meta : NULL;
}

/* The frame of the block that `block` is the gradient of: it hangs below the frame that ran it, which in a
 * gradient block is that of a forward block. */
static pd_status forward_frame(struct pd_frame *f, int block, struct pd_frame **out)
{
    const struct pd_block *forward =
        pd_program_block(f->plan->program, f->plan->program->blocks.at[block]->forward);
    for (struct pd_frame *at = f; forward && forward->index < block && at; at = at->outer) {
        if (at->plan->block->index == forward->parent) return pd_frame_sub(at, forward->index, out);
        if (at->forward && at->forward->plan->block->index == forward->parent)
            return pd_frame_sub(at->forward, forward->index, out);
    }
    return PD_OK;
}

/* The frame around it may have been made anew, and variables there may have moved to another scope: the frame
 * holds pointers to them. */
static int hangs_below(const struct pd_frame *sub, const struct pd_frame *outer,
                       const struct pd_frame *forward)
{
    if (sub->outer != outer || sub->forward != forward) return 0;
    for (int i = 0; i < sub->plan->vars.n; i++) {
        const struct pd_plan_var *v = &sub->plan->vars.at[i];
        const struct pd_frame *other = pd_frame_other(v, outer, forward);
        if (other && sub->values[i] != other->values[v->outer]) return 0;
    }
    return 1;
}

pd_status pd_frame_sub(struct pd_frame *f, int block, struct pd_frame **out)
{
    int blocks = f->plan->program->blocks.n;
    if (block <= f->plan->block->index || block >= blocks)
        return pd_fail(PD_RANGE, "the Program has no block %d below block %d", block, f->plan->block->index);
    if (!f->subs) f->subs = pd_calloc((size_t)blocks, sizeof *f->subs);
    if (!f->sub_plans) f->sub_plans = pd_calloc((size_t)blocks, sizeof *f->sub_plans);
    if (!f->subs || !f->sub_plans) return pd_no_memory();
    /* A gradient block works on the variables that its forward block left behind. */
    struct pd_frame *forward = NULL;
    PD_TRY(forward_frame(f, block, &forward));
    if (!f->sub_plans[block])
        PD_TRY(pd_plan_new_sub(f->plan, forward ? forward->plan : NULL, block, &f->sub_plans[block]));
    struct pd_frame *sub = f->subs[block];
    if (sub && !hangs_below(sub, f, forward)) {
        pd_frame_free(sub);
        sub = f->subs[block] = NULL;
    }
    if (!sub) PD_TRY(pd_frame_new(f->sub_plans[block], f, forward, f->step, &f->subs[block]));
    *out = f->subs[block];
    return PD_OK;
}

static pd_status step_block_value(const struct pd_run *run, int block, const char *name,
                                  struct pd_value **value)
{
    struct pd_frame *sub = NULL;
    PD_TRY(pd_frame_sub(frame_of(run), block, &sub));
    int number = pd_plan_number(sub->plan, name);
    *value = number < 0 ? NULL : sub->values[number];
    return PD_OK;
}

static pd_status step_run_block(const struct pd_run *run, int block)
{
    struct pd_frame *f = frame_of(run), *sub = NULL;
    PD_TRY(pd_frame_sub(f, block, &sub));
    sub->thread = pthread_self();
    int polls = pthread_equal(f->thread, sub->thread);
    sub->poll = polls ? f->poll : NULL;
    sub->poll_arg = polls ? f->poll_arg : NULL;
    sub->next_poll = polls ? f->next_poll : 0;
    pd_status status = pd_frame_run(sub, f->scope);
    if (polls) f->next_poll = sub->next_poll;
    return status;
}

void pd_step_init(struct pd_step *step)
{
    *step = (struct pd_step){.scratch = step_scratch,
                             .poll = step_poll,
                             .run_block = step_run_block,
                             .block_value = step_block_value,
                             .keeps_steps = pd_steps_kept,
                             .push_step = pd_steps_push,
                             .pop_step = pd_steps_pop,
                             .find = step_find,
                             .name = step_name,
                             .declared = step_declared};
}
