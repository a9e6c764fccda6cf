/* A server that starts takes up the newest snapshot: values, and the steps its trainers have reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "pserver/durable_private.h"
#include "pserver/sums.h"

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
static pd_status load_rate(struct kept *k, const struct pd_snapshot_var *var)
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

static pd_status load_own(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const struct pd_snapshot_var *var = pd_snapshot_find(snapshot, k->name);
        if (!k->value->tensor.data) {
            PD_TRY(load_rate(k, var));
            continue;
        }
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshot in %s has no '%s': is it another job's? FLAGS_ps_fresh=1 starts anew",
                d->folder, k->name);
        PD_TRY(check_shape(k, var));
        PD_TRY(check_rows(k, var));
        memcpy(k->value->tensor.data, var->data, (size_t)var->bytes);
    }
    return PD_OK;
}

/* From the snapshots of a job with other servers. */
static pd_status load_from_set(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    for (int i = 0; i < d->kept.n; i++) {
        struct kept *k = &d->kept.at[i];
        const char *whole = k->whole ? k->whole : k->name;
        const struct pd_meta *m = &k->value->tensor.meta;
        const struct pd_snapshot_var *var = pd_snapshot_set_find(set, whole);
        if (!k->value->tensor.data) {
            PD_TRY(load_rate(k, var));
            continue;
        }
        if (!var && k->whole) var = pd_snapshot_set_find(set, k->name);
        if (!var)
            return pd_fail(
                PD_NOT_FOUND,
                "the snapshots in %s have no '%s': are they another job's? FLAGS_ps_fresh=1 starts anew",
                d->root, whole);
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
    return PD_OK;
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

static const char *note_of(const struct pd_snapshot *snapshot, const char *key, int lane)
{
    char name[24];
    snprintf(name, sizeof name, "%s%d", key, lane);
    return pd_snapshot_note(snapshot, name);
}

/* Async: the number of a snapshot may be past the steps of all trainers. */
static uint64_t highest(const struct pd_shard *shard, int trainers)
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
    const char *note = pd_snapshot_note(snapshot, "applied");
    uint64_t applied = note ? strtoull(note, NULL, 10) : info->step;
    for (int l = 0; l < s->n_lanes; l++) {
        struct pd_shard *shard = s->lanes[l].shard;
        for (int t = 0; t < trainers && t < info->n_trainers; t++)
            pd_shard_set_trainer_step(shard, t, info->trainers[t].step);
        take_loop_steps(shard, trainers, note_of(snapshot, "loop", l));
        pd_shard_set_step(shard, s->config.is_sync ? applied : highest(shard, trainers));
        pd_server_set_step(s, pd_shard_step(shard));
    }
    const char *schedule = pd_snapshot_note(snapshot, "schedule");
    s->lr_step = schedule ? strtoull(schedule, NULL, 10) : pd_server_step(s);
    pd_sums_read(s->sums, pd_snapshot_note(snapshot, "sums"));
    d->last_step = d->sure_step = info->step;
    d->last_applied = d->sure_applied = applied;
}

/* Pushes that had not ended. Which gradients a loop has depends on how many loops there are. */
static pd_status take_open(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    struct pd_server *s = d->server;
    if (s->config.is_sync) return PD_OK;
    if (!note_of(snapshot, "loop", s->n_lanes - 1) || note_of(snapshot, "loop", s->n_lanes)) {
        pd_log(PD_LOG_WARNING,
               "the snapshot in %s is of another number of loops (FLAGS_ps_loops): a step that was under way "
               "then may be counted twice in part",
               d->folder);
        return PD_OK;
    }
    for (int l = 0; l < s->n_lanes; l++)
        PD_TRY(pd_shard_read_open(s->lanes[l].shard, note_of(snapshot, "open", l)));
    return PD_OK;
}

/* Is the snapshot of a job with as many servers in the same order? It is this server's own then: the folder
 * must have been written by the server that had its place. */
static pd_status is_own(const struct pd_durable *d, const struct pd_snapshot_info *info, int *yes)
{
    const char *self = d->server->config.endpoint;
    int n = d->config.n_servers ? d->config.n_servers : 1;
    const char *const *servers = d->config.n_servers ? d->config.servers : &self;
    *yes = pd_snapshot_same_places(info->n_servers, info->servers, n, servers);
    int place = pd_snapshot_place(n, servers, self);
    int of = pd_snapshot_place(info->n_servers, info->servers, info->endpoint);
    if (!*yes || place == of) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "the folder '%s' was written by server %s, number %d of %d, but this is server %s, number %d: "
        "folders of servers were exchanged, or given to the wrong one. Give that folder to server "
        "number %d, which is %s, and this server its own; or set FLAGS_ps_fresh=1 to start anew",
        d->folder, info->endpoint, of + 1, n, self, place + 1, of + 1, servers[of]);
}

/* ---- which one ---- */

/* A folder and a snapshot in it are of one job, where both say of which. */
static pd_status check_job(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    uint64_t job = pd_snapshot_job_id(snapshot);
    if (job && d->job && job != d->job)
        return pd_fail(
            PD_INVALID,
            "the folder '%s' is of job %016llx, but the snapshot of step %llu by server %s is of job "
            "%016llx: it was brought there from another job, or another run of it. Bring back what "
            "belongs together, or set FLAGS_ps_fresh=1 to start anew",
            d->folder, (unsigned long long)d->job, (unsigned long long)info->step, info->endpoint,
            (unsigned long long)job);
    if (!d->job) d->job = job;
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
    pd_free(steps);
    if (status == PD_NO_MEMORY) {
        pd_snapshot_close(*out);
        return status;
    }
    if (n && i < 0)
        return pd_fail(
            PD_FORMAT,
            "none of the %d snapshots in '%s' can be used; of the newest: %s. Bring one of them back from "
            "a copy, or set FLAGS_ps_fresh=1 to start anew",
            n, d->folder, d->taken.why);
    return PD_OK;
}

static pd_status take_own(struct pd_durable *d, const struct pd_snapshot *own)
{
    PD_TRY(check_job(d, own));
    PD_TRY(load_own(d, own));
    take_steps(d, own);
    d->taken.has_own = 1;
    d->taken.number = pd_snapshot_info(own)->step;
    d->taken.id = pd_snapshot_id(own);
    return take_open(d, own);
}

/* A log cannot be taken up by other servers than those who wrote it. */
static pd_status check_logs_of_set(struct pd_durable *d, const struct pd_snapshot_set *set)
{
    for (int i = 0; i < pd_snapshot_set_count(set); i++) {
        const struct pd_snapshot *snapshot = pd_snapshot_set_at(set, i);
        const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
        uint64_t steps = 0;
        char *folder, why[256] = "";
        PD_TRY(pd_snapshot_folder(d->root, info->endpoint, &folder));
        pd_status status = pd_durable_count_steps(folder, info->step, pd_snapshot_id(snapshot), &steps);
        pd_free(folder);
        if (status == PD_NO_MEMORY) return status;
        if (status == PD_OK && !steps) continue;
        if (status == PD_OK)
            snprintf(why, sizeof why, "has %llu steps past it in its log", (unsigned long long)steps);
        else
            snprintf(why, sizeof why, "has a log that cannot be read (%.180s)", pd_error());
        if (pd_flag_int(PD_FLAG_ps_accept_rollback)) {
            pd_log(PD_LOG_WARNING,
                   "server %s of before %s: they are lost (FLAGS_ps_accept_rollback), the job goes on from "
                   "step %llu",
                   info->endpoint, why, (unsigned long long)info->step);
            d->taken.is_less = 1;
            continue;
        }
        return pd_fail(PD_INVALID,
                       "this server starts from the snapshots of step %llu by other servers, but server %s "
                       "%s, and a log is of "
                       "use only to the servers that wrote it. Start those once more, without trainers, and "
                       "end them with "
                       "SIGTERM: that makes snapshots of it. Then start these. Or set "
                       "FLAGS_ps_accept_rollback=1 to go on "
                       "without those steps",
                       (unsigned long long)info->step, info->endpoint, why);
    }
    return PD_OK;
}

static pd_status take_set(struct pd_durable *d)
{
    struct pd_snapshot_set *set;
    struct pd_snapshot_but but = {d->config.n_servers, d->config.servers};
    pd_status status = pd_snapshot_set_open(d->root, PD_SNAPSHOT_NEWEST, &but, &set);
    if (status == PD_NOT_FOUND) return PD_OK;
    if (status == PD_INVALID)
        pd_error_add(". Bring all of them there; or, to start anew, move them away or set FLAGS_ps_fresh=1");
    PD_TRY(status);
    const char *damage = pd_snapshot_set_damage(set);
    if (*damage && !pd_flag_int(PD_FLAG_ps_accept_rollback))
        status = pd_fail(
            PD_FORMAT,
            "the newest snapshots of other servers that are whole are of step %llu, but there are newer "
            "ones: %s. Bring those back from a copy; or set FLAGS_ps_accept_rollback=1 to go on from step "
            "%llu",
            (unsigned long long)pd_snapshot_set_step(set), damage,
            (unsigned long long)pd_snapshot_set_step(set));
    for (int i = 0; i < pd_snapshot_set_count(set) && status == PD_OK; i++) {
        status = check_job(d, pd_snapshot_set_at(set, i));
        if (status == PD_OK) status = pd_snapshot_check(pd_snapshot_set_at(set, i));
    }
    if (status == PD_OK) status = check_logs_of_set(d, set);
    if (status == PD_OK) status = load_from_set(d, set);
    if (status == PD_OK) {
        take_steps(d, pd_snapshot_set_at(set, 0));
        d->taken.is_from_set = 1;
        d->taken.number = pd_snapshot_set_step(set);
    }
    pd_snapshot_set_close(set);
    return status;
}

/* Own snapshot first; a job with other servers is put together from all of theirs. */
pd_status pd_durable_load(struct pd_durable *d)
{
    struct pd_snapshot *own;
    char name[64];
    int yes;
    int mine = 0;
    PD_TRY(open_own(d, &own));
    pd_status status = own ? is_own(d, pd_snapshot_info(own), &mine) : PD_OK;
    if (status == PD_OK && mine) status = take_own(d, own);
    pd_snapshot_close(own);
    if (status != PD_OK || mine) return status;
    d->taken.broken = 0;
    if (own) return take_set(d);
    PD_TRY(pd_journal_has_records(d->folder, 0, &yes, name));
    if (yes)
        return pd_fail(
            PD_NOT_FOUND,
            "the folder '%s' has a log (%s), but not the snapshot that it goes on from: bring that back, "
            "or set FLAGS_ps_fresh=1 to start anew",
            d->folder, name);
    return take_set(d);
}
