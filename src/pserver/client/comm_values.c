/* See comm_values.h. */
#include "pserver/client/comm_values.h"

#include <string.h>

#include "pserver/client/client_private.h"

void pd_comm_values_clear(struct pd_comm_values *values)
{
    for (int i = 0; i < values->all.n; i++) {
        pd_free_aligned(values->all.at[i].newest);
        pd_free_aligned(values->all.at[i].coming);
    }
    pd_vec_free(&values->all);
}

static struct pd_brought *find(struct pd_comm_values *values, int number)
{
    for (int i = 0; i < values->all.n; i++)
        if (values->all.at[i].number == number) return &values->all.at[i];
    return NULL;
}

static pd_status add(struct pd_comm_values *values, const struct wanted *wanted, struct pd_brought **out)
{
    struct pd_brought v = {.number = wanted->name, .bytes = wanted->bytes};
    size_t room = wanted->bytes ? wanted->bytes : 1;
    v.newest = pd_malloc_aligned(room);
    v.coming = pd_malloc_aligned(room);
    if (v.newest && v.coming && pd_vec_push(&values->all, v)) {
        *out = &values->all.at[values->all.n - 1];
        return PD_OK;
    }
    pd_free_aligned(v.newest);
    pd_free_aligned(v.coming);
    return pd_no_memory();
}

/* ---- for a run ---- */

static pd_status fill_one(struct pd_comm_values *values, struct pd_client *client,
                          const struct wanted *wanted, struct pd_ask *now)
{
    struct pd_brought *v = find(values, wanted->name);
    if (!v) PD_TRY(add(values, wanted, &v));
    if (v->bytes != wanted->bytes)
        return pd_fail(PD_SHAPE, "a value of servers has %zu bytes in one run and %zu in another", v->bytes,
                       wanted->bytes);
    if (!v->has_come) return pd_ask_value(client, now, wanted->name, wanted->to, wanted->bytes);
    memcpy(wanted->to, v->newest, v->bytes);
    return PD_OK;
}

pd_status pd_comm_values_fill(struct pd_comm_values *values, struct pd_client *client,
                              const struct pd_ask *ask, struct pd_ask *now)
{
    for (const struct request *q = ask->first; q; q = q->next)
        for (int i = 0; i < q->wanted.n; i++)
            PD_TRY(fill_one(values, client, &q->wanted.at[i], now));
    return PD_OK;
}

void pd_comm_values_fetched(struct pd_comm_values *values, const struct pd_ask *ask)
{
    for (const struct request *q = ask->first; q; q = q->next)
        for (int i = 0; i < q->wanted.n; i++) {
            const struct wanted *wanted = &q->wanted.at[i];
            struct pd_brought *v = find(values, wanted->name);
            if (v && v->has_come) memcpy(wanted->to, v->newest, v->bytes);
            if (v && !v->has_come) v->fetched = values->exchanges;
        }
}

void pd_comm_values_all_fetched(struct pd_comm_values *values)
{
    for (int i = 0; i < values->all.n; i++)
        values->all.at[i].fetched = values->exchanges, values->all.at[i].has_come = 0;
}

/* ---- for an exchange ---- */

pd_status pd_comm_values_ask(struct pd_comm_values *values, struct pd_client *client, struct pd_ask *ask,
                             int *n)
{
    values->exchanges++;
    *n = values->all.n;
    for (int i = 0; i < *n; i++) {
        const struct pd_brought *v = &values->all.at[i];
        PD_TRY(pd_ask_value(client, ask, v->number, v->coming, v->bytes));
    }
    return PD_OK;
}

void pd_comm_values_take(struct pd_comm_values *values, int n)
{
    for (int i = 0; i < n; i++) {
        struct pd_brought *v = &values->all.at[i];
        if (v->fetched >= values->exchanges) continue;
        void *old = v->newest;
        v->newest = v->coming;
        v->coming = old;
        v->has_come = 1;
    }
}
