/* Reverse-mode differentiation of a block.
 *
 * First a walk forward finds the variables that a gradient can reach, then a walk backward asks each op on
 * the way for its gradient ops (gradient.c). */
#include <string.h>

#include "passes/backward.h"

/* ---- which variables a gradient can reach ---- */

static pd_status mark_flags(struct pd_backward *p, const char *name)
{
    struct pd_backward_node *n = pd_backward_node(p, name);
    if (!n) return pd_no_memory();
    const struct pd_var *var = pd_block_find(p->spec->block, name);
    if (n->wanted) {
        n->stops = var && (var->flags & PD_VAR_STOP_GRADIENT);
        return PD_OK;
    }
    if (var && ((var->flags & PD_VAR_STOP_GRADIENT) || !pd_backward_allows(var))) n->blocked = 1;
    return PD_OK;
}

static int side_has(const struct pd_backward *p, const struct pd_opdesc *op, int is_output,
                    int (*test)(const struct pd_backward_node *))
{
    const struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < at[i].args.n; k++) {
            const struct pd_backward_node *node = pd_map_get(&p->nodes, at[i].args.at[k]);
            if (node && test(node)) return 1;
        }
    return 0;
}

static int node_needed(const struct pd_backward_node *n)
{
    return n->needed;
}
static int node_has_grad(const struct pd_backward_node *n)
{
    return n->parts.n > 0 || n->filled;
}

/* Walks forward: leaves are reachable unless blocked; an op's outputs are when one of its inputs is. */
static pd_status mark_reachable(struct pd_backward *p, struct pd_map *produced)
{
    struct pd_block *block = p->spec->block;
    for (int i = 0; i < p->forward_ops; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                const char *name = op->in.at[s].args.at[k];
                if (strcmp(name, PD_EMPTY_VAR) == 0) continue;
                PD_TRY(mark_flags(p, name));
                struct pd_backward_node *n = pd_backward_node(p, name);
                if (!n) return pd_no_memory();
                if (!pd_map_has(produced, name) && !n->blocked) n->reachable = 1;
            }
        int stops = op->def && (op->def->flags & PD_OP_NO_GRAD),
            updates = op->def && (op->def->flags & PD_OP_UPDATES);
        int reach = !stops && side_has(p, op, 0, pd_backward_reaches);
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++) {
                const char *name = op->out.at[s].args.at[k];
                if (strcmp(name, PD_EMPTY_VAR) == 0) continue;
                PD_TRY(mark_flags(p, name));
                struct pd_backward_node *n = pd_backward_node(p, name);
                if (!n || !pd_map_add(produced, name)) return pd_no_memory();
                if (!pd_vec_push(&p->reaches, ((struct pd_backward_reach){i, n->reachable, n})))
                    return pd_no_memory();
                n->reachable = reach || n->wanted || (updates && n->reachable);
            }
    }
    return PD_OK;
}

/* Back to what was reachable before op i. */
static void reach_before(struct pd_backward *p, int i)
{
    while (p->reaches.n && p->reaches.at[p->reaches.n - 1].op == i) {
        const struct pd_backward_reach *r = &p->reaches.at[--p->reaches.n];
        r->node->reachable = r->was;
    }
}

/* Walks backward from the targets and marks what they depend on; on_path[i] tells whether op i does. */
static pd_status mark_path(struct pd_backward *p, char *on_path)
{
    for (int i = p->forward_ops - 1; i >= 0; i--) {
        const struct pd_opdesc *op = p->spec->block->ops.at[i];
        if (!side_has(p, op, 1, node_needed)) continue;
        on_path[i] = 1;
        /* What the op overwrites is needed by those before it only. */
        for (int s = 0; s < op->out.n && !(op->def && (op->def->flags & PD_OP_UPDATES)); s++)
            for (int k = 0; k < op->out.at[s].args.n; k++) {
                struct pd_backward_node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
                if (n) n->needed = 0;
            }
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                struct pd_backward_node *n = pd_map_get(&p->nodes, op->in.at[s].args.at[k]);
                if (n) n->needed = 1;
            }
    }
    return PD_OK;
}

/* ---- the pass ---- */

static void pass_free(struct pd_backward *p)
{
    pd_map_each(&p->nodes, e) {
        struct pd_backward_node *n = e->value;
        pd_vec_free(&n->parts);
        pd_free(n);
    }
    pd_map_free(&p->nodes);
    pd_map_free(&p->before);
    pd_vec_free(&p->copies);
    pd_vec_free(&p->reaches);
    pd_backward_free_writers(p);
}

/* The gradient that a target starts with. */
static pd_status seed_target(struct pd_backward *p, int i)
{
    const char *target = p->spec->targets[i],
               *given = p->spec->target_grads ? p->spec->target_grads[i] : NULL;
    struct pd_backward_node *n = pd_backward_node(p, target);
    const struct pd_var *var = pd_block_find(p->spec->block, target);
    struct pd_opdesc *op;
    if (!n) return pd_no_memory();
    PD_TRY(pd_backward_name(p, n));
    /* Other targets may depend on this one: what comes from them is added. */
    n->carried = 1;
    if (p->nested) { /* who runs the block fills it */
        struct pd_var *local = pd_block_var(p->into, n->grad);
        struct pd_meta then = pd_backward_meta(p, var, p->forward_ops);
        local->meta.kind = then.kind;
        pd_meta_like(&local->meta, &then);
        n->filled = 1;
        return PD_OK;
    }
    if (given) {
        PD_TRY(pd_backward_op(p, "assign", 1, &given, n->grad, &op));
        pd_status status = pd_opdesc_set_args(op, 0, "Like", 1, &target);
        if (status != PD_OK) {
            pd_opdesc_free(op);
            return status;
        }
        PD_TRY(pd_backward_insert(p, op));
        n->filled = 1;
        return PD_OK;
    }
    if (p->spec->loss) {
        PD_TRY(pd_opdesc_new(p->program, "fill_constant", &op));
        pd_status status = pd_opdesc_set_args(op, 1, "Out", 1, &n->grad);
        int64_t one[1] = {1};
        if (status == PD_OK)
            status = pd_opdesc_set_attr(op, "shape",
                                        &(struct pd_attr){.type = PD_ATTR_LONGS, .n = 1, .longs = one}, 0);
        if (status == PD_OK)
            status = pd_opdesc_set_attr(op, "value", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = 1}, 0);
        if (status == PD_OK) status = pd_opdesc_set_int(op, "dtype", (int)var->meta.dtype);
        if (status != PD_OK) {
            pd_opdesc_free(op);
            return status;
        }
        p->role = PD_ROLE_BACKWARD | PD_ROLE_LOSS;
        status = pd_backward_insert(p, op);
        p->role = PD_ROLE_BACKWARD;
        PD_TRY(status);
    } else {
        PD_TRY(pd_backward_op(p, "fill_any_like", 1, &target, n->grad, &op));
        pd_opdesc_set_attr(op, "value", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = 1}, 0);
        PD_TRY(pd_backward_insert(p, op));
    }
    n->filled = 1;
    return PD_OK;
}

static pd_status prepare(struct pd_backward *p)
{
    const struct pd_backward_spec *spec = p->spec;
    for (int i = 0; i < p->into->vars.n; i++)
        if (!pd_map_add(&p->before, p->into->vars.at[i]->name)) return pd_no_memory();
    for (int i = 0; i < spec->n_no_grad; i++) {
        struct pd_backward_node *n = pd_backward_node(p, spec->no_grad[i]);
        if (!n) return pd_no_memory();
        n->blocked = 1;
    }
    for (int i = 0; i < spec->n_wanted; i++) {
        struct pd_backward_node *n = pd_backward_node(p, spec->wanted[i]);
        if (!n) return pd_no_memory();
        if (!n->blocked) n->wanted = n->reachable = 1;
    }
    for (int i = 0; i < spec->n_targets; i++) {
        struct pd_backward_node *n = pd_backward_node(p, spec->targets[i]);
        if (!n) return pd_no_memory();
        n->needed = 1;
        /* What a block may leave as it was has its gradient from around the block. */
        if (p->nested && !n->blocked) n->reachable = 1;
    }
    return PD_OK;
}

/* The block runs again for the step before: where a step's result does not depend on what the variable held,
 * that step gets zeros. */
static pd_status zero_targets(struct pd_backward *p)
{
    for (int i = 0; i < p->spec->n_targets; i++) {
        struct pd_backward_node *n = pd_backward_node(p, p->spec->targets[i]);
        const struct pd_var *var = pd_block_find(p->spec->block, p->spec->targets[i]);
        const char *like;
        struct pd_opdesc *op;
        if (!n) return pd_no_memory();
        PD_TRY(pd_backward_complete(p, n));
        if (n->filled || var->meta.kind != PD_KIND_TENSOR) continue;
        PD_TRY(pd_backward_version(p, n->var, 0, &like));
        PD_TRY(pd_backward_op(p, "fill_zeros_like", 1, &like, n->grad, &op));
        PD_TRY(pd_backward_insert(p, op));
        n->filled = 1;
    }
    return PD_OK;
}

/* The op that makes a variable which was asked for and has stop_gradient: whoever asks for that one alone
 * gets its gradient, and others get what they would without it. */
static pd_status end_at_stopped(struct pd_backward *p, const struct pd_opdesc *op)
{
    for (int s = 0; s < op->out.n && !p->nested; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++) {
            struct pd_backward_node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
            if (!n || !n->stops || !node_has_grad(n)) continue;
            PD_TRY(pd_backward_complete(p, n));
            n->met = n->blocked = 1;
            n->parts.n = n->filled = n->carried = 0;
        }
    return PD_OK;
}

static pd_status run_pass(struct pd_backward *p, char *on_path, const char **grads)
{
    const struct pd_backward_spec *spec = p->spec;
    struct pd_map produced = {0};
    PD_TRY(pd_backward_find_writers(p));
    PD_TRY(prepare(p));
    pd_status status = mark_reachable(p, &produced);
    pd_map_free(&produced);
    PD_TRY(status);
    PD_TRY(mark_path(p, on_path));
    for (int i = 0; i < spec->n_targets; i++)
        PD_TRY(seed_target(p, i));
    for (int i = p->forward_ops - 1; i >= 0; i--) {
        struct pd_opdesc *op = spec->block->ops.at[i];
        p->at = i;
        /* A loop reads what its steps before wrote. */
        int updates = op->def && (op->def->flags & PD_OP_UPDATES);
        if (!updates) reach_before(p, i);
        /* What an op overwrites in part, or not in each run, has a gradient in the rest only, whatever the op
         * reads. */
        int may_stop = updates && side_has(p, op, 1, pd_backward_reaches);
        PD_TRY(end_at_stopped(p, op));
        if (on_path[i] && side_has(p, op, 1, node_has_grad) &&
            (may_stop || side_has(p, op, 0, pd_backward_reaches)))
            PD_TRY(pd_backward_differentiate(p, op));
        else
            PD_TRY(pd_backward_pass_over(p, op));
        reach_before(p, i);
    }
    p->at = -1;
    if (spec->loops) PD_TRY(zero_targets(p));
    for (int i = 0; i < spec->n_wanted; i++) {
        struct pd_backward_node *n = pd_map_get(&p->nodes, spec->wanted[i]);
        grads[i] = NULL;
        if (!n) continue;
        PD_TRY(pd_backward_complete(p, n));
        if (n->filled || (n->met && !p->nested)) grads[i] = n->grad;
    }
    return pd_backward_insert_copies(p);
}

pd_status pd_pass_backward(const struct pd_backward_spec *spec, const char **grads)
{
    struct pd_backward p = {.spec = spec,
                            .into = spec->into ? spec->into : spec->block,
                            .nested = spec->into != NULL,
                            .program = spec->block->program,
                            .forward_ops = spec->block->ops.n,
                            .at = -1,
                            .role = PD_ROLE_BACKWARD};
    for (int i = 0; i < spec->n_targets; i++) {
        const struct pd_var *var = pd_block_find(spec->block, spec->targets[i]);
        if (!var)
            return pd_fail(PD_NOT_FOUND, "cannot differentiate '%s': the Program has no such variable",
                           spec->targets[i]);
        if (!pd_backward_allows(var))
            return pd_fail(PD_TYPE, "cannot differentiate '%s' of type %s: gradients need float32 or float64",
                           var->name, pd_dtype_name(var->meta.dtype));
        int64_t numel = pd_meta_numel(&var->meta);
        if (spec->loss && numel != 1)
            return pd_fail(PD_SHAPE,
                           "the loss '%s' has shape %s; it must have one element: take layers.mean of it",
                           var->name, pd_meta_dims_text(&var->meta));
    }
    char *on_path = pd_calloc((size_t)p.forward_ops + 1, 1);
    if (!on_path) return pd_no_memory();
    pd_status status = run_pass(&p, on_path, grads);
    pd_free(on_path);
    pass_free(&p);
    return status;
}
