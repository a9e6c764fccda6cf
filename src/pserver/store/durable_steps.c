/* Async: how far trainers are in snapshots that are taken up by other loops or servers than those who wrote
 * them. What is there of a step that not all of those had cannot be told apart then: it would count in part.
 * Such a step was acknowledged to nobody, so its trainer can still give all of it to those who know what they
 * have. That is what the user is asked for. */
#include <stdlib.h>

#include "base/log.h"
#include "pserver/store/durable_private.h"

static pd_status reserve(struct pd_steps *steps, int n)
{
    while (steps->trainers.n < n)
        if (!pd_vec_push(&steps->trainers, ((struct pd_step_range){.least = UINT64_MAX})))
            return pd_no_memory();
    return PD_OK;
}

static void widen(struct pd_step_range *range, uint64_t step)
{
    if (step < range->least) range->least = step;
    if (step > range->most) range->most = step;
}

static pd_status add_open(struct pd_steps *steps, int n, const char *text)
{
    uint64_t *open = pd_calloc((size_t)n, sizeof *open);
    if (!open) return pd_no_memory();
    pd_shard_open_steps(text, n, open);
    for (int t = 0; t < n; t++)
        if (open[t]) widen(&steps->trainers.at[t], open[t]);
    pd_free(open);
    return PD_OK;
}

pd_status pd_steps_add(struct pd_steps *steps, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    const char *text;
    int n = info->n_trainers;
    PD_TRY(reserve(steps, n));
    for (int t = 0; t < n; t++)
        widen(&steps->trainers.at[t], info->trainers[t].step); /* of the first loop */
    for (int l = 0; (text = pd_durable_note(snapshot, "loop", l)); l++) {
        for (int t = 0; t < n; t++) {
            char *end;
            unsigned long long step = strtoull(text, &end, 10);
            if (end == text) break;
            widen(&steps->trainers.at[t], step);
            text = end;
        }
        PD_TRY(add_open(steps, n, pd_durable_note(snapshot, "open", l)));
    }
    return PD_OK;
}

/* The furthest. */
static uint64_t steps_of(const struct pd_steps *steps, int trainer)
{
    return trainer < steps->trainers.n ? steps->trainers.at[trainer].most : 0;
}

/* The trainer that is furthest from having all of its steps there; -1: all have. */
static int worst(const struct pd_steps *steps)
{
    uint64_t most = 0;
    int worst = -1;
    for (int t = 0; t < steps->trainers.n; t++) {
        uint64_t apart = steps->trainers.at[t].most - steps->trainers.at[t].least;
        if (apart > most) worst = t;
        if (apart > most) most = apart;
    }
    return worst;
}

pd_status pd_steps_check(const struct pd_durable *d, const struct pd_steps *steps, const char *whose,
                         const char *advice)
{
    int t = worst(steps);
    if (t < 0) return PD_OK;
    unsigned long long first = steps->trainers.at[t].least + 1, last = steps->trainers.at[t].most;
    if (d->server->config.accepts_rollback) {
        pd_log(PD_LOG_WARNING,
               "%s have only parts of step %llu of trainer %d: those count, the rest of the steps from %llu "
               "on is lost (FLAGS_ps_accept_rollback)",
               whose, last, t, first);
        return PD_OK;
    }
    /* Servers that are further apart are refused by their trainers, too. */
    return pd_fail(PD_INVALID,
                   "%s have only parts of step %llu of trainer %d: what is missing can be given again only "
                   "to those who wrote them. %s%s FLAGS_ps_accept_rollback=1 to go on with those parts and "
                   "without the rest of the steps from %llu on",
                   whose, last, t, last == first ? advice : "", last == first ? ". Or set" : "Set", first);
}

void pd_steps_take(struct pd_durable *d, const struct pd_steps *steps, uint64_t step)
{
    struct pd_server *s = d->server;
    for (int l = 0; l < s->n_lanes; l++) {
        struct pd_shard *shard = s->lanes[l].shard;
        for (int t = 0; t < s->config.trainers; t++)
            pd_shard_set_trainer_step(shard, t, steps_of(steps, t));
        pd_shard_set_step(shard, step ? step : pd_durable_highest(shard, s->config.trainers));
        pd_server_set_step(s, pd_shard_step(shard));
    }
}

void pd_steps_free(struct pd_steps *steps)
{
    pd_vec_free(&steps->trainers);
}
