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
    /* The copy that is made before each of them, then the one at the block's end; made with the first. */
    const char **copies;
    int n_names; /* that copies were tried under */
};

/* The first writer that is not before op `from`. */
static int first_from(const struct writers *w, int from)
{
    int low = 0, high = w->ops.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (w->ops.at[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

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
        pd_free(w->copies);
        pd_free(w);
    }
    pd_map_free(&p->writers);
}

int pd_backward_writer(const struct pd_backward *p, const char *var, int from, int to)
{
    const struct writers *w = pd_map_get(&p->writers, var);
    int i = w ? first_from(w, from) : 0;
    return w && i < w->ops.n && w->ops.at[i] < to ? w->ops.at[i] : -1;
}

struct pd_meta pd_backward_meta(const struct pd_backward *p, const struct pd_var *var, int at)
{
    const struct writers *w = pd_map_get(&p->writers, var->name);
    for (int i = w ? first_from(w, at) : 0; w && i < w->ops.n; i++) {
        const struct pd_opdesc *op = p->spec->block->ops.at[w->ops.at[i]];
        for (int k = 0; k < op->resized.n; k++)
            if (strcmp(op->resized.at[k].var, var->name) == 0) return op->resized.at[k].was;
    }
    const struct pd_backward *around = p->spec->around;
    return around && var->block != p->spec->block ? pd_backward_meta(around, var, around->at + 1) : var->meta;
}

/* A new variable of the forward block, like `var`. */
static pd_status new_copy(struct pd_backward *p, const char *var, int before, struct writers *w,
                          const char **name)
{
    struct pd_block *block = p->spec->block;
    const struct pd_var *from = pd_block_find(block, var);
    struct pd_buf text = {0};
    struct pd_var *copy;
    int existed = 1;
    pd_status status = PD_OK;
    while (existed && status == PD_OK) {
        text.n = 0;
        pd_buf_printf(&text, "%s@STEP@block%d@%d", var, block->index, w->n_names++);
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
    struct writers *w = pd_map_get(&p->writers, var);
    if (!w->copies && !(w->copies = pd_calloc((size_t)w->ops.n + 1, sizeof *w->copies)))
        return pd_no_memory();
    const char **copy = &w->copies[first_from(w, before)];
    if (!*copy) PD_TRY(new_copy(p, var, before, w, copy));
    *name = *copy;
    return PD_OK;
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

/* By falling `before`, those before one op in the order in which they were asked for. Returns NULL when
 * memory is short. */
static int *in_order(const struct pd_backward *p)
{
    int *first = pd_calloc((size_t)p->forward_ops + 1, sizeof *first),
        *next = pd_calloc((size_t)p->copies.n, sizeof *next),
        *order = pd_calloc((size_t)p->copies.n, sizeof *order), n = 0;
    for (int i = p->copies.n - 1; first && next && order && i >= 0; i--) {
        next[i] = first[p->copies.at[i].before]; /* numbers + 1; 0: none */
        first[p->copies.at[i].before] = i + 1;
    }
    for (int at = p->forward_ops; first && next && order && at >= 0; at--)
        for (int i = first[at]; i; i = next[i - 1])
            order[n++] = i - 1;
    if (!first || !next) {
        pd_free(order);
        order = NULL;
    }
    pd_free(first);
    pd_free(next);
    return order;
}

static pd_status make_copies(struct pd_backward *p, struct pd_place *places, int *n)
{
    int *order = in_order(p);
    pd_status status = order ? PD_OK : pd_no_memory();
    for (int i = 0; i < p->copies.n && status == PD_OK; i++) {
        const struct pd_backward_copy *c = &p->copies.at[order[i]];
        struct pd_opdesc *op;
        status = pd_backward_op(p, "assign", 1, &c->var, c->name, &op);
        if (status != PD_OK) break;
        places[(*n)++] = (struct pd_place){op, c->before};
        status = pd_opdesc_set_int(op, "op_role", PD_ROLE_BACKWARD);
    }
    pd_free(order);
    return status;
}

pd_status pd_backward_insert_copies(struct pd_backward *p)
{
    int n = 0;
    if (!p->copies.n) return PD_OK;
    struct pd_place *places = pd_calloc((size_t)p->copies.n, sizeof *places);
    pd_status status = places ? make_copies(p, places, &n) : pd_no_memory();
    if (status == PD_OK) status = pd_block_insert_many(p->spec->block, n, places);
    for (int i = 0; i < n && status != PD_OK; i++)
        pd_opdesc_free(places[i].op);
    pd_free(places);
    return status;
}
