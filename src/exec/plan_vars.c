/* The numbers of a plan's variables: which value a name stands for at each op; see plan.h. */
#include <string.h>

#include "exec/plan.h"

int pd_plan_number(const struct pd_plan *plan, const char *name)
{
    return pd_map_number(&plan->numbers, name);
}

/* ---- names that other blocks use ---- */

static pd_status find_in_block(struct pd_plan *plan, int block)
{
    const struct pd_block *inner = pd_program_block(plan->program, block);
    for (int i = 0; inner && i < inner->ops.n; i++) {
        const struct pd_opdesc *op = inner->ops.at[i];
        for (int side = 0; side < 2; side++) {
            const struct pd_io *at = side ? op->out.at : op->in.at;
            for (int s = 0; s < (side ? op->out.n : op->in.n); s++)
                for (int k = 0; k < at[s].args.n; k++) {
                    const struct pd_var *var = pd_block_find(inner, at[s].args.at[k]);
                    if (!var || pd_block_find(plan->block, var->name) != var) continue;
                    if (!pd_map_add(&plan->singles, var->name)) return pd_no_memory();
                }
        }
        for (int k = 0, deeper; (deeper = pd_opdesc_sub_block(op, k)) >= 0; k++)
            if (deeper > block) PD_TRY(find_in_block(plan, deeper));
    }
    return PD_OK;
}

int pd_plan_has_gradient(const struct pd_plan *plan, int block)
{
    const struct pd_block *b = plan->program->blocks.at[block],
                          *around = pd_program_block(b->program, b->parent);
    if (b->forward != plan->block->index) return 0;
    for (int i = 0; around && i < around->ops.n; i++)
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(around->ops.at[i], k)) >= 0; k++)
            if (sub == block) return 1;
    return 0;
}

int pd_plan_sub_block(const struct pd_plan *plan, const struct pd_opdesc *op, int *at)
{
    if (!op->def || !(op->def->flags & PD_OP_SERVES)) return pd_opdesc_sub_block(op, (*at)++);
    if (*at <= plan->block->index) *at = plan->block->index + 1;
    while (*at < plan->program->blocks.n)
        if (plan->program->blocks.at[(*at)++]->parent == plan->block->index) return *at - 1;
    return -1;
}

pd_status pd_plan_find_singles(struct pd_plan *plan)
{
    for (int i = 0; i < plan->block->ops.n; i++)
        for (int at = 0, sub; (sub = pd_plan_sub_block(plan, plan->block->ops.at[i], &at)) >= 0;)
            if (sub > plan->block->index) PD_TRY(find_in_block(plan, sub));
    for (int b = plan->block->index + 1; b < plan->program->blocks.n; b++)
        if (pd_plan_has_gradient(plan, b)) PD_TRY(find_in_block(plan, b));
    return PD_OK;
}

/* ---- numbers ---- */

/* Nothing that a script builds comes here, but files say what they like. */
static pd_status no_place(const struct pd_plan *plan, const char *name)
{
    return pd_fail(PD_INVALID,
                   "variable '%s' of block %d is used by a block that is not below it: the Program's blocks "
                   "name others as parent or forward block than those that run them",
                   name, plan->block->index);
}

static pd_status add(struct pd_plan *plan, const char *name, const struct pd_var *desc,
                     enum pd_plan_place place, int *number)
{
    struct pd_plan_var v = {.name = pd_program_text(plan->program, name),
                            .desc = desc,
                            .place = place,
                            .outer = -1,
                            .first_use = -1,
                            .last_use = -1};
    if (plan->framed) return no_place(plan, name);
    if (!v.name || !pd_vec_push(&plan->vars, v)) return pd_no_memory();
    *number = plan->vars.n - 1;
    return PD_OK;
}

static pd_status name_number(struct pd_plan *plan, const char *name, int number)
{
    return pd_map_set_number(&plan->numbers, name, number) ? PD_OK : pd_no_memory();
}

pd_status pd_plan_add_var(struct pd_plan *plan, const char *name, const struct pd_var *desc,
                          enum pd_plan_place place, int *number)
{
    PD_TRY(add(plan, name, desc, place, number));
    struct pd_plan_var *v = &plan->vars.at[*number];
    /* Blocks below this one may give it another size at any time. */
    v->single = v->pinned = v->dynamic = pd_map_has(&plan->singles, name);
    return name_number(plan, name, *number);
}

pd_status pd_plan_add_hidden(struct pd_plan *plan, int like, int *number)
{
    return add(plan, plan->vars.at[like].name, plan->vars.at[like].desc, PD_PLACE_TEMP, number);
}

/* A script may feed a parameter too. */
static int is_fed(const struct pd_plan *plan, const char *name)
{
    while (plan->outer)
        plan = plan->outer;
    int number = pd_plan_number(plan, name);
    return number >= 0 && plan->vars.at[number].place == PD_PLACE_FEED;
}

/* A variable of another plan. Where that has a frame, only variables that were found to be used by other
 * blocks when it was built may be: others have no place in the frame, or share theirs. */
static pd_status meet_outside(struct pd_plan *plan, const char *name, const struct pd_var *desc, int writing,
                              int *number)
{
    int of_forward = plan->forward && pd_block_var(plan->forward->block, name), outside;
    struct pd_plan *other = of_forward ? plan->forward : plan->outer;
    PD_TRY(writing ? pd_plan_write(other, name, NULL, &outside) : pd_plan_read(other, name, &outside));
    struct pd_plan_var *v = &other->vars.at[outside];
    if (other->framed && !v->pinned) return no_place(other, name);
    v->pinned = 1;
    if (writing) v->written = 1;
    PD_TRY(pd_plan_add_var(plan, name, desc, of_forward ? PD_PLACE_FORWARD : PD_PLACE_OUTER, number));
    plan->vars.at[*number].outer = outside;
    return PD_OK;
}

/* The number of a variable that is met for the first time; where it lives is decided here. */
static pd_status meet(struct pd_plan *plan, const char *name, int writing, int *number)
{
    const struct pd_var *own = pd_block_var(plan->block, name);
    const struct pd_var *any = own ? own : pd_block_find(plan->block, name);
    if (!own && plan->outer && any && (!(any->flags & PD_VAR_PERSISTABLE) || is_fed(plan->outer, name)))
        return meet_outside(plan, name, any, writing, number);
    int given =
        own && plan->outer && plan->block->forward >= 0 && !(own->flags & PD_VAR_PERSISTABLE) && !writing;
    int lives_on = !any || (any->flags & PD_VAR_PERSISTABLE) || (!writing && !given);
    PD_TRY(pd_plan_add_var(plan, name, any, lives_on ? PD_PLACE_SCOPE : PD_PLACE_TEMP, number));
    plan->vars.at[*number].given = given;
    plan->vars.at[*number].read_first = !writing && !given;
    return PD_OK;
}

pd_status pd_plan_read(struct pd_plan *plan, const char *name, int *number)
{
    *number = pd_plan_number(plan, name);
    return *number >= 0 ? PD_OK : meet(plan, name, 0, number);
}

/* A value of this plan alone, which stays as it is until its last reader. */
static int is_value(const struct pd_plan *plan, int number)
{
    const struct pd_plan_var *v = &plan->vars.at[number];
    if (v->single || v->given || !v->desc || (v->desc->flags & PD_VAR_PERSISTABLE)) return 0;
    if (v->desc->meta.kind != PD_KIND_TENSOR && v->desc->meta.kind != PD_KIND_SELECTED_ROWS) return 0;
    return v->place == PD_PLACE_TEMP || v->place == PD_PLACE_FEED;
}

pd_status pd_plan_write(struct pd_plan *plan, const char *name, const struct pd_op *op, int *number)
{
    *number = pd_plan_number(plan, name);
    if (*number < 0) return meet(plan, name, 1, number);
    if (!op || (op->flags & (PD_OP_UPDATES | PD_OP_SERVES)) || !is_value(plan, *number)) return PD_OK;
    return pd_plan_add_var(plan, name, plan->vars.at[*number].desc, PD_PLACE_TEMP, number);
}

pd_status pd_plan_alias(struct pd_plan *plan, const char *from, const char *to, int *done)
{
    int number = from ? pd_plan_number(plan, from) : -1, old = to ? pd_plan_number(plan, to) : -1;
    const struct pd_var *var = to ? pd_block_var(plan->block, to) : NULL;
    *done = 0;
    if (number < 0 || !is_value(plan, number) || plan->vars.at[number].desc->meta.kind != PD_KIND_TENSOR)
        return PD_OK;
    if (!var || (var->flags & PD_VAR_PERSISTABLE) || var->meta.kind != PD_KIND_TENSOR ||
        pd_map_has(&plan->singles, to))
        return PD_OK;
    if (old >= 0 && !is_value(plan, old)) return PD_OK;
    *done = 1;
    return name_number(plan, to, number);
}
