/* Ops of a Program in the public API. */
#include "api/api.h"

pd_status pd_api_op(const pd_program *program, int64_t id, struct pd_opdesc **out)
{
    *out = pd_program_op(program, id);
    return *out ? PD_OK : pd_fail(PD_GONE, "this op was removed from its Program");
}

/* ---- building ---- */

pd_status pd_op_begin(pd_program *program, const char *type, pd_op_builder **out)
{
    if (!pd_op_find(program->op_set, type))
        return pd_fail(PD_NOT_FOUND,
                       "there is no op '%s'; docs/MISSING.md lists the ops of upstream that are not here",
                       type);
    return pd_opdesc_new(program, type, out);
}

pd_status pd_op_add_arg(pd_op_builder *op, int is_output, const char *slot, const char *var)
{
    return pd_opdesc_add_arg(op, is_output, slot, var);
}
pd_status pd_op_add_attr(pd_op_builder *op, const char *name, const struct pd_attr *value)
{
    return pd_opdesc_set_attr(op, name, value, 1);
}

pd_status pd_op_add_int(pd_op_builder *op, const char *name, int value)
{
    return pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_INT, .i = value});
}

pd_status pd_op_add_float(pd_op_builder *op, const char *name, float value)
{
    return pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = value});
}

pd_status pd_op_add_text(pd_op_builder *op, const char *name, const char *value)
{
    return pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_STRING, .s = value});
}

pd_status pd_op_add_ints(pd_op_builder *op, const char *name, int n, const int32_t *values)
{
    return pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_INTS, .n = n, .ints = values});
}

pd_status pd_op_insert(pd_op_builder *op, int block, int index, int64_t *id)
{
    struct pd_block *b;
    pd_status status = pd_api_block(op->program, block, &b);
    if (status == PD_OK) status = pd_block_insert(b, index, op, 1);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    *id = op->id;
    return PD_OK;
}

void pd_op_discard(pd_op_builder *op)
{
    pd_opdesc_free(op);
}

/* ---- reading and changing ---- */

pd_status pd_op_get_type(const pd_program *program, int64_t id, const char **type)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    *type = op->type;
    return PD_OK;
}

pd_status pd_op_get_place(const pd_program *program, int64_t id, int *block, int *index)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    *block = op->block->index;
    if (index) *index = pd_block_op_index(op->block, op);
    return PD_OK;
}

pd_status pd_op_delete(pd_program *program, int64_t id)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    pd_block_remove_op(op->block, pd_block_op_index(op->block, op));
    return PD_OK;
}

pd_status pd_op_get_slot(const pd_program *program, int64_t id, int is_output, int i, const char **slot,
                         int *n, const char *const **vars)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    int count = is_output ? op->out.n : op->in.n;
    const struct pd_io *io = is_output ? op->out.at : op->in.at;
    if (i < 0 || i >= count) {
        *slot = NULL;
        *n = 0;
        return PD_OK;
    }
    *slot = io[i].slot;
    *n = io[i].args.n;
    *vars = io[i].args.at;
    return PD_OK;
}

pd_status pd_op_set_slot(pd_program *program, int64_t id, int is_output, const char *slot, int n,
                         const char *const *vars)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    return pd_opdesc_set_args(op, is_output, slot, n, vars);
}

pd_status pd_op_get_attr_at(const pd_program *program, int64_t id, int i, const char **name,
                            struct pd_attr *value)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    if (i < 0 || i >= op->attrs.n) {
        *name = NULL;
        return PD_OK;
    }
    *name = op->attrs.at[i].name;
    *value = op->attrs.at[i].value;
    return PD_OK;
}

pd_status pd_op_get_attr(const pd_program *program, int64_t id, const char *name, struct pd_attr *value)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    const struct pd_attr *found = pd_opdesc_attr(op, name);
    if (!found) return pd_fail(PD_NOT_FOUND, "op '%s' has no attribute '%s'", op->type, name);
    *value = *found;
    return PD_OK;
}

pd_status pd_op_put_attr(pd_program *program, int64_t id, const char *name, const struct pd_attr *value)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    return pd_opdesc_set_attr(op, name, value, 1);
}

pd_status pd_op_drop_attr(pd_program *program, int64_t id, const char *name)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    pd_opdesc_remove_attr(op, name);
    return PD_OK;
}

pd_status pd_op_rename_var(pd_program *program, int64_t id, const char *from, const char *to)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    return pd_opdesc_rename_arg(op, from, to);
}

pd_status pd_op_infer(pd_program *program, int64_t id)
{
    struct pd_opdesc *op;
    PD_TRY(pd_api_op(program, id, &op));
    PD_TRY(pd_opdesc_infer(op, op->block));
    program->version++;
    return PD_OK;
}

pd_status pd_op_dump(const pd_program *program, int64_t id, pd_bytes *out)
{
    struct pd_opdesc *op;
    struct pd_buf text = {0};
    PD_TRY(pd_api_op(program, id, &op));
    pd_status status = pd_opdesc_print(op, &text);
    if (status != PD_OK) {
        pd_buf_free(&text);
        return status;
    }
    return pd_api_bytes(&text, out);
}
