/* Programs, blocks and variables in the public API. */
#include <string.h>

#include "api/api.h"
#include "exec/executor.h"
#include "passes/passes.h"

_Static_assert((int)PD_FLOAT32 == (int)PD_DTYPE_FP32 && (int)PD_INT64 == (int)PD_DTYPE_INT64 &&
                   (int)PD_INT8 == (int)PD_DTYPE_INT8,
               "public element types");
_Static_assert((int)PD_LOD_TENSOR == (int)PD_KIND_TENSOR && (int)PD_TUPLE == (int)PD_KIND_TUPLE &&
                   (int)PD_RAW == (int)PD_KIND_RAW,
               "public kinds");
_Static_assert((int)PD_VAR_IS_PERSISTABLE == (int)PD_VAR_PERSISTABLE &&
                   (int)PD_VAR_IS_TRAINABLE == (int)PD_VAR_TRAINABLE &&
                   (int)PD_VAR_CHECKS_FEED == (int)PD_VAR_CHECK_FEED &&
                   (int)PD_VAR_IS_PARAMETER == (int)PD_VAR_PARAMETER,
               "public variable flags");

pd_status pd_program_create(pd_program **out)
{
    return pd_program_new(&pd_ops, out);
}
void pd_program_free(pd_program *program)
{
    pd_program_unref(program);
}
pd_status pd_program_copy(const pd_program *program, int for_test, pd_program **out)
{
    return pd_program_clone(program, for_test, out);
}
pd_status pd_program_parse(const void *bytes, size_t n, pd_program **out)
{
    return pd_program_read(&pd_ops, bytes, n, out);
}
pd_status pd_program_check(const pd_program *program)
{
    return pd_program_verify(program);
}
uint64_t pd_program_uid(const pd_program *program)
{
    return program->uid;
}
uint64_t pd_program_changes(const pd_program *program)
{
    return program->version;
}
int64_t pd_program_seed(const pd_program *program)
{
    return program->random_seed;
}

void pd_program_set_seed(pd_program *program, int64_t seed)
{
    program->random_seed = seed;
    program->version++;
}

uint64_t pd_program_runs(const pd_program *program)
{
    return __atomic_load_n(&program->lineage->runs, __ATOMIC_RELAXED);
}

void pd_program_set_runs(pd_program *program, uint64_t runs)
{
    __atomic_store_n(&program->lineage->runs, runs, __ATOMIC_RELAXED);
}

void pd_seed_programs(uint64_t seed)
{
    pd_exec_set_drawn(seed);
}

static pd_status finish(pd_status status, struct pd_buf *text, pd_bytes *out)
{
    if (status == PD_OK) return pd_api_bytes(text, out);
    pd_buf_free(text);
    return status;
}

pd_status pd_program_serialize(const pd_program *program, pd_bytes *out)
{
    struct pd_buf bytes = {0};
    return finish(pd_program_write(program, &bytes), &bytes, out);
}

pd_status pd_program_dump(const pd_program *program, pd_bytes *out)
{
    struct pd_buf text = {0};
    return finish(pd_program_print(program, &text), &text, out);
}

pd_status pd_program_prune(pd_program *program, int n_feeds, const char *const *feeds, int n_targets,
                           const char *const *targets)
{
    return pd_pass_prune(program, n_feeds, feeds, n_targets, targets);
}

/* ---- blocks ---- */

int pd_block_count(const pd_program *program)
{
    return program->blocks.n;
}

pd_status pd_api_block(const pd_program *program, int index, struct pd_block **out)
{
    *out = pd_program_block(program, index);
    return *out ? PD_OK
                : pd_fail(PD_RANGE, "the Program has no block %d; it has %d", index, program->blocks.n);
}

pd_status pd_block_create(pd_program *program, int parent, int *index)
{
    struct pd_block *block;
    PD_TRY(pd_block_new(program, parent, &block));
    *index = block->index;
    return PD_OK;
}

pd_status pd_block_parent(const pd_program *program, int block, int *parent, int *forward)
{
    struct pd_block *b;
    PD_TRY(pd_api_block(program, block, &b));
    *parent = b->parent;
    *forward = b->forward;
    return PD_OK;
}

pd_status pd_block_set_forward(pd_program *program, int block, int forward)
{
    struct pd_block *b, *f;
    PD_TRY(pd_api_block(program, block, &b));
    if (forward >= 0) PD_TRY(pd_api_block(program, forward, &f));
    b->forward = forward;
    program->version++;
    return PD_OK;
}

pd_status pd_block_vars(const pd_program *program, int block, int64_t **ids, int *n)
{
    struct pd_block *b;
    PD_TRY(pd_api_block(program, block, &b));
    int64_t *list = pd_realloc_array(NULL, (size_t)b->vars.n, sizeof *list);
    if (!list) return pd_no_memory();
    for (int i = 0; i < b->vars.n; i++)
        list[i] = b->vars.at[i]->id;
    *ids = list;
    *n = b->vars.n;
    return PD_OK;
}

pd_status pd_block_ops(const pd_program *program, int block, int64_t **ids, int *n)
{
    struct pd_block *b;
    PD_TRY(pd_api_block(program, block, &b));
    int64_t *list = pd_realloc_array(NULL, (size_t)b->ops.n, sizeof *list);
    if (!list) return pd_no_memory();
    for (int i = 0; i < b->ops.n; i++)
        list[i] = b->ops.at[i]->id;
    *ids = list;
    *n = b->ops.n;
    return PD_OK;
}

void pd_ids_free(int64_t *ids)
{
    pd_free(ids);
}

/* ---- variables ---- */

pd_status pd_api_var(const pd_program *program, int64_t id, struct pd_var **out)
{
    *out = pd_program_var(program, id);
    return *out ? PD_OK : pd_fail(PD_GONE, "this variable was removed from its Program");
}

pd_status pd_var_create(pd_program *program, int block, const char *name, int kind, int64_t *id, int *existed)
{
    struct pd_block *b;
    struct pd_var *var;
    PD_TRY(pd_api_block(program, block, &b));
    PD_TRY(pd_var_new(b, name, (enum pd_kind)kind, &var, existed));
    *id = var->id;
    return PD_OK;
}

pd_status pd_var_describe(const pd_program *program, int64_t id, pd_var_desc *out)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    *out = (pd_var_desc){.name = v->name,
                         .block = v->block->index,
                         .kind = (int)v->meta.kind,
                         .dtype = (int)v->meta.dtype,
                         .rank = v->meta.rank,
                         .dims = v->meta.dim,
                         .lod_level = v->meta.lod_level,
                         .flags = v->flags};
    return PD_OK;
}

pd_status pd_var_set_shape(pd_program *program, int64_t id, int rank, const int64_t *dims)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    program->version++;
    return pd_meta_set_dims(&v->meta, rank, dims);
}

pd_status pd_var_set_dtype(pd_program *program, int64_t id, int dtype)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    if (!pd_dtype_size((enum pd_dtype)dtype))
        return pd_fail(PD_TYPE, "variable '%s': there is no element type number %d", v->name, dtype);
    if ((int)v->meta.dtype != dtype) program->version++;
    v->meta.dtype = (enum pd_dtype)dtype;
    return PD_OK;
}

pd_status pd_var_set_kind(pd_program *program, int64_t id, int kind)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    if (kind < PD_KIND_TENSOR || kind > PD_KIND_TUPLE)
        return pd_fail(PD_TYPE, "variable '%s': there is no kind number %d", v->name, kind);
    v->meta.kind = (enum pd_kind)kind;
    program->version++;
    return PD_OK;
}

pd_status pd_var_set_lod_level(pd_program *program, int64_t id, int lod_level)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    if (lod_level < 0)
        return pd_fail(PD_INVALID, "variable '%s': a LoD level cannot be %d", v->name, lod_level);
    v->meta.lod_level = lod_level;
    program->version++;
    return PD_OK;
}

pd_status pd_var_set_flags(pd_program *program, int64_t id, unsigned mask, unsigned flags)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    unsigned now = (v->flags & ~mask) | (flags & mask);
    if (now != v->flags) program->version++;
    v->flags = now;
    return PD_OK;
}

pd_status pd_var_set_name(pd_program *program, int64_t id, const char *name)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    return pd_block_rename_vars(v->block, 1, &v, &name);
}

pd_status pd_vars_rename(pd_program *program, int block, int n, const int64_t *ids, const char *const *names)
{
    struct pd_var **vars = pd_calloc((size_t)n + 1, sizeof *vars);
    pd_status status = vars ? PD_OK : pd_no_memory();
    for (int i = 0; status == PD_OK && i < n; i++) {
        status = pd_api_var(program, ids[i], &vars[i]);
        if (status == PD_OK && vars[i]->block->index != block)
            status = pd_fail(PD_RANGE, "variable '%s' is of block %d, not of block %d", vars[i]->name,
                             vars[i]->block->index, block);
    }
    if (status == PD_OK && n > 0) status = pd_block_rename_vars(vars[0]->block, n, vars, names);
    pd_free(vars);
    return status;
}

pd_status pd_var_delete(pd_program *program, int64_t id)
{
    struct pd_var *v;
    PD_TRY(pd_api_var(program, id, &v));
    return pd_var_remove(v);
}

pd_status pd_parts_delete(pd_program *program, int64_t n, const int64_t *ids)
{
    char *gone = pd_calloc((size_t)program->op_by_id.n + 1, 1);
    pd_status status = gone ? PD_OK : pd_no_memory();
    for (int64_t i = 0; i < n && status == PD_OK; i++) {
        if (pd_program_op(program, ids[i]) || pd_program_var(program, ids[i]))
            gone[ids[i]] = 1;
        else
            status = pd_fail(PD_GONE, "an op or a variable to delete was removed from its Program before");
    }
    if (status == PD_OK) pd_program_remove(program, gone);
    pd_free(gone);
    return status;
}

pd_status pd_var_lookup(const pd_program *program, int block, const char *name, int parents, int64_t *id)
{
    struct pd_block *b;
    PD_TRY(pd_api_block(program, block, &b));
    const struct pd_var *v = parents ? pd_block_find(b, name) : pd_block_var(b, name);
    *id = v ? v->id : -1;
    return PD_OK;
}

pd_status pd_var_dump(const pd_program *program, int64_t id, pd_bytes *out)
{
    struct pd_var *v;
    struct pd_buf text = {0};
    PD_TRY(pd_api_var(program, id, &v));
    return finish(pd_var_print(v, &text), &text, out);
}
