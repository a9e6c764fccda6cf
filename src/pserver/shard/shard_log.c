/* What a shard writes into its log, and how it does it again after a restart. */
#include <string.h>

#include "pserver/shard/shard_private.h"

int pd_shard_is_logged(const struct pd_shard *shard)
{
    const struct pd_shard_hooks *hooks = &shard->config.hooks;
    return hooks->log && (!hooks->keeps || hooks->keeps(hooks->arg));
}

static pd_status put(struct pd_shard *shard, const struct pd_change *change, const struct pd_span *spans,
                     int n)
{
    return pd_shard_is_logged(shard) ? shard->config.hooks.log(shard->config.hooks.arg, change, spans, n)
                                     : PD_OK;
}

pd_status pd_shard_log_part(struct pd_shard *shard, int trainer, int unit, uint32_t part, uint64_t step,
                            const void *data, size_t bytes)
{
    struct pd_change change = {
        .kind = PD_CHANGE_PART, .trainer = trainer, .step = step, .unit = (uint32_t)unit, .part = part};
    return put(shard, &change, &(struct pd_span){(void *)data, bytes}, 1);
}

/* Part 1: nobody gave anything (rule.h). */
enum { NOT_GIVEN = 1 };

pd_status pd_shard_log_rows(struct pd_shard *shard, enum pd_change_kind kind, int trainer, int unit,
                            uint64_t step, int is_given, int64_t n, const int64_t *rows, const void *data,
                            size_t bytes)
{
    struct pd_change change = {.kind = kind,
                               .trainer = trainer,
                               .step = step,
                               .unit = (uint32_t)unit,
                               .part = is_given ? 0 : NOT_GIVEN,
                               .rows = (uint64_t)n};
    struct pd_span spans[2] = {{(void *)rows, (size_t)n * sizeof *rows}, {(void *)data, bytes}};
    return put(shard, &change, spans, 2);
}

/* Units that run through the engine: each trainer's part, because the Program itself averages. */
pd_status pd_shard_log_given(struct pd_shard *shard, uint64_t step)
{
    for (int i = 0; pd_shard_is_logged(shard) && i < shard->units.n; i++) {
        const struct unit *u = shard->units.at[i];
        for (int t = 0; !u->is_direct && t < shard->config.trainers; t++) {
            const struct pd_given *g = pd_shard_takes_part(shard, t) ? pd_shard_given(shard, i, t) : NULL;
            if (!g) continue;
            if (u->spec.is_rows) {
                PD_TRY(pd_shard_log_rows(shard, PD_CHANGE_GIVEN, t, i, step, 1, g->rows.n, g->rows.at,
                                         g->data, (size_t)(g->rows.n * u->width) * u->item));
                continue;
            }
            struct pd_change change = {
                .kind = PD_CHANGE_GIVEN, .trainer = t, .step = step, .unit = (uint32_t)i};
            PD_TRY(put(shard, &change, &(struct pd_span){g->data, (size_t)u->numel * u->item}, 1));
        }
    }
    return PD_OK;
}

pd_status pd_shard_log_prepare(struct pd_shard *shard, uint64_t step)
{
    struct pd_change change = {.kind = PD_CHANGE_PREPARE, .trainer = -1, .step = step};
    return put(shard, &change, NULL, 0);
}

pd_status pd_shard_commit_of(struct pd_shard *shard, enum pd_change_kind kind, int trainer, uint64_t step,
                             const int32_t *who, size_t bytes)
{
    struct pd_change change = {.kind = kind, .trainer = trainer, .step = step};
    struct pd_span span = {(void *)who, bytes};
    PD_TRY(put(shard, &change, &span, 1));
    return shard->config.hooks.commit(shard->config.hooks.arg, trainer, step);
}

pd_status pd_shard_commit(struct pd_shard *shard, enum pd_change_kind kind, int trainer, uint64_t step)
{
    if (!pd_shard_is_logged(shard)) return PD_OK;
    shard->who.n = 0;
    for (int t = 0; t < shard->config.trainers; t++)
        if ((trainer >= 0 ? t == trainer : pd_shard_takes_part(shard, t)) && !pd_vec_push(&shard->who, t))
            return pd_no_memory();
    return pd_shard_commit_of(shard, kind, trainer, step, shard->who.at,
                              (size_t)shard->who.n * sizeof *shard->who.at);
}

/* ---- again ---- */

static pd_status redo_given(struct unit *u, const struct pd_change *change, const void *payload, size_t n)
{
    struct pd_given *g = &u->given[change->trainer];
    size_t ids = (size_t)change->rows * sizeof(int64_t);
    g->step = change->step;
    g->n_parts = 1;
    g->rows.n = 0;
    if (u->spec.is_rows) {
        if (change->rows > INT32_MAX || !pd_vec_reserve(&g->rows, (int)change->rows)) return pd_no_memory();
        memcpy(g->rows.at, payload, ids);
        g->rows.n = (int)change->rows;
        payload = (const char *)payload + ids;
        n -= ids;
    }
    if (!pd_room_aligned(&g->data, &g->data_size, n)) return pd_no_memory();
    if (n) memcpy(g->data, payload, n);
    return PD_OK;
}

static pd_status redo_part(struct pd_shard *shard, struct unit *u, const struct pd_change *change,
                           const void *payload, size_t n)
{
    int64_t first = (int64_t)change->part * u->part_elements, count = (int64_t)(n / u->item);
    struct pd_given *g;
    int is_last;
    if (count > u->numel - first)
        return pd_fail(PD_FORMAT, "the log has %lld elements for part %u of '%s'", (long long)count,
                       change->part, u->spec.grad);
    if (shard->config.is_sync) {
        is_last = pd_shard_count_applied(u, change->part, change->step);
    } else {
        PD_TRY(pd_shard_given_for(shard, u, change->trainer, change->step, &g));
        is_last = pd_shard_count_given(u, g, change->part);
    }
    return u->spec.table->kind->update_part(u->spec.table, first, count, payload, is_last);
}

/* Who took part is not who is in the job now: the list says it to those who ask while blocks run. */
pd_status pd_shard_redo_end(struct pd_shard *shard, const struct pd_change *change, const void *payload,
                            size_t n)
{
    const int32_t *who = payload;
    int through_engine = 0, n_who = (int)(n / sizeof *who);
    pd_status status = PD_OK;
    for (int i = 0; i < n_who; i++)
        if (who[i] < 0 || who[i] >= shard->config.trainers)
            return pd_fail(PD_FORMAT, "the log names trainer %d, but the job has %d", who[i],
                           shard->config.trainers);
    PD_TRY(pd_shard_begin(shard, change->step));
    for (int i = 0; i < shard->units.n; i++)
        through_engine |= !shard->units.at[i]->is_direct;
    shard->applying = change->step;
    shard->taking_part = n_who;
    for (int i = 0; i < n_who; i++)
        shard->trainers[who[i]].step = change->step;
    if (through_engine && n_who) {
        shard->again = who;
        shard->n_again = n_who;
        status = shard->config.hooks.run_blocks(shard->config.hooks.arg, shard);
        shard->again = NULL;
        shard->n_again = 0;
    }
    shard->changes++;
    if (change->step > shard->step) shard->step = change->step;
    return status;
}

pd_status pd_shard_redo(struct pd_shard *shard, const struct pd_change *change, const void *payload, size_t n)
{
    /* READY says that the others are all there are; sums are given again (sums.h) to a step that has no END.
     */
    if (change->kind == PD_CHANGE_READY || change->kind == PD_CHANGE_SUMS) return PD_OK;
    if (change->kind == PD_CHANGE_END) return pd_shard_redo_end(shard, change, payload, n);
    if (change->unit >= (uint32_t)shard->units.n || change->trainer >= shard->config.trainers)
        return pd_fail(PD_FORMAT,
                       "the log has a change of gradient %u by trainer %d, which this server does not have: "
                       "is it another job's?",
                       change->unit, change->trainer);
    struct unit *u = shard->units.at[change->unit];
    /* The number of rows is the file's word: it counts when the payload is that large. */
    size_t row = (size_t)u->width * u->item, each = sizeof(int64_t) + row, ids = n / each * sizeof(int64_t);
    int has_rows = n % each == 0 && n / each == change->rows && change->rows <= INT32_MAX;
    PD_TRY(pd_shard_begin(shard, change->step));
    if (change->kind == PD_CHANGE_GIVEN && change->trainer >= 0 && !u->is_direct &&
        (u->spec.is_rows ? has_rows : n == (size_t)u->numel * u->item))
        return redo_given(u, change, payload, n);
    if (change->kind == PD_CHANGE_PART && (change->trainer < 0) == !!shard->config.is_sync && u->is_direct &&
        !u->spec.is_rows && change->part < u->parts)
        return redo_part(shard, u, change, payload, n);
    if (change->kind == PD_CHANGE_ROWS && u->is_direct && u->spec.is_rows && has_rows)
        return pd_shard_update_rows(u, change->part != NOT_GIVEN, (int64_t)change->rows, payload,
                                    (const char *)payload + ids);
    return pd_fail(PD_FORMAT, "the log has a change of '%s' that does not fit it: is it another job's?",
                   u->spec.grad);
}
