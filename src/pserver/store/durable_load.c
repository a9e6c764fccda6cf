/* A server that starts takes up the newest snapshot: values, and the steps its trainers have reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "pserver/server/sums.h"
#include "pserver/store/durable_private.h"

static pd_status check_shape(const struct kept *k, const struct pd_snapshot_var *var)
{
    const struct pd_meta *m = &k->value->tensor.meta;
    struct pd_meta there = {.dtype = var->dtype};
    PD_TRY(pd_meta_set_dims(&there, var->rank, var->dim));
    if (m->dtype == var->dtype && pd_meta_same_dims(m, &there)) return PD_OK;
    return pd_fail(PD_SHAPE,
                   "the snapshot has '%s' as %s %s, the Program as %s %s: is it another job's? "
                   "FLAGS_ps_fresh=1 starts anew",
                   k->name, pd_dtype_name(var->dtype), pd_meta_dims_text(&there), pd_dtype_name(m->dtype),
                   pd_meta_dims_text(m));
}

/* A computed learning rate, if there was one. */
pd_status pd_durable_load_rate(struct kept *k, const struct pd_snapshot_var *var)
{
    if (!var) return PD_OK;
    PD_TRY(pd_tensor_resize(&k->value->tensor, var->dtype, var->rank, var->dim));
    memcpy(k->value->tensor.data, var->data, (size_t)var->bytes);
    return PD_OK;
}

/* Rows of the whole variable: tables that are dealt out have the same name and shape on several servers. */
static pd_status check_rows(const struct kept *k, const struct pd_snapshot_var *var)
{
    if (!k->whole || (strcmp(k->whole, var->whole) == 0 && k->first_row == var->first_row &&
                      k->row_step == var->row_step && k->whole_rows == var->whole_rows))
        return PD_OK;
    return pd_fail(PD_INVALID,
                   "the snapshot's '%s' is of the rows %lld, %lld, ... of the %lld of '%s', this server's of "
                   "the rows %lld, %lld, ... of the %lld of '%s': is it another job's, or another server's? "
                   "Bring back the folder of this server; or set FLAGS_ps_fresh=1 to start anew",
                   k->name, (long long)var->first_row, (long long)(var->first_row + var->row_step),
                   (long long)var->whole_rows, var->whole, (long long)k->first_row,
                   (long long)(k->first_row + k->row_step), (long long)k->whole_rows, k->whole);
}

static int has(const void *snapshot, const struct kept *k)
{
    return pd_snapshot_find(snapshot, k->name) != NULL;
}

static pd_status load_own(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    PD_TRY(pd_anew_mark(d, has, snapshot, pd_snapshot_note(snapshot, "optimizers"), 1));
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const struct pd_snapshot_var *var = pd_snapshot_find(snapshot, k->name);
        if (!k->value->tensor.data) {
            PD_TRY(pd_durable_load_rate(k, var));
            continue;
        }
        if (k->is_anew) continue;
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshot in %s has no '%s': is it another job's? FLAGS_ps_fresh=1 starts anew%s",
                d->folder, k->name,
                pd_snapshot_placing(snapshot)
                    ? ""
                    : ". If the script lays the job's parameters out otherwise than before, start it once "
                      "with another number of servers, and end it well: then these can go on");
        PD_TRY(check_shape(k, var));
        PD_TRY(check_rows(k, var));
        memcpy(k->value->tensor.data, var->data, (size_t)var->bytes);
    }
    PD_TRY(pd_tables_empty(d));
    return pd_tables_load(d, snapshot);
}

/* The steps of this loop's trainers, where the snapshot tells them apart. */
static void take_loop_steps(struct pd_shard *shard, int trainers, const char *text)
{
    for (int t = 0; text && t < trainers; t++) {
        char *end;
        unsigned long long step = strtoull(text, &end, 10);
        if (end == text) return;
        pd_shard_set_trainer_step(shard, t, step);
        text = end;
    }
}

const char *pd_durable_note(const struct pd_snapshot *snapshot, const char *key, int lane)
{
    char name[24];
    snprintf(name, sizeof name, "%s%d", key, lane);
    return pd_snapshot_note(snapshot, name);
}

/* Async: the number of a snapshot may be past the steps of all trainers. */
uint64_t pd_durable_highest(const struct pd_shard *shard, int trainers)
{
    uint64_t step = 0;
    for (int t = 0; t < trainers; t++)
        if (pd_shard_trainer_step(shard, t) > step) step = pd_shard_trainer_step(shard, t);
    return step;
}

static void take_steps(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    struct pd_server *s = d->server;
    int trainers = s->config.trainers;
    uint64_t applied = pd_snapshot_applied(snapshot);
    for (int l = 0; l < s->n_lanes; l++) {
        struct pd_shard *shard = s->lanes[l].shard;
        for (int t = 0; t < trainers && t < info->n_trainers; t++)
            pd_shard_set_trainer_step(shard, t, info->trainers[t].step);
        take_loop_steps(shard, trainers, pd_durable_note(snapshot, "loop", l));
        pd_shard_set_step(shard, s->config.is_sync ? applied : pd_durable_highest(shard, trainers));
        pd_server_set_step(s, pd_shard_step(shard));
    }
    pd_durable_go_on(d, snapshot, info->step, applied);
}

void pd_durable_go_on(struct pd_durable *d, const struct pd_snapshot *from, uint64_t number, uint64_t applied)
{
    struct pd_server *s = d->server;
    s->lr_step = pd_snapshot_number(from, "schedule", 10, pd_server_step(s));
    pd_sums_read(s->sums, pd_snapshot_note(from, "sums"));
    pd_durable_set_last(d, (struct pd_cut){number, applied, applied, 0}, 1);
}

int pd_durable_is_ours(const struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    int n;
    const char *const *servers = pd_durable_servers(d, &n);
    return pd_snapshot_same_places(info->n_servers, info->servers, n, servers) &&
           pd_snapshot_same_placing(pd_snapshot_placing(snapshot), d->config.placing);
}

/* Is the snapshot of a job with as many servers in the same order, that hold the same? It is this server's
 * own then. In any case the folder must have been written by the server that had its place. */
static pd_status is_own(const struct pd_durable *d, const struct pd_snapshot *snapshot, int *yes)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    const char *self = d->server->config.endpoint;
    int n;
    const char *const *servers = pd_durable_servers(d, &n);
    *yes = pd_durable_is_ours(d, snapshot);
    int place = pd_snapshot_place(n, servers, self);
    int of = pd_snapshot_place(info->n_servers, info->servers, info->endpoint);
    if (place == of || !pd_snapshot_same_places(info->n_servers, info->servers, n, servers)) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "the folder '%s' was written by server %s, number %d of %d, but this is server %s, number %d: "
        "folders of servers were exchanged, or given to the wrong one. Give that folder to server number %d, "
        "which is %s, and this server its own; or set FLAGS_ps_fresh=1 to start anew",
        d->folder, info->endpoint, of + 1, n, self, place + 1, of + 1, servers[of]);
}

/* ---- which one ---- */

/* A folder and a snapshot in it are of one job, where both say of which. */
pd_status pd_durable_check_job(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    uint64_t job = pd_snapshot_job_id(snapshot);
    if (job && d->job && job != d->job)
        return pd_fail(PD_INVALID,
                       "the folder '%s' is of job %016llx, but the snapshot of step %llu by server %s is of "
                       "job %016llx: it was brought there from another job, or another run of it. Bring back "
                       "what belongs together, or set FLAGS_ps_fresh=1 to start anew",
                       d->folder, (unsigned long long)d->job, (unsigned long long)info->step, info->endpoint,
                       (unsigned long long)job);
    if (!d->job) d->job = job;
    return PD_OK;
}

/* The newest one is of when this server trained nothing, in a job with other servers. Is there one before it
 * that is of these? That is what they left, unless others of that job have trained since (is_stale). */
static pd_status pass_over(struct pd_durable *d, const uint64_t *steps, int n, struct pd_snapshot **own)
{
    if (!pd_snapshot_is_hollow(*own) || pd_durable_is_ours(d, *own)) return PD_OK;
    for (int i = n - 1; i >= 0; i--) {
        struct pd_snapshot *before = NULL;
        pd_status status = pd_snapshot_open(d->folder, steps[i], &before);
        if (status == PD_NO_MEMORY) return status;
        if (status == PD_OK && pd_durable_is_ours(d, before) && pd_snapshot_check(before) == PD_OK) {
            d->taken.passed = pd_snapshot_info(*own)->step;
            pd_snapshot_close(*own);
            *own = before;
            return PD_OK;
        }
        int is_hollow = status == PD_OK && pd_snapshot_is_hollow(before);
        pd_snapshot_close(before);
        if (!is_hollow) return PD_OK;
    }
    return PD_OK;
}

/* The newest snapshot that is not damaged; NULL: the folder has none at all. */
static pd_status open_own(struct pd_durable *d, struct pd_snapshot **out)
{
    uint64_t *steps;
    int n, i;
    *out = NULL;
    PD_TRY(pd_snapshot_list(d->folder, &steps, &n));
    pd_status status = PD_OK;
    for (i = n - 1; i >= 0; i--) {
        status = pd_snapshot_open(d->folder, steps[i], out);
        if (status == PD_OK) status = pd_snapshot_check(*out);
        if (status == PD_OK || status == PD_NO_MEMORY) break;
        pd_snapshot_close(*out);
        *out = NULL;
        pd_log(PD_LOG_WARNING, "the snapshot of step %llu in '%s' cannot be used: %s",
               (unsigned long long)steps[i], d->folder, pd_error());
        if (i < n - 1) continue;
        d->taken.broken = steps[i];
        snprintf(d->taken.why, sizeof d->taken.why, "%s", pd_error());
    }
    if (status == PD_OK && *out) status = pass_over(d, steps, i, out);
    pd_free(steps);
    if (status == PD_NO_MEMORY) {
        pd_snapshot_close(*out);
        return status;
    }
    if (n && i < 0)
        return pd_fail(PD_FORMAT,
                       "none of the %d snapshots in '%s' can be used; of the newest: %s%s Bring one of them "
                       "back from a copy, or set FLAGS_ps_fresh=1 to start anew",
                       n, d->folder, d->taken.why, pd_full_stop(d->taken.why));
    return PD_OK;
}

/* Do the servers have other names than when it was written? They are in the same places. All of them see
 * that, whether they find a folder of their own or take their part from below the root: so all are of the
 * next era. */
static int is_moved(const struct pd_durable *d, const struct pd_snapshot *own)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(own);
    int n;
    const char *const *servers = pd_durable_servers(d, &n);
    return !pd_snapshot_same_servers(info->n_servers, info->servers, n, servers);
}

static pd_status take_own(struct pd_durable *d, const struct pd_snapshot *own)
{
    PD_TRY(pd_durable_check_job(d, own));
    PD_TRY(pd_begun_check(d, own));
    PD_TRY(load_own(d, own));
    take_steps(d, own);
    struct pd_cut last = d->last;
    if (d->taken.passed > last.number) last.number = d->taken.passed; /* it is used */
    pd_durable_set_last(d, last, 1);
    d->taken.has_own = 1;
    d->taken.number = pd_snapshot_info(own)->step;
    d->taken.id = pd_snapshot_id(own);
    d->taken.era = pd_snapshot_era(own);
    d->taken.rules = pd_snapshot_number(own, "rules", 16, 0);
    d->taken.is_moved = is_moved(d, own);
    uint64_t era = pd_snapshot_era(own) + (uint64_t)d->taken.is_moved;
    if (d->era < era) d->era = era;
    return pd_begun_take(d, own);
}

/* Has the job gone on with other servers since this snapshot of its own? What those have left is below the
 * root then, unless it is of the present servers only: they went on, and this folder is an old one. Where the
 * present names are new to the snapshot, it is no such sign that others have written under them already. */
static pd_status is_stale(struct pd_durable *d, const struct pd_snapshot *own, int *yes)
{
    uint64_t job = pd_snapshot_job_id(own), newest;
    struct pd_snapshot_but but = {.job = job ? job : d->job};
    if (is_moved(d, own)) {
        but.servers = pd_durable_servers(d, &but.n);
        but.placing = d->config.placing;
    }
    PD_TRY(pd_snapshot_newest_era(d->root, &but, &newest));
    *yes = newest > pd_snapshot_era(own);
    if (!*yes) return PD_OK;
    PD_TRY(pd_durable_load_set(d));
    if (d->taken.is_from_set && d->era >= newest) return PD_OK;
    if (!d->server->config.accepts_rollback)
        return pd_fail(PD_INVALID,
                       "the newest snapshot in '%s', of step %llu, is of before the job went on with other "
                       "servers, as others in '%s' are: what this server had since then is not there. Bring "
                       "its newest folder back; or set FLAGS_ps_accept_rollback=1 to go on from that "
                       "snapshot; or set FLAGS_ps_fresh=1 on all servers to start anew",
                       d->folder, (unsigned long long)pd_snapshot_info(own)->step, d->root);
    d->taken = (struct pd_taken){.is_less = 1, .passed = d->taken.passed};
    d->era = newest + (uint64_t)is_moved(d, own);
    atomic_store(&d->server->step, 0); /* what the others have left was looked at, and does not count */
    *yes = 0;
    return PD_OK;
}

/* The newest snapshot is damaged, and there is none before it by the same servers. */
static pd_status check_broken(struct pd_durable *d)
{
    uint64_t broken = d->taken.broken;
    d->taken.broken = 0;
    if (!broken) return PD_OK;
    if (!d->server->config.accepts_rollback)
        return pd_fail(
            PD_FORMAT,
            "the newest snapshot in '%s', of step %llu, is damaged, and those before it are of other "
            "servers, or of parameters in other places: what was acknowledged since them would be lost (%s). "
            "Bring it back from a copy; or set FLAGS_ps_accept_rollback=1 to go on from what those have",
            d->folder, (unsigned long long)broken, d->taken.why);
    d->taken.is_less = 1;
    return PD_OK;
}

/* The newest snapshot of the folder, if it is of this job's servers. */
static pd_status load_own_if(struct pd_durable *d, const struct pd_snapshot *own)
{
    int is_mine, is_done = 0;
    PD_TRY(is_own(d, own, &is_mine));
    if (is_mine) PD_TRY(is_stale(d, own, &is_done));
    if (is_done) return PD_OK;
    if (is_mine) return take_own(d, own);
    PD_TRY(check_broken(d));
    return pd_durable_load_set(d);
}

/* Own snapshot first; a job with other servers, or with its parameters in other places, is put together from
 * those of all. */
pd_status pd_durable_load(struct pd_durable *d)
{
    struct pd_snapshot *own;
    char name[64];
    int yes;
    PD_TRY(open_own(d, &own));
    if (own) {
        pd_status status = load_own_if(d, own);
        pd_snapshot_close(own);
        return status;
    }
    PD_TRY(pd_journal_has_records(d->folder, 0, &yes, name));
    if (yes)
        return pd_fail(PD_NOT_FOUND,
                       "the folder '%s' has a log (%s), but not the snapshot that it goes on from: bring "
                       "that back, or set FLAGS_ps_fresh=1 to start anew",
                       d->folder, name);
    if (d->layout.exists && d->layout.has_log && d->layout.body)
        return pd_fail(PD_NOT_FOUND,
                       "the folder '%s' has neither the log that its file 'layout' tells of nor the snapshot "
                       "that it goes on from: bring them back, or set FLAGS_ps_fresh=1 to start anew",
                       d->folder);
    return pd_durable_load_set(d);
}
