/* Does an op fit its tables, and what shapes do its outputs get? */
#include <string.h>

#include "program/program.h"

/* Where the user's script made the op: the innermost frames outside of `paddle`, as its attribute names them.
 * An op that is being made has the script's own traceback. */
static void add_origin(const struct pd_opdesc *op)
{
    enum { MOST = 3 };
    const struct pd_attr *stack = pd_opdesc_attr(op, "op_callstack");
    int shown = 0;
    for (int i = 0; stack && stack->type == PD_ATTR_STRINGS && i < stack->n && shown < MOST; i++) {
        const char *line = stack->strings[i] + strspn(stack->strings[i], " ");
        if (strncmp(line, "File ", 5) != 0 || strstr(line, "/paddle/fluid/")) continue;
        pd_error_add("%s%.*s", shown++ ? "; " : "; made in ", (int)strcspn(line + 5, "\n"), line + 5);
    }
}

void pd_opdesc_blame(const struct pd_opdesc *op, const struct pd_block *block)
{
    struct pd_buf text = {0};
    int part = pd_error_part(), is_made = op->block != NULL;
    if (part == PD_ERROR_ELSEWHERE) return;
    if (part < op->parts.n) op = op->parts.at[part];
    for (int side = 0; side < 2; side++) {
        const struct pd_io *at = side ? op->out.at : op->in.at;
        int n = side ? op->out.n : op->in.n;
        for (int i = 0; i < n; i++) {
            pd_buf_printf(&text, "%s%s=", text.n ? (i || !side ? ", " : " -> ") : "", at[i].slot);
            for (int k = 0; k < at[i].args.n && k < 4; k++) {
                const struct pd_var *var = block ? pd_block_find(block, at[i].args.at[k]) : NULL;
                pd_buf_printf(&text, "%s%s", k ? "+" : "", at[i].args.at[k]);
                if (var && !side) pd_buf_printf(&text, " %s", pd_meta_dims_text(&var->meta));
            }
            if (at[i].args.n > 4) pd_buf_printf(&text, "+... (%d in all)", at[i].args.n);
        }
    }
    pd_error_add(" [op %s: %s", op->type, text.n ? text.at : "no variables");
    if (is_made) add_origin(op);
    pd_error_add("]");
    pd_buf_free(&text);
}

int pd_arg_is_hole(const struct pd_slot_def *slot, const char *name, const struct pd_block *block)
{
    if (strcmp(name, PD_EMPTY_VAR) == 0 || (slot->flags & PD_SLOT_UNUSED)) return 1;
    size_t n = strlen(slot->name), suffix = strlen(PD_GRAD_SUFFIX);
    return (slot->flags & PD_SLOT_OPTIONAL) && n > suffix &&
           strcmp(slot->name + n - suffix, PD_GRAD_SUFFIX) == 0 && !pd_block_find(block, name);
}

static int is_empty_slot(const struct pd_io *io)
{
    if (!io) return 1;
    for (int i = 0; i < io->args.n; i++)
        if (strcmp(io->args.at[i], PD_EMPTY_VAR) != 0) return 0;
    return 1;
}

static pd_status verify_side(const struct pd_opdesc *op, const struct pd_block *block, int is_output)
{
    const struct pd_slot_def *defs = is_output ? op->def->outputs : op->def->inputs;
    const char *word = is_output ? "output" : "input";
    for (int i = 0; defs && defs[i].name; i++) {
        const struct pd_io *io = pd_opdesc_slot(op, is_output, defs[i].name);
        int needed = !(defs[i].flags & PD_SLOT_OPTIONAL) && !(is_output && (defs[i].flags & PD_SLOT_HIDDEN));
        if (needed && is_empty_slot(io))
            return pd_fail(PD_INVALID, "op '%s' needs a variable in its %s slot '%s'", op->type, word,
                           defs[i].name);
        if (io && io->args.n > 1 && !(defs[i].flags & PD_SLOT_LIST))
            return pd_fail(PD_INVALID, "op '%s' takes one variable in its %s slot '%s', found %d", op->type,
                           word, defs[i].name, io->args.n);
    }
    const struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n;
    for (int i = 0; i < n; i++) {
        int slot = pd_slot_index(defs, at[i].slot);
        if (slot < 0) {
            if (!at[i].args.n) continue;
            return pd_fail(PD_NOT_FOUND, "op '%s' has no %s slot '%s'", op->type, word, at[i].slot);
        }
        for (int k = 0; k < at[i].args.n; k++)
            if (!pd_arg_is_hole(&defs[slot], at[i].args.at[k], block) &&
                !pd_block_find(block, at[i].args.at[k]))
                return pd_fail(
                    PD_NOT_FOUND,
                    "op '%s' names variable '%s' in its %s slot '%s', but the Program has none of that name",
                    op->type, at[i].args.at[k], word, at[i].slot);
    }
    return PD_OK;
}

pd_status pd_opdesc_verify(const struct pd_opdesc *op, const struct pd_block *block)
{
    if (!op->def) return pd_fail(PD_NOT_FOUND, "there is no op '%s'", op->type);
    PD_TRY(verify_side(op, block, 0));
    return verify_side(op, block, 1);
}

pd_status pd_program_verify(const struct pd_program *program)
{
    for (int b = 0; b < program->blocks.n; b++)
        for (int i = 0; i < program->blocks.at[b]->ops.n; i++)
            PD_TRY(pd_opdesc_verify(program->blocks.at[b]->ops.at[i], program->blocks.at[b]));
    return PD_OK;
}

pd_status pd_opdesc_bind_attrs(const struct pd_opdesc *op, struct pd_attr **out, int *n)
{
    return pd_opdesc_bind_attrs_of(op, op->def, out, n);
}

pd_status pd_opdesc_bind_attrs_of(const struct pd_opdesc *op, const struct pd_op *def, struct pd_attr **out,
                                  int *n)
{
    int count = pd_attr_count(def->attrs);
    struct pd_attr *attrs = pd_calloc((size_t)count, sizeof *attrs);
    if (!attrs) return pd_no_memory();
    for (int i = 0; i < count; i++) {
        attrs[i] = def->attrs[i].value;
        const struct pd_attr *set = pd_opdesc_attr(op, def->attrs[i].name);
        if (set && set->type == attrs[i].type) attrs[i] = *set;
    }
    *out = attrs;
    *n = count;
    return PD_OK;
}

/* The variables of a slot as the op sees them: `seen` is what it infers on, `var` where that belongs. An op
 * may write a variable that it reads, and what it infers must not change what it still looks at: outputs are
 * copies. A size that is not known may be declared as any number below 0 (scripts write -1 * 256); ops see
 * -1. Returns the count, 0 when all are holes. */
struct side {
    struct pd_meta **seen, *copies;
    struct pd_var **var;
};

static int has_odd_sizes(const struct pd_meta *meta)
{
    for (int i = 0; i < meta->rank; i++)
        if (meta->dim[i] < -1) return 1;
    return 0;
}

static int gather(const struct pd_io *io, struct pd_block *block, struct side at, int is_output)
{
    if (is_empty_slot(io)) return 0;
    for (int k = 0; k < io->args.n; k++) {
        at.var[k] = pd_block_find(block, io->args.at[k]);
        at.seen[k] = at.var[k] ? &at.var[k]->meta : NULL;
        if (!at.var[k] || !(is_output || has_odd_sizes(at.seen[k]))) continue;
        at.copies[k] = at.var[k]->meta;
        at.seen[k] = &at.copies[k];
        for (int i = 0; i < at.copies[k].rank; i++)
            if (at.copies[k].dim[i] < -1) at.copies[k].dim[i] = -1;
    }
    return io->args.n;
}

/* What was inferred of an output becomes the variable's; a size that it had before is noted. One that stays
 * unknown keeps the number it was declared with. */
static pd_status settle(struct pd_opdesc *op, struct pd_var *var, struct pd_meta *found)
{
    struct pd_resized was = {var->name, var->meta};
    int known = var->meta.rank > 0 && found->rank > 0;
    for (int i = 0; i < found->rank && found->rank == was.was.rank; i++)
        if (found->dim[i] < 0 && was.was.dim[i] < 0) found->dim[i] = was.was.dim[i];
    var->meta = *found;
    if (!known || pd_meta_same_dims(&was.was, found)) return PD_OK;
    for (int i = 0; i < op->resized.n; i++)
        if (op->resized.at[i].var == var->name) return PD_OK;
    return pd_vec_push(&op->resized, was) ? PD_OK : pd_no_memory();
}

/* Programs in float16 can be built, also where no kernel computes in it: sizes and types are those of
 * float32. When such an op runs it says what it cannot do. Returns whether an input is float16. */
static int as_floats(const struct side *in, int n)
{
    int found = 0;
    for (int k = 0; k < n; k++) {
        if (!in->var[k] || in->var[k]->meta.dtype != PD_DTYPE_FP16) continue;
        in->copies[k] = *in->seen[k];
        in->copies[k].dtype = PD_DTYPE_FP32;
        in->seen[k] = &in->copies[k];
        found = 1;
    }
    return found;
}

static void as_half(const struct pd_var *var, struct pd_meta *out)
{
    int was = var->meta.dtype;
    if (out->dtype == PD_DTYPE_FP32 && (was == PD_DTYPE_FP16 || was == PD_DTYPE_NONE))
        out->dtype = PD_DTYPE_FP16;
}

pd_status pd_opdesc_infer(struct pd_opdesc *op, struct pd_block *block)
{
    if (!op->def || !op->def->infer) return PD_OK;
    int n_in = pd_slot_count(op->def->inputs), n_out = pd_slot_count(op->def->outputs), total = 0, n_attrs;
    for (int i = 0; i < op->in.n; i++)
        total += op->in.at[i].args.n;
    for (int i = 0; i < op->out.n; i++)
        total += op->out.at[i].args.n;
    struct pd_metas *sides = pd_calloc((size_t)(n_in + n_out) + 1, sizeof *sides);
    struct side all = {.seen = pd_calloc((size_t)total + 1, sizeof *all.seen),
                       .copies = pd_calloc((size_t)total + 1, sizeof *all.copies),
                       .var = pd_calloc((size_t)total + 1, sizeof *all.var)};
    struct pd_attr *attrs = NULL;
    pd_status status = sides && all.seen && all.copies && all.var ? pd_opdesc_bind_attrs(op, &attrs, &n_attrs)
                                                                  : pd_no_memory();
    if (status == PD_OK) {
        int n = 0, inputs = 0;
        for (int i = 0; i < n_in + n_out; i++) {
            int is_output = i >= n_in;
            const char *slot = is_output ? op->def->outputs[i - n_in].name : op->def->inputs[i].name;
            struct side at = {all.seen + n, all.copies + n, all.var + n};
            sides[i].at = at.seen;
            sides[i].n = gather(pd_opdesc_slot(op, is_output, slot), block, at, is_output);
            n += sides[i].n;
            if (!is_output) inputs = n;
        }
        int half = as_floats(&all, inputs);
        struct pd_infer c = {.op = op->def, .attr = attrs, .in = sides, .out = sides + n_in, .desc = op};
        status = op->def->infer(&c);
        if (status == PD_OK) status = pd_infer_one_type(&c);
        if (status != PD_OK) pd_opdesc_blame(op, block);
        for (int k = inputs; k < n && half; k++)
            if (all.var[k]) as_half(all.var[k], &all.copies[k]);
        for (int k = inputs; k < n && status == PD_OK; k++)
            if (all.var[k]) status = settle(op, all.var[k], &all.copies[k]);
    }
    pd_free(attrs);
    pd_free(all.seen);
    pd_free(all.copies);
    pd_free(all.var);
    pd_free(sides);
    return status;
}
