/* Keeps what some targets need. */
#include <string.h>

#include "passes/passes.h"

static pd_status need(struct pd_map *needed, const char *name)
{
    return pd_map_add(needed, name) ? PD_OK : pd_no_memory();
}

/* Everything that a block and the blocks below it read or write counts as needed by the op that runs it. */
static pd_status need_block(const struct pd_program *p, int index, struct pd_map *needed)
{
    const struct pd_block *block = pd_program_block(p, index);
    for (int i = 0; block && i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        for (int side = 0; side < 2; side++) {
            const struct pd_io *at = side ? op->out.at : op->in.at;
            int n = side ? op->out.n : op->in.n;
            for (int s = 0; s < n; s++)
                for (int k = 0; k < at[s].args.n; k++)
                    PD_TRY(need(needed, at[s].args.at[k]));
        }
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) >= 0; k++)
            if (sub > index) PD_TRY(need_block(p, sub, needed));
    }
    return PD_OK;
}

static int writes_needed(const struct pd_opdesc *op, const struct pd_map *needed)
{
    for (int s = 0; s < op->out.n; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++)
            if (pd_map_has(needed, op->out.at[s].args.at[k])) return 1;
    return 0;
}

/* Walks backward and marks the ops that nobody needs. */
static pd_status mark_ops(const struct pd_program *p, const struct pd_map *fed, struct pd_map *needed,
                          struct pd_map *used, char *gone)
{
    const struct pd_block *block = p->blocks.at[0];
    for (int i = block->ops.n - 1; i >= 0; i--) {
        struct pd_opdesc *op = block->ops.at[i];
        gone[op->id] = !op->is_target && !writes_needed(op, needed);
        if (gone[op->id]) continue;
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++)
                PD_TRY(need(used, op->out.at[s].args.at[k]));
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                const char *name = op->in.at[s].args.at[k];
                PD_TRY(need(used, name));
                if (!pd_map_has(fed, name)) PD_TRY(need(needed, name));
            }
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) > 0; k++) {
            PD_TRY(need_block(p, sub, needed));
            PD_TRY(need_block(p, sub, used));
        }
    }
    return PD_OK;
}

static pd_status prune_main(struct pd_program *p, const struct pd_map *fed, struct pd_map *needed,
                            struct pd_map *used, char *gone)
{
    const struct pd_block *block = p->blocks.at[0];
    PD_TRY(mark_ops(p, fed, needed, used, gone));
    for (int i = 0; i < block->vars.n; i++)
        gone[block->vars.at[i]->id] = !pd_map_has(used, block->vars.at[i]->name);
    pd_program_remove(p, gone);
    return PD_OK;
}

/* ---- blocks ---- */

static void reach_block(const struct pd_program *p, int index, char *reached)
{
    const struct pd_block *block = pd_program_block(p, index);
    if (!block || reached[index]) return;
    reached[index] = 1;
    for (int i = 0; i < block->ops.n; i++)
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(block->ops.at[i], k)) >= 0; k++)
            reach_block(p, sub, reached);
}

/* Copies that a block makes for its gradient block only. */
static void mark_copies(const struct pd_block *block, char *gone)
{
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_attr *role = pd_opdesc_attr(block->ops.at[i], "op_role");
        const char *out = pd_opdesc_arg(block->ops.at[i], 1, "Out");
        const struct pd_var *var = out ? pd_block_var(block, out) : NULL;
        if (strcmp(block->ops.at[i]->type, "assign") != 0 || !role || role->type != PD_ATTR_INT ||
            !(role->i & PD_ROLE_BACKWARD) || !var)
            continue;
        gone[block->ops.at[i]->id] = gone[var->id] = 1;
    }
}

/* Blocks that no op runs any more go: gradient blocks, when only the forward part is kept. */
static pd_status prune_blocks(struct pd_program *p, char *gone)
{
    char *reached = pd_calloc((size_t)p->blocks.n, 2), *has_gradient = reached ? reached + p->blocks.n : NULL;
    if (!reached) return pd_no_memory();
    reach_block(p, 0, reached);
    for (int b = 1; b < p->blocks.n; b++)
        if (reached[b] && pd_program_block(p, p->blocks.at[b]->forward))
            has_gradient[p->blocks.at[b]->forward] = 1;
    for (int b = 1; b < p->blocks.n; b++)
        if (reached[b] && !has_gradient[b] && p->blocks.at[b]->forward < 0)
            mark_copies(p->blocks.at[b], gone);
    pd_program_remove(p, gone);
    while (p->blocks.n > 1 && !reached[p->blocks.n - 1])
        pd_program_drop_last_block(p);
    pd_free(reached);
    return PD_OK;
}

pd_status pd_pass_prune(struct pd_program *program, int n_feeds, const char *const *feeds, int n_targets,
                        const char *const *targets)
{
    struct pd_map fed = {0}, needed = {0}, used = {0};
    const struct pd_block *block = program->blocks.at[0];
    char *gone = pd_calloc((size_t)program->op_by_id.n + 1, 1); /* by id: what is to be removed */
    pd_status status = gone ? PD_OK : pd_no_memory();
    for (int i = 0; i < n_feeds && status == PD_OK; i++) {
        status = need(&fed, feeds[i]);
        if (status == PD_OK) status = need(&used, feeds[i]);
    }
    for (int i = 0; i < n_targets && status == PD_OK; i++) {
        if (!pd_block_var(block, targets[i]))
            status =
                pd_fail(PD_NOT_FOUND, "cannot prune to '%s': the Program has no such variable", targets[i]);
        else if (!pd_map_has(&fed, targets[i]))
            status = need(&needed, targets[i]);
        if (status == PD_OK) status = need(&used, targets[i]);
    }
    if (status == PD_OK) status = prune_main(program, &fed, &needed, &used, gone);
    if (status == PD_OK) status = prune_blocks(program, gone);
    pd_free(gone);
    pd_map_free(&fed);
    pd_map_free(&needed);
    pd_map_free(&used);
    return status;
}
