/* See scope.h. */
#include "exec/scope.h"

#include <stdatomic.h>

#include "base/error.h"

static atomic_uint_fast64_t next_uid = 1;

pd_status pd_scope_new(struct pd_scope *parent, struct pd_scope **out)
{
    struct pd_scope *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    if (parent && !pd_vec_push(&parent->kids, s)) {
        pd_free(s);
        return pd_no_memory();
    }
    s->refs = 1;
    s->uid = atomic_fetch_add(&next_uid, 1);
    s->parent = parent ? pd_scope_ref(parent) : NULL;
    *out = s;
    return PD_OK;
}

struct pd_scope *pd_scope_ref(struct pd_scope *scope)
{
    __atomic_add_fetch(&scope->refs, 1, __ATOMIC_RELAXED);
    return scope;
}

void pd_scope_unref(struct pd_scope *scope)
{
    if (!scope || __atomic_sub_fetch(&scope->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    struct pd_scope *parent = scope->parent;
    for (int i = 0; parent && i < parent->kids.n; i++)
        if (parent->kids.at[i] == scope) {
            pd_vec_remove(&parent->kids, i);
            break;
        }
    pd_map_each(&scope->vars, e) pd_value_unref(e->value);
    pd_vec_free(&scope->order);
    pd_vec_free(&scope->kids);
    pd_map_free(&scope->vars);
    pd_free(scope);
    pd_scope_unref(parent);
}

pd_status pd_scope_get(struct pd_scope *scope, const char *name, struct pd_value **out)
{
    struct pd_value *value = pd_map_get(&scope->vars, name);
    if (!value) {
        if (!pd_vec_reserve(&scope->order, scope->order.n + 1)) return pd_no_memory();
        PD_TRY(pd_value_new(PD_KIND_TENSOR, &value));
        if (!pd_map_set(&scope->vars, name, value)) {
            pd_value_unref(value);
            return pd_no_memory();
        }
        scope->order.at[scope->order.n++] = pd_map_key(&scope->vars, name);
        scope->changes++;
    }
    *out = value;
    return PD_OK;
}

struct pd_value *pd_scope_lookup(const struct pd_scope *scope, const char *name)
{
    for (; scope; scope = scope->parent) {
        struct pd_value *value = pd_map_get(&scope->vars, name);
        if (value) return value;
    }
    return NULL;
}

pd_status pd_scope_remove(struct pd_scope *scope, const char *name)
{
    const char *key = pd_map_key(&scope->vars, name);
    if (!key) return pd_fail(PD_NOT_FOUND, "the scope has no variable '%s' to erase", name);
    for (int i = 0; i < scope->order.n; i++)
        if (scope->order.at[i] == key) {
            pd_vec_remove(&scope->order, i);
            break;
        }
    pd_value_unref(pd_map_remove(&scope->vars, name));
    scope->changes++;
    return PD_OK;
}

struct pd_scope *pd_scope_root(struct pd_scope *scope)
{
    while (scope->parent)
        scope = scope->parent;
    return scope;
}

uint64_t pd_scope_stamp(const struct pd_scope *scope)
{
    uint64_t stamp = 0;
    for (; scope; scope = scope->parent)
        stamp += scope->changes;
    return stamp;
}
