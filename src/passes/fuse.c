/* Fusion: the driver and what the rules share; see fuse.h. */
#include "passes/fuse.h"

#include <string.h>

/* ---- what must stay ---- */

static pd_status keep(struct pd_fuse *f, const char *name)
{
    return pd_map_add(&f->kept, name) ? PD_OK : pd_no_memory();
}

static pd_status keep_args(struct pd_fuse *f, const struct pd_opdesc *op)
{
    for (int side = 0; side < 2; side++) {
        const struct pd_io *at = side ? op->out.at : op->in.at;
        for (int s = 0; s < (side ? op->out.n : op->in.n); s++)
            for (int k = 0; k < at[s].args.n; k++)
                PD_TRY(keep(f, at[s].args.at[k]));
    }
    return PD_OK;
}

/* Ops that run blocks may name variables in attributes too. */
static pd_status keep_named(struct pd_fuse *f, const struct pd_opdesc *op)
{
    for (int i = 0; pd_opdesc_sub_block(op, 0) >= 0 && i < op->attrs.n; i++) {
        const struct pd_attr *v = &op->attrs.at[i].value;
        if (v->type == PD_ATTR_STRING && v->s) PD_TRY(keep(f, v->s));
        for (int k = 0; v->type == PD_ATTR_STRINGS && k < v->n; k++)
            PD_TRY(keep(f, v->strings[k]));
    }
    return PD_OK;
}

static pd_status keep_all(struct pd_fuse *f, int n_fetches, const char *const *fetches)
{
    for (int i = 0; i < n_fetches; i++)
        PD_TRY(keep(f, fetches[i]));
    for (int b = 0; b < f->program->blocks.n; b++)
        for (int i = 0; i < f->program->blocks.at[b]->ops.n; i++) {
            const struct pd_opdesc *op = f->program->blocks.at[b]->ops.at[i];
            if (b) PD_TRY(keep_args(f, op));
            PD_TRY(keep_named(f, op));
        }
    return PD_OK;
}

/* ---- places ---- */

static pd_status spread_ops(struct pd_fuse *f)
{
    if (!pd_vec_reserve(&f->places, 2 * f->block->ops.n)) return pd_no_memory();
    for (int i = 0; i < f->block->ops.n; i++) {
        f->places.at[f->places.n++] = NULL;
        f->block->ops.at[i]->index = f->places.n;
        f->places.at[f->places.n++] = f->block->ops.at[i];
    }
    f->block->ops.n = 0;
    f->block->n_numbered = 0;
    return PD_OK;
}

/* The places become the block's list. Also when memory was short: all ops must be found to be freed. */
static void gather_ops(struct pd_fuse *f)
{
    int n = 0;
    for (int i = 0; i < f->places.n; i++)
        if (f->places.at[i]) f->places.at[n++] = f->places.at[i];
    pd_vec_free(&f->block->ops);
    f->block->ops.at = f->places.at, f->block->ops.n = n, f->block->ops.cap = f->places.cap;
}

/* ---- who uses a variable ---- */

struct users {
    /* That read it, that write it; also those that became parts of others. */
    PD_VEC(struct pd_opdesc *) ops[2];
};

static pd_status add_user(struct pd_fuse *f, const char *name, int writes, struct pd_opdesc *op)
{
    struct users *users = pd_map_get(&f->users, name);
    if (!users) {
        users = pd_calloc(1, sizeof *users);
        if (!users || !pd_map_set(&f->users, name, users)) {
            pd_free(users);
            return pd_no_memory();
        }
    }
    int n = users->ops[writes].n;
    if (n && users->ops[writes].at[n - 1] == op) return PD_OK;
    return pd_vec_push(&users->ops[writes], op) ? PD_OK : pd_no_memory();
}

static pd_status add_uses(struct pd_fuse *f, struct pd_opdesc *op)
{
    for (int side = 0; side < 2; side++) {
        const struct pd_io *at = side ? op->out.at : op->in.at;
        for (int s = 0; s < (side ? op->out.n : op->in.n); s++)
            for (int k = 0; k < at[s].args.n; k++)
                PD_TRY(add_user(f, at[s].args.at[k], side, op));
    }
    return PD_OK;
}

static pd_status add_all_uses(struct pd_fuse *f)
{
    for (int i = 0; i < f->places.n; i++)
        if (f->places.at[i]) PD_TRY(add_uses(f, f->places.at[i]));
    return PD_OK;
}

static void users_free(struct pd_fuse *f)
{
    pd_map_each(&f->users, entry) {
        struct users *users = entry->value;
        pd_vec_free(&users->ops[0]);
        pd_vec_free(&users->ops[1]);
        pd_free(users);
    }
    pd_map_free(&f->users);
}

static int count(const struct pd_opdesc *op, int is_output, const char *name)
{
    const struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n, found = 0;
    for (int s = 0; s < n; s++)
        for (int k = 0; k < at[s].args.n; k++)
            found += at[s].args.at[k] == name;
    return found;
}

static int writes_of(const struct pd_fuse *f, const char *name)
{
    const struct users *users = pd_map_get(&f->users, name);
    int writes = 0;
    for (int i = 0; users && i < users->ops[1].n; i++)
        if (users->ops[1].at[i]->block == f->block) writes += count(users->ops[1].at[i], 1, name);
    return writes;
}

struct pd_fuse_use pd_fuse_use_of(const struct pd_fuse *f, const char *name)
{
    struct pd_fuse_use use = {.writer = -1, .first_read = -1, .reader = -1};
    const struct users *users = pd_map_get(&f->users, name);
    for (int i = 0; users && i < users->ops[0].n; i++) {
        struct pd_opdesc *op = users->ops[0].at[i];
        if (op->block != f->block) continue;
        int at = op->index;
        if (use.first_read < 0 || at < use.first_read) use.first_read = at;
        if (at > use.reader) use.reader = at;
        use.reads += count(op, 0, name);
    }
    for (int i = 0; users && i < users->ops[1].n; i++) {
        struct pd_opdesc *op = users->ops[1].at[i];
        if (op->block != f->block) continue;
        int at = op->index;
        if (at > use.writer) use.writer = at;
        use.writes += count(op, 1, name);
    }
    return use;
}

int pd_fuse_may_go(const struct pd_fuse *f, const char *name, int reads, struct pd_fuse_use *use)
{
    const struct pd_var *var = name ? pd_block_var(f->block, name) : NULL;
    if (!var || (var->flags & (PD_VAR_PERSISTABLE | PD_VAR_IS_DATA | PD_VAR_PARAMETER)) ||
        pd_map_has(&f->kept, name))
        return 0;
    *use = pd_fuse_use_of(f, var->name);
    return use->writes == 1 && use->reads == reads && (!reads || use->first_read > use->writer);
}

struct pd_opdesc *pd_fuse_reader(const struct pd_fuse *f, const char *name, int from,
                                 int (*fits)(const struct pd_opdesc *reader, const struct pd_opdesc *op),
                                 const struct pd_opdesc *op)
{
    const struct users *users = pd_map_get(&f->users, name);
    struct pd_opdesc *first = NULL;
    for (int i = 0; users && i < users->ops[0].n; i++) {
        struct pd_opdesc *reader = users->ops[0].at[i];
        if (reader->block == f->block && reader->index > from && (!first || reader->index < first->index) &&
            fits(reader, op))
            first = reader;
    }
    return first;
}

static int any_between(const struct pd_fuse *f, const char *name, int writes, int from, int to)
{
    const struct users *users = pd_map_get(&f->users, name);
    for (int i = 0; users && i < users->ops[writes].n; i++) {
        struct pd_opdesc *op = users->ops[writes].at[i];
        if (op->block != f->block) continue;
        int at = op->index;
        if (at > from && at < to) return 1;
    }
    return 0;
}

int pd_fuse_written_between(const struct pd_fuse *f, const char *name, int from, int to)
{
    return any_between(f, name, 1, from, to);
}

int pd_fuse_used_between(const struct pd_fuse *f, const char *name, int from, int to)
{
    return any_between(f, name, 1, from, to) || any_between(f, name, 0, from, to);
}

int pd_fuse_inputs_change(const struct pd_fuse *f, int from, int to)
{
    const struct pd_opdesc *op = pd_fuse_op(f, from);
    for (int s = 0; s < op->in.n; s++)
        for (int k = 0; k < op->in.at[s].args.n; k++)
            if (pd_fuse_written_between(f, op->in.at[s].args.at[k], from, to)) return 1;
    return 0;
}

/* ---- small questions ---- */

struct pd_opdesc *pd_fuse_op(const struct pd_fuse *f, int at)
{
    return at < 0 || at >= f->places.n ? NULL : f->places.at[at];
}

int pd_fuse_is(const struct pd_opdesc *op, const char *type)
{
    return op && op->def && strcmp(op->type, type) == 0;
}

const char *pd_fuse_arg(const struct pd_opdesc *op, int is_output, const char *slot)
{
    const struct pd_io *io = pd_opdesc_slot(op, is_output, slot);
    return io && io->args.n == 1 && strcmp(io->args.at[0], PD_EMPTY_VAR) != 0 ? io->args.at[0] : NULL;
}

const struct pd_var *pd_fuse_sized(const struct pd_fuse *f, const char *name)
{
    const struct pd_var *var = name ? pd_block_var(f->block, name) : NULL;
    if (!var || (var->flags & PD_VAR_PERSISTABLE)) return var;
    return writes_of(f, var->name) <= !(var->flags & PD_VAR_IS_DATA) ? var : NULL;
}

const struct pd_var *pd_fuse_float(const struct pd_fuse *f, const char *name)
{
    const struct pd_var *var = pd_fuse_sized(f, name);
    return var && var->meta.kind == PD_KIND_TENSOR && pd_dtype_is_float(var->meta.dtype) ? var : NULL;
}

/* ---- changing the block ---- */

pd_status pd_fuse_new(struct pd_fuse *f, const char *type, struct pd_opdesc **out)
{
    const struct pd_op *def = pd_op_find_for_plan(f->program->op_set, type);
    *out = NULL;
    if (!def) return PD_OK;
    PD_TRY(pd_opdesc_new(f->program, type, out));
    (*out)->def = def;
    return PD_OK;
}

pd_status pd_fuse_take_slot(struct pd_opdesc *to, int is_output, const char *slot,
                            const struct pd_opdesc *from, const char *from_slot)
{
    const struct pd_io *io = pd_opdesc_slot(from, is_output, from_slot);
    for (int k = 0; io && k < io->args.n; k++)
        PD_TRY(pd_opdesc_add_arg(to, is_output, slot, io->args.at[k]));
    return PD_OK;
}

/* Takes `op`, also on an error. */
static pd_status put(struct pd_fuse *f, struct pd_opdesc *op, int at)
{
    pd_status status = f->places.at[at]
                           ? pd_fail(PD_INVALID, "op '%s' finds its place in the plan taken by '%s'",
                                     op->type, f->places.at[at]->type)
                           : pd_block_adopt(f->block, op);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    op->index = at;
    f->places.at[at] = op;
    return add_uses(f, op);
}

pd_status pd_fuse_insert(struct pd_fuse *f, struct pd_opdesc *op, struct pd_opdesc *next)
{
    return put(f, op, next->index - 1);
}

pd_status pd_fuse_replace(struct pd_fuse *f, struct pd_opdesc *op, int n, struct pd_opdesc *const *ops,
                          int at)
{
    if (!pd_vec_reserve(&op->parts, n)) {
        pd_opdesc_free(op);
        return pd_no_memory();
    }
    for (int i = 0; i < n; i++) {
        f->places.at[ops[i]->index] = NULL;
        pd_block_disown(f->block, ops[i]);
        op->parts.at[op->parts.n++] = ops[i];
    }
    return put(f, op, ops[at]->index);
}

pd_status pd_pass_fuse(struct pd_program *program, int fuses, int n_fetches, const char *const *fetches)
{
    struct pd_fuse f = {.program = program, .block = program->blocks.at[0]};
    pd_status status = keep_all(&f, n_fetches, fetches);
    if (status == PD_OK) status = spread_ops(&f);
    if (status == PD_OK) status = add_all_uses(&f);
    if (status == PD_OK) status = pd_fuse_rows(&f);
    if (status == PD_OK && fuses) status = pd_fuse_embedding(&f);
    if (status == PD_OK && fuses) status = pd_fuse_entropy(&f);
    if (status == PD_OK && fuses) status = pd_fuse_add_act(&f);
    if (status == PD_OK && fuses) status = pd_fuse_mul_sgd(&f);
    if (status == PD_OK && fuses) status = pd_fuse_exchanges(&f);
    if (f.places.n) gather_ops(&f);
    users_free(&f);
    pd_map_free(&f.kept);
    return status;
}
