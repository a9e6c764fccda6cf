/* A snapshot that was cut within a step, or a push, that had not ended: what is there of it is in the
 * parameters, and trainers give all of it again. So it is of use to the server that wrote it, as it was: with
 * its loops, its mode and its rules. One step is never done by two rules. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pserver/store/durable_private.h"

static int loops_of(const struct pd_snapshot *snapshot)
{
    int loops = 0;
    while (pd_durable_note(snapshot, "loop", loops))
        loops++;
    return loops;
}

/* Has it parts of a step, or one that not all loops have? */
static int is_within(const struct pd_snapshot *snapshot)
{
    int loops = loops_of(snapshot), yes = pd_snapshot_is_torn(snapshot);
    const char *first = pd_durable_note(snapshot, "loop", 0);
    for (int l = 0; l < loops && !yes; l++)
        yes = pd_durable_note(snapshot, "open", l) ||
              (pd_snapshot_is_async(snapshot) && strcmp(pd_durable_note(snapshot, "loop", l), first) != 0);
    return yes;
}

/* ---- may it be taken up? ---- */

/* Sync: a step is of these loops, and of all trainers. */
static pd_status check_step(const struct pd_durable *d, const struct pd_snapshot *snapshot, int is_same_loops)
{
    const struct pd_server *s = d->server;
    if (!is_same_loops)
        return pd_fail(
            PD_INVALID,
            "the snapshot in '%s' was cut within a step, and is of another number of loops (FLAGS_ps_loops): "
            "start the server with that number, and its trainers, until the step is through",
            d->folder);
    int n = pd_snapshot_info(snapshot)->n_trainers;
    if (n != s->config.trainers)
        return pd_fail(PD_INVALID,
                       "the snapshot in '%s' was cut within step %llu, parts of which are averaged over %d "
                       "trainers, and this job has %d: start the servers, and %d trainers, until the step is "
                       "through. Then end them and start these",
                       d->folder, (unsigned long long)pd_snapshot_applied(snapshot) + 1, n,
                       s->config.trainers, n);
    return PD_OK;
}

/* Async: pushes that had not ended are those of trainers that the job has. */
static pd_status check_pushes(const struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    int n = pd_snapshot_info(snapshot)->n_trainers, trainers = d->server->config.trainers;
    uint64_t *steps = pd_calloc((size_t)n + 1, sizeof *steps);
    if (!steps) return pd_no_memory();
    for (int l = 0; l < d->server->n_lanes; l++)
        pd_shard_open_steps(pd_durable_note(snapshot, "open", l), n, steps);
    int gone = -1;
    for (int t = trainers; t < n; t++)
        if (steps[t]) gone = t;
    uint64_t step = gone < 0 ? 0 : steps[gone];
    pd_free(steps);
    if (gone < 0) return PD_OK;
    return pd_fail(
        PD_INVALID,
        "the snapshot in '%s' has only parts of step %llu of trainer %d, and this job has %d trainers: start "
        "the servers, and %d trainers, until the step is through. Then end them and start these",
        d->folder, (unsigned long long)step, gone, trainers, n);
}

/* By whom the parts of the step were made. */
static pd_status check_rules(const struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    char differs[400];
    PD_TRY(pd_layout_compare_begun(d, pd_snapshot_note(snapshot, "layout"), differs));
    if (!differs[0]) return PD_OK;
    return pd_fail(PD_INVALID,
                   "the snapshot of step %llu in '%s' has parts of the next step, which were done by other "
                   "rules than this server has: %s. Start the servers as they were, and their trainers, "
                   "until the step is through. Then end them and start these",
                   (unsigned long long)pd_snapshot_info(snapshot)->step, d->folder, differs);
}

pd_status pd_begun_check(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    int is_sync = d->server->config.is_sync, is_same_loops = loops_of(snapshot) == d->server->n_lanes;
    if (!is_within(snapshot)) return PD_OK;
    if (pd_snapshot_is_async(snapshot) == is_sync)
        return pd_fail(PD_INVALID,
                       "the snapshot of step %llu in '%s' has parts of the next step and was written in %s "
                       "mode, and this server is in %s mode: start the servers as they were, and their "
                       "trainers, until the step is through. Then end them and start these",
                       (unsigned long long)pd_snapshot_info(snapshot)->step, d->folder,
                       is_sync ? "async" : "sync", is_sync ? "sync" : "async");
    if (is_sync) PD_TRY(check_step(d, snapshot, is_same_loops));
    /* Async: other loops look for themselves whether all have it (take_other_loops). */
    if (!is_same_loops) return PD_OK;
    if (!is_sync) PD_TRY(check_pushes(d, snapshot));
    d->taken.is_open = 1;
    return check_rules(d, snapshot);
}

/* ---- taking it up ---- */

/* Which gradients a loop has depends on how many there are: no loop knows what is there of a step that not
 * all have. */
static pd_status take_other_loops(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    struct pd_steps steps = {0};
    char whose[PATH_MAX + 64], advice[256];
    int loops = loops_of(snapshot);
    snprintf(whose, sizeof whose, "the %d loops (FLAGS_ps_loops) of the snapshot in '%s'", loops, d->folder);
    snprintf(advice, sizeof advice,
             "Start this server with FLAGS_ps_loops=%d, and the trainers too, and end it with SIGTERM while "
             "they train. Then start it with another number",
             loops);
    pd_status status = pd_steps_add(&steps, snapshot);
    if (status == PD_OK && loops) status = pd_steps_check(d, &steps, whose, advice);
    if (status == PD_OK) pd_steps_take(d, &steps, 0);
    pd_steps_free(&steps);
    return status;
}

/* Sync: a step that had not ended when the server was stopped. */
static void take_step(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    struct pd_server *s = d->server;
    if (!pd_snapshot_is_torn(snapshot)) return;
    for (int l = 0; l < s->n_lanes; l++) {
        const char *step = pd_durable_note(snapshot, "step", l);
        if (step) pd_shard_set_step(s->lanes[l].shard, strtoull(step, NULL, 10));
    }
    d->last.least = d->sure.least = pd_durable_least(s);
}

pd_status pd_begun_take(struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    struct pd_server *s = d->server;
    if (!s->config.is_sync && loops_of(snapshot) != s->n_lanes) return take_other_loops(d, snapshot);
    if (s->config.is_sync) take_step(d, snapshot);
    for (int l = 0; l < s->n_lanes; l++)
        PD_TRY(pd_shard_read_open(s->lanes[l].shard, pd_durable_note(snapshot, "open", l)));
    return PD_OK;
}
