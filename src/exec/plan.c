/* Building plans; see plan.h. */
#include "exec/plan.h"

#include <limits.h>
#include <string.h>

#include "base/flags.h"
#include "base/nearest.h"

void pd_plan_free(struct pd_plan *plan)
{
    if (!plan) return;
    for (int i = 0; i < plan->ops.n; i++)
        pd_free(plan->ops.at[i].attrs);
    pd_vec_free(&plan->vars);
    pd_vec_free(&plan->ops);
    pd_vec_free(&plan->args);
    pd_vec_free(&plan->slots);
    pd_vec_free(&plan->results);
    pd_map_free(&plan->numbers);
    pd_map_free(&plan->singles);
    pd_free(plan->fetches);
    pd_program_unref(plan->program);
    pd_free(plan);
}

/* The op that runs the block gives these variables of it their values. */
static int is_given(const struct pd_plan *plan, const char *name)
{
    const struct pd_block *around = plan->outer ? plan->outer->block : NULL;
    for (int i = 0; around && i < around->ops.n; i++) {
        const struct pd_attr *names = pd_opdesc_attr(around->ops.at[i], PD_GIVEN_ATTR);
        if (!names || names->type != PD_ATTR_STRINGS ||
            pd_opdesc_sub_block(around->ops.at[i], 0) != plan->block->index)
            continue;
        for (int k = 0; k < (int)names->n; k++)
            if (strcmp(names->strings[k], name) == 0) return 1;
    }
    return 0;
}

/* A gradient that no op before this one writes: a hole where the slot allows it. Its variable is a temporary,
 * so that nothing is left of it from an earlier run. Whether one of another block was written is seen when
 * the op runs. */
static int is_unwritten(const struct pd_plan *plan, const struct pd_slot_def *slot, const char *name)
{
    const struct pd_var *var = pd_block_var(plan->block, name);
    return (slot->flags & PD_SLOT_UNWRITTEN) && (!plan->outer || plan->forward) && var &&
           !(var->flags & PD_VAR_PERSISTABLE) && strstr(name, PD_GRAD_SUFFIX) &&
           pd_plan_number(plan, name) < 0 && !is_given(plan, name);
}

static int is_hole(const struct pd_plan *plan, const struct pd_slot_def *slot, int is_output,
                   const char *name)
{
    return pd_arg_is_hole(slot, name, plan->block) || (!is_output && is_unwritten(plan, slot, name));
}

static pd_status add_side(struct pd_plan *plan, struct pd_plan_op *op, int index, int is_output,
                          int *first_slot)
{
    const struct pd_slot_def *defs = is_output ? op->def->outputs : op->def->inputs;
    int n = pd_slot_count(defs);
    *first_slot = plan->slots.n;
    for (int i = 0; i < n; i++) {
        const struct pd_io *io = pd_opdesc_slot(op->desc, is_output, defs[i].name);
        struct pd_plan_slot slot = {0, plan->args.n};
        int live = 0;
        for (int k = 0; io && k < io->args.n; k++)
            live |= !is_hole(plan, &defs[i], is_output, io->args.at[k]);
        for (int k = 0; live && k < io->args.n; k++) {
            int number = -1;
            if (!is_hole(plan, &defs[i], is_output, io->args.at[k])) {
                PD_TRY(is_output ? pd_plan_write(plan, io->args.at[k], op->def, &number)
                                 : pd_plan_read(plan, io->args.at[k], &number));
                int is_new = plan->vars.at[number].first_use < 0;
                if ((op->def->flags & PD_OP_SERVES) || (is_new && (defs[i].flags & PD_SLOT_UNSET)))
                    plan->vars.at[number].read_first = 0;
                if (is_new) plan->vars.at[number].first_use = index;
                if (is_new && is_output && (op->def->flags & PD_OP_UPDATES)) plan->vars.at[number].unsure = 1;
                /* An input of which only the shape is read does not keep its memory busy. */
                if (is_output || !(defs[i].flags & PD_SLOT_META)) plan->vars.at[number].last_use = index;
                if (!is_output && !(defs[i].flags & PD_SLOT_META)) plan->vars.at[number].needs_data = 1;
                if (is_output) plan->vars.at[number].written = 1;
                if (defs[i].flags & PD_SLOT_KEEP) plan->vars.at[number].pinned = 1;
            }
            if (!pd_vec_push(&plan->args, number)) return pd_no_memory();
            slot.n++;
        }
        if (!pd_vec_push(&plan->slots, slot)) return pd_no_memory();
    }
    return PD_OK;
}

static int reads_data(const struct pd_opdesc *op, const char *slot)
{
    int i = op->def ? pd_slot_index(op->def->inputs, slot) : -1;
    return i < 0 || !(op->def->inputs[i].flags & PD_SLOT_META);
}

enum { TOUCH_GIVEN = 1, TOUCH_GRADIENT = 2 };

/* Variables of this plan that a sub-block touches count as touched by the op that runs it, and keep their own
 * memory. TOUCH_GIVEN: the op gives them their values. TOUCH_GRADIENT: it is the gradient block of this
 * block. */
static pd_status touch_sub_block(struct pd_plan *plan, int block, int index, int how)
{
    const struct pd_block *inner = pd_program_block(plan->program, block);
    for (int i = 0; inner && i < inner->ops.n; i++) {
        const struct pd_opdesc *op = inner->ops.at[i];
        for (int side = 0; side < 2; side++) {
            const struct pd_io *at = side ? op->out.at : op->in.at;
            int n = side ? op->out.n : op->in.n;
            for (int s = 0; s < n; s++)
                for (int k = 0; k < at[s].args.n; k++) {
                    const char *name = at[s].args.at[k];
                    int number;
                    const struct pd_var *var =
                        strcmp(name, PD_EMPTY_VAR) == 0 ? NULL : pd_block_find(inner, name);
                    if (!var || pd_block_find(plan->block, name) != var) continue;
                    int known = pd_plan_number(plan, name) >= 0;
                    PD_TRY(side ? pd_plan_write(plan, name, NULL, &number)
                                : pd_plan_read(plan, name, &number));
                    if (plan->vars.at[number].first_use < 0) plan->vars.at[number].first_use = index;
                    if (!known && (how & TOUCH_GIVEN) && !(var->flags & PD_VAR_PARAMETER))
                        plan->vars.at[number].read_first = 0;
                    plan->vars.at[number].pinned = plan->vars.at[number].dynamic = 1;
                    plan->vars.at[number].needs_data = 1;
                    if (!known && side) plan->vars.at[number].unsure = 1;
                    plan->vars.at[number].last_use = index;
                    if (side) plan->vars.at[number].written = 1;
                    if (how & TOUCH_GRADIENT)
                        plan->vars.at[number].kept |= side || reads_data(op, at[s].slot) ? 2 : 1;
                }
        }
        for (int k = 0, deeper; (deeper = pd_opdesc_sub_block(op, k)) >= 0; k++)
            if (deeper > block) PD_TRY(touch_sub_block(plan, deeper, index, how));
    }
    return PD_OK;
}

static int any_dynamic(const struct pd_plan *plan, int first_slot, int n)
{
    for (int s = first_slot; s < first_slot + n; s++)
        for (int k = 0; k < plan->slots.at[s].n; k++) {
            int number = plan->args.at[plan->slots.at[s].first + k];
            if (number < 0) continue;
            const struct pd_plan_var *v = &plan->vars.at[number];
            if (v->dynamic || (v->desc && v->desc->meta.kind != PD_KIND_TENSOR)) return 1;
        }
    return 0;
}

/* Do the data of an input say how large the outputs are? Those of a gradient op are read when it is checked
 * against its forward op. */
static int sized_by_data(const struct pd_plan *plan, const struct pd_plan_op *op)
{
    for (int s = 0; s < op->n_in; s++) {
        unsigned flags = op->def->inputs[s].flags;
        int there = op->forward ? pd_slot_index(op->forward->inputs, op->def->inputs[s].name) : -1;
        if (there >= 0 && !(flags & PD_SLOT_META)) flags |= op->forward->inputs[there].flags;
        if ((flags & PD_SLOT_SIZES) && plan->slots.at[op->first_in + s].n) return 1;
    }
    return 0;
}

/* Is `out` what `in` is after the op? What goes in as Param comes out as ParamOut, and in_sum as out_sum. */
static int is_update_of(const struct pd_op *def, int out, int in)
{
    const char *from = def->inputs[in].name, *to = def->outputs[out].name;
    if (strncmp(from, "in_", 3) == 0 && strncmp(to, "out_", 4) == 0) return strcmp(from + 3, to + 4) == 0;
    size_t n = strlen(from);
    return strncmp(to, from, n) == 0 && strcmp(to + n, "Out") == 0;
}

/* May the op write `out` while it reads `in` from the same memory? Its table says so, or the names do. */
static int works_in_place(const struct pd_op *def, int out, int in)
{
    for (const struct pd_share *s = def->share; s && s->out >= 0; s++)
        if (s->out == out && s->in == in) return 1;
    return is_update_of(def, out, in);
}

/* How often the op reads the variable, and in which slot last. */
static int count_reads(const struct pd_plan *plan, const struct pd_plan_op *op, int number, int *slot)
{
    int n = 0;
    for (int s = 0; s < op->n_in; s++)
        for (int k = 0; k < plan->slots.at[op->first_in + s].n; k++)
            if (plan->args.at[plan->slots.at[op->first_in + s].first + k] == number) {
                n++;
                *slot = s;
            }
    return n;
}

/* What the op writes into variables that it reads too gets numbers of its own. */
static pd_status add_results(struct pd_plan *plan, struct pd_plan_op *op, int index)
{
    op->first_result = plan->results.n;
    if (op->def->flags & (PD_OP_UPDATES | PD_OP_SERVES)) return PD_OK;
    for (int s = 0; s < op->n_out; s++)
        for (int k = 0; k < plan->slots.at[op->first_out + s].n; k++) {
            int arg = plan->slots.at[op->first_out + s].first + k, to = plan->args.at[arg], slot = -1, hidden;
            int reads = to < 0 ? 0 : count_reads(plan, op, to, &slot);
            enum pd_kind kind =
                reads && plan->vars.at[to].desc ? plan->vars.at[to].desc->meta.kind : PD_KIND_TENSOR;
            if (!reads || (kind != PD_KIND_TENSOR && kind != PD_KIND_SELECTED_ROWS)) continue;
            struct pd_plan_result result = {
                .to = to, .arg = arg, .in_place = reads == 1 && works_in_place(op->def, s, slot)};
            PD_TRY(pd_plan_add_hidden(plan, to, &hidden));
            plan->vars.at[hidden].first_use = plan->vars.at[hidden].last_use = index;
            plan->vars.at[hidden].dynamic = op->late;
            plan->args.at[arg] = hidden;
            if (!pd_vec_push(&plan->results, result)) return pd_no_memory();
            op->n_results++;
        }
    return PD_OK;
}

/* `assign` of a value that stays as it is: its result is another name of that value. */
static pd_status add_alias(struct pd_plan *plan, const struct pd_opdesc *desc, int *done)
{
    *done = 0;
    if (!plan->shares || plan->outer || strcmp(desc->type, "assign") != 0 || pd_opdesc_arg(desc, 0, "Like"))
        return PD_OK; /* or one that compares sizes */
    return pd_plan_alias(plan, pd_opdesc_arg(desc, 0, "X"), pd_opdesc_arg(desc, 1, "Out"), done);
}

/* What an update writes in place keeps its size. */
static int keeps_size(const struct pd_plan *plan, const struct pd_plan_op *op, int slot, int number)
{
    for (int s = 0; s < op->n_in; s++) {
        const struct pd_plan_slot *in = &plan->slots.at[op->first_in + s];
        for (int k = 0; is_update_of(op->def, slot, s) && k < in->n; k++)
            if (plan->args.at[in->first + k] == number) return 1;
    }
    return 0;
}

static pd_status add_op(struct pd_plan *plan, const struct pd_opdesc *desc)
{
    struct pd_plan_op op = {.def = desc->def, .desc = desc};
    int index = plan->ops.n, n_attrs, is_alias;
    if (!desc->def)
        return pd_fail(PD_NOT_FOUND, "the Program has an op '%s', which is not in this library", desc->type);
    if (!desc->def->run) return PD_OK;
    PD_TRY(pd_opdesc_verify(desc, plan->block));
    PD_TRY(add_alias(plan, desc, &is_alias));
    if (is_alias) return PD_OK;
    op.forward = pd_op_forward(plan->program->op_set, desc->def);
    op.n_in = pd_slot_count(desc->def->inputs);
    op.n_out = pd_slot_count(desc->def->outputs);
    PD_TRY(add_side(plan, &op, index, 0, &op.first_in));
    PD_TRY(add_side(plan, &op, index, 1, &op.first_out));
    int has_blocks = 0;
    for (int at = 0, sub; (sub = pd_plan_sub_block(plan, desc, &at)) >= 0;) {
        PD_TRY(touch_sub_block(plan, sub, index, desc->def->flags & PD_OP_SERVES ? TOUCH_GIVEN : 0));
        has_blocks = 1;
    }
    /* In a sub-block everything is sized when it runs. */
    op.late = plan->outer || has_blocks || (op.def->flags & PD_OP_DYNAMIC) || sized_by_data(plan, &op) ||
              any_dynamic(plan, op.first_in, op.n_in) || any_dynamic(plan, op.first_out, op.n_out);
    for (int s = op.first_out; op.late && s < op.first_out + op.n_out; s++)
        for (int k = 0; k < plan->slots.at[s].n; k++) {
            int number = plan->args.at[plan->slots.at[s].first + k];
            if (number < 0) continue;
            struct pd_plan_var *v = &plan->vars.at[number];
            if (v->place != PD_PLACE_SCOPE || !keeps_size(plan, &op, s - op.first_out, number))
                v->dynamic = 1;
        }
    PD_TRY(add_results(plan, &op, index));
    PD_TRY(pd_opdesc_bind_attrs(desc, &op.attrs, &n_attrs));
    if (!pd_vec_push(&plan->ops, op)) {
        pd_free(op.attrs);
        return pd_no_memory();
    }
    return PD_OK;
}

/* Ends a message: the variable of the block that a misspelt name was meant to be. Returns the text, which is
 * in `out`. */
static const char *meant(const struct pd_plan *plan, const char *name, struct pd_buf *out)
{
    struct pd_nearest nearest = {.name = name, .length = (int)strnlen(name, INT_MAX)};
    for (int i = 0; i < plan->block->vars.n; i++)
        pd_nearest_offer(&nearest, plan->block->vars.at[i]->name);
    if (nearest.best) pd_buf_printf(out, "; is '%s' meant?", nearest.best);
    return out->n ? out->at : "";
}

static pd_status add_feeds(struct pd_plan *plan, int n, const char *const *feeds)
{
    for (int i = 0; i < n; i++) {
        int number;
        const struct pd_var *var = pd_block_var(plan->block, feeds[i]);
        if (!var) {
            struct pd_buf names = {0}, near = {0};
            for (int k = 0; k < plan->block->vars.n; k++)
                if (plan->block->vars.at[k]->flags & PD_VAR_IS_DATA)
                    pd_buf_printf(&names, "%s%s", names.n ? ", " : "", plan->block->vars.at[k]->name);
            pd_status status = pd_fail(PD_NOT_FOUND, "feed '%s': the Program has no such variable%s%s%s",
                                       feeds[i], names.n ? "; it declares the data " : "",
                                       names.n ? names.at : "", meant(plan, feeds[i], &near));
            pd_buf_free(&names);
            pd_buf_free(&near);
            return status;
        }
        if (pd_plan_number(plan, feeds[i]) >= 0) return pd_fail(PD_INVALID, "'%s' is fed twice", feeds[i]);
        PD_TRY(pd_plan_add_var(plan, feeds[i], var, PD_PLACE_FEED, &number));
        if (var->meta.kind != PD_KIND_TENSOR) plan->vars.at[number].dynamic = 1;
    }
    return PD_OK;
}

static pd_status add_fetches(struct pd_plan *plan, int n, const char *const *fetches)
{
    plan->fetches = pd_calloc((size_t)n, sizeof *plan->fetches);
    if (!plan->fetches) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        int number = pd_plan_number(plan, fetches[i]);
        const struct pd_var *var = pd_block_var(plan->block, fetches[i]);
        if (number < 0 && var && !(var->flags & PD_VAR_PERSISTABLE))
            return pd_fail(PD_NOT_FOUND, "fetch '%s': no op of the Program computes it and it is not fed",
                           fetches[i]);
        if (number < 0 && !var) {
            struct pd_buf near = {0};
            const char *hint = meant(plan, fetches[i], &near);
            pd_status status =
                pd_fail(PD_NOT_FOUND, "fetch '%s': the Program has no such variable%s", fetches[i],
                        *hint ? hint : "; give the Variable that its layer returned, or that one's .name");
            pd_buf_free(&near);
            return status;
        }
        if (number < 0) PD_TRY(pd_plan_read(plan, fetches[i], &number));
        plan->vars.at[number].last_use = INT_MAX;
        plan->vars.at[number].pinned = 1;
        plan->vars.at[number].needs_data = 1;
        plan->fetches[plan->n_fetches++] = number;
    }
    return PD_OK;
}

/* An op that the executor acts on: what it gives must have been fed. */
static pd_status check_mark(const struct pd_plan *plan, const struct pd_opdesc *op)
{
    const struct pd_io *out = pd_opdesc_slot(op, 1, "Out");
    for (int i = 0; out && i < out->args.n; i++) {
        const char *name = out->args.at[i];
        const struct pd_var *var = pd_block_find(plan->block, name);
        if (var && var->meta.kind == PD_KIND_TENSOR && pd_plan_number(plan, name) < 0)
            return pd_fail(
                PD_NOT_FOUND,
                strcmp(op->type, "read")
                    ? "the model needs a feed for '%s'; nothing was fed under that name"
                    : "the Program reads '%s' from a reader: that works in its main block, with Executor.run "
                      "in the process that made the reader",
                name);
    }
    return PD_OK;
}

static pd_status build(struct pd_plan *plan, int n_feeds, const char *const *feeds, int n_fetches,
                       const char *const *fetches)
{
    PD_TRY(pd_plan_find_singles(plan));
    PD_TRY(add_feeds(plan, n_feeds, feeds));
    for (int i = 0; i < plan->block->ops.n; i++) {
        const struct pd_opdesc *op = plan->block->ops.at[i];
        if (op->def && op->def->flags & PD_OP_MARK) {
            PD_TRY(check_mark(plan, op));
            continue;
        }
        pd_status status = add_op(plan, op);
        if (status != PD_OK) {
            pd_opdesc_blame(op, plan->block);
            return status;
        }
    }
    /* What the gradient block of this block uses must have its number before a frame is made. */
    for (int b = plan->block->index + 1; b < plan->program->blocks.n; b++)
        if (pd_plan_has_gradient(plan, b)) PD_TRY(touch_sub_block(plan, b, plan->ops.n, TOUCH_GRADIENT));
    PD_TRY(add_fetches(plan, n_fetches, fetches));
    for (int i = 0; i < plan->ops.n; i++) {
        plan->ops.at[i].in = plan->slots.at + plan->ops.at[i].first_in;
        plan->ops.at[i].out = plan->slots.at + plan->ops.at[i].first_out;
    }
    return PD_OK;
}

static pd_status make(struct pd_program *program, int block, struct pd_plan *outer, struct pd_plan *forward,
                      int n_feeds, const char *const *feeds, int n_fetches, const char *const *fetches,
                      struct pd_plan **out)
{
    struct pd_plan *plan = pd_calloc(1, sizeof *plan);
    if (!plan) return pd_no_memory();
    plan->program = pd_program_ref(program);
    plan->outer = outer;
    plan->forward = forward;
    plan->shares = pd_flag_int(PD_FLAG_share_memory);
    plan->block = pd_program_block(program, block);
    pd_status status = plan->block ? build(plan, n_feeds, feeds, n_fetches, fetches)
                                   : pd_fail(PD_RANGE, "the Program has no block %d", block);
    if (status != PD_OK) {
        pd_plan_free(plan);
        return status;
    }
    *out = plan;
    return PD_OK;
}

pd_status pd_plan_new(struct pd_program *program, int n_feeds, const char *const *feeds, int n_fetches,
                      const char *const *fetches, struct pd_plan **out)
{
    return make(program, 0, NULL, NULL, n_feeds, feeds, n_fetches, fetches, out);
}

pd_status pd_plan_new_sub(struct pd_plan *outer, struct pd_plan *forward, int block, struct pd_plan **out)
{
    return make(outer->program, block, outer, forward, 0, NULL, 0, NULL, out);
}
