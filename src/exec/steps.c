/* Steps: what the runs of a block leave behind for its gradient block.
 *
 * A loop runs its block many times, and the gradient runs backward over these runs. The values that it reads
 * are moved out of the block's frame after each run, and moved back, newest first, before each run of the
 * gradient block. Nothing is kept when no op reads the steps. */
#include "exec/frame.h"

struct step {
    int n;
    struct pd_value *at[]; /* in the order of the plan's variables that are kept */
};

struct steps {
    PD_VEC(struct step *) all;
};

static void step_free(struct step *step)
{
    for (int i = 0; step && i < step->n; i++)
        pd_value_unref(step->at[i]);
    pd_free(step);
}

static void steps_free(void *raw)
{
    struct steps *steps = raw;
    for (int i = 0; i < steps->all.n; i++)
        step_free(steps->all.at[i]);
    pd_vec_free(&steps->all);
    pd_free(steps);
}

static int is_kept(const struct pd_plan_var *v)
{
    return v->place == PD_PLACE_TEMP && v->kept;
}

int pd_steps_kept(const struct pd_run *run, int slot)
{
    const struct pd_frame_op *op = run->frame;
    const struct pd_plan *plan = op->frame->plan;
    if (!op->plan->out[slot].n) return 0;
    int number = plan->args.at[op->plan->out[slot].first];
    return number >= 0 && plan->vars.at[number].last_use > (int)(op - op->frame->ops);
}

static void move_size(struct pd_value *to, const struct pd_value *from)
{
    pd_value_reset(to, from->tensor.meta.kind);
    pd_meta_like(&to->tensor.meta, &from->tensor.meta);
}

pd_status pd_steps_push(const struct pd_run *run, int block, struct pd_value *value)
{
    struct pd_frame *sub = NULL;
    PD_TRY(pd_frame_sub(((struct pd_frame_op *)run->frame)->frame, block, &sub));
    const struct pd_plan *plan = sub->plan;
    int n = 0;
    for (int i = 0; i < plan->vars.n; i++)
        n += is_kept(&plan->vars.at[i]);
    if (!value->raw) {
        value->raw = pd_calloc(1, sizeof(struct steps));
        if (!value->raw) return pd_no_memory();
        value->raw_free = steps_free;
    }
    struct steps *steps = value->raw;
    struct step *step = pd_calloc(1, sizeof *step + (size_t)n * sizeof *step->at);
    if (!step) return pd_no_memory();
    pd_status status = PD_OK;
    for (int i = 0; i < plan->vars.n && status == PD_OK; i++) {
        if (!is_kept(&plan->vars.at[i])) continue;
        status = pd_value_new(PD_KIND_TENSOR, &step->at[step->n]);
        if (status != PD_OK) break;
        if (plan->vars.at[i].kept & 2)
            pd_value_move(step->at[step->n], sub->values[i]);
        else
            move_size(step->at[step->n], sub->values[i]);
        step->n++;
    }
    if (status == PD_OK && !pd_vec_push(&steps->all, step)) status = pd_no_memory();
    if (status != PD_OK) step_free(step);
    return status;
}

pd_status pd_steps_pop(const struct pd_run *run, int grad_block, struct pd_value *value, int *found)
{
    struct pd_frame *f = ((struct pd_frame_op *)run->frame)->frame, *sub = NULL;
    struct steps *steps = value ? value->raw : NULL;
    *found = steps && steps->all.n;
    if (!*found) return PD_OK;
    PD_TRY(pd_frame_sub(f, grad_block, &sub));
    sub = sub->forward;
    struct step *step = steps->all.at[--steps->all.n];
    for (int i = 0, k = 0; sub && i < sub->plan->vars.n; i++)
        if (is_kept(&sub->plan->vars.at[i]) && k < step->n) pd_value_move(sub->values[i], step->at[k++]);
    step_free(step);
    return PD_OK;
}
