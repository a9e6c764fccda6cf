/* Programs and blocks: creation, the string pool, ids. */
#include "program/program.h"

#include <stdatomic.h>

static atomic_uint_fast64_t next_uid = 1;

pd_status pd_program_new(const struct pd_op_set *ops, struct pd_program **out)
{
    struct pd_program *p = pd_calloc(1, sizeof *p);
    if (!p) return pd_no_memory();
    p->refs = 1;
    p->op_set = ops;
    p->uid = atomic_fetch_add(&next_uid, 1);
    p->file_version = 1008005;
    struct pd_block *block;
    p->lineage = pd_calloc(1, sizeof *p->lineage);
    if (p->lineage) *p->lineage = (struct pd_lineage){.refs = 1, .salt = p->uid};
    pd_status status = p->lineage ? pd_block_new(p, -1, &block) : pd_no_memory();
    if (status != PD_OK) {
        pd_program_unref(p);
        return status;
    }
    *out = p;
    return PD_OK;
}

struct pd_program *pd_program_ref(struct pd_program *program)
{
    __atomic_add_fetch(&program->refs, 1, __ATOMIC_RELAXED);
    return program;
}

static void lineage_unref(struct pd_lineage *lineage)
{
    if (lineage && __atomic_sub_fetch(&lineage->refs, 1, __ATOMIC_ACQ_REL) == 0) pd_free(lineage);
}

void pd_program_join(struct pd_program *copy, const struct pd_program *origin)
{
    __atomic_add_fetch(&origin->lineage->refs, 1, __ATOMIC_RELAXED);
    lineage_unref(copy->lineage);
    copy->lineage = origin->lineage;
}

static void block_free(struct pd_block *block)
{
    for (int i = 0; i < block->ops.n; i++)
        pd_opdesc_free(block->ops.at[i]);
    pd_vec_free(&block->ops);
    for (int i = 0; i < block->vars.n; i++) {
        pd_lod_unref(block->vars.at[i]->meta.lod);
        pd_buf_free(&block->vars.at[i]->extra);
        pd_free(block->vars.at[i]);
    }
    pd_vec_free(&block->vars);
    pd_map_free(&block->by_name);
    pd_free(block);
}

void pd_program_unref(struct pd_program *program)
{
    if (!program || __atomic_sub_fetch(&program->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    for (int i = 0; i < program->blocks.n; i++)
        block_free(program->blocks.at[i]);
    pd_vec_free(&program->blocks);
    pd_vec_free(&program->var_by_id);
    pd_vec_free(&program->op_by_id);
    pd_map_free(&program->pool);
    pd_buf_free(&program->compatible);
    lineage_unref(program->lineage);
    pd_free(program);
}

const char *pd_program_text(struct pd_program *program, const char *text)
{
    const char *kept = pd_map_key(&program->pool, text);
    if (kept) return kept;
    return pd_map_add(&program->pool, text) ? pd_map_key(&program->pool, text) : NULL;
}

pd_status pd_block_new(struct pd_program *program, int parent, struct pd_block **out)
{
    if (parent >= program->blocks.n || parent < -1)
        return pd_fail(PD_INVALID, "the Program has no block %d to put a block under; it has %d blocks",
                       parent, program->blocks.n);
    struct pd_block *block = pd_calloc(1, sizeof *block);
    if (!block) return pd_no_memory();
    *block =
        (struct pd_block){.program = program, .index = program->blocks.n, .parent = parent, .forward = -1};
    if (!pd_vec_push(&program->blocks, block)) {
        pd_free(block);
        return pd_no_memory();
    }
    program->version++;
    *out = block;
    return PD_OK;
}

struct pd_block *pd_program_block(const struct pd_program *program, int index)
{
    return index >= 0 && index < program->blocks.n ? program->blocks.at[index] : NULL;
}

void pd_program_drop_last_block(struct pd_program *program)
{
    if (program->blocks.n < 2) return;
    struct pd_block *block = program->blocks.at[program->blocks.n - 1];
    while (block->ops.n)
        pd_block_remove_op(block, block->ops.n - 1);
    while (block->vars.n)
        pd_var_remove(block->vars.at[block->vars.n - 1]);
    program->blocks.n--;
    program->version++;
    block_free(block);
}
