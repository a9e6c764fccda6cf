/* Gradients of ops that run a block: the gradient op with its block, and how gradients get in and out of it.
 *
 * Inside the gradient block every gradient is a local variable named after its forward variable. The gradient
 * op fills those of the block's results before a run and takes those of its inputs after it. Which name
 * belongs to which of the op's own variables stands in attributes (original_output_grad, original_input,
 * original_output), as the op's variables may be renamed. */
#include <string.h>

#include "ops/control_flow.h"

static int is_hole(const char *name)
{
    return strcmp(name, PD_EMPTY_VAR) == 0;
}

static int find_name(int n, const char *const *names, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

static pd_status grad_name(struct pd_program *p, const char *var, const char **out)
{
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, var);
    *out = name.failed ? NULL : pd_program_text(p, name.at);
    pd_buf_free(&name);
    return *out ? PD_OK : pd_no_memory();
}

struct lists {
    int n_in, n_out, n_targets, n_wanted, n_left;
    const char *const *in, *const *out; /* of the forward op */
    const char **in_grads;              /* by input: where its gradient goes, or a hole */
    const char **targets, **target_grads,
        **inner; /* results, their gradients around the block and inside it */
    const char **wanted, **wanted_inner;
    const char **left;    /* gradients of results whose old value the block may leave, */
    const char **left_of; /* and those results */
    const char *
        *through; /* by these: the result, where only blocks inside write it and may leave it too; else "" */
};

/* Is the variable written in this block only by ops that may leave it as it was? */
static int may_stay(const struct pd_block *block, const char *var)
{
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_opdesc *op = block->ops.at[i];
        if (pd_opdesc_names(op, 1, var) && !(op->def && (op->def->flags & PD_OP_UPDATES))) return 0;
    }
    return 1;
}

static void add_left(const struct pd_grad_maker *g, struct lists *l, const char *var, const char *grad)
{
    const struct pd_block *block = pd_program_block(g->program, pd_opdesc_attr(g->op, "sub_block")->block);
    l->through[l->n_left] = block && may_stay(block, var) ? var : "";
    l->left_of[l->n_left] = var;
    l->left[l->n_left++] = grad;
}

static pd_status choose(struct pd_grad_maker *g, struct lists *l)
{
    for (int i = 0; i < l->n_in; i++) {
        PD_TRY(g->grad_of_input(g, l->in[i], &l->in_grads[i]));
        if (!is_hole(l->in_grads[i])) l->wanted[l->n_wanted++] = l->in[i];
    }
    for (int i = 0; i < l->n_out; i++) {
        const char *var = l->out[i], *grad = PD_EMPTY_VAR;
        int came = g->has_grad(g, var), carried = find_name(l->n_wanted, l->wanted, var) >= 0;
        if (!came && !carried) continue;
        if (came) PD_TRY(g->grad_of_output(g, var, &grad));
        if (came && !carried && g->lives_before(g, var)) add_left(g, l, var, grad);
        PD_TRY(grad_name(g->program, var, &l->inner[l->n_targets]));
        l->target_grads[l->n_targets] = grad;
        l->targets[l->n_targets++] = var;
    }
    return PD_OK;
}

static pd_status set_slot(struct pd_opdesc *op, int is_output, const char *slot, const char *suffix, int n,
                          const char *const *vars)
{
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s%s", slot, suffix);
    pd_status status = name.failed ? pd_no_memory() : pd_opdesc_set_args(op, is_output, name.at, n, vars);
    pd_buf_free(&name);
    return status;
}

static pd_status build(struct pd_grad_maker *g, const struct pd_block_grad *how, struct lists *l,
                       struct pd_opdesc *op)
{
    int block;
    PD_TRY(choose(g, l));
    PD_TRY(g->block_grad(g, pd_opdesc_attr(g->op, "sub_block")->block, how->loops, l->n_targets, l->targets,
                         l->n_wanted, l->wanted, l->wanted_inner, &block));
    for (int i = 0; i < l->n_wanted; i++) {
        if (l->wanted_inner[i]) continue;
        l->in_grads[find_name(l->n_in, l->in, l->wanted[i])] = PD_EMPTY_VAR;
        /* It is read, but nothing depends on that: as if it were only overwritten. */
        int target = find_name(l->n_targets, l->targets, l->wanted[i]);
        if (target >= 0 && !is_hole(l->target_grads[target]) && g->lives_before(g, l->wanted[i]))
            add_left(g, l, l->wanted[i], l->target_grads[target]);
    }
    const char *steps = pd_opdesc_arg(g->op, 1, how->steps);
    if (!steps)
        return pd_fail(
            PD_INVALID,
            "op '%s' has no variable in its slot '%s'; its gradient needs what the block leaves there",
            g->op->type, how->steps);
    PD_TRY(set_slot(op, 0, how->in, "", l->n_in, l->in));
    PD_TRY(set_slot(op, 0, how->out, "", l->n_out, l->out));
    PD_TRY(set_slot(op, 0, how->out, PD_GRAD_SUFFIX, l->n_targets, l->target_grads));
    PD_TRY(set_slot(op, 0, how->steps, "", 1, &steps));
    PD_TRY(set_slot(op, 1, how->in, PD_GRAD_SUFFIX, l->n_in, l->in_grads));
    if (l->n_left) PD_TRY(set_slot(op, 1, how->out, PD_GRAD_SUFFIX, l->n_left, l->left));
    PD_TRY(pd_opdesc_set_strings(op, PD_GIVEN_ATTR, l->n_targets, l->inner));
    PD_TRY(pd_opdesc_set_strings(op, "original_input", l->n_in, l->in));
    PD_TRY(pd_opdesc_set_strings(op, "original_output", l->n_out, l->out));
    PD_TRY(pd_opdesc_set_strings(op, "left_through", l->n_left, l->through));
    PD_TRY(pd_opdesc_set_strings(op, "left_of", l->n_left, l->left_of));
    return pd_opdesc_set_attr(op, "sub_block", &(struct pd_attr){.type = PD_ATTR_BLOCK, .block = block}, 0);
}

pd_status pd_block_grad_make(struct pd_grad_maker *g, const struct pd_block_grad *how,
                             struct pd_opdesc **made)
{
    const struct pd_io *in = pd_opdesc_slot(g->op, 0, how->in), *out = pd_opdesc_slot(g->op, 1, how->out);
    size_t n_in = in ? (size_t)in->args.n : 0, n_out = out ? (size_t)out->args.n : 0;
    const char **names = pd_calloc(3 * n_in + 6 * n_out, sizeof *names), **next = names;
    if (!names) return pd_no_memory();
    struct lists l = {.n_in = (int)n_in,
                      .n_out = (int)n_out,
                      .in = in ? in->args.at : NULL,
                      .out = out ? out->args.at : NULL};
    const char ***const by_in[] = {&l.in_grads, &l.wanted, &l.wanted_inner},
                        ***const by_out[] = {&l.targets, &l.target_grads, &l.inner,
                                             &l.left,    &l.left_of,      &l.through};
    for (int i = 0; i < 3; i++, next += n_in)
        *by_in[i] = next;
    for (int i = 0; i < 6; i++, next += n_out)
        *by_out[i] = next;
    struct pd_opdesc *op = NULL;
    pd_status status = pd_opdesc_new(g->program, how->type, &op);
    if (status == PD_OK) status = build(g, how, &l, op);
    pd_free(names);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    *made = op;
    return PD_OK;
}

/* Does the block make selected rows of the i-th input's gradient, as a lookup with is_sparse does? */
static pd_status makes_rows(const struct pd_infer *c, int i, int *rows)
{
    const struct pd_block *block = pd_program_block(c->desc->program, c->attr[PD_GRAD_SUB_BLOCK].block);
    const struct pd_io *in = pd_opdesc_slot(c->desc, 0, c->op->inputs[PD_GRAD_IN].name);
    struct pd_buf name = {0};
    *rows = 0;
    if (!block) return PD_OK;
    const struct pd_attr *names = &c->attr[PD_GRAD_IN_NAMES];
    pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, i < (int)names->n ? names->strings[i] : in->args.at[i]);
    if (name.failed) return pd_no_memory();
    const struct pd_var *inner = pd_block_var(block, name.at);
    *rows = inner && inner->meta.kind == PD_KIND_SELECTED_ROWS;
    pd_buf_free(&name);
    return PD_OK;
}

pd_status pd_block_grad_infer(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[PD_GRAD_IN_GRAD].n; i++) {
        struct pd_meta *grad = c->out[PD_GRAD_IN_GRAD].at[i], *like = c->in[PD_GRAD_IN].at[i];
        int rows = 0;
        if (!grad) continue;
        if (like->kind == PD_KIND_TENSOR_ARRAY && !c->running) grad->kind = like->kind;
        if (c->desc) PD_TRY(makes_rows(c, i, &rows));
        if (rows) grad->kind = PD_KIND_SELECTED_ROWS;
        pd_meta_like(grad, like);
    }
    return PD_OK;
}

/* ---- running ---- */

pd_status pd_block_grad_zeros(struct pd_value *to, const struct pd_value *like)
{
    struct pd_tensor *t = &to->tensor;
    if (like->tensor.meta.kind == PD_KIND_TENSOR_ARRAY) {
        pd_value_reset(to, PD_KIND_TENSOR_ARRAY);
        return PD_OK;
    }
    if (t->meta.kind == PD_KIND_SELECTED_ROWS && like->tensor.meta.rank)
        return pd_rows_resize(to, 0, like->tensor.meta.dim[0], like->tensor.meta.dtype,
                              like->tensor.meta.rank, like->tensor.meta.dim);
    if (t->meta.kind != PD_KIND_TENSOR) pd_value_reset(to, PD_KIND_TENSOR);
    /* Never written: it has no size, and no gradient can come from it either. */
    if (like->tensor.meta.dtype == PD_DTYPE_NONE) {
        pd_value_reset(to, PD_KIND_TENSOR);
        return PD_OK;
    }
    PD_TRY(pd_tensor_resize(t, like->tensor.meta.dtype, like->tensor.meta.rank, like->tensor.meta.dim));
    pd_meta_share_lod(&t->meta, &like->tensor.meta);
    memset(t->data, 0, pd_tensor_bytes(t));
    return PD_OK;
}

/* Is this the name of the gradient of `var`? */
static int names_grad(const char *name, const char *var)
{
    size_t n = strlen(var);
    return strncmp(name, var, n) == 0 && strcmp(name + n, PD_GRAD_SUFFIX) == 0;
}

/* The forward op's name of an input (PD_GRAD_IN) or output (PD_GRAD_OUT). Programs of upstream have only the
 * slots. */
static const char *forward_name(const struct pd_run *r, int slot, int i)
{
    const struct pd_attr *names = &r->attr[slot == PD_GRAD_IN ? PD_GRAD_IN_NAMES : PD_GRAD_OUT_NAMES];
    return i < (int)names->n ? names->strings[i] : r->step->name(r, 0, slot, i);
}

static int out_of(const struct pd_run *r, const char *inner)
{
    for (int i = 0; i < r->in[PD_GRAD_OUT].n; i++)
        if (r->in[PD_GRAD_OUT].at[i] && names_grad(inner, forward_name(r, PD_GRAD_OUT, i))) return i;
    return -1;
}

pd_status pd_block_grad_fill(const struct pd_run *r)
{
    const struct pd_attr *inner = &r->attr[PD_GRAD_INNER];
    for (int k = 0; k < (int)inner->n; k++) {
        struct pd_value *to, *from = k < r->in[PD_GRAD_OUT_GRAD].n ? r->in[PD_GRAD_OUT_GRAD].at[k] : NULL;
        PD_TRY(r->step->block_value(r, r->attr[PD_GRAD_SUB_BLOCK].block, inner->strings[k], &to));
        if (!to) continue;
        int out = out_of(r, inner->strings[k]);
        if (from)
            PD_TRY(pd_value_copy(to, from));
        else if (out >= 0)
            PD_TRY(pd_block_grad_zeros(to, r->in[PD_GRAD_OUT].at[out]));
    }
    return PD_OK;
}

/* The gradient block's own gradient of a variable; NULL: it has none. */
static pd_status inner_grad(const struct pd_run *r, const char *var, struct pd_value **value)
{
    struct pd_buf name = {0};
    pd_buf_printf(&name, "%s" PD_GRAD_SUFFIX, var);
    pd_status status = name.failed
                           ? pd_no_memory()
                           : r->step->block_value(r, r->attr[PD_GRAD_SUB_BLOCK].block, name.at, value);
    pd_buf_free(&name);
    return status;
}

pd_status pd_block_grad_inner(const struct pd_run *r, int i, struct pd_value **value)
{
    struct pd_value *inner = NULL;
    PD_TRY(inner_grad(r, forward_name(r, PD_GRAD_IN, i), &inner));
    if (inner) *value = inner;
    return PD_OK;
}

int pd_block_grad_carries(const struct pd_run *r, int i, struct pd_value **grad)
{
    const struct pd_attr *inner = &r->attr[PD_GRAD_INNER];
    const char *var = forward_name(r, PD_GRAD_IN, i);
    for (int k = 0; k < (int)inner->n; k++)
        if (names_grad(inner->strings[k], var)) {
            *grad = k < r->in[PD_GRAD_OUT_GRAD].n ? r->in[PD_GRAD_OUT_GRAD].at[k] : NULL;
            return 1;
        }
    return 0;
}

/* The gradient that came for the i-th result that may stay. It may leave by another name, where several
 * gradients of one variable are added up. Programs that were saved before that was told have one name for
 * both. */
static struct pd_value *came_for(const struct pd_run *r, int i)
{
    const struct pd_attr *inner = &r->attr[PD_GRAD_INNER], *of = &r->attr[PD_GRAD_LEFT_OF];
    const char *name = r->step->name(r, 1, PD_GRAD_LEFT_GRAD, i);
    for (int k = 0; k < r->in[PD_GRAD_OUT_GRAD].n && k < (int)inner->n; k++) {
        int is_it = i < (int)of->n ? names_grad(inner->strings[k], of->strings[i])
                                   : strcmp(r->step->name(r, 0, PD_GRAD_OUT_GRAD, k), name) == 0;
        if (is_it) return r->in[PD_GRAD_OUT_GRAD].at[k];
    }
    return NULL;
}

pd_status pd_block_grad_left(const struct pd_run *r, int ran)
{
    for (int i = 0; i < r->out[PD_GRAD_LEFT_GRAD].n; i++) {
        struct pd_value *to = r->out[PD_GRAD_LEFT_GRAD].at[i], *from = came_for(r, i);
        if (!to || !from) continue;
        const struct pd_attr *through = &r->attr[PD_GRAD_THROUGH];
        int goes_through = ran && i < (int)through->n && *through->strings[i];
        struct pd_value *inner = NULL; /* none where the gradient block does not touch it */
        if (goes_through) PD_TRY(inner_grad(r, through->strings[i], &inner));
        if (!ran || goes_through)
            PD_TRY(pd_value_copy(to, inner ? inner : from));
        else if (from->tensor.meta.kind == PD_KIND_SELECTED_ROWS)
            PD_TRY(pd_rows_resize(to, 0, from->height, from->tensor.meta.dtype, from->tensor.meta.rank,
                                  from->tensor.meta.dim));
        else
            PD_TRY(pd_block_grad_zeros(to, from));
    }
    return PD_OK;
}
