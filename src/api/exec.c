/* Scopes and executors in the public API. */
#include "api/api.h"
#include "exec/executor.h"

/* ---- scopes ---- */

pd_status pd_scope_create(pd_scope *parent, pd_scope **out)
{
    return pd_scope_new(parent, out);
}
pd_scope *pd_scope_retain(pd_scope *scope)
{
    return pd_scope_ref(scope);
}
void pd_scope_release(pd_scope *scope)
{
    pd_scope_unref(scope);
}
pd_status pd_scope_var(pd_scope *scope, const char *name, pd_value **out)
{
    return pd_scope_get(scope, name, out);
}
pd_value *pd_scope_find(const pd_scope *scope, const char *name)
{
    return pd_scope_lookup(scope, name);
}
pd_status pd_scope_erase(pd_scope *scope, const char *name)
{
    return pd_scope_remove(scope, name);
}

void pd_scope_drop_kids(pd_scope *scope)
{
    pd_scope_forget_kids(scope);
}

pd_status pd_scope_names(const pd_scope *scope, const char ***names, int *n)
{
    return pd_scope_list(scope, names, n);
}

void pd_names_free(const char **names)
{
    pd_free(names);
}

/* ---- executors ---- */

pd_status pd_executor_create(pd_executor **out)
{
    return pd_exec_new(out);
}
void pd_executor_free(pd_executor *executor)
{
    pd_exec_free(executor);
}

pd_status pd_executor_prepare(pd_executor *executor, pd_program *program, int n_feeds,
                              const char *const *feeds, int n_fetches, const char *const *fetches,
                              pd_prepared **out)
{
    return pd_exec_prepare(executor, program, n_feeds, feeds, n_fetches, fetches, out);
}

int pd_prepared_is_current(const pd_prepared *prepared)
{
    return prepared->fused == pd_exec_fuses();
}

static pd_status check_index(const pd_prepared *prepared, int i)
{
    return i >= 0 && i < prepared->n_feeds
               ? PD_OK
               : pd_fail(PD_RANGE, "there is no feed number %d; the plan has %d", i, prepared->n_feeds);
}

pd_status pd_prepared_feed(pd_prepared *prepared, int i, int dtype, int rank, const int64_t *dims,
                           const void *data, int levels, const int64_t *const *offsets, const int64_t *counts)
{
    struct pd_lod_level level[16];
    struct pd_lod *lod = NULL;
    PD_TRY(check_index(prepared, i));
    if (levels < 0 || levels > 16)
        return pd_fail(PD_INVALID, "a LoD has at most 16 levels, found %d", levels);
    for (int k = 0; k < levels; k++)
        level[k] = (struct pd_lod_level){counts[k], (int64_t *)offsets[k]};
    if (levels) PD_TRY(pd_lod_new(levels, level, &lod));
    pd_status status = pd_exec_feed(prepared, i, (enum pd_dtype)dtype, rank, dims, data, lod);
    pd_lod_unref(lod);
    return status;
}

pd_status pd_prepared_feed_value(pd_prepared *prepared, int i, const pd_value *value)
{
    PD_TRY(check_index(prepared, i));
    return pd_exec_feed_value(prepared, i, value);
}

void pd_prepared_unfeed(pd_prepared *prepared)
{
    pd_exec_unfeed(prepared);
}

pd_status pd_prepared_run(pd_prepared *prepared, pd_scope *scope, const pd_run_options *options)
{
    return pd_exec_run(prepared, scope, options ? options->poll : NULL, options ? options->arg : NULL);
}

const pd_value *pd_prepared_fetch(const pd_prepared *prepared, int i)
{
    return i >= 0 && i < prepared->n_fetches ? pd_exec_fetched(prepared, i) : NULL;
}

pd_status pd_executor_run(pd_executor *executor, pd_program *program, pd_scope *scope, int n_feeds,
                          const char *const *feed_names, const pd_value *const *feeds, int n_fetches,
                          const char *const *fetch_names, pd_value **fetched)
{
    pd_prepared *plan;
    PD_TRY(pd_exec_prepare(executor, program, n_feeds, feed_names, n_fetches, fetch_names, &plan));
    for (int i = 0; i < n_feeds; i++)
        PD_TRY(pd_exec_feed_value(plan, i, feeds[i]));
    PD_TRY(pd_exec_run(plan, scope, NULL, NULL));
    for (int i = 0; i < n_fetches; i++) {
        const struct pd_value *from = pd_exec_fetched(plan, i);
        pd_value *copy = NULL;
        pd_status status = pd_value_new(from->tensor.meta.kind, &copy);
        if (status == PD_OK) status = pd_value_copy(copy, from);
        if (status != PD_OK) {
            pd_value_unref(copy);
            while (i-- > 0)
                pd_value_unref(fetched[i]);
            return status;
        }
        fetched[i] = copy;
    }
    return PD_OK;
}
