/* Ops of a Program: slots and attributes. */
#include <string.h>

#include "program/program.h"

/* Attributes that any op may carry: roles and back-end hints of upstream, and op_place, which is ours. */
static const char *const common_attrs[] = {"op_role",          "op_role_var",
                                           "op_namescope",     "op_callstack",
                                           "op_device",        "use_mkldnn",
                                           "use_cudnn",        "use_quantizer",
                                           "mkldnn_data_type", "with_quant_attr",
                                           "sub_block",        "__bootstrap__",
                                           "op_place",         NULL};

pd_status pd_opdesc_new(struct pd_program *program, const char *type, struct pd_opdesc **out)
{
    struct pd_opdesc *op = pd_calloc(1, sizeof *op);
    if (!op) return pd_no_memory();
    op->id = -1;
    op->program = program;
    op->type = pd_program_text(program, type);
    if (!op->type) {
        pd_free(op);
        return pd_no_memory();
    }
    op->def = pd_op_find(program->op_set, type);
    *out = op;
    return PD_OK;
}

void pd_opdesc_free(struct pd_opdesc *op)
{
    if (!op) return;
    for (int i = 0; i < op->in.n; i++)
        pd_vec_free(&op->in.at[i].args);
    for (int i = 0; i < op->out.n; i++)
        pd_vec_free(&op->out.at[i].args);
    for (int i = 0; i < op->attrs.n; i++)
        pd_attr_free(&op->attrs.at[i].value);
    pd_vec_free(&op->in);
    pd_vec_free(&op->out);
    for (int i = 0; i < op->parts.n; i++)
        pd_opdesc_free(op->parts.at[i]);
    pd_vec_free(&op->attrs);
    pd_vec_free(&op->resized);
    pd_vec_free(&op->parts);
    pd_free(op);
}

struct pd_io *pd_opdesc_slot(const struct pd_opdesc *op, int is_output, const char *slot)
{
    struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n;
    for (int i = 0; i < n; i++)
        if (strcmp(at[i].slot, slot) == 0) return &at[i];
    return NULL;
}

const char *pd_opdesc_arg(const struct pd_opdesc *op, int is_output, const char *slot)
{
    const struct pd_io *io = pd_opdesc_slot(op, is_output, slot);
    return io && io->args.n ? io->args.at[0] : NULL;
}

static pd_status slot_make(struct pd_opdesc *op, int is_output, const char *slot, struct pd_io **out)
{
    *out = pd_opdesc_slot(op, is_output, slot);
    if (*out) return PD_OK;
    struct pd_io io = {.slot = pd_program_text(op->program, slot)};
    if (!io.slot || !(is_output ? pd_vec_push(&op->out, io) : pd_vec_push(&op->in, io)))
        return pd_no_memory();
    *out = is_output ? &op->out.at[op->out.n - 1] : &op->in.at[op->in.n - 1];
    return PD_OK;
}

pd_status pd_opdesc_add_arg(struct pd_opdesc *op, int is_output, const char *slot, const char *var)
{
    struct pd_io *io;
    PD_TRY(slot_make(op, is_output, slot, &io));
    if (!var) return PD_OK;
    const char *kept = pd_program_text(op->program, var);
    if (!kept || !pd_vec_push(&io->args, kept)) return pd_no_memory();
    op->program->version++;
    return PD_OK;
}

pd_status pd_opdesc_set_args(struct pd_opdesc *op, int is_output, const char *slot, int n,
                             const char *const *vars)
{
    struct pd_io *io;
    PD_TRY(slot_make(op, is_output, slot, &io));
    io->args.n = 0;
    op->program->version++;
    for (int i = 0; i < n; i++)
        PD_TRY(pd_opdesc_add_arg(op, is_output, slot, vars[i]));
    return PD_OK;
}

static int is_common(const char *name)
{
    for (int i = 0; common_attrs[i]; i++)
        if (strcmp(common_attrs[i], name) == 0) return 1;
    return 0;
}

static struct pd_named_attr *attr_find(const struct pd_opdesc *op, const char *name)
{
    for (int i = 0; i < op->attrs.n; i++)
        if (strcmp(op->attrs.at[i].name, name) == 0) return &op->attrs.at[i];
    return NULL;
}

pd_status pd_opdesc_set_attr(struct pd_opdesc *op, const char *name, const struct pd_attr *value, int strict)
{
    struct pd_attr own;
    int known = op->def ? pd_attr_index(op->def->attrs, name) : -1;
    if (known >= 0) {
        enum pd_attr_type type = op->def->attrs[known].value.type;
        pd_status converted = pd_attr_convert(&own, type, value);
        if (converted == PD_NO_MEMORY) return converted;
        if (converted != PD_OK)
            return pd_fail(PD_TYPE, "attribute '%s' of op '%s' takes type %s, found type %s", name, op->type,
                           pd_attr_type_name(type), pd_attr_type_name(value->type));
    } else {
        if (strict && op->def && !is_common(name)) {
            struct pd_buf list = {0};
            for (int i = 0; op->def->attrs && op->def->attrs[i].name; i++)
                pd_buf_printf(&list, "%s%s", i ? ", " : "", op->def->attrs[i].name);
            pd_status status = pd_fail(PD_NOT_FOUND, "op '%s' has no attribute '%s'; its attributes are: %s",
                                       op->type, name, list.n ? list.at : "none");
            pd_buf_free(&list);
            return status;
        }
        PD_TRY(pd_attr_copy(&own, value));
    }
    struct pd_named_attr *old = attr_find(op, name);
    op->program->version++;
    if (old) {
        pd_attr_free(&old->value);
        old->value = own;
        return PD_OK;
    }
    struct pd_named_attr made = {pd_program_text(op->program, name), own};
    if (!made.name || !pd_vec_push(&op->attrs, made)) {
        pd_attr_free(&own);
        return pd_no_memory();
    }
    return PD_OK;
}

void pd_opdesc_remove_attr(struct pd_opdesc *op, const char *name)
{
    struct pd_named_attr *old = attr_find(op, name);
    if (!old) return;
    pd_attr_free(&old->value);
    pd_vec_remove(&op->attrs, (int)(old - op->attrs.at));
    op->program->version++;
}

const struct pd_attr *pd_opdesc_attr(const struct pd_opdesc *op, const char *name)
{
    struct pd_named_attr *set = attr_find(op, name);
    if (set) return &set->value;
    int known = op->def ? pd_attr_index(op->def->attrs, name) : -1;
    return known >= 0 ? &op->def->attrs[known].value : NULL;
}

int64_t pd_opdesc_place(const struct pd_opdesc *op)
{
    const struct pd_attr *given = pd_opdesc_attr(op, "op_place");
    if (given && given->type == PD_ATTR_INT) return given->i;
    return given && given->type == PD_ATTR_LONG ? given->l : op->id;
}

pd_status pd_opdesc_set_int(struct pd_opdesc *op, const char *name, int value)
{
    return pd_opdesc_set_attr(op, name, &(struct pd_attr){.type = PD_ATTR_INT, .i = value}, 0);
}

pd_status pd_opdesc_set_strings(struct pd_opdesc *op, const char *name, int n, const char *const *strings)
{
    return pd_opdesc_set_attr(op, name,
                              &(struct pd_attr){.type = PD_ATTR_STRINGS, .n = n, .strings = strings}, 0);
}

int pd_opdesc_sub_block(const struct pd_opdesc *op, int i)
{
    for (int k = 0; k < op->attrs.n; k++) {
        const struct pd_attr *v = &op->attrs.at[k].value;
        if (v->type == PD_ATTR_BLOCK && i-- == 0) return v->block;
        if (v->type != PD_ATTR_BLOCKS) continue;
        if (i < v->n) return v->blocks[i];
        i -= v->n;
    }
    return -1;
}

pd_status pd_opdesc_clone(const struct pd_opdesc *op, struct pd_program *into, struct pd_opdesc **out)
{
    struct pd_opdesc *copy;
    PD_TRY(pd_opdesc_new(into, op->type, &copy));
    copy->is_target = op->is_target;
    pd_status status = PD_OK;
    for (int side = 0; side < 2 && status == PD_OK; side++) {
        const struct pd_io *at = side ? op->out.at : op->in.at;
        int n = side ? op->out.n : op->in.n;
        for (int i = 0; i < n && status == PD_OK; i++)
            status = pd_opdesc_set_args(copy, side, at[i].slot, at[i].args.n, at[i].args.at);
    }
    for (int i = 0; i < op->attrs.n && status == PD_OK; i++)
        status = pd_opdesc_set_attr(copy, op->attrs.at[i].name, &op->attrs.at[i].value, 0);
    for (int i = 0; i < op->resized.n && status == PD_OK; i++) {
        struct pd_resized r = {pd_program_text(into, op->resized.at[i].var), op->resized.at[i].was};
        if (!r.var || !pd_vec_push(&copy->resized, r)) status = pd_no_memory();
    }
    if (status != PD_OK) {
        pd_opdesc_free(copy);
        return status;
    }
    *out = copy;
    return PD_OK;
}

int pd_opdesc_names(const struct pd_opdesc *op, int is_output, const char *var)
{
    const struct pd_io *at = is_output ? op->out.at : op->in.at;
    int n = is_output ? op->out.n : op->in.n, count = 0;
    for (int s = 0; s < n; s++)
        for (int k = 0; k < at[s].args.n; k++)
            count += strcmp(at[s].args.at[k], var) == 0;
    return count;
}

/* The parameter and the gradient that the op is for go with the names of its variables. */
static pd_status rename_role_var(struct pd_opdesc *op,
                                 const char *(*new_name)(const char *old, const void *context),
                                 const void *context)
{
    const struct pd_attr *names = pd_opdesc_attr(op, "op_role_var");
    const char **renamed = NULL, *name;
    for (int i = 0; names && names->type == PD_ATTR_STRINGS && i < names->n; i++) {
        if (!(name = new_name(names->strings[i], context))) continue;
        if (!renamed) {
            renamed = pd_calloc((size_t)names->n, sizeof *renamed);
            if (!renamed) return pd_no_memory();
            for (int k = 0; k < names->n; k++)
                renamed[k] = names->strings[k];
        }
        renamed[i] = name;
    }
    pd_status status = renamed ? pd_opdesc_set_strings(op, "op_role_var", names->n, renamed) : PD_OK;
    pd_free(renamed);
    return status;
}

pd_status pd_opdesc_rename_args(struct pd_opdesc *op,
                                const char *(*new_name)(const char *old, const void *context),
                                const void *context)
{
    for (int side = 0; side < 2; side++) {
        struct pd_io *at = side ? op->out.at : op->in.at;
        int n = side ? op->out.n : op->in.n;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < at[i].args.n; k++) {
                const char *name = new_name(at[i].args.at[k], context);
                if (name) at[i].args.at[k] = name, op->program->version++;
            }
    }
    return rename_role_var(op, new_name, context);
}

struct one_name {
    const char *from, *to;
};

static const char *new_name_of_one(const char *old, const void *context)
{
    const struct one_name *names = context;
    return strcmp(old, names->from) == 0 ? names->to : NULL;
}

pd_status pd_opdesc_rename_arg(struct pd_opdesc *op, const char *from, const char *to)
{
    struct one_name names = {from, pd_program_text(op->program, to)};
    return names.to ? pd_opdesc_rename_args(op, new_name_of_one, &names) : pd_no_memory();
}
