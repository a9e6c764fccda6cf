/* See scope.h. */
#include "exec/scope.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

static atomic_uint_fast64_t next_uid = 1;

/* One lock for all: who looks something up does so once, when the scope has changed since its last run. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

pd_status pd_scope_new(struct pd_scope *parent, struct pd_scope **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    struct pd_scope *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    pthread_mutex_lock(&lock);
    int ok = !parent || pd_vec_push(&parent->kids, s);
    pthread_mutex_unlock(&lock);
    if (!ok) {
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
    pthread_mutex_lock(&lock);
    for (int i = 0; parent && i < parent->kids.n; i++)
        if (parent->kids.at[i] == scope) {
            pd_vec_remove(&parent->kids, i);
            break;
        }
    pthread_mutex_unlock(&lock);
    pd_map_each(&scope->vars, e)
        pd_value_unref(e->value);
    pd_vec_free(&scope->order);
    pd_vec_free(&scope->kids);
    pd_map_free(&scope->vars);
    pd_free(scope);
    pd_scope_unref(parent);
}

void pd_scope_forget_kids(struct pd_scope *scope)
{
    pthread_mutex_lock(&lock);
    scope->kids.n = 0;
    pthread_mutex_unlock(&lock);
}

/* ---- under the lock ---- */

static void changed(struct pd_scope *scope)
{
    __atomic_add_fetch(&scope->changes, 1, __ATOMIC_RELEASE);
}

static pd_status get(struct pd_scope *scope, const char *name, struct pd_value **out)
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
        changed(scope);
    }
    *out = value;
    return PD_OK;
}

static struct pd_value *look_up(const struct pd_scope *scope, const char *name)
{
    for (; scope; scope = scope->parent) {
        struct pd_value *value = pd_map_get(&scope->vars, name);
        if (value) return value;
    }
    return NULL;
}

static pd_status erase(struct pd_scope *scope, const char *name, struct pd_value **value)
{
    const char *key = pd_map_key(&scope->vars, name);
    if (!key) return pd_fail(PD_NOT_FOUND, "the scope has no variable '%s' to erase", name);
    for (int i = 0; i < scope->order.n; i++)
        if (scope->order.at[i] == key) {
            pd_vec_remove(&scope->order, i);
            break;
        }
    *value = pd_map_remove(&scope->vars, name);
    changed(scope);
    return PD_OK;
}

static pd_status list_names(const struct pd_scope *scope, const char ***names, int *n)
{
    const char **list = pd_calloc((size_t)scope->order.n + 1, sizeof *list);
    if (!list) return pd_no_memory();
    for (int i = 0; i < scope->order.n; i++)
        list[i] = scope->order.at[i];
    *names = list;
    *n = scope->order.n;
    return PD_OK;
}

/* ---- */

pd_status pd_scope_get(struct pd_scope *scope, const char *name, struct pd_value **out)
{
    pthread_mutex_lock(&lock);
    pd_status status = get(scope, name, out);
    pthread_mutex_unlock(&lock);
    return status;
}

struct pd_value *pd_scope_lookup(const struct pd_scope *scope, const char *name)
{
    pthread_mutex_lock(&lock);
    struct pd_value *value = look_up(scope, name);
    pthread_mutex_unlock(&lock);
    return value;
}

pd_status pd_scope_hold(struct pd_scope *scope, const char *name, int make, struct pd_value **out)
{
    pd_status status = PD_OK;
    pthread_mutex_lock(&lock);
    *out = look_up(scope, name);
    if (!*out && make) status = get(pd_scope_root(scope), name, out);
    if (status == PD_OK && *out) pd_value_ref(*out);
    pthread_mutex_unlock(&lock);
    return status;
}

pd_status pd_scope_remove(struct pd_scope *scope, const char *name)
{
    struct pd_value *value = NULL;
    pthread_mutex_lock(&lock);
    pd_status status = erase(scope, name, &value);
    pthread_mutex_unlock(&lock);
    pd_value_unref(value);
    return status;
}

pd_status pd_scope_list(const struct pd_scope *scope, const char ***names, int *n)
{
    pthread_mutex_lock(&lock);
    pd_status status = list_names(scope, names, n);
    pthread_mutex_unlock(&lock);
    return status;
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
        stamp += __atomic_load_n(&scope->changes, __ATOMIC_ACQUIRE);
    return stamp;
}
