/* Before a server serves, what it goes on from is on the disk: with a log, a snapshot that the log's files
 * name. Without one, values that nobody drew again would be needed to do the log again.
 *
 * A server that goes on as it was goes on in its logs. One that starts, or has other loops or servers, or a
 * log where there was none, or none where there was one, writes a snapshot of all that it took up. It may be
 * killed at any moment: first come empty log files, which disturb nobody, for the loops of before and of now;
 * then the snapshot, which becomes what is gone on from; then the layout; then what nobody needs any more
 * goes. */
#include <string.h>

#include "base/log.h"
#include "pserver/store/durable_private.h"

/* The number of the snapshot: the step, unless there is something of that number already. Servers that take
 * up the snapshots of others at one step all take the next number: the folder of some of them has that step.
 */
static pd_status next_number(const struct pd_durable *d, uint64_t *number)
{
    const struct pd_server *s = d->server;
    uint64_t *steps, last, most = 0;
    int n, is_used;
    PD_TRY(pd_snapshot_list(d->folder, &steps, &n));
    is_used = n > 0 || d->taken.is_from_set;
    last = n ? steps[n - 1] : 0;
    pd_free(steps);
    PD_TRY(pd_journal_last_file(d->folder, &most));
    if (most > last) last = most;
    if (most) is_used = 1;
    if (d->taken.is_from_set && d->taken.number > last) last = d->taken.number;
    *number = 0;
    for (int l = 0; l < s->n_lanes; l++)
        if (pd_shard_step(s->lanes[l].shard) > *number) *number = pd_shard_step(s->lanes[l].shard);
    if (is_used && *number <= last) *number = last + 1;
    return PD_OK;
}

/* Loops of a server that was killed, or stopped together with its trainers, may be a step apart, which no
 * snapshot to go on from can tell. */
static pd_status check_together(const struct pd_durable *d)
{
    const struct pd_server *s = d->server;
    uint64_t least = pd_durable_least(s);
    int is_apart = 0;
    for (int l = 0; s->config.is_sync && l < s->n_lanes; l++)
        is_apart |= pd_shard_step(s->lanes[l].shard) != least;
    if (!is_apart) return PD_OK;
    int has_log = d->layout.has_log;
    return pd_fail(PD_INVALID,
                   "the %s in '%s' ends within step %llu, which not all loops have applied: start this "
                   "server %s, and its trainers, until the step is through",
                   has_log ? "log" : "snapshot", d->folder, (unsigned long long)least + 1,
                   has_log ? "with FLAGS_ps_log=write once more" : "without FLAGS_ps_log once more");
}

static pd_status write_base(struct pd_durable *d, uint64_t number)
{
    PD_TRY(pd_durable_prepare(d, number));
    pd_status status = pd_snapshot_write(d->writing);
    const char *text;
    if (status != PD_OK) {
        status = pd_snapshot_result(d->writing, &text);
        status = pd_fail(status, "%s: %s",
                         *d->config.log ? "the log has nothing to go on from"
                                        : "what this server goes on from cannot be kept",
                         text);
    }
    pd_snapshot_job_free(d->writing);
    d->writing = NULL;
    return status;
}

static pd_status rebase(struct pd_durable *d)
{
    int has_log = *d->config.log != 0, lanes = has_log ? d->server->n_lanes : 0;
    int before = d->layout.has_log ? d->layout.loops : 0;
    uint64_t number;
    PD_TRY(check_together(d));
    PD_TRY(next_number(d, &number));
    for (int l = 0; l < lanes || l < before; l++)
        PD_TRY(pd_journal_begin(d->folder, l, pd_durable_durability(d), number, pd_durable_id(d, number)));
    PD_TRY(write_base(d, number));
    PD_TRY(pd_layout_write(d, has_log, number));
    if (d->taken.is_less)
        PD_TRY(
            pd_durable_drop(d, number, d->taken.number, number, "the job goes on without what came later"));
    PD_TRY(pd_journal_tidy(d->folder, lanes, number));
    for (int l = 0; l < lanes; l++)
        d->taken.files[l] = number;
    uint64_t applied = pd_shard_step(d->server->lanes[0].shard), least = pd_durable_least(d->server);
    pd_durable_set_last(d, (struct pd_cut){number, applied, least, d->last.changes}, 1);
    return PD_OK;
}

/* A server that was moved says so in a snapshot of its own, as those do that took their part from below the
 * root: should the job move on, or back, what all have left makes a whole. Not within a step, which only the
 * log has: the next snapshot says it then. */
static int can_tell_of_move(const struct pd_durable *d)
{
    const struct pd_server *s = d->server;
    int can = d->taken.is_moved;
    for (int l = 0; s->config.is_sync && l < s->n_lanes && can; l++)
        can = !pd_durable_waits(d, l) && pd_shard_step(s->lanes[l].shard) == pd_shard_step(s->lanes[0].shard);
    return can;
}

static int is_hollow(const struct pd_durable *d)
{
    const struct pd_server *s = d->server;
    int units = 0;
    for (int l = 0; l < s->n_lanes; l++)
        units += pd_shard_units(s->lanes[l].shard);
    return !s->config.is_sync && !units;
}

/* A server that trains nothing has no other moment for a snapshot, and without one the job's are no whole. */
static int has_no_other(const struct pd_durable *d)
{
    return is_hollow(d) && (!d->taken.has_own || d->taken.era != d->era);
}

pd_status pd_durable_settle(struct pd_durable *d)
{
    int has_log = *d->config.log != 0;
    const struct pd_layout *layout = &d->layout;
    int goes_on = pd_durable_was_logged(d) && !d->taken.is_changed && layout->is_same && !can_tell_of_move(d);
    if (!has_log && d->taken.changes)
        pd_log(PD_LOG_WARNING, "there is a log, but FLAGS_ps_log is not set: what it has is done again and "
                               "kept in a snapshot, then it is removed");
    if (has_log ? !goes_on : layout->has_log || has_no_other(d))
        PD_TRY(rebase(d));
    else if (!has_log && !layout->is_same)
        PD_TRY(pd_layout_write(d, 0, 0));
    if (!has_log && !layout->has_log && !has_no_other(d) && d->taken.is_from_set && d->taken.is_less)
        PD_TRY(pd_durable_drop(d, 0, d->taken.number, UINT64_MAX, "the job goes on without what came later"));
    /* Snapshots that cannot be used would be counted among those that are kept. */
    if (d->taken.broken)
        PD_TRY(pd_durable_drop(d, 0, d->taken.number, d->taken.broken + 1, "snapshots that are damaged"));
    return has_log ? pd_durable_open_logs(d) : PD_OK;
}
