/* The ops of a block: put in, taken out, and where they stand.
 *
 * An op knows its position as of when it was last numbered. The first n_numbered ops of a block are numbered;
 * a change takes the numbers of those behind it away, and whoever asks has them numbered as far as that op.
 * So a walk along a block that changes it costs one pass, in either direction. */
#include <string.h>

#include "program/program.h"

/* Outputs that have no variable yet get one in this block. */
static pd_status make_outputs(struct pd_block *block, const struct pd_opdesc *op)
{
    for (int i = 0; i < op->out.n; i++)
        for (int k = 0; k < op->out.at[i].args.n; k++) {
            const char *name = op->out.at[i].args.at[k];
            struct pd_var *var;
            int existed;
            if (strcmp(name, PD_EMPTY_VAR) == 0 || pd_block_find(block, name)) continue;
            PD_TRY(pd_var_new(block, name, PD_KIND_TENSOR, &var, &existed));
        }
    return PD_OK;
}

static pd_status check_place(const struct pd_block *block, int index, const struct pd_opdesc *op)
{
    if (index > block->ops.n)
        return pd_fail(PD_RANGE, "cannot insert an op at position %d of a block with %d ops", index,
                       block->ops.n);
    if (!op->def)
        return pd_fail(PD_NOT_FOUND,
                       "there is no op '%s'; docs/MISSING.md lists the ops of upstream that are not here",
                       op->type);
    return PD_OK;
}

/* The ops from `index` on stand elsewhere now. */
static void moved_from(struct pd_block *block, int index)
{
    if (index < atomic_load_explicit(&block->n_numbered, memory_order_relaxed))
        atomic_store_explicit(&block->n_numbered, index, memory_order_relaxed);
}

static pd_status place(struct pd_block *block, int index, struct pd_opdesc *op)
{
    if (!pd_vec_insert(&block->ops, index, op)) return pd_no_memory();
    if (op->id < 0 && !pd_program_take_op_id(block->program, op)) {
        pd_vec_remove(&block->ops, index);
        return pd_no_memory();
    }
    op->block = block;
    moved_from(block, index);
    block->program->version++;
    return PD_OK;
}

pd_status pd_block_insert(struct pd_block *block, int index, struct pd_opdesc *op, int make_vars)
{
    PD_TRY(check_place(block, index, op));
    if (make_vars) PD_TRY(make_outputs(block, op));
    PD_TRY(pd_opdesc_verify(op, block));
    PD_TRY(pd_opdesc_infer(op, block));
    return place(block, index < 0 ? block->ops.n : index, op);
}

pd_status pd_block_adopt(struct pd_block *block, struct pd_opdesc *op)
{
    PD_TRY(pd_opdesc_verify(op, block));
    if (op->id < 0 && !pd_program_take_op_id(block->program, op)) return pd_no_memory();
    op->block = block;
    block->program->version++;
    return PD_OK;
}

pd_status pd_block_insert_many(struct pd_block *block, int n, const struct pd_place *places)
{
    int old = block->ops.n, to = old + n, done = 0;
    pd_status status = pd_vec_reserve(&block->ops, to) ? PD_OK : pd_no_memory();
    for (; done < n && status == PD_OK; done += status == PD_OK)
        status = pd_block_adopt(block, places[done].op);
    if (status != PD_OK) {
        while (done)
            pd_block_disown(block, places[--done].op);
        return status;
    }
    block->ops.n = to;
    for (int from = old, next = 0; next < n; from--) {
        if (from < old) block->ops.at[--to] = block->ops.at[from];
        while (next < n && places[next].before == from)
            block->ops.at[--to] = places[next++].op;
    }
    moved_from(block, to);
    return PD_OK;
}

void pd_block_disown(struct pd_block *block, struct pd_opdesc *op)
{
    block->program->op_by_id.at[op->id] = NULL;
    block->program->version++;
    op->block = NULL;
}

void pd_block_remove_op(struct pd_block *block, int index)
{
    struct pd_opdesc *op = block->ops.at[index];
    pd_vec_remove(&block->ops, index);
    moved_from(block, index);
    pd_block_disown(block, op);
    pd_opdesc_free(op);
}

static void remove_marked(struct pd_block *block, const char *gone)
{
    int left = 0;
    for (int i = 0; i < block->ops.n; i++) {
        struct pd_opdesc *op = block->ops.at[i];
        if (gone[op->id]) {
            moved_from(block, left);
            pd_block_disown(block, op);
            pd_opdesc_free(op);
        } else {
            block->ops.at[left++] = op;
        }
    }
    block->ops.n = left;
}

void pd_program_remove(struct pd_program *program, const char *gone)
{
    for (int b = 0; b < program->blocks.n; b++) {
        remove_marked(program->blocks.at[b], gone);
        pd_block_remove_vars(program->blocks.at[b], gone);
    }
}

int pd_block_op_index(struct pd_block *block, struct pd_opdesc *op)
{
    int n = atomic_load_explicit(&block->n_numbered, memory_order_acquire);
    int index = atomic_load_explicit(&op->index, memory_order_relaxed);
    if (index < n && block->ops.at[index] == op) return index; /* else the number is an old one */
    for (; n < block->ops.n; n++) {
        atomic_store_explicit(&block->ops.at[n]->index, n, memory_order_relaxed);
        if (block->ops.at[n] == op) break;
    }
    atomic_store_explicit(&block->n_numbered, n < block->ops.n ? n + 1 : n, memory_order_release);
    return n < block->ops.n ? n : -1;
}

struct pd_opdesc *pd_program_op(const struct pd_program *program, int64_t id)
{
    return id >= 0 && id < program->op_by_id.n ? program->op_by_id.at[id] : NULL;
}
