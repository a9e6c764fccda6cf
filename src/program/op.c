/* Look-ups in the tables of ops. */
#include "program/op.h"

#include <string.h>

const struct pd_op *pd_op_find(const struct pd_op_set *set, const char *type)
{
    for (const struct pd_op *const *op = set->ops; *op; op++)
        if (strcmp((*op)->type, type) == 0) return *op;
    return NULL;
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
