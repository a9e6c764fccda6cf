/* Reverse-mode differentiation of a block.
 *
 * First a walk forward finds the variables that a gradient can reach, then a walk backward asks each op on the way for its
 * gradient ops. A variable that is read several times gets several contributions; they are written under names of their
 * own and added up when the gradient is needed: before its producer's gradient ops, or at the end for leaves. */
#include <stdio.h>
#include <string.h>

#include "passes/passes.h"
#include "program/grad.h"

/* One gradient op's output that adds to a variable's gradient. */
struct part {
    struct pd_opdesc *op;
    int slot, arg;
};

/* What is known of one forward variable. */
struct node {
    const char *var, *grad; /* grad: canonical name, made when first asked for */
    int reachable;          /* a gradient makes sense: leads to a leaf that wants one */
    int needed;             /* the targets depend on it */
    int blocked;            /* stop_gradient or in the no-grad set */
    int wanted;
    int filled; /* its gradient is complete and has been written */
    PD_VEC(struct part) parts;
};

struct pass {
    const struct pd_backward_spec *spec;
    struct pd_block *into;
    int nested; /* into another block */
    struct pd_program *program;
    struct pd_map nodes; /* name -> struct node */
    struct pd_map before; /* names that the block had before the pass, for unique gradient names */
    int forward_ops;
    int role;
};

static struct node *node_of(struct pass *p, const char *var)
{
    struct node *n = pd_map_get(&p->nodes, var);
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

static void pass_free(struct pass *p)
{
    pd_map_each(&p->nodes, e)
    {
        struct node *n = e->value;
        pd_vec_free(&n->parts);
        pd_free(n);
    }
    pd_map_free(&p->nodes);
    pd_map_free(&p->before);
}

/* var@GRAD, or var@GRAD_0, var@GRAD_1, ... when an earlier pass took that name. */
static pd_status grad_name(struct pass *p, struct node *n)
{
    if (n->grad) return PD_OK;
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, n->var);
    size_t base = name.n;
    for (int i = 0; !name.failed && pd_map_key(&p->before, name.at); i++) {
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

/* ---- which variables a gradient can reach ---- */

static int is_differentiable(const struct pd_var *var)
{
    return !var || pd_dtype_is_float(var->meta.dtype) || var->meta.dtype == PD_DTYPE_FP16 || var->meta.dtype == PD_DTYPE_NONE ||
           var->meta.kind == PD_KIND_TENSOR_ARRAY;
}

static pd_status mark_flags(struct pass *p, const char *name)
{
    struct node *n = node_of(p, name);
    if (!n) return pd_no_memory();
    const struct pd_var *var = pd_block_find(p->spec->block, name);
    if (n->wanted) return PD_OK;
    if (var && ((var->flags & PD_VAR_STOP_GRADIENT) || !is_differentiable(var))) n->blocked = 1;
    return PD_OK;
}

static int side_has(const struct pass *p, const struct pd_opdesc *op, int is_output, int (*test)(const struct node *))
{
    const struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < at[i].args.n; k++) {
            const struct node *node = pd_map_get(&p->nodes, at[i].args.at[k]);
            if (node && test(node)) return 1;
        }
    return 0;
}

static int node_reachable(const struct node *n) { return n->reachable && !n->blocked; }
static int node_needed(const struct node *n) { return n->needed; }
static int node_has_grad(const struct node *n) { return n->parts.n > 0 || n->filled; }

/* Walks forward: leaves are reachable unless blocked; an op's outputs are when one of its inputs is. */
static pd_status mark_reachable(struct pass *p, struct pd_map *produced)
{
    struct pd_block *block = p->spec->block;
    for (int i = 0; i < p->forward_ops; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                const char *name = op->in.at[s].args.at[k];
                if (strcmp(name, PD_EMPTY_VAR) == 0) continue;
                PD_TRY(mark_flags(p, name));
                struct node *n = node_of(p, name);
                if (!n) return pd_no_memory();
                if (!pd_map_key(produced, name) && !n->blocked) n->reachable = 1;
            }
        int stops = op->def && (op->def->flags & PD_OP_NO_GRAD);
        int reach = !stops && side_has(p, op, 0, node_reachable);
        for (int s = 0; s < op->out.n; s++)
            for (int k = 0; k < op->out.at[s].args.n; k++) {
                const char *name = op->out.at[s].args.at[k];
                if (strcmp(name, PD_EMPTY_VAR) == 0) continue;
                PD_TRY(mark_flags(p, name));
                struct node *n = node_of(p, name);
                if (!n || !pd_map_set(produced, name, NULL)) return pd_no_memory();
                n->reachable = reach || n->wanted;
            }
    }
    return PD_OK;
}

/* Walks backward from the targets and marks what they depend on; on_path[i] tells whether op i does. */
static pd_status mark_path(struct pass *p, char *on_path)
{
    for (int i = p->forward_ops - 1; i >= 0; i--) {
        const struct pd_opdesc *op = p->spec->block->ops.at[i];
        if (!side_has(p, op, 1, node_needed)) continue;
        on_path[i] = 1;
        for (int s = 0; s < op->in.n; s++)
            for (int k = 0; k < op->in.at[s].args.n; k++) {
                struct node *n = pd_map_get(&p->nodes, op->in.at[s].args.at[k]);
                if (n) n->needed = 1;
            }
    }
    return PD_OK;
}

/* ---- emitting ---- */

static pd_status insert(struct pass *p, struct pd_opdesc *op)
{
    pd_status status = pd_opdesc_set_int(op, "op_role", p->role);
    if (status == PD_OK) status = pd_block_insert(p->into, -1, op, 1);
    if (status != PD_OK) pd_opdesc_free(op);
    return status;
}

static pd_status simple_op(struct pass *p, const char *type, int n, const char *const *in, const char *out, struct pd_opdesc **made)
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

static const struct pd_clip_spec *clip_of(const struct pass *p, const char *var)
{
    for (int i = 0; i < p->spec->n_clips; i++)
        if (strcmp(p->spec->clips[i].var, var) == 0) return &p->spec->clips[i];
    return NULL;
}

/* Adds up the contributions, so that the canonical gradient holds the whole; then the error clip, if any. */
static pd_status complete(struct pass *p, struct node *n)
{
    struct pd_opdesc *op;
    if (n->filled || n->parts.n == 0) return PD_OK;
    if (n->parts.n > 1) {
        const char **names = pd_calloc((size_t)n->parts.n, sizeof *names);
        if (!names) return pd_no_memory();
        for (int i = 0; i < n->parts.n; i++)
            names[i] = n->parts.at[i].op->out.at[n->parts.at[i].slot].args.at[n->parts.at[i].arg];
        pd_status status = simple_op(p, "sum", n->parts.n, names, n->grad, &op);
        pd_free(names);
        PD_TRY(status);
        PD_TRY(insert(p, op));
    }
    const struct pd_clip_spec *clip = clip_of(p, n->var);
    if (clip) {
        PD_TRY(simple_op(p, "clip", 1, &n->grad, n->grad, &op));
        pd_opdesc_set_attr(op, "min", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = clip->min}, 0);
        pd_opdesc_set_attr(op, "max", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = clip->max}, 0);
        PD_TRY(insert(p, op));
    }
    n->filled = 1;
    return PD_OK;
}

static pd_status rename_part(struct pass *p, struct node *n, int i)
{
    struct part *part = &n->parts.at[i];
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s@RENAME@block%d@%d", n->grad, p->into->index, i);
    const char *kept = name.failed ? NULL : pd_program_text(p->program, name.at);
    pd_buf_free(&name);
    if (!kept) return pd_no_memory();
    struct pd_block *block = p->into;
    struct pd_var *old = pd_block_var(block, n->grad), *fresh;
    int existed;
    /* An op that is in the block already has inferred its output: the new variable takes that over. */
    PD_TRY(pd_var_new(block, kept, old ? old->meta.kind : PD_KIND_TENSOR, &fresh, &existed));
    if (old && part->op->block) {
        struct pd_lod *lod = fresh->meta.lod;
        fresh->meta = old->meta;
        fresh->meta.lod = lod;
    }
    part->op->out.at[part->slot].args.at[part->arg] = kept;
    p->program->version++;
    return PD_OK;
}

/* Takes note of the gradients that the op writes, and gives repeated ones names of their own. */
static pd_status note_outputs(struct pass *p, struct pd_opdesc *op, const struct pd_opdesc *forward)
{
    for (int s = 0; s < forward->in.n; s++)
        for (int k = 0; k < forward->in.at[s].args.n; k++) {
            struct node *n = pd_map_get(&p->nodes, forward->in.at[s].args.at[k]);
            if (!n || !n->grad) continue;
            for (int o = 0; o < op->out.n; o++)
                for (int a = 0; a < op->out.at[o].args.n; a++) {
                    if (op->out.at[o].args.at[a] != n->grad) continue;
                    if (!pd_vec_push(&n->parts, ((struct part){op, o, a}))) return pd_no_memory();
                    n->filled = 0;
                    if (n->parts.n == 2) PD_TRY(rename_part(p, n, 0));
                    if (n->parts.n >= 2) PD_TRY(rename_part(p, n, n->parts.n - 1));
                }
        }
    return PD_OK;
}

static pd_status maker_emit(struct pd_grad_maker *g, struct pd_opdesc *op)
{
    struct pass *p = g->backward;
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
    return insert(p, op);
}

static pd_status maker_output(struct pd_grad_maker *g, const char *var, const char **name)
{
    struct pass *p = g->backward;
    struct node *n = node_of(p, var);
    if (!n) return pd_no_memory();
    PD_TRY(grad_name(p, n));
    if (!n->filled) {
        struct pd_opdesc *zeros;
        PD_TRY(simple_op(p, "fill_zeros_like", 1, &var, n->grad, &zeros));
        PD_TRY(insert(p, zeros));
        n->filled = 1;
    }
    *name = n->grad;
    return PD_OK;
}

static pd_status maker_input(struct pd_grad_maker *g, const char *var, const char **name)
{
    struct pass *p = g->backward;
    struct node *n = node_of(p, var);
    if (!n) return pd_no_memory();
    if (!node_reachable(n) || !is_differentiable(pd_block_find(p->spec->block, var))) {
        *name = PD_EMPTY_VAR;
        return PD_OK;
    }
    PD_TRY(grad_name(p, n));
    *name = n->grad;
    return PD_OK;
}

/* Variables from around a block that it reads and whose gradient nobody wants. */
static pd_status unwanted_reads(const struct pd_block *block, int n_wanted, const char *const *wanted, struct pd_map *out)
{
    for (int i = 0; i < block->ops.n; i++)
        for (int s = 0; s < block->ops.at[i]->in.n; s++)
            for (int k = 0; k < block->ops.at[i]->in.at[s].args.n; k++) {
                const char *name = block->ops.at[i]->in.at[s].args.at[k];
                int known = pd_block_var(block, name) != NULL;
                for (int w = 0; w < n_wanted && !known; w++)
                    known = strcmp(wanted[w], name) == 0;
                if (!known && !pd_map_set(out, name, NULL)) return pd_no_memory();
            }
    return PD_OK;
}

static pd_status maker_block(struct pd_grad_maker *g, int forward, int n_targets, const char *const *targets,
                             const char *const *target_grads, int n_wanted, const char *const *wanted, const char **grads,
                             int *grad_block)
{
    struct pass *p = g->backward;
    struct pd_block *block = pd_program_block(p->program, forward), *into;
    struct pd_map unwanted = {0};
    if (!block) return pd_fail(PD_RANGE, "op '%s' names block %d, which is not there", g->op->type, forward);
    PD_TRY(pd_block_new(p->program, p->into->index, &into));
    into->forward = forward;
    PD_TRY(unwanted_reads(block, n_wanted, wanted, &unwanted));
    const char **no_grad = pd_calloc(unwanted.n, sizeof *no_grad);
    int n = 0;
    pd_map_each(&unwanted, e) if (no_grad) no_grad[n++] = e->key;
    struct pd_backward_spec spec = {.block = block, .into = into, .n_targets = n_targets, .targets = targets, .target_grads = target_grads,
                                    .n_wanted = n_wanted, .wanted = wanted, .n_no_grad = n, .no_grad = no_grad,
                                    .n_clips = p->spec->n_clips, .clips = p->spec->clips};
    pd_status status = no_grad ? pd_pass_backward(&spec, grads) : pd_no_memory();
    pd_free(no_grad);
    pd_map_free(&unwanted);
    *grad_block = into->index;
    return status;
}

/* The gradient ops of one forward op. */
static pd_status differentiate(struct pass *p, struct pd_opdesc *op)
{
    if (!op->def) return pd_fail(PD_NOT_FOUND, "there is no op '%s', so it has no gradient", op->type);
    if (op->def->flags & PD_OP_NO_GRAD) return PD_OK;
    if (!op->def->grad_type && !op->def->make_grad) {
        pd_fail(PD_UNSUPPORTED, "op '%s' has no gradient; set stop_gradient on its inputs or leave it out of the loss", op->type);
        pd_opdesc_blame(op, p->spec->block);
        return PD_UNSUPPORTED;
    }
    for (int s = 0; s < op->out.n; s++)
        for (int k = 0; k < op->out.at[s].args.n; k++) {
            struct node *n = pd_map_get(&p->nodes, op->out.at[s].args.at[k]);
            if (!n) continue;
            PD_TRY(complete(p, n));
            /* From here on the name stands for the value before this op, should the op write in place. */
            n->parts.n = 0;
        }
    struct pd_grad_maker g = {.op = op, .block = p->into, .program = p->program, .backward = p, .grad_of_output = maker_output,
                              .grad_of_input = maker_input, .emit = maker_emit, .block_grad = maker_block};
    if (op->def->make_grad) return op->def->make_grad(&g);
    struct pd_opdesc *grad;
    PD_TRY(pd_grad_from_table(&g, op->def->grad_type, op->def->grad_in, op->def->grad_out, &grad));
    return maker_emit(&g, grad);
}

/* ---- the table form ---- */

/* One word of a table: [SLOT=]NAME[@]. Adds the slot to the gradient op. */
static pd_status table_word(struct pd_grad_maker *g, struct pd_opdesc *grad, int is_output, const char *word, size_t length)
{
    char slot[128], name[96];
    const char *equals = memchr(word, '=', length);
    const char *from = equals ? equals + 1 : word;
    size_t n = length - (size_t)(from - word);
    int is_grad = n > 0 && from[n - 1] == '@';
    snprintf(name, sizeof name, "%.*s", (int)(n - (size_t)is_grad), from);
    if (equals)
        snprintf(slot, sizeof slot, "%.*s", (int)(equals - word), word);
    else
        snprintf(slot, sizeof slot, "%s%s", name, is_grad ? PD_GRAD_SUFFIX : "");
    int forward_output = pd_slot_index(g->op->def->inputs, name) < 0;
    const struct pd_io *io = pd_opdesc_slot(g->op, forward_output, name);
    PD_TRY(pd_opdesc_add_arg(grad, is_output, slot, NULL));
    for (int i = 0; io && i < io->args.n; i++) {
        const char *arg = io->args.at[i];
        if (is_grad && forward_output)
            PD_TRY(g->grad_of_output(g, arg, &arg));
        else if (is_grad)
            PD_TRY(g->grad_of_input(g, arg, &arg));
        PD_TRY(pd_opdesc_add_arg(grad, is_output, slot, arg));
    }
    return PD_OK;
}

static pd_status table_side(struct pd_grad_maker *g, struct pd_opdesc *grad, int is_output, const char *words)
{
    while (words && *words) {
        size_t n = strcspn(words, " ");
        if (n) PD_TRY(table_word(g, grad, is_output, words, n));
        words += n + (words[n] == ' ');
    }
    return PD_OK;
}

pd_status pd_grad_from_table(struct pd_grad_maker *g, const char *type, const char *in, const char *out, struct pd_opdesc **op)
{
    struct pd_opdesc *grad;
    PD_TRY(pd_opdesc_new(g->program, type, &grad));
    pd_status status = table_side(g, grad, 0, in);
    if (status == PD_OK) status = table_side(g, grad, 1, out);
    for (int i = 0; i < g->op->attrs.n && status == PD_OK; i++)
        status = pd_opdesc_set_attr(grad, g->op->attrs.at[i].name, &g->op->attrs.at[i].value, 0);
    pd_opdesc_remove_attr(grad, "op_role_var");
    if (status != PD_OK) {
        pd_opdesc_free(grad);
        return status;
    }
    *op = grad;
    return PD_OK;
}

/* ---- the pass ---- */

/* The gradient that a target starts with. */
static pd_status seed_target(struct pass *p, int i)
{
    const char *target = p->spec->targets[i], *given = p->spec->target_grads ? p->spec->target_grads[i] : NULL;
    struct node *n = node_of(p, target);
    const struct pd_var *var = pd_block_find(p->spec->block, target);
    struct pd_opdesc *op;
    if (!n) return pd_no_memory();
    if (p->nested) {
        n->grad = given;
        n->filled = 1;
        return PD_OK;
    }
    PD_TRY(grad_name(p, n));
    if (given) {
        PD_TRY(simple_op(p, "assign", 1, &given, n->grad, &op));
        PD_TRY(insert(p, op));
        n->filled = 1;
        return PD_OK;
    }
    if (p->spec->loss) {
        PD_TRY(pd_opdesc_new(p->program, "fill_constant", &op));
        pd_status status = pd_opdesc_set_args(op, 1, "Out", 1, &n->grad);
        int64_t one[1] = {1};
        if (status == PD_OK) status = pd_opdesc_set_attr(op, "shape", &(struct pd_attr){.type = PD_ATTR_LONGS, .n = 1, .longs = one}, 0);
        if (status == PD_OK) status = pd_opdesc_set_attr(op, "value", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = 1}, 0);
        if (status == PD_OK) status = pd_opdesc_set_int(op, "dtype", (int)var->meta.dtype);
        if (status != PD_OK) {
            pd_opdesc_free(op);
            return status;
        }
        p->role = PD_ROLE_BACKWARD | PD_ROLE_LOSS;
        status = insert(p, op);
        p->role = PD_ROLE_BACKWARD;
        PD_TRY(status);
    } else {
        PD_TRY(simple_op(p, "fill_any_like", 1, &target, n->grad, &op));
        pd_opdesc_set_attr(op, "value", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = 1}, 0);
        PD_TRY(insert(p, op));
    }
    n->filled = 1;
    return PD_OK;
}

static pd_status prepare(struct pass *p)
{
    const struct pd_backward_spec *spec = p->spec;
    for (int i = 0; i < p->into->vars.n; i++)
        if (!pd_map_set(&p->before, p->into->vars.at[i]->name, NULL)) return pd_no_memory();
    for (int i = 0; i < spec->n_no_grad; i++) {
        struct node *n = node_of(p, spec->no_grad[i]);
        if (!n) return pd_no_memory();
        n->blocked = 1;
    }
    for (int i = 0; i < spec->n_wanted; i++) {
        struct node *n = node_of(p, spec->wanted[i]);
        if (!n) return pd_no_memory();
        if (!n->blocked) n->wanted = n->reachable = 1;
    }
    for (int i = 0; i < spec->n_targets; i++) {
        struct node *n = node_of(p, spec->targets[i]);
        if (!n) return pd_no_memory();
        n->needed = 1;
    }
    return PD_OK;
}

static pd_status run_pass(struct pass *p, char *on_path, const char **grads)
{
    const struct pd_backward_spec *spec = p->spec;
    struct pd_map produced = {0};
    PD_TRY(prepare(p));
    pd_status status = mark_reachable(p, &produced);
    pd_map_free(&produced);
    PD_TRY(status);
    PD_TRY(mark_path(p, on_path));
    for (int i = 0; i < spec->n_targets; i++)
        PD_TRY(seed_target(p, i));
    for (int i = p->forward_ops - 1; i >= 0; i--) {
        struct pd_opdesc *op = spec->block->ops.at[i];
        if (on_path[i] && side_has(p, op, 1, node_has_grad) && side_has(p, op, 0, node_reachable)) PD_TRY(differentiate(p, op));
    }
    for (int i = 0; i < spec->n_wanted; i++) {
        struct node *n = pd_map_get(&p->nodes, spec->wanted[i]);
        grads[i] = NULL;
        if (!n) continue;
        PD_TRY(complete(p, n));
        if (n->filled) grads[i] = n->grad;
    }
    return PD_OK;
}

pd_status pd_pass_backward(const struct pd_backward_spec *spec, const char **grads)
{
    struct pass p = {.spec = spec, .into = spec->into ? spec->into : spec->block, .nested = spec->into != NULL,
                     .program = spec->block->program, .forward_ops = spec->block->ops.n, .role = PD_ROLE_BACKWARD};
    for (int i = 0; i < spec->n_targets; i++) {
        const struct pd_var *var = pd_block_find(spec->block, spec->targets[i]);
        if (!var) return pd_fail(PD_NOT_FOUND, "cannot differentiate '%s': the Program has no such variable", spec->targets[i]);
        if (!is_differentiable(var))
            return pd_fail(PD_TYPE, "cannot differentiate '%s' of type %s: gradients need float32 or float64", var->name, pd_dtype_name(var->meta.dtype));
        int64_t numel = pd_meta_numel(&var->meta);
        if (spec->loss && numel != 1)
            return pd_fail(PD_SHAPE, "the loss '%s' has shape %s; it must have one element: take layers.mean of it", var->name, pd_meta_dims_text(&var->meta));
    }
    char *on_path = pd_calloc((size_t)p.forward_ops + 1, 1);
    if (!on_path) return pd_no_memory();
    pd_status status = run_pass(&p, on_path, grads);
    pd_free(on_path);
    pass_free(&p);
    return status;
}
