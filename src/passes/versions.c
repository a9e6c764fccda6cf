/* Which value of a variable a gradient op reads.
 *
 * A block may overwrite a variable after an op read it, and a loop overwrites what is around it in its next
 * step. Where a gradient op reads such a variable, the forward block makes a copy in time: a variable of its
 * own, which is kept with the step. In the main line of a Program this is done for counters (positions in
 * arrays, which scripts count up in place); gradient ops read all else there as the forward ops left it, as
 * scripts expect. */
#include <string.h>

#include "passes/backward.h"

/* Number of the first op from `from` on that writes the variable; -1: none. */
static int next_writer(const struct pd_backward *p, const char *var, int from, int to)
{
    for (int i = from; i < to; i++)
        if (pd_opdesc_names(p->spec->block->ops.at[i], 1, var)) return i;
    return -1;
}

/* A new variable of the forward block, like `var`. */
static pd_status new_copy(struct pd_backward *p, const char *var, int before, const char **name)
{
    struct pd_block *block = p->spec->block;
    const struct pd_var *from = pd_block_find(block, var);
    struct pd_buf text = {0};
    struct pd_var *copy;
    int existed = 1;
    pd_status status = PD_OK;
    for (int i = 0; existed && status == PD_OK; i++) {
        text.n = 0;
        pd_buf_printf(&text, "%s@STEP@block%d@%d", var, block->index, i);
        status = text.failed ? pd_no_memory() : pd_var_new(block, text.at, from->meta.kind, &copy, &existed);
    }
    pd_buf_free(&text);
    PD_TRY(status);
    pd_meta_like(&copy->meta, &from->meta);
    copy->flags |= PD_VAR_STOP_GRADIENT;
    *name = copy->name;
    return pd_vec_push(&p->copies, ((struct pd_backward_copy){from->name, copy->name, before}))
               ? PD_OK
               : pd_no_memory();
}

static int is_counter(const struct pd_var *var)
{
    return var->meta.kind == PD_KIND_TENSOR &&
           (var->meta.dtype == PD_DTYPE_INT64 || var->meta.dtype == PD_DTYPE_INT32) &&
           !(var->flags & PD_VAR_PERSISTABLE);
}

pd_status pd_backward_version(struct pd_backward *p, const char *var, int at, const char **name)
{
    *name = var;
    if (!p->nested && !is_counter(pd_block_find(p->spec->block, var))) return PD_OK;
    int before = next_writer(p, var, at, p->forward_ops);
    if (before < 0) {
        /* It stays until the block ends; a variable from around the block may change after that. */
        if (pd_block_var(p->spec->block, var) || next_writer(p, var, 0, at) < 0) return PD_OK;
        before = p->forward_ops;
    }
    for (int i = 0; i < p->copies.n; i++)
        if (p->copies.at[i].before == before && strcmp(p->copies.at[i].var, var) == 0) {
            *name = p->copies.at[i].name;
            return PD_OK;
        }
    return new_copy(p, var, before, name);
}

/* The blocks that a gradient op runs read variables around the forward block by name too. */
static pd_status pin_block(struct pd_backward *p, int index)
{
    const struct pd_block *block = pd_program_block(p->program, index);
    for (int i = 0; block && i < block->ops.n; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                const char **arg = &op->in.at[s].args.at[k];
                const struct pd_var *var = pd_block_find(block, *arg);
                if (var && pd_block_find(p->spec->block, *arg) == var)
                    PD_TRY(pd_backward_version(p, *arg, p->at, arg));
            }
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) >= 0; k++)
            PD_TRY(pin_block(p, sub));
    }
    return PD_OK;
}

static pd_status pin_op(struct pd_backward *p, struct pd_opdesc *op)
{
    const struct pd_opdesc *forward = p->spec->block->ops.at[p->at];
    if (pd_opdesc_sub_block(op, 0) >= 0) {
        for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) >= 0; k++)
            PD_TRY(pin_block(p, sub));
        return PD_OK;
    }
    for (int s = 0; s < op->in.n; s++)
        for (int k = 0; k < op->in.at[s].args.n; k++) {
            const char **arg = &op->in.at[s].args.at[k];
            if ((p->nested && pd_block_var(p->into, *arg)) || !pd_block_find(p->spec->block, *arg)) continue;
            /* An op that writes in place has both values under one name: the slot says which one is meant. */
            int result = pd_opdesc_names(forward, 1, *arg) &&
                         (!pd_opdesc_names(forward, 0, *arg) ||
                          pd_slot_index(forward->def->outputs, op->in.at[s].slot) >= 0);
            PD_TRY(pd_backward_version(p, *arg, p->at + result, arg));
        }
    return PD_OK;
}

pd_status pd_backward_pin(struct pd_backward *p, int first)
{
    for (int i = first; i < p->into->ops.n; i++)
        PD_TRY(pin_op(p, p->into->ops.at[i]));
    return PD_OK;
}

pd_status pd_backward_insert_copies(struct pd_backward *p)
{
    /* From the end on, so that the numbers of the ops before stay. */
    for (int at = p->forward_ops; p->copies.n && at >= 0; at--)
        for (int i = 0; i < p->copies.n; i++) {
            const struct pd_backward_copy *c = &p->copies.at[i];
            struct pd_opdesc *op;
            if (c->before != at) continue;
            PD_TRY(pd_backward_op(p, "assign", 1, &c->var, c->name, &op));
            pd_status status = pd_opdesc_set_int(op, "op_role", PD_ROLE_BACKWARD);
            if (status == PD_OK) status = pd_block_insert(p->spec->block, at, op, 0);
            if (status != PD_OK) {
                pd_opdesc_free(op);
                return status;
            }
        }
    return PD_OK;
}
