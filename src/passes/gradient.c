/* The gradient of one op: what it asks for through its grad maker (program/grad.h), the names of gradients,
 * and adding up.
 *
 * A variable that is read several times gets several contributions. They are written under names of their own
 * and added up when the gradient is needed: before its producer's gradient ops, or at the end for leaves. */
#include <string.h>

#include "passes/backward.h"

struct pd_backward_node *pd_backward_node(struct pd_backward *p, const char *var)
{
    struct pd_backward_node *n = pd_map_get(&p->nodes, var);
    if (n) return n;
    n = pd_calloc(1, sizeof *n);
    if (!n) return NULL;
    n->var = pd_program_text(p->program, var);
    if (!n->var || !pd_map_set(&p->nodes, var, n)) {
        pd_free(n);
        return NULL;
    }
    return n;
}

/* var@GRAD, or var@GRAD_0, var@GRAD_1, ... when an earlier pass took that name. */
pd_status pd_backward_name(struct pd_backward *p, struct pd_backward_node *n)
{
    if (n->grad) return PD_OK;
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, n->var);
    size_t base = name.n;
    for (int i = 0; !name.failed && pd_map_has(&p->before, name.at); i++) {
        name.n = base;
        pd_buf_printf(&name, "_%d", i);
    }
    n->grad = name.failed ? NULL : pd_program_text(p->program, name.at);
    pd_buf_free(&name);
    if (!n->grad) return pd_no_memory();
    /* A gradient block keeps its gradients to itself, whatever the blocks around it hold under that name. */
    struct pd_var *local;
    int existed;
    return p->nested ? pd_var_new(p->into, n->grad, PD_KIND_TENSOR, &local, &existed) : PD_OK;
}

pd_status pd_backward_insert(struct pd_backward *p, struct pd_opdesc *op)
{
    pd_status status = pd_opdesc_set_int(op, "op_role", p->role);
    if (status == PD_OK && p->at >= 0) status = pd_backward_pin(p, op);
    if (status == PD_OK) status = pd_block_insert(p->into, -1, op, 1);
    if (status != PD_OK) pd_opdesc_free(op);
    return status;
}

pd_status pd_backward_op(struct pd_backward *p, const char *type, int n, const char *const *in,
                         const char *out, struct pd_opdesc **made)
{
    struct pd_opdesc *op;
    PD_TRY(pd_opdesc_new(p->program, type, &op));
    pd_status status = pd_opdesc_set_args(op, 0, "X", n, in);
    if (status == PD_OK) status = pd_opdesc_set_args(op, 1, "Out", 1, &out);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    *made = op;
    return PD_OK;
}

static const struct pd_clip_spec *clip_of(const struct pd_backward *p, const char *var)
{
    for (int i = 0; i < p->spec->n_clips; i++)
        if (strcmp(p->spec->clips[i].var, var) == 0) return &p->spec->clips[i];
    return NULL;
}

pd_status pd_backward_complete(struct pd_backward *p, struct pd_backward_node *n)
{
    struct pd_opdesc *op;
    if (n->filled || n->parts.n == 0) return PD_OK;
    int before = n->carried ? 1 : 0, count = n->parts.n + before;
    if (count > 1) {
        const char **names = pd_calloc((size_t)count, sizeof *names);
        if (!names) return pd_no_memory();
        names[0] = n->grad;
        for (int i = 0; i < n->parts.n; i++)
            names[i + before] = n->parts.at[i].op->out.at[n->parts.at[i].slot].args.at[n->parts.at[i].arg];
        pd_status status = pd_backward_op(p, "sum", count, names, n->grad, &op);
        pd_free(names);
        PD_TRY(status);
        PD_TRY(pd_backward_insert(p, op));
    }
    const struct pd_clip_spec *clip = clip_of(p, n->var);
    if (clip) {
        PD_TRY(pd_backward_op(p, "clip", 1, &n->grad, n->grad, &op));
        pd_opdesc_set_attr(op, "min", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = clip->min}, 0);
        pd_opdesc_set_attr(op, "max", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = clip->max}, 0);
        PD_TRY(pd_backward_insert(p, op));
    }
    n->filled = 1;
    return PD_OK;
}

static pd_status rename_part(struct pd_backward *p, struct pd_backward_node *n, int i)
{
    struct pd_backward_part *part = &n->parts.at[i];
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s@RENAME@block%d@%d", n->grad, p->into->index, i);
    const char *kept = name.failed ? NULL : pd_program_text(p->program, name.at);
    pd_buf_free(&name);
    if (!kept) return pd_no_memory();
    struct pd_block *block = p->into;
    struct pd_var *old = pd_block_var(block, n->grad), *fresh;
    int existed;
    /* An op that is in the block already has inferred its output: the new variable takes that over. Selected
     * rows of another part say nothing about this one. */
    int takes = old && (part->op->block || old->meta.kind != PD_KIND_SELECTED_ROWS);
    PD_TRY(pd_var_new(block, kept, takes ? old->meta.kind : PD_KIND_TENSOR, &fresh, &existed));
    if (old && part->op->block) {
        struct pd_lod *lod = fresh->meta.lod;
        fresh->meta = old->meta;
        fresh->meta.lod = lod;
    }
    part->op->out.at[part->slot].args.at[part->arg] = kept;
    p->program->version++;
    return PD_OK;
}

/* The node whose gradient the name is, among the inputs of the forward op; NULL: none. */
static struct pd_backward_node *node_of(const struct pd_backward *p, const struct pd_opdesc *forward,
                                        const char *grad)
{
    for (int s = 0; s < forward->in.n; s++)
        for (int k = 0; k < forward->in.at[s].args.n; k++) {
            struct pd_backward_node *n = pd_map_get(&p->nodes, forward->in.at[s].args.at[k]);
            if (n && n->grad == grad) return n;
        }
    return NULL;
}

/* Takes note of the gradients that the op writes, and gives repeated ones names of their own. */
static pd_status note_outputs(struct pd_backward *p, struct pd_opdesc *op, const struct pd_opdesc *forward)
{
    for (int o = 0; o < op->out.n; o++)
        for (int a = 0; a < op->out.at[o].args.n; a++) {
            struct pd_backward_node *n = node_of(p, forward, op->out.at[o].args.at[a]);
            if (!n) continue;
            if (!pd_vec_push(&n->parts, ((struct pd_backward_part){op, o, a}))) return pd_no_memory();
            n->filled = 0;
            if (n->parts.n == 2 && !n->carried) PD_TRY(rename_part(p, n, 0));
            if (n->parts.n >= 2 || n->carried) PD_TRY(rename_part(p, n, n->parts.n - 1));
        }
    return PD_OK;
}

static pd_status maker_emit(struct pd_grad_maker *g, struct pd_opdesc *op)
{
    struct pd_backward *p = g->backward;
    int writes = 0;
    for (int o = 0; o < op->out.n; o++)
        for (int a = 0; a < op->out.at[o].args.n; a++)
            writes |= strcmp(op->out.at[o].args.at[a], PD_EMPTY_VAR) != 0;
    if (!writes) { /* nobody wants what it computes */
        pd_opdesc_free(op);
        return PD_OK;
    }
    pd_status status = note_outputs(p, op, g->op);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return pd_backward_insert(p, op);
}

static pd_status maker_output(struct pd_grad_maker *g, const char *var, const char **name)
{
    struct pd_backward *p = g->backward;
    struct pd_backward_node *n = pd_backward_node(p, var);
    if (!n) return pd_no_memory();
    PD_TRY(pd_backward_name(p, n));
    if (!n->filled) {
        struct pd_opdesc *zeros;
        PD_TRY(pd_backward_op(p, "fill_zeros_like", 1, &var, n->grad, &zeros));
        PD_TRY(pd_backward_insert(p, zeros));
        n->filled = 1;
    }
    *name = n->grad;
    return PD_OK;
}

static pd_status maker_input(struct pd_grad_maker *g, const char *var, const char **name)
{
    struct pd_backward *p = g->backward;
    struct pd_backward_node *n = pd_backward_node(p, var);
    if (!n) return pd_no_memory();
    if (!pd_backward_reaches(n) || !pd_backward_allows(pd_block_find(p->spec->block, var))) {
        *name = PD_EMPTY_VAR;
        return PD_OK;
    }
    PD_TRY(pd_backward_name(p, n));
    *name = n->grad;
    return PD_OK;
}

static int maker_has_grad(struct pd_grad_maker *g, const char *var)
{
    const struct pd_backward *p = g->backward;
    const struct pd_backward_node *n = pd_map_get(&p->nodes, var);
    return n && n->filled;
}

static int maker_lives_before(struct pd_grad_maker *g, const char *var)
{
    const struct pd_backward *p = g->backward;
    const struct pd_backward_node *n = pd_map_get(&p->nodes, var);
    if ((n && n->wanted) || !pd_block_var(p->spec->block, var)) return 1;
    return pd_backward_writer(p, var, 0, p->at) >= 0;
}

/* Variables from around a block that it reads, other than as it wrote them itself, and whose gradient nobody
 * wants; those that are wanted are known from the start. */
static pd_status unwanted_reads(const struct pd_block *block, struct pd_map *known, struct pd_map *out)
{
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                const char *name = op->in.at[s].args.at[k];
                if (!pd_block_var(block, name) && !pd_map_has(known, name) && !pd_map_add(out, name))
                    return pd_no_memory();
            }
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++)
                if (!pd_map_add(known, op->out.at[s].args.at[k])) return pd_no_memory();
    }
    return PD_OK;
}

static pd_status maker_block(struct pd_grad_maker *g, int forward, int loops, int n_targets,
                             const char *const *targets, int n_wanted, const char *const *wanted,
                             const char **grads, int *grad_block)
{
    struct pd_backward *p = g->backward;
    struct pd_block *block = pd_program_block(p->program, forward), *into;
    struct pd_map unwanted = {0}, known = {0};
    pd_status status = PD_OK;
    if (!block) return pd_fail(PD_RANGE, "op '%s' names block %d, which is not there", g->op->type, forward);
    PD_TRY(pd_block_new(p->program, p->into->index, &into));
    into->forward = forward;
    for (int i = 0; i < n_wanted && status == PD_OK; i++)
        if (!pd_map_add(&known, wanted[i])) status = pd_no_memory();
    if (status == PD_OK) status = unwanted_reads(block, &known, &unwanted);
    const char **no_grad = pd_calloc(unwanted.n, sizeof *no_grad);
    int n = 0;
    pd_map_each(&unwanted, e)
        if (no_grad) no_grad[n++] = e->key;
    struct pd_backward_spec spec = {.block = block,
                                    .into = into,
                                    .loops = loops,
                                    .around = p,
                                    .n_targets = n_targets,
                                    .targets = targets,
                                    .n_wanted = n_wanted,
                                    .wanted = wanted,
                                    .n_no_grad = n,
                                    .no_grad = no_grad,
                                    .n_clips = p->spec->n_clips,
                                    .clips = p->spec->clips};
    if (status == PD_OK) status = no_grad ? pd_pass_backward(&spec, grads) : pd_no_memory();
    pd_free(no_grad);
    pd_map_free(&known);
    pd_map_free(&unwanted);
    *grad_block = into->index;
    return status;
}

/* The value that each output had before the op: its gradient is what the op's gradient ops wrote, else what
 * it was where the op may leave the value alone, else nothing. */
static void step_before(struct pd_backward *p, const struct pd_opdesc *op)
{
    for (int s = 0; s < op->out.n; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++) {
            struct pd_backward_node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
            if (!n || n->parts.n || !n->filled) continue;
            n->met = 1;
            n->carried = n->filled = (op->def->flags & PD_OP_UPDATES) != 0;
        }
}

/* What an optimizer overwrites stays the same parameter to who asks for its gradient. What others write there
 * is another value. */
static int is_updated(const struct pd_backward *p, const struct pd_backward_node *n,
                      const struct pd_opdesc *op)
{
    const struct pd_var *var = pd_block_find(p->spec->block, n->var);
    const struct pd_attr *role = pd_opdesc_attr(op, "op_role");
    if (!n->wanted || p->nested || !var || !(var->flags & PD_VAR_PERSISTABLE)) return 0;
    return (role && (role->i & PD_ROLE_OPTIMIZE)) || pd_opdesc_names(op, 0, n->var);
}

pd_status pd_backward_pass_over(struct pd_backward *p, const struct pd_opdesc *op)
{
    if (op->def && (op->def->flags & PD_OP_UPDATES)) return PD_OK;
    for (int s = 0; s < op->out.n; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++) {
            struct pd_backward_node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
            if (!n || !(n->parts.n || n->filled) || is_updated(p, n, op)) continue;
            if (n->wanted) PD_TRY(pd_backward_complete(p, n));
            n->met |= n->filled;
            n->parts.n = n->filled = n->carried = 0;
        }
    return PD_OK;
}

pd_status pd_backward_differentiate(struct pd_backward *p, struct pd_opdesc *op)
{
    if (!op->def) return pd_fail(PD_NOT_FOUND, "there is no op '%s', so it has no gradient", op->type);
    if (op->def->flags & PD_OP_NO_GRAD) return pd_backward_pass_over(p, op);
    if (!op->def->grad_type && !op->def->make_grad) {
        pd_fail(PD_UNSUPPORTED,
                "op '%s' has no gradient; set stop_gradient on its inputs or leave it out of the loss",
                op->type);
        pd_opdesc_blame(op, p->spec->block);
        return PD_UNSUPPORTED;
    }
    for (int s = 0; s < op->out.n; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++) {
            struct pd_backward_node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
            if (!n) continue;
            PD_TRY(pd_backward_complete(p, n));
            /* From here on the name stands for the value before this op, should the op write in place. */
            n->parts.n = n->carried = 0;
        }
    struct pd_grad_maker g = {.op = op,
                              .block = p->into,
                              .program = p->program,
                              .backward = p,
                              .grad_of_output = maker_output,
                              .grad_of_input = maker_input,
                              .has_grad = maker_has_grad,
                              .lives_before = maker_lives_before,
                              .emit = maker_emit,
                              .block_grad = maker_block};
    struct pd_opdesc *grad;
    if (op->def->make_grad) {
        PD_TRY(op->def->make_grad(&g));
    } else {
        PD_TRY(pd_grad_from_table(&g, op->def->grad_type, op->def->grad_in, op->def->grad_out, &grad));
        PD_TRY(maker_emit(&g, grad));
    }
    step_before(p, op);
    return PD_OK;
}
