/* Copies of Programs. Ids stay the same, so that what Python keeps by id fits the copy too. */
#include <string.h>

#include "program/program.h"

/* Roles of ops, the bits of upstream's op_role attribute. */
enum { ROLE_BACKWARD = 1, ROLE_OPTIMIZE = 2, ROLE_RPC = 4, ROLE_DIST = 8, ROLE_LR_SCHEDULE = 16 };

/* Ops that exchange gradients and parameters with servers (RPC, DIST) belong to a training step too. Those
 * that fetch rows for the forward pass have its role. */
enum { ROLES_OF_TRAINING = ROLE_BACKWARD | ROLE_OPTIMIZE | ROLE_RPC | ROLE_DIST | ROLE_LR_SCHEDULE };

static int is_for_training(const struct pd_opdesc *op)
{
    const struct pd_attr *role = pd_opdesc_attr(op, "op_role");
    return role && role->type == PD_ATTR_INT && (role->i & ROLES_OF_TRAINING);
}

static pd_status copy_var(const struct pd_var *var, struct pd_block *into)
{
    struct pd_program *p = into->program;
    struct pd_var *copy;
    int existed;
    PD_TRY(pd_var_new(into, var->name, var->meta.kind, &copy, &existed));
    copy->meta = var->meta;
    copy->meta.lod = pd_lod_ref(var->meta.lod);
    copy->flags = var->flags;
    pd_buf_add(&copy->extra, var->extra.at, var->extra.n);
    /* pd_var_new took the next id; the copy takes the original's instead. */
    p->var_by_id.at[--p->var_by_id.n] = NULL;
    p->op_by_id.n--;
    copy->id = var->id;
    p->var_by_id.at[var->id] = copy;
    return copy->extra.failed ? pd_no_memory() : PD_OK;
}

/* What is known of a variable: an op names it, one that stays does; an op that goes writes it, one that stays
 * does. */
enum { NAMED = 1, STAYS = 2, WRITTEN_BY_GONE = 4, WRITTEN = 8 };

/* An op that runs a block names what the ops of the block read. Some of these are only for training, and so
 * is what only they read: a value that was kept for a gradient. */
static int is_only_training(const struct pd_opdesc *op, const char *name, const char *seen)
{
    const struct pd_var *var = pd_block_find(op->block, name);
    return var && (seen[var->id] & (WRITTEN_BY_GONE | WRITTEN)) == WRITTEN_BY_GONE &&
           pd_opdesc_sub_block(op, 0) >= 0 &&
           !(var->flags & (PD_VAR_PARAMETER | PD_VAR_IS_DATA | PD_VAR_PERSISTABLE));
}

static void drop_inputs(const struct pd_opdesc *op, struct pd_opdesc *copy, const char *seen)
{
    for (int i = 0; i < copy->in.n; i++) {
        int left = 0;
        for (int k = 0; k < copy->in.at[i].args.n; k++)
            if (!is_only_training(op, copy->in.at[i].args.at[k], seen))
                copy->in.at[i].args.at[left++] = copy->in.at[i].args.at[k];
        copy->in.at[i].args.n = left;
    }
}

static pd_status copy_op(const struct pd_opdesc *op, struct pd_block *into, int for_test, const char *seen)
{
    struct pd_opdesc *copy;
    PD_TRY(pd_opdesc_clone(op, into->program, &copy));
    pd_status status = PD_OK;
    if (for_test) drop_inputs(op, copy, seen);
    if (for_test && copy->def && pd_attr_index(copy->def->attrs, "is_test") >= 0)
        status = pd_opdesc_set_attr(copy, "is_test", &(struct pd_attr){.type = PD_ATTR_BOOL, .b = 1}, 0);
    if (status == PD_OK && !pd_vec_push(&into->ops, copy)) status = pd_no_memory();
    if (status != PD_OK) {
        pd_opdesc_free(copy);
        return status;
    }
    copy->block = into;
    copy->id = op->id;
    into->program->op_by_id.at[op->id] = copy;
    return PD_OK;
}

static void mark_side(const struct pd_opdesc *op, int side, char bits, char *seen)
{
    const struct pd_io *at = side ? op->out.at : op->in.at;
    int n = side ? op->out.n : op->in.n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < at[i].args.n; k++) {
            const struct pd_var *var = pd_block_find(op->block, at[i].args.at[k]);
            if (var && (side || !is_only_training(op, var->name, seen))) seen[var->id] |= bits;
        }
}

static void mark_all(const struct pd_program *from, int for_test, char *seen)
{
    for (int side = 1; side >= 0; side--)
        for (int b = 0; b < from->blocks.n; b++)
            for (int i = 0; i < from->blocks.at[b]->ops.n; i++) {
                const struct pd_opdesc *op = from->blocks.at[b]->ops.at[i];
                int goes = for_test && is_for_training(op), writes = goes ? WRITTEN_BY_GONE : WRITTEN;
                mark_side(op, side, (char)(NAMED | (goes ? 0 : STAYS) | (side ? writes : 0)), seen);
            }
}

static pd_status copy_into(const struct pd_program *from, int for_test, struct pd_program *to)
{
    int ids = from->var_by_id.n;
    char *seen = pd_calloc((size_t)ids + 1, 1);
    pd_status status = seen ? PD_OK : pd_no_memory();
    if (!pd_vec_reserve(&to->var_by_id, ids + 1) || !pd_vec_reserve(&to->op_by_id, ids + 1))
        status = pd_no_memory();
    if (status == PD_OK) {
        if (ids) memset(to->var_by_id.at, 0, (size_t)ids * sizeof *to->var_by_id.at);
        if (ids) memset(to->op_by_id.at, 0, (size_t)ids * sizeof *to->op_by_id.at);
        to->var_by_id.n = to->op_by_id.n = ids;
    }
    for (int b = 0; b < from->blocks.n && status == PD_OK; b++) {
        const struct pd_block *block = from->blocks.at[b];
        struct pd_block *copy = b < to->blocks.n ? to->blocks.at[b] : NULL;
        if (!copy) status = pd_block_new(to, block->parent, &copy);
        if (status == PD_OK) copy->forward = block->forward;
    }
    if (status == PD_OK) mark_all(from, for_test, seen);
    for (int b = 0; b < from->blocks.n && status == PD_OK; b++) {
        const struct pd_block *block = from->blocks.at[b];
        for (int i = 0; i < block->vars.n && status == PD_OK; i++) {
            const struct pd_var *var = block->vars.at[i];
            int only_training = (seen[var->id] & (NAMED | STAYS)) == NAMED &&
                                !(var->flags & (PD_VAR_PARAMETER | PD_VAR_IS_DATA));
            if (!only_training) status = copy_var(var, to->blocks.at[b]);
        }
        for (int i = 0; i < block->ops.n && status == PD_OK; i++)
            if (!(for_test && is_for_training(block->ops.at[i])))
                status = copy_op(block->ops.at[i], to->blocks.at[b], for_test, seen);
    }
    pd_free(seen);
    return status;
}

pd_status pd_program_clone(const struct pd_program *program, int for_test, struct pd_program **out)
{
    struct pd_program *copy;
    PD_TRY(pd_program_new(program->op_set, &copy));
    pd_program_join(copy, program);
    copy->random_seed = program->random_seed;
    copy->file_version = program->file_version;
    pd_buf_add(&copy->compatible, program->compatible.at, program->compatible.n);
    pd_status status = copy->compatible.failed ? pd_no_memory() : copy_into(program, for_test, copy);
    if (status != PD_OK) {
        pd_program_unref(copy);
        return status;
    }
    *out = copy;
    return PD_OK;
}
