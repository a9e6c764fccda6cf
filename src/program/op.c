/* Look-ups in the tables of ops, and what the tables say of types. */
#include "program/op.h"

#include <stdio.h>
#include <string.h>

static const struct pd_op *find(const struct pd_op *const *list, const char *type)
{
    for (; list && *list; list++)
        if (strcmp((*list)->type, type) == 0) return *list;
    return NULL;
}

const struct pd_op *pd_op_find(const struct pd_op_set *set, const char *type)
{
    return find(set->ops, type);
}
const struct pd_op *pd_op_find_for_plan(const struct pd_op_set *set, const char *type)
{
    return find(set->plan_ops, type);
}

const struct pd_op *pd_op_forward(const struct pd_op_set *set, const struct pd_op *op)
{
    char name[96];
    size_t n = strlen(op->type), suffix = strlen("_grad");
    if (!op->grad_of && (n <= suffix || strcmp(op->type + n - suffix, "_grad") != 0)) return NULL;
    snprintf(name, sizeof name, "%.*s", (int)(n - suffix), op->type);
    const char *type = op->grad_of ? op->grad_of : name;
    const struct pd_op *found = pd_op_find(set, type);
    return found ? found : pd_op_find_for_plan(set, type);
}

int pd_slot_index(const struct pd_slot_def *slots, const char *name)
{
    for (int i = 0; slots && slots[i].name; i++)
        if (strcmp(slots[i].name, name) == 0) return i;
    return -1;
}

int pd_attr_index(const struct pd_attr_def *attrs, const char *name)
{
    for (int i = 0; attrs && attrs[i].name; i++)
        if (strcmp(attrs[i].name, name) == 0) return i;
    return -1;
}

int pd_slot_count(const struct pd_slot_def *slots)
{
    int n = 0;
    while (slots && slots[n].name)
        n++;
    return n;
}

int pd_attr_count(const struct pd_attr_def *attrs)
{
    int n = 0;
    while (attrs && attrs[n].name)
        n++;
    return n;
}

/* What holds elements, of a type that is known. */
static int has_type(const struct pd_meta *m)
{
    return m && m->dtype != PD_DTYPE_NONE && (m->kind == PD_KIND_TENSOR || m->kind == PD_KIND_SELECTED_ROWS);
}

/* "X", or "input 2 of X". */
static const char *name_input(const struct pd_infer *c, int slot, int i, char *text, size_t size)
{
    if (c->in[slot].n == 1) return c->op->inputs[slot].name;
    snprintf(text, size, "input %d of %s", i, c->op->inputs[slot].name);
    return text;
}

pd_status pd_infer_one_type(const struct pd_infer *c)
{
    const struct pd_meta *first = NULL;
    int first_slot = 0, first_at = 0;
    for (int s = 0; c->op->inputs && c->op->inputs[s].name; s++)
        for (int i = 0; i < c->in[s].n && !(c->op->inputs[s].flags & (PD_SLOT_OWN_TYPE | PD_SLOT_SIZES));
             i++) {
            const struct pd_meta *m = c->in[s].at[i];
            if (!has_type(m) || (first && m->dtype == first->dtype)) continue;
            if (first) {
                char a[128], b[128];
                return pd_fail(PD_TYPE, "%s is %s and %s is %s; they must be of one type: cast one of them",
                               name_input(c, first_slot, first_at, a, sizeof a), pd_dtype_name(first->dtype),
                               name_input(c, s, i, b, sizeof b), pd_dtype_name(m->dtype));
            }
            first = m;
            first_slot = s;
            first_at = i;
        }
    return PD_OK;
}

pd_status pd_infer_need_type(const struct pd_infer *c, int slot, enum pd_dtype dtype)
{
    const struct pd_meta *m = pd_infer_in(c, slot);
    if (!m || m->dtype == PD_DTYPE_NONE || m->dtype == dtype) return PD_OK;
    return pd_fail(PD_TYPE, "%s is %s; it must be %s", c->op->inputs[slot].name, pd_dtype_name(m->dtype),
                   pd_dtype_name(dtype));
}
