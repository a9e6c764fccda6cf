/* Which value of a variable a gradient op reads: the one that its forward op saw.
 *
 * A block may overwrite a variable after an op read it, and a loop overwrites what is around it in its next
 * step. Where a gradient op reads such a variable, the forward block makes a copy in time: a variable of its
 * own, which is kept with the step. In the main line a plan gives the copy the memory of the old value
 * (exec/plan_vars.c), so that nothing is moved. */
#include <string.h>

#include "passes/backward.h"

struct writers {
    PD_VEC(int) ops; /* rising */
};

static pd_status add_writer(struct pd_backward *p, const char *var, int op)
{
    struct writers *w = pd_map_get(&p->writers, var);
    if (!w) {
        w = pd_calloc(1, sizeof *w);
        if (!w || !pd_map_set(&p->writers, var, w)) {
            pd_free(w);
            return pd_no_memory();
        }
    }
    return pd_vec_push(&w->ops, op) ? PD_OK : pd_no_memory();
}

pd_status pd_backward_find_writers(struct pd_backward *p)
{
    for (int i = 0; i < p->forward_ops; i++) {
        const struct pd_opdesc *op = p->spec->block->ops.at[i];
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++)
                PD_TRY(add_writer(p, op->out.at[s].args.at[k], i));
    }
    return PD_OK;
}

void pd_backward_free_writers(struct pd_backward *p)
{
    pd_map_each(&p->writers, e) {
        struct writers *w = e->value;
        pd_vec_free(&w->ops);
        pd_free(w);
    }
    pd_map_free(&p->writers);
}

int pd_backward_writer(const struct pd_backward *p, const char *var, int from, int to)
{
    const struct writers *w = pd_map_get(&p->writers, var);
    for (int i = 0; w && i < w->ops.n && w->ops.at[i] < to; i++)
        if (w->ops.at[i] >= from) return w->ops.at[i];
    return -1;
}

struct pd_meta pd_backward_meta(const struct pd_backward *p, const struct pd_var *var, int at)
{
    const struct writers *w = pd_map_get(&p->writers, var->name);
    for (int i = 0; w && i < w->ops.n; i++) {
        const struct pd_opdesc *op = p->spec->block->ops.at[w->ops.at[i]];
        for (int k = 0; k < op->resized.n && w->ops.at[i] >= at; k++)
            if (strcmp(op->resized.at[k].var, var->name) == 0) return op->resized.at[k].was;
    }
    const struct pd_backward *around = p->spec->around;
    return around && var->block != p->spec->block ? pd_backward_meta(around, var, around->at + 1) : var->meta;
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
    copy->meta = pd_backward_meta(p, from, before);
    copy->flags |= PD_VAR_STOP_GRADIENT;
    *name = copy->name;
    return pd_vec_push(&p->copies, ((struct pd_backward_copy){from->name, copy->name, before}))
               ? PD_OK
               : pd_no_memory();
}

pd_status pd_backward_version(struct pd_backward *p, const char *var, int at, const char **name)
{
    *name = var;
    int before = pd_backward_writer(p, var, at, p->forward_ops);
    if (before < 0) {
        /* It stays until the block ends; a variable from around the block may change after that. */
        if (pd_block_var(p->spec->block, var) || pd_backward_writer(p, var, 0, at) < 0) return PD_OK;
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
        int runs_blocks = pd_opdesc_sub_block(op, 0) >= 0; /* it finds gradients by the names of its inputs */
        for (int s = 0; s < op->in.n && !runs_blocks; s++)
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

/* An op that writes in place has both values under one name: the slot of the gradient op says which one is
 * meant. Statistics that come in as Mean and go out as MeanOut are meant as they go out. */
static int means_result(const struct pd_opdesc *forward, const char *slot, const char *var)
{
    if (!pd_opdesc_names(forward, 1, var)) return 0;
    if (!pd_opdesc_names(forward, 0, var) || pd_slot_index(forward->def->outputs, slot) >= 0) return 1;
    size_t n = strlen(slot);
    for (int s = 0; s < forward->out.n; s++)
        if (strncmp(forward->out.at[s].slot, slot, n) == 0 && strcmp(forward->out.at[s].slot + n, "Out") == 0)
            return 1;
    return 0;
}

/* Does the op read only the size of a variable that keeps its size? */
static int reads_size(const struct pd_opdesc *op, const char *slot, const struct pd_var *var)
{
    int i = op->def ? pd_slot_index(op->def->inputs, slot) : -1;
    return i >= 0 && (op->def->inputs[i].flags & PD_SLOT_META) && (var->flags & PD_VAR_PERSISTABLE);
}

pd_status pd_backward_pin(struct pd_backward *p, struct pd_opdesc *op)
{
    const struct pd_opdesc *forward = p->spec->block->ops.at[p->at];
    int runs_blocks = pd_opdesc_sub_block(op, 0) >= 0;
    for (int k = 0, sub; (sub = pd_opdesc_sub_block(op, k)) >= 0; k++)
        PD_TRY(pin_block(p, sub));
    for (int s = 0; s < op->in.n; s++)
        for (int k = 0; k < op->in.at[s].args.n; k++) {
            const char **arg = &op->in.at[s].args.at[k];
            const struct pd_var *var = pd_block_find(p->spec->block, *arg);
            if (!var || (p->nested && pd_block_var(p->into, *arg)) || reads_size(op, op->in.at[s].slot, var))
                continue;
            /* Of what its block writes, such an op reads only the size. */
            int result = runs_blocks ? pd_opdesc_names(forward, 1, *arg)
                                     : means_result(forward, op->in.at[s].slot, *arg);
            PD_TRY(pd_backward_version(p, *arg, p->at + result, arg));
        }
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
            if (status == PD_OK) status = pd_block_insert_sized(p->spec->block, at, op);
            if (status != PD_OK) {
                pd_opdesc_free(op);
                return status;
            }
        }
    return PD_OK;
}
