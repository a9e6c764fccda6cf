/* A server's logs, one for each lane: changes are written while it trains, and done again when it starts. */
#include <string.h>

#include "base/log.h"
#include "pserver/durable_private.h"
#include "pserver/sums.h"

/* ---- at the start ---- */

struct redo {
    struct pd_shard *shard;
    struct pd_sums *sums;
    /* Changes of a step that has no END yet: without one they were never acknowledged. */
    PD_VEC(struct pd_kept_change) waiting;
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

static pd_status redo(const struct redo *r, const struct pd_kept_change *w)
{
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
    return pd_shard_redo(r->shard, &change, payload, n);
}

static pd_status replay(struct pd_durable *d, int lane, uint64_t step, struct redo *redo)
{
    struct pd_replay_result result;
    struct pd_replay_from from = {.step = step, .trainers = d->server->config.trainers};
    uint64_t *steps = pd_calloc((size_t)from.trainers, sizeof *steps);
    if (!steps) return pd_no_memory();
    for (int t = 0; t < from.trainers; t++)
        steps[t] = pd_shard_trainer_step(redo->shard, t);
    from.trainer_steps = d->server->config.is_sync ? NULL : steps;
    pd_status status = pd_journal_replay(d->folder, lane, &from, redo_record, redo, &result);
    pd_free(steps);
    if (status == PD_OK && result.records > (uint64_t)redo->waiting.n)
        pd_log(PD_LOG_INFO, "loop %d: %llu changes of the log done again, up to step %llu", lane,
               (unsigned long long)result.records - (unsigned long long)redo->waiting.n,
               (unsigned long long)pd_shard_step(redo->shard));
    return status;
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

static pd_status open_log(struct pd_durable *d, int lane, uint64_t step, enum pd_durability durability,
                          struct redo *redo)
{
    PD_TRY(replay(d, lane, step, redo));
    PD_TRY(pd_journal_open(d->folder, lane, durability, &d->journals[lane]));
    if (pd_shard_set_prepared(redo->shard, redo->waiting.at, redo->waiting.n)) {
        redo->waiting.at = NULL;
        redo->waiting.n = 0;
    }
    return drop_waiting(d, lane, redo);
}

pd_status pd_durable_open_logs(struct pd_durable *d, uint64_t step)
{
    struct pd_server *s = d->server;
    enum pd_durability durability = strcmp(d->config.log, "fsync") == 0 ? PD_DURABLE_FSYNC : PD_DURABLE_WRITE;
    d->journals = pd_calloc((size_t)s->n_lanes, sizeof *d->journals);
    if (!d->journals) return pd_no_memory();
    struct pd_schedule start = {0}, end = {0};
    pd_status status = pd_schedule_save(d, &start);
    for (int l = 0; l < s->n_lanes && status == PD_OK; l++) {
        struct redo redo = {.shard = s->lanes[l].shard, .sums = s->sums};
        pd_schedule_put(d, &start);
        status = open_log(d, l, step, durability, &redo);
        for (int i = 0; i < redo.waiting.n; i++)
            pd_free_aligned(redo.waiting.at[i].payload);
        pd_vec_free(&redo.waiting);
        int is_better = s->config.is_sync ? s->lr_step < end.step : s->lr_step > end.step;
        if (status != PD_OK || (l && !is_better)) continue;
        pd_schedule_free(&end);
        status = pd_schedule_save(d, &end);
    }
    if (status == PD_OK) pd_schedule_put(d, &end);
    pd_schedule_free(&start);
    pd_schedule_free(&end);
    return status;
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
    if (!d->journals) return PD_OK;
    pd_durable_begin(d, lane, DISK_LOGS);
    pd_status status = pd_journal_commit(d->journals[lane]);
    pd_durable_end(d, lane);
    return status;
}
