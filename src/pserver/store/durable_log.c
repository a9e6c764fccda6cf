/* A server's logs, one for each lane: changes are written while it trains, and done again when it starts. */
#include <string.h>

#include "base/log.h"
#include "pserver/server/sums.h"
#include "pserver/store/durable_private.h"

/* ---- at the start ---- */

struct redo {
    struct pd_shard *shard;
    struct pd_sums *sums;
    /* Changes of a step that has no END yet: without one they were never acknowledged. */
    PD_VEC(struct pd_kept_change) waiting;
    uint64_t done; /* changes that were done again, with the END of their steps */
};

static pd_status keep(struct redo *r, const struct pd_change *change, const void *payload, size_t n)
{
    struct pd_kept_change kept = {*change, pd_malloc_aligned(n), n};
    if (!kept.payload || !pd_vec_push(&r->waiting, kept)) {
        pd_free_aligned(kept.payload);
        return pd_no_memory();
    }
    if (n) memcpy(kept.payload, payload, n);
    return PD_OK;
}

static pd_status redo(struct redo *r, const struct pd_kept_change *w)
{
    r->done++;
    if (w->change.kind == PD_CHANGE_SUMS)
        return pd_sums_recall(r->sums, w->change.unit, w->change.step, w->payload, w->n);
    return pd_shard_redo(r->shard, &w->change, w->payload, w->n);
}

/* END and PREPARE: what waits of that step is done again, or was void; it waits no more. */
static pd_status take_waiting(struct redo *r, const struct pd_change *change)
{
    int left = 0, is_end = change->kind == PD_CHANGE_END;
    pd_status status = PD_OK;
    for (int i = 0; i < r->waiting.n; i++) {
        struct pd_kept_change *w = &r->waiting.at[i];
        int mine = change->trainer < 0 || w->change.trainer == change->trainer;
        if (is_end && mine && status == PD_OK && w->change.step == change->step) status = redo(r, w);
        if (mine && (is_end || w->change.step == change->step))
            pd_free_aligned(w->payload);
        else
            r->waiting.at[left++] = *w;
    }
    r->waiting.n = left;
    return status;
}

static pd_status redo_record(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    struct redo *r = arg;
    struct pd_change change = {.kind = (enum pd_change_kind)head->kind,
                               .trainer = head->trainer,
                               .step = head->step,
                               .unit = head->unit,
                               .part = head->part,
                               .rows = head->rows};
    if (change.kind == PD_CHANGE_PREPARE) return take_waiting(r, &change);
    if (change.kind != PD_CHANGE_END) return keep(r, &change, payload, n);
    PD_TRY(take_waiting(r, &change));
    r->done++;
    return pd_shard_redo(r->shard, &change, payload, n);
}

static pd_status replay_lane(struct pd_durable *d, int lane, uint64_t stop, struct redo *redo)
{
    struct pd_replay_result result;
    struct pd_replay_from from = {.step = d->taken.number,
                                  .base = d->taken.id,
                                  .trainers = d->server->config.trainers,
                                  .takes_less = d->server->config.accepts_rollback,
                                  .stop = stop};
    uint64_t *steps = pd_calloc((size_t)from.trainers, sizeof *steps);
    if (!steps) return pd_no_memory();
    for (int t = 0; t < from.trainers; t++)
        steps[t] = pd_shard_trainer_step(redo->shard, t);
    if (d->server->config.is_sync)
        from.held = pd_shard_step(redo->shard);
    else
        from.trainer_steps = steps;
    pd_status status = pd_journal_replay(d->folder, lane, &from, redo_record, redo, &result);
    pd_free(steps);
    PD_TRY(status);
    d->taken.files[lane] = result.file;
    atomic_fetch_add(&d->grown, result.bytes);
    d->taken.changes += redo->done;
    if (redo->done)
        pd_log(PD_LOG_INFO, "loop %d: %llu changes of the log done again, up to step %llu", lane,
               (unsigned long long)redo->done, (unsigned long long)pd_shard_step(redo->shard));
    if (!result.less[0] && !result.left) return PD_OK;
    d->taken.is_less = 1;
    pd_log(PD_LOG_WARNING,
           "loop %d goes on from step %llu without what came after it (FLAGS_ps_accept_rollback)%s%s", lane,
           (unsigned long long)pd_shard_step(redo->shard), result.less[0] ? ": " : "", result.less);
    return PD_OK;
}

/* What is left waiting stays in the file, so it is said to be void: the steps will be logged once more. */
static pd_status drop_waiting(struct pd_durable *d, int lane, struct redo *redo)
{
    pd_status status = PD_OK;
    while (redo->waiting.n && status == PD_OK) {
        struct pd_change none = {.kind = PD_CHANGE_PREPARE,
                                 .trainer = redo->waiting.at[0].change.trainer,
                                 .step = redo->waiting.at[0].change.step};
        status = pd_durable_log(d, lane, &none, NULL, 0);
        if (status == PD_OK) status = take_waiting(redo, &none);
    }
    return status == PD_OK ? pd_durable_commit(d, lane) : status;
}

/* ---- how far the logs go ---- */

struct survey {
    uint64_t ends, last; /* steps that are complete; the highest of them */
};

static pd_status survey_record(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    struct survey *s = arg;
    (void)payload, (void)n;
    if (head->kind != PD_CHANGE_END) return PD_OK;
    s->ends++;
    if (head->step > s->last) s->last = head->step;
    return PD_OK;
}

/* Sync: the first step that not every loop has to its end, when something is missing in one of them. 0:
 * nothing is. */
static pd_status first_missing(const struct pd_durable *d, uint64_t *stop)
{
    uint64_t least = UINT64_MAX;
    int is_less = 0;
    *stop = 0;
    for (int l = 0; l < d->layout.loops; l++) {
        struct pd_replay_result result;
        struct survey survey = {.last = pd_shard_step(d->server->lanes[l].shard)};
        struct pd_replay_from from = {.step = d->taken.number, .base = d->taken.id, .takes_less = 1};
        PD_TRY(pd_journal_replay(d->folder, l, &from, survey_record, &survey, &result));
        is_less |= result.less[0] != 0;
        if (survey.last < least) least = survey.last;
    }
    if (is_less) *stop = least + 1;
    return PD_OK;
}

pd_status pd_durable_count_steps(const char *folder, uint64_t number, uint64_t id, uint64_t *steps)
{
    struct pd_layout layout;
    char name[64];
    int yes;
    *steps = 0;
    pd_status status = pd_layout_read(folder, &layout);
    int lanes = layout.has_log && layout.since <= number ? layout.loops : 0;
    pd_layout_free(&layout);
    PD_TRY(status);
    PD_TRY(pd_journal_has_records(folder, layout.body ? number : 0, &yes, name));
    if (!layout.body && !yes) return PD_OK;
    if (!layout.body)
        return pd_fail(PD_FORMAT,
                       "'%s/%s' cannot be read: the file 'layout' beside it %s. Or set "
                       "FLAGS_ps_accept_rollback=1 to go on from the snapshot of step %llu",
                       folder, name,
                       layout.exists ? "is damaged, or of version 1, while this program reads version 2: use "
                                       "the program that wrote it"
                                     : "is not there; bring it back",
                       (unsigned long long)number);
    if (!lanes && yes)
        return pd_fail(PD_NOT_FOUND,
                       "'%s/%s' goes on from another snapshot than that of step %llu: bring that one back; "
                       "or set FLAGS_ps_accept_rollback=1 to go on without the log",
                       folder, name, (unsigned long long)number);
    for (int l = 0; l < lanes; l++) {
        struct pd_replay_from from = {.step = number, .base = id};
        struct survey survey = {0};
        PD_TRY(pd_journal_replay(folder, l, &from, survey_record, &survey, NULL));
        if (survey.ends > *steps) *steps = survey.ends;
    }
    return PD_OK;
}

/* ---- all lanes ---- */

/* Logs of another layout: of use only when they hold nothing. */
static pd_status check_layout(struct pd_durable *d)
{
    uint64_t steps = 0;
    const struct pd_layout *layout = &d->layout;
    pd_status status = pd_durable_count_steps(d->folder, d->taken.number, d->taken.id, &steps);
    if (status == PD_NO_MEMORY || (status == PD_OK && !steps)) return status;
    if (d->server->config.accepts_rollback) {
        d->taken.is_less = 1;
        pd_log(PD_LOG_WARNING,
               "the log in '%s' is not done again (FLAGS_ps_accept_rollback), and the job goes on from step "
               "%llu: %s",
               d->folder, (unsigned long long)pd_shard_step(d->server->lanes[0].shard),
               status == PD_OK ? layout->differs : pd_error());
        return PD_OK;
    }
    PD_TRY(status);
    return pd_fail(PD_INVALID,
                   "the log in '%s' has %llu steps past the snapshot of step %llu that this server cannot do "
                   "again: %s. Start it as before and end it with SIGTERM, which makes a snapshot of them; "
                   "or set FLAGS_ps_accept_rollback=1 to go on without them",
                   d->folder, (unsigned long long)steps, (unsigned long long)d->taken.number,
                   layout->differs);
}

static pd_status replay_all(struct pd_durable *d)
{
    struct pd_server *s = d->server;
    struct pd_schedule start = {0}, end = {0};
    uint64_t stop = 0;
    if (s->config.is_sync && d->server->config.accepts_rollback) PD_TRY(first_missing(d, &stop));
    pd_status status = pd_schedule_save(d, &start);
    for (int l = 0; l < s->n_lanes && status == PD_OK; l++) {
        struct redo *redo = &d->redo[l];
        pd_schedule_put(d, &start);
        status = replay_lane(d, l, stop, redo);
        int is_better = s->config.is_sync ? s->lr_step < end.step : s->lr_step > end.step;
        if (status != PD_OK || (l && !is_better)) continue;
        pd_schedule_free(&end);
        end = (struct pd_schedule){0};
        status = pd_schedule_save(d, &end);
    }
    if (status == PD_OK) pd_schedule_put(d, &end);
    pd_schedule_free(&start);
    pd_schedule_free(&end);
    return status;
}

/* The newest snapshot is damaged. Nothing is lost where the logs lead from the one before it to that one. */
static pd_status check_reach(struct pd_durable *d, int is_replayed)
{
    int reaches = is_replayed;
    for (int l = 0; l < d->server->n_lanes && reaches; l++)
        reaches = d->taken.files[l] >= d->taken.broken;
    if (reaches) {
        pd_log(PD_LOG_WARNING,
               "the snapshot of step %llu in '%s' is damaged; that of step %llu and the logs since then gave "
               "the same: nothing is lost",
               (unsigned long long)d->taken.broken, d->folder, (unsigned long long)d->taken.number);
        return PD_OK;
    }
    if (d->server->config.accepts_rollback) {
        d->taken.is_less = 1;
        return PD_OK;
    }
    return pd_fail(PD_FORMAT,
                   "the newest snapshot in '%s', of step %llu, is damaged, and no log leads there from that "
                   "of step %llu: what was acknowledged between them would be lost (%s). Bring it back from "
                   "a copy; or set FLAGS_ps_accept_rollback=1 to go on from step %llu",
                   d->folder, (unsigned long long)d->taken.broken, (unsigned long long)d->taken.number,
                   d->taken.why, (unsigned long long)d->taken.number);
}

int pd_durable_waits(const struct pd_durable *d, int lane)
{
    return d->redo[lane].waiting.n > 0;
}

int pd_durable_is_ready(const struct pd_durable *d, int lane)
{
    int is_ready = 0;
    for (int i = 0; i < d->redo[lane].waiting.n; i++)
        is_ready |= d->redo[lane].waiting.at[i].change.kind == PD_CHANGE_READY;
    return is_ready;
}

pd_status pd_durable_replay(struct pd_durable *d)
{
    struct pd_server *s = d->server;
    struct pd_taken *taken = &d->taken;
    taken->files = pd_calloc((size_t)s->n_lanes, sizeof *taken->files);
    d->redo = pd_calloc((size_t)s->n_lanes, sizeof *d->redo);
    if (!taken->files || !d->redo) return pd_no_memory();
    for (int l = 0; l < s->n_lanes; l++)
        d->redo[l] = (struct redo){.shard = s->lanes[l].shard, .sums = s->sums};
    if (!taken->has_own) return PD_OK;
    int is_followed = d->layout.has_log && d->layout.since <= taken->number;
    if (is_followed && d->layout.is_same)
        PD_TRY(replay_all(d));
    else
        PD_TRY(check_layout(d));
    if (taken->broken) PD_TRY(check_reach(d, is_followed && d->layout.is_same && !taken->is_less));
    return PD_OK;
}

enum pd_durability pd_durable_durability(const struct pd_durable *d)
{
    return strcmp(d->config.log, "fsync") == 0 ? PD_DURABLE_FSYNC : PD_DURABLE_WRITE;
}

static pd_status open_log(struct pd_durable *d, int lane)
{
    struct redo *redo = &d->redo[lane];
    PD_TRY(
        pd_journal_open(d->folder, lane, pd_durable_durability(d), d->taken.files[lane], &d->journals[lane]));
    if (pd_shard_set_prepared(redo->shard, redo->waiting.at, redo->waiting.n)) {
        redo->waiting.at = NULL;
        redo->waiting.n = 0;
    }
    return drop_waiting(d, lane, redo);
}

pd_status pd_durable_open_logs(struct pd_durable *d)
{
    d->journals = pd_calloc((size_t)d->server->n_lanes, sizeof *d->journals);
    if (!d->journals) return pd_no_memory();
    for (int l = 0; l < d->server->n_lanes; l++)
        PD_TRY(open_log(d, l));
    return PD_OK;
}

void pd_durable_free_redo(struct pd_durable *d)
{
    for (int l = 0; d->redo && l < d->server->n_lanes; l++) {
        for (int i = 0; i < d->redo[l].waiting.n; i++)
            pd_free_aligned(d->redo[l].waiting.at[i].payload);
        pd_vec_free(&d->redo[l].waiting);
    }
    pd_free(d->redo);
    d->redo = NULL;
}

/* ---- while training ---- */

pd_status pd_durable_log(struct pd_durable *d, int lane, const struct pd_change *change,
                         const struct pd_span *spans, int n)
{
    struct pd_record head = {.kind = (uint16_t)change->kind,
                             .trainer = change->trainer,
                             .unit = change->unit,
                             .part = change->part,
                             .step = change->step,
                             .rows = change->rows};
    struct iovec parts[2];
    if (!d->journals) return PD_OK;
    for (int i = 0; i < n; i++)
        parts[i] = (struct iovec){spans[i].at, spans[i].n};
    pd_durable_begin(d, lane, DISK_LOGS);
    pd_status status = pd_journal_append(d->journals[lane], &head, parts, n);
    pd_durable_end(d, lane);
    return status;
}

int pd_durable_has_log(const struct pd_durable *d)
{
    return d && d->journals;
}

pd_status pd_durable_commit(struct pd_durable *d, int lane)
{
    atomic_store_explicit(&d->has_done, 1, memory_order_relaxed);
    if (!d->journals) return PD_OK;
    struct pd_journal *j = d->journals[lane];
    uint64_t before = pd_journal_committed(j);
    pd_durable_begin(d, lane, DISK_LOGS);
    pd_status status = pd_journal_commit(j);
    pd_durable_end(d, lane);
    PD_TRY(status);
    uint64_t more = pd_journal_committed(j) - before;
    uint64_t grown = atomic_fetch_add_explicit(&d->grown, more, memory_order_relaxed);
    if (grown < d->log_most && grown + more >= d->log_most) pd_server_wake(d->server); /* for a snapshot */
    return PD_OK;
}

void pd_durable_syncs(const struct pd_durable *d, int lane, struct pd_histogram *out)
{
    if (d && d->journals) *out = *pd_journal_syncs(d->journals[lane]);
}
