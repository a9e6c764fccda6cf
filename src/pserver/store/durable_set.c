/* A server of a job with other servers than before, or whose script has the parameters lie otherwise on the
 * same ones: what it holds is put together from what all of those have left. Nothing of that is dropped
 * without the user's word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pserver/server/sums.h"
#include "pserver/store/durable_private.h"
#include "pserver/store/folder.h"

/* ---- values and steps ---- */

/* Is it the same variable, whoever has its rows? */
static pd_status check_whole(const struct kept *k, const struct pd_snapshot_var *var, const char *whole)
{
    const struct pd_meta *m = &k->value->tensor.meta;
    int64_t rows = k->whole ? k->whole_rows : m->rank ? m->dim[0] : 1;
    int same = m->dtype == var->dtype && m->rank == var->rank && rows == var->whole_rows;
    for (int i = 1; i < m->rank && same; i++)
        same = m->dim[i] == var->dim[i];
    if (same) return PD_OK;
    struct pd_meta there = {.dtype = var->dtype}, here = *m;
    PD_TRY(pd_meta_set_dims(&there, var->rank, var->dim));
    if (there.rank) there.dim[0] = var->whole_rows;
    if (here.rank) here.dim[0] = rows;
    return pd_fail(PD_SHAPE,
                   "the snapshots of other servers have '%s' as %s %s, the Program as %s %s: are they "
                   "another job's? FLAGS_ps_fresh=1 starts anew",
                   whole, pd_dtype_name(var->dtype), pd_meta_dims_text(&there), pd_dtype_name(m->dtype),
                   pd_meta_dims_text(&here));
}

static int has(const void *set, const struct kept *k)
{
    return (k->whole && pd_snapshot_set_find(set, k->whole)) || pd_snapshot_set_find(set, k->name);
}

static pd_status load_from_set(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    struct pd_buf kinds = {0};
    int is_told = 1;
    for (int i = 0; i < set->servers.n && is_told; i++) {
        const char *some = pd_snapshot_note(set->servers.at[i], "optimizers");
        is_told = some != NULL;
        if (some) pd_anew_add_kinds(some, &kinds);
    }
    pd_status marked =
        kinds.failed ? pd_no_memory() : pd_anew_mark(d, has, set, is_told ? kinds.at : NULL, 0);
    pd_buf_free(&kinds);
    PD_TRY(marked);
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const char *whole = k->whole ? k->whole : k->name;
        const struct pd_meta *m = &k->value->tensor.meta;
        const struct pd_snapshot_var *var = pd_snapshot_set_find(set, whole);
        if (!k->value->tensor.data) {
            PD_TRY(pd_durable_load_rate(k, var));
            continue;
        }
        if (k->is_anew) continue;
        if (!var && k->whole) var = pd_snapshot_set_find(set, k->name);
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshots in %s have no '%s': are they another job's? FLAGS_ps_fresh=1 starts anew",
                d->root, whole);
        PD_TRY(check_whole(k, var, whole));
        int64_t rows = m->rank ? m->dim[0] : 1;
        size_t bytes = pd_tensor_bytes(&k->value->tensor);
        if (k->row_step > 1) {
            size_t row = bytes / (size_t)(rows ? rows : 1);
            for (int64_t r = 0; r < rows; r++)
                PD_TRY(pd_snapshot_set_read(set, whole, k->first_row + r * k->row_step, 1,
                                            (char *)k->value->tensor.data + (size_t)r * row, row));
            continue;
        }
        /* State of one number for each slice (powers of beta) is the same in all of them. */
        if (pd_snapshot_rows(var) == 1 && rows == 1 && !k->whole)
            memcpy(k->value->tensor.data, var->data, bytes);
        else
            PD_TRY(pd_snapshot_set_read(set, whole, k->whole ? k->first_row : 0, rows, k->value->tensor.data,
                                        bytes));
    }
    /* Rows by id: of all servers, those that lie here now. */
    int is_emptied = 0;
    for (int i = 0; i < set->servers.n; i++) {
        if (pd_snapshot_is_hollow(set->servers.at[i])) continue;
        if (!is_emptied++) PD_TRY(pd_tables_empty(d));
        PD_TRY(pd_tables_load(d, set->servers.at[i]));
    }
    return PD_OK;
}

/* The highest number of what was taken. */
static uint64_t number_of(const struct pd_snapshot_set *set)
{
    uint64_t most = 0;
    for (int i = 0; i < set->servers.n; i++)
        if (pd_snapshot_info(set->servers.at[i])->step > most)
            most = pd_snapshot_info(set->servers.at[i])->step;
    return most;
}

static pd_status take_steps(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    struct pd_steps steps = {0};
    pd_status status = PD_OK;
    for (int i = 0; i < set->servers.n && status == PD_OK; i++)
        if (!pd_snapshot_is_hollow(set->servers.at[i])) status = pd_steps_add(&steps, set->servers.at[i]);
    if (status == PD_OK && pd_snapshot_is_async(set->servers.at[set->lead]))
        status = pd_steps_check(d, &steps, "the snapshots of other servers, which this one starts from,",
                                "Start those servers once more together with their trainers, and end the "
                                "servers with SIGTERM while the trainers train. Then start these");
    if (status == PD_OK) {
        const struct pd_snapshot *lead = set->servers.at[set->lead];
        pd_steps_take(d, &steps, pd_snapshot_is_async(lead) ? 0 : set->step);
        d->taken.number = number_of(set);
        pd_durable_go_on(d, lead, d->taken.number, pd_shard_step(d->server->lanes[0].shard));
    }
    pd_steps_free(&steps);
    return status;
}

/* ---- whether it is all ---- */

/* How the servers of before get all that they have into snapshots that belong together. */
static const char advice[] =
    "Start those servers once more, without trainers, and end them with SIGTERM: that makes snapshots of all "
    "that they have. Where they were stopped within a step, start their trainers too, and end the servers "
    "when the step is through. Then start these. (Where they are the same servers, that is the script of "
    "before, which had the parameters lie otherwise)";

/* A log cannot be taken up by other servers than those who wrote it. */
static pd_status check_logs(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    const char *const *endpoints = set->endpoints.at;
    int n;
    const char *const *servers = pd_durable_servers(d, &n);
    int is_moved = pd_snapshot_same_places(set->servers.n, endpoints, n, servers) &&
                   pd_durable_is_ours(d, set->servers.at[set->lead]);
    for (int i = 0; i < set->servers.n; i++) {
        const struct pd_snapshot *snapshot = set->servers.at[i];
        uint64_t steps = 0, number = pd_snapshot_info(snapshot)->step;
        char *folder, why[256] = "";
        if (is_moved && strcmp(endpoints[i], servers[i]) == 0) continue; /* it has it still */
        PD_TRY(pd_snapshot_folder(d->root, endpoints[i], &folder));
        pd_status status = pd_durable_count_steps(folder, number, pd_snapshot_id(snapshot), &steps);
        /* A server of this job, which starts too, may have put its log away meanwhile: then it was empty. */
        if (status != PD_OK && status != PD_NO_MEMORY)
            status = pd_durable_count_steps(folder, number, pd_snapshot_id(snapshot), &steps);
        pd_free(folder);
        if (status == PD_NO_MEMORY) return status;
        if (status == PD_OK && !steps) continue;
        if (status == PD_OK)
            snprintf(why, sizeof why, "has %llu steps past it in its log", (unsigned long long)steps);
        else
            snprintf(why, sizeof why, "has a log that cannot be read (%.180s)", pd_error());
        if (d->server->config.accepts_rollback) {
            pd_log(PD_LOG_WARNING,
                   "server %s of before %s: they are lost (FLAGS_ps_accept_rollback), the job goes on from "
                   "step %llu",
                   endpoints[i], why, (unsigned long long)number);
            d->taken.is_less = 1;
            continue;
        }
        if (is_moved)
            return pd_fail(PD_INVALID,
                           "server %s, whose place this job gives to server %s, %s: give its folder below "
                           "'%s' the name of the new one (move away what has that name). Or set "
                           "FLAGS_ps_accept_rollback=1 to go on without those steps",
                           endpoints[i], servers[i], why, d->root);
        return pd_fail(PD_INVALID,
                       "this server starts from the snapshots of step %llu by other servers, but server %s "
                       "%s, and a log is of use only to the servers that wrote it. %s. Or set "
                       "FLAGS_ps_accept_rollback=1 to go on without those steps",
                       (unsigned long long)number, endpoints[i], why, advice);
    }
    return PD_OK;
}

static pd_status check_torn(const struct pd_snapshot_set *set)
{
    for (int i = 0; i < set->servers.n; i++)
        if (pd_snapshot_is_torn(set->servers.at[i]))
            return pd_fail(PD_INVALID,
                           "the snapshot of step %llu by server %s was cut within the next step, and is of "
                           "use only to that server. Start those servers and their trainers once more, and "
                           "end the servers when the step is through. Then start these",
                           (unsigned long long)set->step, set->endpoints.at[i]);
    return PD_OK;
}

static pd_status check_damage(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    const char *damage = set->damage;
    unsigned long long step = set->step;
    if (!*damage) return PD_OK;
    if (!d->server->config.accepts_rollback)
        return pd_fail(PD_FORMAT,
                       "the newest snapshots of other servers that are whole are of step %llu, but there are "
                       "newer ones: %s%s Bring those back from a copy. Or: %s. Or set "
                       "FLAGS_ps_accept_rollback=1 to go on from step %llu",
                       step, damage, pd_full_stop(damage), advice, step);
    pd_log(PD_LOG_WARNING,
           "the job goes on from the snapshots of step %llu by other servers, without newer ones "
           "(FLAGS_ps_accept_rollback): %s",
           step, damage);
    d->taken.is_less = 1;
    return PD_OK;
}

/* A server that runs has what it has for itself: that is another job below the same root, or one that was not
 * ended. */
static pd_status check_ended(const struct pd_durable *d, const struct pd_snapshot_set *set)
{
    const char *const *endpoints = set->endpoints.at;
    int n;
    const char *const *servers = pd_durable_servers(d, &n);
    for (int i = 0; i < set->servers.n; i++) {
        char *folder;
        if (pd_snapshot_place(n, servers, endpoints[i]) >= 0) continue; /* of this job: it starts, too */
        PD_TRY(pd_snapshot_folder(d->root, endpoints[i], &folder));
        long holder = pd_folder_holder(folder, "lock");
        pd_free(folder);
        if (holder)
            return pd_fail(PD_EXISTS,
                           "this server finds no snapshot of its own, and those of server %s below '%s', "
                           "which runs (process %ld): give this job a folder of its own (FLAGS_ps_dir); or, "
                           "if it is to go on with what that one has, end that one first",
                           endpoints[i], d->root, holder);
    }
    return PD_OK;
}

static pd_status take(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    PD_TRY(check_ended(d, set));
    PD_TRY(check_torn(set));
    PD_TRY(check_damage(d, set));
    for (int i = 0; i < set->servers.n; i++)
        PD_TRY(pd_durable_check_job(d, set->servers.at[i]));
    PD_TRY(check_logs(d, set));
    PD_TRY(load_from_set(d, set));
    PD_TRY(take_steps(d, set));
    d->taken.is_from_set = 1;
    d->era = set->era + 1;
    return PD_OK;
}

pd_status pd_durable_load_set(struct pd_durable *d)
{
    struct pd_snapshot_set *set;
    struct pd_snapshot_but but = {.job = d->job, .placing = d->config.placing};
    but.servers = pd_durable_servers(d, &but.n);
    pd_status status = pd_snapshot_set_open(d->root, PD_SNAPSHOT_NEWEST, &but, &set);
    if (status == PD_NOT_FOUND) return PD_OK;
    if (status == PD_INVALID)
        pd_error_add(
            ". Bring all of them there. Or: %s. Or, to start anew, move them away or set FLAGS_ps_fresh=1",
            advice);
    PD_TRY(status);
    status = take(d, set);
    pd_snapshot_set_close(set);
    return status;
}
