/* See job.h. */
#include "cli/psbench/job.h"

#include <stdio.h>

#include "cli/psbench/why.h"

int pd_psbench_parameters(const struct pd_psbench_case *c)
{
    return c->pieces ? c->pieces : 1;
}

void pd_psbench_name(int piece, int is_grad, char name[32])
{
    snprintf(name, 32, "w%d%s", piece, is_grad ? "@GRAD" : "");
}

struct pd_psbench_shape pd_psbench_shape(const struct pd_psbench_case *c)
{
    return c->pieces ? (struct pd_psbench_shape){1, {c->piece_numel}}
                     : (struct pd_psbench_shape){2, {c->options->table, c->options->width}};
}

pd_status pd_psbench_add_var(pd_program *program, const char *name, int kind, int dtype,
                             struct pd_psbench_shape shape, unsigned flags)
{
    int64_t id;
    int existed;
    PD_PSBENCH_TRY(pd_var_create(program, 0, name, kind, &id, &existed));
    PD_PSBENCH_TRY(pd_var_set_dtype(program, id, dtype));
    PD_PSBENCH_TRY(pd_var_set_shape(program, id, shape.rank, shape.dims));
    return pd_var_set_flags(program, id, ~0u, flags);
}

pd_status pd_psbench_add_piece(const struct pd_psbench_case *c, pd_program *program, int piece, int is_grad)
{
    char name[32];
    pd_psbench_name(piece, is_grad, name);
    return pd_psbench_add_var(program, name, is_grad && !c->pieces ? PD_SELECTED_ROWS : PD_LOD_TENSOR,
                              PD_FLOAT32, pd_psbench_shape(c),
                              is_grad ? 0 : PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
}

pd_status pd_psbench_add_texts(pd_op_builder *op, const char *name, int n, const char *const *texts)
{
    return pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_STRINGS, .n = n, .strings = texts});
}

pd_status pd_psbench_end_op(pd_op_builder *op, int block)
{
    int64_t id;
    return pd_op_insert(op, block, -1, &id);
}
