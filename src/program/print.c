/* Programs as readable text. */
#include <string.h>

#include "program/program.h"

static void print_attr(const struct pd_attr *a, struct pd_buf *out)
{
    switch (a->type) {
    case PD_ATTR_INT:
        pd_buf_printf(out, "%d", a->i);
        return;
    case PD_ATTR_FLOAT:
        pd_buf_printf(out, "%g", (double)a->f);
        return;
    case PD_ATTR_STRING:
        pd_buf_printf(out, "'%s'", a->s);
        return;
    case PD_ATTR_BOOL:
        pd_buf_text(out, a->b ? "True" : "False");
        return;
    case PD_ATTR_BLOCK:
        pd_buf_printf(out, "block %d", a->block);
        return;
    case PD_ATTR_LONG:
        pd_buf_printf(out, "%lld", (long long)a->l);
        return;
    default:
        break;
    }
    pd_buf_text(out, "[");
    for (int i = 0; i < a->n; i++) {
        if (i) pd_buf_text(out, ", ");
        switch (a->type) {
        case PD_ATTR_INTS:
        case PD_ATTR_BLOCKS:
            pd_buf_printf(out, "%d", a->ints[i]);
            break;
        case PD_ATTR_FLOATS:
            pd_buf_printf(out, "%g", (double)a->floats[i]);
            break;
        case PD_ATTR_STRINGS:
            pd_buf_printf(out, "'%s'", a->strings[i]);
            break;
        case PD_ATTR_BOOLS:
            pd_buf_text(out, a->bools[i] ? "True" : "False");
            break;
        default:
            pd_buf_printf(out, "%lld", (long long)a->longs[i]);
            break;
        }
    }
    pd_buf_text(out, "]");
}

static void print_side(const struct pd_io *at, int n, struct pd_buf *out)
{
    pd_buf_text(out, "{");
    for (int i = 0; i < n; i++) {
        pd_buf_printf(out, "%s%s=[", i ? ", " : "", at[i].slot);
        for (int k = 0; k < at[i].args.n; k++)
            pd_buf_printf(out, "%s'%s'", k ? ", " : "", at[i].args.at[k]);
        pd_buf_text(out, "]");
    }
    pd_buf_text(out, "}");
}

pd_status pd_opdesc_print(const struct pd_opdesc *op, struct pd_buf *out)
{
    print_side(op->out.at, op->out.n, out);
    pd_buf_printf(out, " = %s(inputs=", op->type);
    print_side(op->in.at, op->in.n, out);
    for (int i = 0; i < op->attrs.n; i++) {
        if (strcmp(op->attrs.at[i].name, "op_callstack") == 0)
            continue; /* long, and no part of what the op does */
        pd_buf_printf(out, ", %s = ", op->attrs.at[i].name);
        print_attr(&op->attrs.at[i].value, out);
    }
    pd_buf_text(out, ")");
    return out->failed ? pd_no_memory() : PD_OK;
}

pd_status pd_var_print(const struct pd_var *var, struct pd_buf *out)
{
    pd_buf_printf(out, "%s%s : %s", var->flags & PD_VAR_PERSISTABLE ? "persist " : "", var->name,
                  pd_kind_name(var->meta.kind));
    if (var->meta.kind == PD_KIND_TENSOR || var->meta.kind == PD_KIND_SELECTED_ROWS ||
        var->meta.kind == PD_KIND_TENSOR_ARRAY)
        pd_buf_printf(out, " %s %s lod_level(%d)", pd_dtype_name(var->meta.dtype),
                      pd_meta_dims_text(&var->meta), var->meta.lod_level);
    if (var->flags & PD_VAR_PARAMETER)
        pd_buf_printf(out, " parameter%s", var->flags & PD_VAR_TRAINABLE ? "" : " (frozen)");
    if (var->flags & PD_VAR_STOP_GRADIENT) pd_buf_text(out, " stop_gradient");
    return out->failed ? pd_no_memory() : PD_OK;
}

pd_status pd_program_print(const struct pd_program *program, struct pd_buf *out)
{
    for (int b = 0; b < program->blocks.n; b++) {
        const struct pd_block *block = program->blocks.at[b];
        pd_buf_printf(out, "{ // block %d, parent %d\n", block->index, block->parent);
        for (int i = 0; i < block->vars.n; i++) {
            pd_buf_text(out, "    var ");
            PD_TRY(pd_var_print(block->vars.at[i], out));
            pd_buf_text(out, "\n");
        }
        pd_buf_text(out, "\n");
        for (int i = 0; i < block->ops.n; i++) {
            pd_buf_text(out, "    ");
            PD_TRY(pd_opdesc_print(block->ops.at[i], out));
            pd_buf_text(out, "\n");
        }
        pd_buf_text(out, "}\n");
    }
    return out->failed ? pd_no_memory() : PD_OK;
}
