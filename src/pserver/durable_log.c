/* A server's logs, one for each lane: changes are written while it trains, and done again when it starts. */
#include <string.h>

#include "base/log.h"
#include "pserver/durable_private.h"
#include "pserver/sums.h"

/* ---- at the start ---- */

/* Changes of a step that has no END yet wait here: without one they were never acknowledged. */
struct waiting {
    struct pd_change change;
    void *payload;
    size_t n;
};

struct redo {
    struct pd_shard *shard;
    struct pd_sums *sums;
    PD_VEC(struct waiting) waiting;
};

static pd_status redo(const struct redo *r, const struct waiting *w)
{
    if (w->change.kind == PD_CHANGE_SUMS)
        return pd_sums_recall(r->sums, w->change.unit, w->change.step, w->payload, w->n);
    return pd_shard_redo(r->shard, &w->change, w->payload, w->n);
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
    if (change.kind != PD_CHANGE_END) {
        struct waiting w = {change, pd_malloc_aligned(n), n};
        if (!w.payload || !pd_vec_push(&r->waiting, w)) {
            pd_free_aligned(w.payload);
            return pd_no_memory();
        }
        memcpy(w.payload, payload, n);
        return PD_OK;
    }
    int kept = 0;
    pd_status status = PD_OK;
    for (int i = 0; i < r->waiting.n; i++) {
        struct waiting *w = &r->waiting.at[i];
        int mine = change.trainer < 0 || w->change.trainer == change.trainer;
        if (mine && status == PD_OK && w->change.step == change.step) status = redo(r, w);
        if (mine)
            pd_free_aligned(w->payload);
        else
            r->waiting.at[kept++] = *w;
    }
    r->waiting.n = kept;
    return status == PD_OK ? pd_shard_redo(r->shard, &change, payload, n) : status;
}

static pd_status replay(struct pd_durable *d, int lane, uint64_t step)
{
    struct redo redo = {.shard = d->server->lanes[lane].shard, .sums = d->server->sums};
    struct pd_replay_result result;
    struct pd_replay_from from = {.step = step, .trainers = d->server->config.trainers};
    uint64_t *steps = pd_calloc((size_t)from.trainers, sizeof *steps);
    if (!steps) return pd_no_memory();
    for (int t = 0; t < from.trainers; t++)
        steps[t] = pd_shard_trainer_step(redo.shard, t);
    from.trainer_steps = d->server->config.is_sync ? NULL : steps;
    pd_status status = pd_journal_replay(d->folder, lane, &from, redo_record, &redo, &result);
    for (int i = 0; i < redo.waiting.n; i++)
        pd_free_aligned(redo.waiting.at[i].payload);
    pd_vec_free(&redo.waiting);
    pd_free(steps);
    if (status == PD_OK && result.records)
        pd_log(PD_LOG_INFO, "loop %d: %llu changes of the log done again, up to step %llu", lane,
               (unsigned long long)result.records, (unsigned long long)pd_shard_step(redo.shard));
    return status;
}

pd_status pd_durable_open_logs(struct pd_durable *d, uint64_t step)
{
    struct pd_server *s = d->server;
    enum pd_durability durability = strcmp(d->config.log, "fsync") == 0 ? PD_DURABLE_FSYNC : PD_DURABLE_WRITE;
    d->journals = pd_calloc((size_t)s->n_lanes, sizeof *d->journals);
    if (!d->journals) return pd_no_memory();
    struct pd_schedule schedule = {0};
    pd_status status = pd_schedule_keep(s, &schedule);
    for (int l = 0; status == PD_OK && l < s->n_lanes; l++) {
        if (l) status = pd_schedule_reset(s, &schedule);
        if (status == PD_OK) status = replay(d, l, step);
        if (status == PD_OK) status = pd_journal_open(d->folder, l, durability, &d->journals[l]);
    }
    pd_schedule_free(&schedule);
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
    return pd_journal_append(d->journals[lane], &head, parts, n);
}

pd_status pd_durable_commit(struct pd_durable *d, int lane)
{
    return d->journals ? pd_journal_commit(d->journals[lane]) : PD_OK;
}
