/* Attribute values: copies, conversion between types, comparison. */
#include "program/attr.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

const char *pd_attr_type_name(enum pd_attr_type type)
{
    static const char *const names[] = {
        "int",  "float",         "string", "list of ints", "list of floats", "list of strings",
        "bool", "list of bools", "block",  "long",         "list of blocks", "list of longs"};
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "unknown type";
}

static size_t item_size(enum pd_attr_type type)
{
    switch (type) {
    case PD_ATTR_INTS:
    case PD_ATTR_FLOATS:
    case PD_ATTR_BLOCKS:
        return 4;
    case PD_ATTR_BOOLS:
        return 1;
    case PD_ATTR_LONGS:
        return 8;
    default:
        return 0;
    }
}

pd_status pd_attr_copy(struct pd_attr *to, const struct pd_attr *from)
{
    struct pd_attr copy = *from;
    if (from->type == PD_ATTR_STRING) {
        copy.s = pd_strdup_some(from->s);
        if (!copy.s) return pd_no_memory();
    } else if (from->type == PD_ATTR_STRINGS) {
        char **strings = pd_calloc((size_t)from->n, sizeof *strings);
        if (!strings) return pd_no_memory();
        copy.strings = (const char *const *)strings;
        for (int i = 0; i < from->n; i++) {
            strings[i] = pd_strdup(from->strings[i]);
            if (!strings[i]) {
                copy.n = i;
                pd_attr_free(&copy);
                return pd_no_memory();
            }
        }
    } else if (item_size(from->type)) {
        size_t bytes = (size_t)from->n * item_size(from->type);
        void *items = pd_malloc(bytes);
        if (!items) return pd_no_memory();
        if (bytes) memcpy(items, from->ints, bytes);
        copy.ints = items;
    }
    *to = copy;
    return PD_OK;
}

void pd_attr_free(struct pd_attr *attr)
{
    if (attr->type == PD_ATTR_STRING) {
        pd_free((void *)attr->s);
    } else if (attr->type == PD_ATTR_STRINGS) {
        for (int i = 0; i < attr->n; i++)
            pd_free((void *)attr->strings[i]);
        pd_free((void *)attr->strings);
    } else if (item_size(attr->type)) {
        pd_free((void *)attr->ints);
    }
    *attr = (struct pd_attr){0};
}

/* Reads item i (or the single value) as a double and an integer; 0 when the type holds no numbers. */
static int as_number(const struct pd_attr *a, int i, double *d, int64_t *l)
{
    switch (a->type) {
    case PD_ATTR_INT:
        *l = a->i;
        break;
    case PD_ATTR_BOOL:
        *l = a->b;
        break;
    case PD_ATTR_LONG:
        *l = a->l;
        break;
    case PD_ATTR_BLOCK:
        *l = a->block;
        break;
    case PD_ATTR_INTS:
        *l = a->ints[i];
        break;
    case PD_ATTR_BOOLS:
        *l = a->bools[i];
        break;
    case PD_ATTR_LONGS:
        *l = a->longs[i];
        break;
    case PD_ATTR_BLOCKS:
        *l = a->blocks[i];
        break;
    case PD_ATTR_FLOAT:
    case PD_ATTR_FLOATS:
        *d = a->type == PD_ATTR_FLOAT ? a->f : a->floats[i];
        *l = fabs(*d) < 9e18 ? (int64_t)*d : 0;
        return (double)*l == *d ? 2 : 1; /* 1: has a fraction */
    default:
        return 0;
    }
    *d = (double)*l;
    return 2;
}

static int is_list(enum pd_attr_type type)
{
    return type == PD_ATTR_STRINGS || item_size(type) != 0;
}

static enum pd_attr_type scalar_of(enum pd_attr_type type)
{
    switch (type) {
    case PD_ATTR_INTS:
        return PD_ATTR_INT;
    case PD_ATTR_FLOATS:
        return PD_ATTR_FLOAT;
    case PD_ATTR_BOOLS:
        return PD_ATTR_BOOL;
    case PD_ATTR_LONGS:
        return PD_ATTR_LONG;
    case PD_ATTR_BLOCKS:
        return PD_ATTR_BLOCK;
    case PD_ATTR_STRINGS:
        return PD_ATTR_STRING;
    default:
        return type;
    }
}

/* Stores a number as `type` into item `at`; 0 when it does not fit. */
static int store(void *at, enum pd_attr_type type, int exact, double d, int64_t l)
{
    switch (type) {
    case PD_ATTR_FLOAT:
        *(float *)at = (float)d;
        return 1;
    case PD_ATTR_LONG:
        *(int64_t *)at = l;
        return exact == 2;
    case PD_ATTR_INT:
    case PD_ATTR_BLOCK:
        *(int32_t *)at = (int32_t)l;
        return exact == 2 && l == (int32_t)l;
    case PD_ATTR_BOOL:
        *(uint8_t *)at = l != 0;
        return exact == 2 && (l == 0 || l == 1);
    default:
        return 0;
    }
}

pd_status pd_attr_convert(struct pd_attr *to, enum pd_attr_type type, const struct pd_attr *from)
{
    if (from->type == type) return pd_attr_copy(to, from);
    struct pd_attr made = {.type = type};
    double d = 0;
    int64_t l = 0;
    if (!is_list(type)) {
        int exact = is_list(from->type) ? 0 : as_number(from, 0, &d, &l);
        if (!exact || !store(&made.i, type, exact, d, l)) goto refuse;
        *to = made;
        return PD_OK;
    }
    int n = is_list(from->type) ? from->n : 1;
    if (type == PD_ATTR_STRINGS) {
        if (n != 0 && from->type != PD_ATTR_STRING) goto refuse;
        const char *one[1] = {n ? from->s : NULL};
        return pd_attr_copy(to, &(struct pd_attr){.type = type, .n = n, .strings = one});
    }
    char *items = pd_malloc((size_t)n * item_size(type));
    if (!items) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        int exact = as_number(from, i, &d, &l);
        if (!exact || !store(items + (size_t)i * item_size(type), scalar_of(type), exact, d, l)) {
            pd_free(items);
            goto refuse;
        }
    }
    made.n = n;
    made.ints = (const int32_t *)items;
    *to = made;
    return PD_OK;
refuse:
    return pd_fail(PD_TYPE, "a value of type %s cannot stand for type %s", pd_attr_type_name(from->type),
                   pd_attr_type_name(type));
}
