/* Snapshots while a server trains: when it is time for one, how all lanes come to stand at its step, and the
 * child that writes it. */

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "pserver/server/sums.h"
#include "pserver/store/durable_private.h"

uint64_t pd_durable_next(struct pd_durable *d)
{
    return d ? atomic_load(&d->next) : 0;
}

/* Sync: numbers go on from those that are used, also when the job has gone back, or a log has its step's
 * number without a snapshot. */
static uint64_t number_at(const struct pd_durable *d, uint64_t step)
{
    return step + d->ahead;
}

uint64_t pd_durable_ahead(const struct pd_durable *d)
{
    return d ? d->ahead : 0;
}

/* A cut is taken when every lane has come to stand at its step, so it must be a step that every lane still
 * has before it: one that has it behind would leave the others standing there for ever. No lane is past
 * `furthest`: it is raised by the steps that lanes came back with, before they run; by each lane when it
 * tells of a step that it has applied (pd_durable_applied), before it goes on to another; and by a jump,
 * before any step of it is applied. A cut is named beyond that, under the same lock. So every lane has yet to
 * tell of that step when it is named, finds it named then, and stops there; only a jump gets past it, and
 * takes it back. */
static void name_cut(struct pd_durable *d, uint64_t step)
{
    if (!atomic_load(&d->next) && step > d->furthest && number_at(d, step) > atomic_load(&d->last_step) &&
        (!atomic_load(&d->is_stuck) || d->server->draining))
        atomic_store(&d->next, step);
}

void pd_durable_hear(struct pd_durable *d, uint64_t step)
{
    if (!d || !d->server->config.is_sync) return;
    PD_HOLD(&d->lock);
    name_cut(d, step);
}

/* Some steps ahead of all lanes. */
static void name_cut_ahead(struct pd_durable *d, uint64_t steps)
{
    PD_HOLD(&d->lock);
    name_cut(d, d->furthest + steps);
}

int pd_durable_is_first(const struct pd_durable *d)
{
    return pd_durable_config_is_first(&d->config, d->server->config.endpoint);
}

/* How much may be logged between two snapshots: beside a large snapshot, as much as that. In sync mode the
 * first server is to name the cuts, so the others give it some time. */
static uint64_t most_logged(const struct pd_durable *d)
{
    uint64_t most = (uint64_t)d->config.log_mb << 20, bytes = 0;
    for (int i = 0; i < d->kept.n; i++)
        bytes += pd_tensor_bytes(&d->kept.at[i].value->tensor);
    if (!most) return 0;
    if (most < bytes) most = bytes;
    return d->server->config.is_sync && !pd_durable_is_first(d) ? most + most / 4 : most;
}

static int all_stand(const struct pd_durable *d)
{
    int n = 0;
    for (int l = 0; l < d->server->n_lanes; l++)
        n += d->stands[l];
    return n == d->server->n_lanes;
}

pd_status pd_durable_ready(struct pd_durable *d)
{
    struct pd_server *s = d->server;
    d->log_most = most_logged(d);
    d->stands = pd_calloc((size_t)s->n_lanes, sizeof *d->stands);
    if (!d->stands) return pd_no_memory();
    for (int l = 0; l < s->n_lanes; l++)
        if (pd_shard_step(s->lanes[l].shard) > d->furthest) d->furthest = pd_shard_step(s->lanes[l].shard);
    if (s->config.is_sync && d->last_step > d->last.applied) d->ahead = d->last_step - d->last.applied;
    pd_writer_show(d);
    atomic_store(&d->common, pd_durable_kept(d)); /* the others start with the same, or are refused */
    return PD_OK;
}

int pd_durable_applied(struct pd_durable *d, int lane, uint64_t step)
{
    struct pd_server *s = d->server;
    int every = d->config.every_steps;
    pthread_mutex_lock(&d->lock);
    if (every > 0 && step % (uint64_t)every == 0) name_cut(d, step);
    if (step > d->furthest) d->furthest = step;
    int is_cut = atomic_load(&d->next) == step;
    pthread_mutex_unlock(&d->lock);
    if (!is_cut) return 0;
    if (d->journals) {
        /* Without a file of its own the log goes on in the one it has, and the snapshot is not written. When
         * the disk is the trouble, the next commit tells. */
        pd_durable_begin(d, lane, DISK_ROTATES);
        pd_status status =
            pd_journal_rotate(d->journals[lane], number_at(d, step), pd_durable_id(d, number_at(d, step)));
        pd_durable_end(d, lane);
        if (status != PD_OK) {
            pd_log(PD_LOG_WARNING, "loop %d begins no new log for the snapshot of step %llu: %s", lane,
                   (unsigned long long)step, pd_error());
            atomic_store(&d->spoilt, number_at(d, step));
        }
    }
    pthread_mutex_lock(&d->lock);
    d->stands[lane] = is_cut = atomic_load(&d->next) == step; /* unless a jump took it back */
    int all = is_cut && all_stand(d);
    pthread_mutex_unlock(&d->lock);
    if (all) pd_server_wake(s); /* the main thread cuts */
    return is_cut;
}

static void release(void *arg)
{
    struct lane *lane = arg;
    pd_status status = pd_shard_release(lane->shard);
    if (status != PD_OK) pd_server_fail(lane->server, status);
}

/* Under the lock: the cut is taken, or will not be. Only lanes that stand there are told to go on, for the
 * others may come to stand at the next one before they hear it. */
static void end_cut(struct pd_durable *d, int goes_on)
{
    struct pd_server *s = d->server;
    atomic_store(&d->next, 0);
    for (int l = 0; l < s->n_lanes; l++) {
        if (d->stands[l] && goes_on) (void)pd_loop_post(s->lanes[l].loop, release, &s->lanes[l]);
        d->stands[l] = 0;
    }
}

void pd_durable_jump(struct pd_durable *d, uint64_t step)
{
    if (!d) return;
    PD_HOLD(&d->lock);
    uint64_t next = atomic_load(&d->next);
    if (step > d->furthest) d->furthest = step;
    if (next && next <= step && !all_stand(d)) end_cut(d, 1);
}

/* Sync: is what the lanes hold the state at one step? Not when one is behind another, or has begun the next:
 * parts may be applied when they arrive. */
int pd_durable_is_between(const struct pd_server *s)
{
    uint64_t step = pd_shard_step(s->lanes[0].shard);
    for (int l = 0; l < s->n_lanes; l++)
        if (pd_shard_step(s->lanes[l].shard) != step || pd_shard_is_within(s->lanes[l].shard)) return 0;
    return 1;
}

uint64_t pd_durable_least(const struct pd_server *s)
{
    uint64_t least = pd_shard_step(s->lanes[0].shard);
    for (int l = 1; l < s->n_lanes; l++)
        if (pd_shard_step(s->lanes[l].shard) < least) least = pd_shard_step(s->lanes[l].shard);
    return least;
}

void pd_durable_note_cut(struct pd_durable *d)
{
    d->last_cut = pd_clock_ns();
    d->last_cut_step = pd_server_step(d->server);
}

void pd_durable_set_last(struct pd_durable *d, struct pd_cut last, int is_sure)
{
    d->last = last;
    atomic_store(&d->last_step, last.number);
    if (is_sure) d->sure = last;
}

static void begin(struct pd_durable *d, uint64_t number)
{
    uint64_t applied = pd_shard_step(d->server->lanes[0].shard), least = pd_durable_least(d->server);
    pd_durable_set_last(d, (struct pd_cut){number, applied, least, d->last.changes}, 0);
}

/* All lanes stand at the step (sync), or whatever they have now is taken (async). */
static void cut(struct pd_durable *d, uint64_t number)
{
    pd_durable_note_cut(d);
    begin(d, number);
    atomic_store(&d->grown, 0);
    pd_status status = PD_OK;
    if (atomic_load(&d->spoilt) == number)
        status = pd_fail(PD_IO, "a loop could not begin a new log for it");
    else if (d->server->config.is_sync && !pd_durable_is_between(d->server)) /* its log would do them again */
        status = pd_fail(PD_INVALID, "it would have parts of the next step");
    if (status == PD_OK) status = pd_durable_prepare(d, number);
    if (status == PD_OK) status = pd_writer_start(d);
    if (status != PD_OK) pd_writer_failed(d, pd_error());
}

/* Async: the lanes stand still. */
static uint64_t changes_of(const struct pd_server *s)
{
    uint64_t changes = 0;
    for (int l = 0; l < s->n_lanes; l++)
        changes += pd_shard_changes(s->lanes[l].shard);
    return changes;
}

/* The number of a snapshot now; 0: there is nothing that the last one has not. In sync mode it is the step,
 * in async mode, where each trainer has its own on each loop, the highest; unless that was used before, or
 * names a log. */
static uint64_t number_of(const struct pd_durable *d)
{
    const struct pd_server *s = d->server;
    uint64_t number = 0, last = atomic_load(&d->last_step);
    for (int l = 0; l < s->n_lanes; l++)
        if (pd_shard_step(s->lanes[l].shard) > number) number = pd_shard_step(s->lanes[l].shard);
    int is_kept = s->config.is_sync ? number == d->last.applied && pd_durable_least(s) == d->last.least
                                    : changes_of(s) == d->last.changes;
    if (is_kept) return 0;
    number = number_at(d, number);
    for (int l = 0; d->journals && l < s->n_lanes; l++)
        if (pd_journal_step(d->journals[l]) > last) last = pd_journal_step(d->journals[l]);
    return number > last ? number : last + 1;
}

/* From here on the logs are in files of their own. */
static pd_status rotate(struct pd_durable *d, uint64_t number)
{
    pd_status status = PD_OK;
    pd_durable_begin(d, d->server->n_lanes, DISK_ROTATES);
    for (int l = 0; d->journals && l < d->server->n_lanes && status == PD_OK; l++)
        status = pd_journal_rotate(d->journals[l], number, pd_durable_id(d, number));
    pd_durable_end(d, d->server->n_lanes);
    return status;
}

/* Async: every lane has stopped for a moment, maybe within a push. What the log has up to here is in the
 * snapshot, so it must go on in files of its own; otherwise a replay would do parts of that push again. */
static void cut_async(void *arg)
{
    struct pd_durable *d = arg;
    uint64_t number = number_of(d);
    pd_durable_note_cut(d);
    if (!number) return;
    pd_status status = rotate(d, number);
    if (status != PD_OK) {
        pd_log(PD_LOG_ERROR, "no snapshot of step %llu: %s; training goes on", (unsigned long long)number,
               pd_error());
        return;
    }
    d->last.changes = changes_of(d->server);
    cut(d, number);
}

/* Async: nobody is told of a push that comes from now on. So every trainer brings the step that it is in to
 * all servers, and waits: the last snapshots of servers that end together have the same steps. */
static void hold_all(void *arg)
{
    struct pd_durable *d = arg;
    for (int l = 0; l < d->server->n_lanes; l++)
        pd_shard_hold(d->server->lanes[l].shard);
}

void pd_durable_end_soon(struct pd_durable *d, int *begun)
{
    *begun = 1;
    if (!d) return;
    if (d->server->config.is_sync)
        name_cut_ahead(d, 1);
    else
        *begun = pd_server_stopped(d->server, hold_all, d);
}

/* How long nothing has to come from trainers who do not wait for an answer: one may be in a long step, or
 * wait for another server that has ended. */
enum { QUIET_MS = 2000 };

/* Async, the lanes stand still: has every trainer come to wait, or will none? */
struct standstill {
    struct pd_durable *durable;
    int is_there;
};

static void look_for_standstill(void *arg)
{
    struct standstill *still = arg;
    struct pd_durable *d = still->durable;
    const struct pd_server *s = d->server;
    int64_t now = pd_clock_ns();
    int all_wait = 1;
    for (int l = 0; l < s->n_lanes; l++)
        for (int t = 0; t < s->config.trainers; t++) {
            const struct session *session = s->lanes[l].members[t].session;
            all_wait &= !session || pd_session_waits(session);
        }
    if (!d->quiet_since || changes_of(s) != d->quiet_changes) d->quiet_since = now;
    d->quiet_changes = changes_of(s);
    still->is_there = all_wait || (now - d->quiet_since) / 1000000 >= QUIET_MS;
}

int pd_durable_is_idle(struct pd_durable *d)
{
    if (d && !d->server->config.is_sync) {
        struct standstill still = {.durable = d};
        pd_server_stopped(d->server, look_for_standstill, &still);
        return still.is_there;
    }
    if (!d || (!d->child && !atomic_load(&d->next))) return 1;
    pthread_mutex_lock(&d->lock);
    int is_held = atomic_load(&d->is_stuck) && atomic_load(&d->next) && all_stand(d);
    pthread_mutex_unlock(&d->lock);
    return is_held; /* the step has come to its end; who still has to write is waited for later */
}

int pd_durable_is_waited_for(struct pd_durable *d)
{
    if (!d || !d->child) return 0;
    PD_HOLD(&d->lock);
    return atomic_load(&d->next) && all_stand(d);
}

static int is_log_large(const struct pd_durable *d)
{
    return d->journals && d->log_most && atomic_load(&d->grown) >= d->log_most;
}

void pd_durable_tend(struct pd_durable *d)
{
    if (!d) return;
    struct pd_server *s = d->server;
    enum pd_writer writer = pd_writer_look(d);
    pthread_mutex_lock(&d->lock);
    uint64_t next = atomic_load(&d->next);
    int is_time = next && all_stand(d); /* and stay there until end_cut */
    pthread_mutex_unlock(&d->lock);
    if (is_time) {
        /* A child that still writes the last one is waited for: cuts come no faster than they can be written.
         * But nobody waits for long, or for one that stands still. */
        if (!d->stood_at) d->stood_at = pd_clock_ns();
        int is_long = (pd_clock_ns() - d->stood_at) / 1000000 >= s->config.notice_ms;
        if ((writer == PD_WRITER_WRITES && (s->draining || !is_long)) ||
            (writer == PD_WRITER_STUCK && s->draining))
            return;
        if (writer == PD_WRITER_WRITES)
            pd_log(PD_LOG_WARNING,
                   "no snapshot of step %llu: that of step %llu is still being written, at %.1f of %.1f MB. "
                   "Training goes on; let snapshots come less often (FLAGS_ps_snapshot_steps, "
                   "FLAGS_ps_snapshot_seconds), or keep them on a faster disk",
                   (unsigned long long)next, (unsigned long long)d->last_step,
                   (double)pd_snapshot_done(d->writing) / 1e6, (double)pd_snapshot_bytes(d->writing) / 1e6);
        d->stood_at = 0;
        pd_durable_note_cut(d);
        if (writer == PD_WRITER_NONE) cut(d, number_at(d, next));
        pthread_mutex_lock(&d->lock);
        end_cut(d, !s->draining); /* a server that ends after this cut lets nobody get past it */
        pthread_mutex_unlock(&d->lock);
        return;
    }
    int is_late = !s->config.is_sync && d->config.every_steps > 0 && /* sync: pd_durable_applied */
                  pd_server_step(s) >= d->last_cut_step + (uint64_t)d->config.every_steps;
    int due = is_late || (d->config.every_seconds > 0 &&
                          (pd_clock_ns() - d->last_cut) / 1000000000 >= d->config.every_seconds);
    int is_large = is_log_large(d);
    if (!(due || is_large) || next || s->draining || writer != PD_WRITER_NONE) return;
    /* Two steps ahead: known to all before anyone gets there. */
    if (s->config.is_sync && (is_large || pd_durable_is_first(d)) &&
        number_at(d, pd_server_step(s)) > d->last_step)
        name_cut_ahead(d, 2);
    if (!s->config.is_sync) pd_server_stopped(s, cut_async, d);
}

static pd_status outcome(const struct pd_durable *d)
{
    return d->trouble[0] ? pd_fail(PD_IO, "%s", d->trouble) : PD_OK;
}

pd_status pd_durable_last(struct pd_durable *d)
{
    if (!d) return PD_OK;
    PD_TRY(pd_writer_wait(d));
    uint64_t step = number_of(d);
    if (!step) return PD_OK;
    if (d->journals && d->server->config.is_sync && !pd_durable_is_between(d->server)) {
        pd_log(PD_LOG_INFO,
               "no snapshot of step %llu, of which the server has parts only: the one before it and the log "
               "are what is kept",
               (unsigned long long)step);
        return PD_OK;
    }
    pd_status status = rotate(d, step);
    if (status == PD_OK) status = pd_durable_prepare(d, step);
    if (status != PD_OK) pd_error_add(" (the last snapshot, of step %llu)", (unsigned long long)step);
    PD_TRY(status);
    begin(d, step);
    d->is_last = 1;
    if (pd_writer_start(d) != PD_OK) pd_writer_write(d);
    PD_TRY(pd_writer_wait(d));
    return outcome(d);
}
