/* Look-ups in the tables of ops. */
#include "program/op.h"

#include <string.h>

static const struct pd_op *find(const struct pd_op *const *list, const char *type)
{
    for (; list && *list; list++)
        if (strcmp((*list)->type, type) == 0) return *list;
    return NULL;
}

const struct pd_op *pd_op_find(const struct pd_op_set *set, const char *type) { return find(set->ops, type); }
const struct pd_op *pd_op_find_for_plan(const struct pd_op_set *set, const char *type) { return find(set->plan_ops, type); }

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
