/* The child that writes a snapshot: has it ended, does it get on?
 *
 * A disk that is stuck, or a network folder that does not answer, holds whoever touches it for as long as
 * that lasts. So the server never just waits for the child: one that stands still is named every
 * FLAGS_ps_notice, training goes on without other snapshots, and at FLAGS_rpc_deadline the child is given up.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "pserver/store/durable_private.h"

static void drop_job(struct pd_durable *d)
{
    pd_snapshot_job_free(d->writing);
    d->writing = NULL;
}

/* Logs are kept from the snapshot before the newest on: should that be damaged, nothing is lost. */
static void drop_logs(struct pd_durable *d)
{
    uint64_t *steps;
    int n;
    if (!d->journals || pd_snapshot_list(d->folder, &steps, &n) != PD_OK) return;
    uint64_t from = n ? steps[n > 1 ? n - 2 : 0] : 0;
    pd_free(steps);
    for (int l = 0; l < d->server->n_lanes; l++)
        if (pd_journal_drop_before(d->journals[l], from) != PD_OK)
            pd_log(PD_LOG_WARNING, "old logs stay: %s", pd_error());
}

void pd_writer_show(struct pd_durable *d)
{
    if (d->server->config.is_sync && d->config.n_servers > 1 && !d->journals)
        atomic_store(&d->shown, d->sure.applied);
}

uint64_t pd_durable_kept(const struct pd_durable *d)
{
    return d ? atomic_load(&d->shown) : 0;
}

void pd_durable_hear_common(struct pd_durable *d, uint64_t step)
{
    if (d && step > atomic_load(&d->common) && step <= atomic_load(&d->shown)) atomic_store(&d->common, step);
}

/* Beside the newest ones, that stays which all servers have; in async mode, where nobody knows which one that
 * is, what all have started from. */
static uint64_t keep_also(const struct pd_durable *d)
{
    uint64_t common = atomic_load(&d->common);
    if (common) return common + d->ahead;
    return d->taken.is_from_set && !d->journals ? d->taken.number : UINT64_MAX;
}

/* The snapshot of last_step is on the disk. */
static void written(struct pd_durable *d)
{
    pd_log(PD_LOG_INFO, "snapshot of step %llu: %.1f MB in %s", (unsigned long long)d->last_step,
           (double)pd_snapshot_bytes(d->writing) / 1e6, d->folder);
    d->sure = d->last;
    d->trouble[0] = 0;
    d->n_written++;
    d->written_ns += (uint64_t)(pd_clock_ns() - d->writing_since);
    d->written_step = d->last_step;
    d->written_bytes = pd_snapshot_bytes(d->writing);
    pd_writer_show(d);
    if (pd_durable_kept(d) && !d->server->ending) /* its loops run */
        (void)pd_loop_post(d->server->lanes[0].loop, pd_lane_tell_kept, &d->server->lanes[0]);
    pd_durable_begin(d, d->server->n_lanes, DISK_REMOVES);
    if (pd_snapshot_keep(d->folder, d->config.keep, keep_also(d)) != PD_OK)
        pd_log(PD_LOG_WARNING, "old snapshots stay: %s", pd_error());
    drop_logs(d);
    pd_durable_end(d, d->server->n_lanes);
}

/* It is tried again when the next is due, or when the server ends. */
void pd_writer_failed(struct pd_durable *d, const char *why)
{
    snprintf(d->trouble, sizeof d->trouble, "no snapshot of step %llu: %.400s",
             (unsigned long long)d->last_step, why);
    d->n_failed++;
    if (!d->is_last)
        pd_log(PD_LOG_ERROR, "%s%s", d->trouble, d->server->draining ? "" : "; training goes on");
    pd_durable_set_last(d, d->sure, 1);
    drop_job(d);
}

static void finish(struct pd_durable *d)
{
    const char *text;
    d->child = 0;
    if (pd_snapshot_result(d->writing, &text) != PD_OK) {
        pd_writer_failed(d, text);
        return;
    }
    written(d);
    drop_job(d);
}

pd_status pd_writer_start(struct pd_durable *d)
{
    d->writing_since = pd_clock_ns();
    PD_TRY(pd_snapshot_fork(d->writing, &d->child));
    d->moves = 0;
    d->moved_at = d->told = pd_clock_ns();
    return PD_OK;
}

void pd_writer_write(struct pd_durable *d)
{
    d->writing_since = pd_clock_ns();
    (void)pd_snapshot_write(d->writing);
    finish(d);
}

void pd_durable_count(const struct pd_durable *d, struct pd_durable_tally *out)
{
    *out = (struct pd_durable_tally){0};
    if (!d) return;
    *out = (struct pd_durable_tally){.written = d->n_written,
                                     .failed = d->n_failed,
                                     .written_ns = d->written_ns,
                                     .last_step = d->written_step,
                                     .last_bytes = d->written_bytes};
}

/* It is ended, and not waited for: a process within a call to the disk ends when that comes back. */
static void leave(struct pd_durable *d, const char *why)
{
    kill(d->child, SIGKILL);
    d->lost = d->child;
    d->child = 0;
    pd_writer_failed(d, why);
}

static void give_up(struct pd_durable *d, long long seconds)
{
    char why[400];
    snprintf(why, sizeof why,
             "its writer stood still for %lld s and was given up (FLAGS_rpc_deadline is %d ms): is the disk "
             "stuck? Its folder is %.200s",
             seconds, d->server->config.deadline_ms, d->folder);
    leave(d, why);
}

static void tell(const struct pd_durable *d, long long seconds)
{
    pd_log(PD_LOG_WARNING,
           "the writer of the snapshot of step %llu has stood still for %lld s, at %.1f of %.1f MB in %s: is "
           "the disk stuck?%s",
           (unsigned long long)d->last_step, seconds, (double)pd_snapshot_done(d->writing) / 1e6,
           (double)pd_snapshot_bytes(d->writing) / 1e6, d->folder,
           d->is_last || d->server->draining ? "" : " Training goes on, without other snapshots");
}

static enum pd_writer look(struct pd_durable *d)
{
    const struct pd_server_config *config = &d->server->config;
    if (d->lost && waitpid(d->lost, NULL, WNOHANG) != 0) d->lost = 0;
    if (!d->child) return d->lost ? PD_WRITER_STUCK : PD_WRITER_NONE;
    if (waitpid(d->child, NULL, WNOHANG) != 0) { /* ended, or somebody else has waited for it */
        finish(d);
        return PD_WRITER_NONE;
    }
    int64_t now = pd_clock_ns();
    uint64_t moves = pd_snapshot_moves(d->writing);
    if (moves != d->moves) {
        d->moves = moves;
        d->moved_at = d->told = now;
    }
    int64_t still = (now - d->moved_at) / 1000000;
    if (still >= config->deadline_ms) {
        give_up(d, still / 1000);
        return PD_WRITER_STUCK;
    }
    if ((now - d->told) / 1000000 >= config->notice_ms) {
        d->told = now;
        tell(d, still / 1000);
    }
    return still >= config->notice_ms ? PD_WRITER_STUCK : PD_WRITER_WRITES;
}

enum pd_writer pd_writer_look(struct pd_durable *d)
{
    enum pd_writer now = look(d);
    atomic_store(&d->is_stuck, now == PD_WRITER_STUCK);
    return now;
}

pd_status pd_writer_wait(struct pd_durable *d)
{
    while (d->child && (pd_writer_look(d), d->child)) {
        pd_status status = pd_engine_poll(&d->server->engine);
        if (status != PD_OK) pd_durable_break_off(d);
        PD_TRY(status);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return PD_OK;
}

void pd_durable_break_off(struct pd_durable *d)
{
    if (d && d->child) leave(d, "it was broken off");
}
