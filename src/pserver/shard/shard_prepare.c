/* Steps that are kept in the log before they are applied.
 *
 * A gated shard says that a step is whole and then waits: the step may be applied elsewhere while this server
 * is killed, and trainers that gave to it with it. What they gave would be lost here and counted there. So it
 * is kept first, merged as it will be applied (PREPARE, the changes, READY), and a restart finds it. What is
 * applied later adds only END. Without a log there is nothing to find, and nothing is done here. */
#include "pserver/shard/shard_private.h"

void pd_shard_void(struct pd_shard *shard)
{
    shard->prepared = 0;
}

pd_status pd_shard_prepare(struct pd_shard *shard, uint64_t step)
{
    if (shard->prepared == step || !pd_shard_is_logged(shard)) return PD_OK;
    pd_shard_drop_prepared(shard);
    shard->in_log = step;
    shard->taking_part = pd_shard_count_in(shard);
    shard->applying = step;
    PD_TRY(pd_shard_log_prepare(shard, step));
    if (shard->taking_part) PD_TRY(pd_shard_merge(shard, step, PD_SHARD_LOGS));
    PD_TRY(pd_shard_commit(shard, PD_CHANGE_READY, -1, step));
    shard->prepared = step;
    return PD_OK;
}

/* ---- after a restart ---- */

static const struct pd_kept_change *ready_of(const struct pd_kept_change *changes, int n)
{
    for (int i = n - 1; i >= 0; i--)
        if (changes[i].change.kind == PD_CHANGE_READY) return &changes[i];
    return NULL;
}

void pd_shard_drop_prepared(struct pd_shard *shard)
{
    for (int i = 0; i < shard->kept.n; i++)
        pd_free_aligned(shard->kept.at[i].payload);
    shard->kept.n = 0;
}

int pd_shard_set_prepared(struct pd_shard *shard, struct pd_kept_change *changes, int n)
{
    if (!shard->config.is_gated || !ready_of(changes, n)) return 0;
    for (int i = 0; i < n; i++)
        if (changes[i].change.step != shard->step + 1) return 0;
    pd_shard_drop_prepared(shard);
    pd_vec_free(&shard->kept);
    shard->kept.at = changes;
    shard->kept.n = shard->kept.cap = n;
    shard->in_log = shard->step + 1;
    return 1;
}

uint64_t pd_shard_prepared(const struct pd_shard *shard)
{
    return shard->kept.n ? shard->step + 1 : 0;
}

pd_status pd_shard_apply_prepared(struct pd_shard *shard)
{
    const struct pd_kept_change *ready = ready_of(shard->kept.at, shard->kept.n);
    uint64_t step = ready->change.step;
    pd_status status = PD_OK;
    for (int i = 0; i < shard->kept.n && status == PD_OK; i++) {
        const struct pd_kept_change *c = &shard->kept.at[i];
        status = pd_shard_redo(shard, &c->change, c->payload, c->n);
    }
    if (status == PD_OK) status = pd_shard_redo_end(shard, &ready->change, ready->payload, ready->n);
    if (status == PD_OK && pd_shard_is_logged(shard))
        status = pd_shard_commit_of(shard, PD_CHANGE_END, -1, step, ready->payload, ready->n);
    pd_shard_drop_prepared(shard);
    return status;
}
