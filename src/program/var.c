/* Variables of a Program. */
#include <string.h>

#include "program/program.h"

/* Gives the next id its place in both tables. */
static int take_id(struct pd_program *p, struct pd_var *var, struct pd_opdesc *op, int64_t *id)
{
    if (!pd_vec_reserve(&p->var_by_id, p->var_by_id.n + 1) ||
        !pd_vec_reserve(&p->op_by_id, p->op_by_id.n + 1))
        return 0;
    *id = p->var_by_id.n;
    p->var_by_id.at[p->var_by_id.n++] = var;
    p->op_by_id.at[p->op_by_id.n++] = op;
    return 1;
}

int pd_program_take_op_id(struct pd_program *program, struct pd_opdesc *op)
{
    return take_id(program, NULL, op, &op->id);
}

struct pd_var *pd_block_var(const struct pd_block *block, const char *name)
{
    return pd_map_get(&block->by_name, name);
}

struct pd_var *pd_block_find(const struct pd_block *block, const char *name)
{
    while (block) {
        struct pd_var *var = pd_block_var(block, name);
        if (var) return var;
        /* A gradient block sees what its forward block declared. */
        const struct pd_block *forward = pd_program_block(block->program, block->forward);
        if (forward && (var = pd_block_var(forward, name))) return var;
        block = pd_program_block(block->program, block->parent);
    }
    return NULL;
}

pd_status pd_var_new(struct pd_block *block, const char *name, enum pd_kind kind, struct pd_var **out,
                     int *existed)
{
    struct pd_program *p = block->program;
    struct pd_var *var = pd_block_var(block, name);
    *existed = var != NULL;
    if (var) {
        *out = var;
        return PD_OK;
    }
    var = pd_calloc(1, sizeof *var);
    if (!var) return pd_no_memory();
    var->block = block;
    var->meta.kind = kind;
    var->meta.dtype = PD_DTYPE_NONE;
    var->name = pd_program_text(p, name);
    if (!var->name || !pd_vec_reserve(&block->vars, block->vars.n + 1) ||
        !pd_map_set(&block->by_name, name, var)) {
        pd_map_remove(&block->by_name, name);
        pd_free(var);
        return pd_no_memory();
    }
    if (!take_id(p, var, NULL, &var->id)) {
        pd_map_remove(&block->by_name, name);
        pd_free(var);
        return pd_no_memory();
    }
    block->vars.at[block->vars.n++] = var;
    p->version++;
    *out = var;
    return PD_OK;
}

/* Variables of one block that get other names, by their old ones. */
struct renaming {
    struct pd_map vars;           /* old name -> variable */
    struct pd_map names;          /* old name -> new one, of the Program's pool */
    const struct pd_block *inner; /* whose ops are gone over */
};

/* The new name of what `old` is in that block; NULL: it stays. A loop has variables of its own with names of
 * outer ones, such as w@GRAD. */
static const char *new_name(const char *old, const void *context)
{
    const struct renaming *r = context;
    const struct pd_var *var = pd_map_get(&r->vars, old);
    return var && pd_block_find(r->inner, old) == var ? pd_map_get(&r->names, old) : NULL;
}

/* Notes the name, and takes it in the block beside the old one. */
static pd_status take_name(struct renaming *r, struct pd_var *var, const char *name)
{
    struct pd_block *block = var->block;
    if (pd_map_get(&r->vars, var->name))
        return pd_fail(PD_EXISTS, "variable '%s' is given two names", var->name);
    if (pd_block_var(block, name))
        return pd_fail(PD_EXISTS, "cannot rename variable '%s': the block already has a variable '%s'",
                       var->name, name);
    const char *kept = pd_program_text(block->program, name);
    if (!kept || !pd_map_set(&r->vars, var->name, var) || !pd_map_set(&r->names, var->name, (void *)kept) ||
        !pd_map_set(&block->by_name, name, var))
        return pd_no_memory();
    return PD_OK;
}

static pd_status rename_all(struct renaming *r, struct pd_block *block)
{
    struct pd_program *p = block->program;
    p->version++;
    for (int b = 0; b < p->blocks.n; b++) {
        r->inner = p->blocks.at[b];
        for (int i = 0; i < r->inner->ops.n; i++)
            PD_TRY(pd_opdesc_rename_args(r->inner->ops.at[i], new_name, r));
    }
    return PD_OK;
}

pd_status pd_block_rename_vars(struct pd_block *block, int n, struct pd_var *const *vars,
                               const char *const *names)
{
    struct renaming r = {0};
    pd_status status = PD_OK;
    int taken = 0;
    for (; status == PD_OK && taken < n; taken++)
        if (strcmp(vars[taken]->name, names[taken]) != 0) status = take_name(&r, vars[taken], names[taken]);
    if (status == PD_OK && r.vars.n) status = rename_all(&r, block);
    pd_map_each(&r.names, entry) {
        struct pd_var *var = pd_map_get(&r.vars, entry->key);
        if (status == PD_OK) var->name = entry->value;
        pd_map_remove(&block->by_name, status == PD_OK ? entry->key : (const char *)entry->value);
    }
    pd_map_free(&r.vars);
    pd_map_free(&r.names);
    return status;
}

/* Where the variable stands in its block: ids rise there. */
static int index_of(const struct pd_block *block, const struct pd_var *var)
{
    int low = 0, high = block->vars.n - 1;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (block->vars.at[middle]->id < var->id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Frees a variable that is out of its block's list. */
static void discard(struct pd_var *var)
{
    struct pd_block *block = var->block;
    pd_map_remove(&block->by_name, var->name);
    block->program->var_by_id.at[var->id] = NULL;
    block->program->version++;
    pd_lod_unref(var->meta.lod);
    pd_buf_free(&var->extra);
    pd_free(var);
}

pd_status pd_var_remove(struct pd_var *var)
{
    pd_vec_remove(&var->block->vars, index_of(var->block, var));
    discard(var);
    return PD_OK;
}

void pd_block_remove_vars(struct pd_block *block, const char *gone)
{
    int left = 0;
    for (int i = 0; i < block->vars.n; i++)
        if (gone[block->vars.at[i]->id])
            discard(block->vars.at[i]);
        else
            block->vars.at[left++] = block->vars.at[i];
    block->vars.n = left;
}

struct pd_var *pd_program_var(const struct pd_program *program, int64_t id)
{
    return id >= 0 && id < program->var_by_id.n ? program->var_by_id.at[id] : NULL;
}
