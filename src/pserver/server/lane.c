/* One loop of a server. In this order: the shard's hooks, by which it reaches the block of the learning rate,
 * the engine, the log, snapshots, the order of steps and the trainers; who is late and who is lost, as each
 * tick finds; who comes and goes; how a lane is opened and closed. */
#include <stdio.h>

#include "base/clock.h"
#include "base/line.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/wait.h"
#include "pserver/proto.h"
#include "pserver/server/book.h"
#include "pserver/server/meet.h"
#include "pserver/server/order.h"
#include "pserver/server/server_private.h"
#include "pserver/store/durable.h"

const char *pd_lane_who(struct lane *lane, int trainer)
{
    struct member *m = &lane->members[trainer];
    if (!m->who[0]) snprintf(m->who, sizeof m->who, "trainer %d", trainer);
    return m->who;
}

/* ---- what the shard asks for ---- */

static pd_status begin_step(void *arg, uint64_t step)
{
    struct pd_server *s = ((struct lane *)arg)->server;
    pd_status status = PD_OK;
    if (s->config.lr_block < 0) return PD_OK;
    PD_HOLD(&s->engine_lock);
    if (s->lr_step < step) {
        s->lr_step = step;
        status = pd_engine_run(&s->engine, s->config.lr_block, 0);
    }
    return status;
}

static pd_status run_blocks(void *arg, struct pd_shard *shard)
{
    (void)shard;
    return pd_server_run_blocks(arg);
}

static pd_status log_change(void *arg, const struct pd_change *change, const struct pd_span *spans, int n)
{
    struct lane *lane = arg;
    return lane->server->durable ? pd_durable_log(lane->server->durable, lane->index, change, spans, n)
                                 : PD_OK;
}

static int keeps(void *arg)
{
    return pd_durable_has_log(((struct lane *)arg)->server->durable);
}

static pd_status commit(void *arg, int trainer, uint64_t step)
{
    struct lane *lane = arg;
    (void)trainer;
    (void)step;
    return lane->server->durable ? pd_durable_commit(lane->server->durable, lane->index) : PD_OK;
}

static int applied(void *arg, uint64_t step)
{
    struct lane *lane = arg;
    atomic_store(&lane->applied, step);
    pd_server_set_step(lane->server, step);
    return lane->server->durable && pd_durable_applied(lane->server->durable, lane->index, step);
}

static void whole(void *arg, uint64_t step)
{
    struct lane *lane = arg;
    pd_order_whole(lane->server->order, lane, step);
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    struct lane *lane = arg;
    pd_server_set_step(lane->server, step);
    if (lane->members[trainer].session) pd_session_answer(lane->members[trainer].session, request, step);
}

/* ---- who is late, who is lost ---- */

void pd_lane_list_late(struct lane *lane, const int *late, int n, int64_t since, char *out, size_t cap)
{
    struct pd_line line = pd_line_in(out, cap);
    for (int i = 0; i < n; i++) {
        const struct member *m = &lane->members[late[i]];
        int absent = pd_shard_trainer(lane->shard, late[i]) == PD_TRAINER_ABSENT;
        int known = m->is_missed || m->lost_at;
        int unknown = absent && !known && m->refused[0];
        const char *why = m->session ? pd_session_held_up(m->session, since) : unknown ? m->refused : "";
        if (m->is_missed && m->failed[0]) {
            pd_line_printf(&line, "%s%s (failed, and has not come back: %s)", i ? ", " : "",
                           pd_lane_who(lane, late[i]), m->failed);
            continue;
        }
        pd_line_printf(
            &line, "%s%s%s%s%s", i ? ", " : "", pd_lane_who(lane, late[i]),
            absent && known ? " (has not come back)"
            : absent && pd_book_had_ended(lane->server->book, late[i])
                ? " (had ended before this server was started again: FLAGS_rpc_deadline / 2 to come, too)"
            : absent     ? " (has not connected yet)"
            : m->session ? ""
                         : " (connection lost)",
            unknown  ? ", but a process came for it and was refused: "
            : why[0] ? ", which waits itself: "
                     : "",
            why);
    }
}

/* Those who are waited for though nobody is left who waits in a step: they keep the server from its end. */
static enum waiting missed(const struct lane *lane, int *trainers, int cap, int *n)
{
    enum waiting why = FOR_NOBODY;
    *n = 0;
    for (int t = 0; t < lane->server->config.trainers; t++) {
        const struct member *m = &lane->members[t];
        enum pd_trainer_state state = pd_shard_trainer(lane->shard, t);
        if (m->session || (state == PD_TRAINER_IN && !m->is_missed))
            return FOR_NOBODY; /* there, or just away */
        if (!m->is_missed && state != PD_TRAINER_ABSENT) continue;
        if (m->is_missed)
            why = FOR_RETURN;
        else if (why == FOR_NOBODY)
            why = FOR_FIRST;
        if (*n < cap) trainers[(*n)++] = t;
    }
    /* One that waits to be let in is there too. */
    return pd_book_connections(lane->server->book) > 0 ? FOR_NOBODY : why;
}

/* How long it waits, in ms, and how often it says so. Who starts servers may have the trainers start much
 * later, so that they are waited for longer, and told of less often with time. */
static int64_t limit_of(const struct pd_server *s, enum waiting why)
{
    if (why != FOR_FIRST) return s->config.deadline_ms;
    return s->config.wait_seconds > 0 ? s->config.wait_seconds * (int64_t)1000 : INT64_MAX;
}

static int64_t notice_of(const struct pd_server *s, enum waiting why, int64_t waited)
{
    return why == FOR_FIRST ? pd_patience_seldom(s->config.notice_ms, waited) : s->config.notice_ms;
}

/* A step that waits tells for whom, again and again, and fails at its deadline; so does a server that waits
 * for its first or last trainers. */
static void watch_step(struct lane *lane, int64_t now)
{
    struct pd_server *s = lane->server;
    int late[16], n = pd_shard_waits_for(lane->shard, late, 16);
    uint64_t step = pd_shard_step(lane->shard) + 1;
    enum waiting why = n ? FOR_STEP : missed(lane, late, 16, &n);
    char who[1024], text[1280], what[32] = "the job", limit[64];
    if (why != lane->waiting || step != lane->waiting_step) {
        lane->waiting_since = lane->noticed = now;
        lane->waiting_step = step;
        lane->waiting = why;
    }
    if (why == FOR_NOBODY || (why != FOR_STEP && lane->index)) return;
    if (why == FOR_STEP) snprintf(what, sizeof what, "step %llu", (unsigned long long)step);
    int64_t waited = (now - lane->waiting_since) / 1000000;
    int is_late = waited >= limit_of(s, why);
    if (!is_late && (now - lane->noticed) / 1000000 < notice_of(s, why, waited)) return;
    lane->noticed = now;
    pd_lane_list_late(lane, late, n, now - PD_PS_FRESH * (int64_t)1000000 * s->config.notice_ms, who,
                      sizeof who);
    if (is_late) {
        if (why == FOR_FIRST)
            snprintf(limit, sizeof limit, "FLAGS_ps_wait_trainers is %d s", s->config.wait_seconds);
        else
            snprintf(limit, sizeof limit, "FLAGS_rpc_deadline is %d ms", s->config.deadline_ms);
        const char *alone = pd_order_lets_in(s->order) ? ""
                                                       : "; nor was the first server reached, without which "
                                                         "nobody is let in: has the job ended meanwhile?";
        pd_server_fail(s, pd_fail(PD_UNAVAILABLE, "%s waited %lld s for %s: given up (%s)%s", what,
                                  (long long)(waited / 1000), who, limit, alone));
        return;
    }
    limit[0] = 0;
    if (why == FOR_FIRST && s->config.wait_seconds > 0)
        snprintf(limit, sizeof limit, "; it gives up after %d s (FLAGS_ps_wait_trainers)",
                 s->config.wait_seconds);
    snprintf(text, sizeof text, "%s has waited %lld s for %s%s", what, (long long)(waited / 1000), who,
             limit);
    pd_log(PD_LOG_WARNING, "%s", text);
    for (int t = 0; t < s->config.trainers; t++)
        if (lane->members[t].session && pd_session_waits(lane->members[t].session))
            pd_session_notice(lane->members[t].session, text);
}

static void watch_losses(struct lane *lane, int64_t now)
{
    struct pd_server *s = lane->server;
    for (int t = 0; t < s->config.trainers; t++) {
        struct member *m = &lane->members[t];
        enum pd_trainer_state state = pd_shard_trainer(lane->shard, t);
        /* One that computes a long step comes back to a server that was started again when the step ends: it
         * must not end the job before. */
        int is_late = state == PD_TRAINER_ABSENT && s->config.on_loss == PD_LOSS_FAIL;
        int64_t limit = is_late ? s->config.deadline_ms : s->config.reconnect_ms;
        if (!m->lost_at || (now - m->lost_at) / 1000000 < limit) continue;
        m->lost_at = 0;
        if (state != PD_TRAINER_IN && state != PD_TRAINER_ABSENT) continue; /* it has left on another loop */
        if (m->is_back) { /* its work had been done before: nothing is lost */
            m->is_back = 0;
            pd_log(PD_LOG_INFO, "%s is gone again", pd_lane_who(lane, t));
            if (pd_lane_leave(lane, t, PD_TRAINER_DONE, NULL) != PD_OK) {
                pd_server_fail(s, PD_INTERNAL);
                return;
            }
            continue;
        }
        uint64_t process;
        if (state == PD_TRAINER_ABSENT &&
            (pd_book_is_here(s->book, t, &process) || !pd_order_lets_in(s->order))) {
            m->lost_at = now; /* it waits for that, or opens here too, soon */
            continue;
        }
        uint64_t step = pd_shard_step(lane->shard) + 1;
        char text[PD_BOOK_LOSS], refusal[PD_BOOK_REFUSAL], why[sizeof refusal + 64] = "";
        const char *what = "is gone without a word";
        pd_book_refusal(s->book, t, refusal);
        if (state == PD_TRAINER_ABSENT) {
            what = "was in the job before this server was started again, and is not back";
            if (m->refused[0])
                snprintf(why, sizeof why, " (a process came for it and was refused: %s)", m->refused);
        } else if (refusal[0]) {
            what = "has not come back since it was refused";
            snprintf(why, sizeof why, " (%s)", refusal);
        }
        switch (s->config.on_loss) {
        case PD_LOSS_FAIL:
            pd_server_fail(s, pd_fail(PD_UNAVAILABLE,
                                      "%s %s in step %llu%s: the job ends (FLAGS_ps_on_trainer_loss is "
                                      "'fail'; 'shrink' goes on without it, 'wait' waits for it)",
                                      pd_lane_who(lane, t), what, (unsigned long long)step, why));
            return;
        case PD_LOSS_SHRINK:
            snprintf(text, sizeof text, "%s %s in step %llu%s", pd_lane_who(lane, t), what,
                     (unsigned long long)step, why);
            pd_log(PD_LOG_WARNING, "%s: the others go on", text);
            (void)pd_book_note_loss(s->book, t, text, 1);
            if (state == PD_TRAINER_ABSENT && s->order) {
                /* unless another one came elsewhere */
                pd_order_want(s->order, t, process, PD_TRAINER_LOST, NULL);
            } else if (pd_lane_leave(lane, t, PD_TRAINER_LOST, NULL) != PD_OK) {
                pd_server_fail(s, PD_INTERNAL);
                return;
            }
            break;
        case PD_LOSS_WAIT:
            m->is_missed = 1;
            pd_log(PD_LOG_WARNING, "%s %s in step %llu%s: waiting for it to come back", pd_lane_who(lane, t),
                   what, (unsigned long long)step, why);
            break;
        }
    }
}

/* With 'wait': all trainers of the job have failed, and none is back in time. Where there is an order, the
 * first server decides that (order.c). */
static pd_status give_up(struct lane *lane, int64_t now)
{
    struct pd_server *s = lane->server;
    int64_t last = 0;
    if (s->order) return PD_OK;
    for (int t = 0; t < s->config.trainers; t++) {
        const struct member *m = &lane->members[t];
        if (!m->is_missed || !m->failed[0]) return PD_OK;
        if (m->failed_at > last) last = m->failed_at;
    }
    if ((now - last) / 1000000 < s->config.reconnect_ms) return PD_OK;
    for (int t = 0; t < s->config.trainers; t++)
        PD_TRY(pd_lane_leave(lane, t, PD_TRAINER_LOST, lane->members[t].failed));
    return PD_OK;
}

static void tick(void *arg)
{
    struct lane *lane = arg;
    int64_t now = pd_clock_ns();
    for (int i = lane->sessions.n - 1; i >= 0; i--)
        pd_session_sweep(lane->sessions.at[i], now);
    if (lane->finished || pd_server_is_ending(lane->server)) return;
    if (lane->index == 0) pd_book_settle(lane->server->book, now);
    watch_losses(lane, now);
    if (give_up(lane, now) != PD_OK) pd_server_fail(lane->server, PD_INTERNAL);
    watch_step(lane, now);
    pd_meet_tend(lane->meet, now);
}

void pd_lane_finish_if_done(struct lane *lane)
{
    struct pd_server *s = lane->server;
    if (lane->finished || !pd_shard_finished(lane->shard)) return;
    lane->finished = 1;
    PD_HOLD(&s->lock);
    s->lanes_finished++;
    pthread_cond_signal(&s->changed);
}

/* ---- who comes and goes ---- */

static pd_status leave_now(struct lane *lane, int trainer, enum pd_trainer_state how)
{
    lane->members[trainer].is_back = lane->members[trainer].is_missed = 0;
    pd_book_leave(lane->server->book, trainer, how, pd_shard_counted(lane->shard, trainer));
    PD_TRY(pd_shard_leave(lane->shard, trainer, how));
    pd_lane_finish_if_done(lane);
    return PD_OK;
}

pd_status pd_lane_leave(struct lane *lane, int trainer, enum pd_trainer_state how, const char *why)
{
    struct pd_order *order = lane->server->order;
    if (!order) return leave_now(lane, trainer, how);
    pd_order_want(order, trainer, pd_shard_incarnation(lane->shard, trainer), how, why);
    return PD_OK;
}

static pd_status enter_now(struct lane *lane, int trainer, uint64_t incarnation)
{
    struct member *m = &lane->members[trainer];
    enum pd_trainer_state before = pd_shard_trainer(lane->shard, trainer);
    int is_known = pd_shard_incarnation(lane->shard, trainer) == incarnation;
    if (before == PD_TRAINER_IN && is_known) return PD_OK;
    m->is_back = before == PD_TRAINER_DONE && !is_known;
    PD_TRY(pd_shard_join(lane->shard, trainer, incarnation));
    if (m->session && !is_known) pd_session_left(m->session, PD_TRAINER_LOST);
    m->is_missed = 0;
    if (!m->session || !is_known) m->lost_at = pd_clock_ns(); /* unless it opens here too, soon */
    for (int i = 0; i < lane->sessions.n; i++)
        pd_session_joined(lane->sessions.at[i], trainer, incarnation);
    return PD_OK;
}

pd_status pd_lane_jump(struct lane *lane, uint64_t step)
{
    if (pd_shard_step(lane->shard) >= step) return PD_OK;
    pd_durable_jump(lane->server->durable, step);
    PD_TRY(pd_shard_allow(lane->shard, step)); /* what was prepared counts */
    if (pd_shard_step(lane->shard) >= step) return PD_OK;
    pd_shard_set_step(lane->shard, step);
    atomic_store(&lane->applied, step);
    pd_server_set_step(lane->server, step);
    return PD_OK;
}

pd_status pd_lane_change(struct lane *lane, int trainer, uint64_t incarnation, enum pd_trainer_state state,
                         const char *why)
{
    enum pd_trainer_state before = pd_shard_trainer(lane->shard, trainer);
    if (state == PD_TRAINER_ABSENT) return PD_OK;
    if (state == PD_TRAINER_IN) return enter_now(lane, trainer, incarnation);
    if (before == PD_TRAINER_IN || before == PD_TRAINER_ABSENT) {
        enum pd_log_level level = state == PD_TRAINER_LOST ? PD_LOG_WARNING : PD_LOG_INFO;
        /* Its process may end, or this server, before it says so here itself. The first loop says it. */
        int is_news = state == PD_TRAINER_LOST && *why && !lane->index &&
                      !pd_book_knows_why(lane->server->book, trainer);
        char text[PD_BOOK_LOSS];
        snprintf(text, sizeof text, "%s has %s: the last step that counts it is %llu%s%s",
                 pd_lane_who(lane, trainer), state == PD_TRAINER_LOST ? "been lost" : "left",
                 (unsigned long long)pd_shard_counted(lane->shard, trainer), is_news ? ". It failed: " : "",
                 is_news ? why : "");
        pd_log(lane->index ? PD_LOG_DEBUG : level, "%s", text);
        if (state == PD_TRAINER_LOST) (void)pd_book_note_loss(lane->server->book, trainer, text, is_news);
        lane->members[trainer].lost_at = 0;
        PD_TRY(leave_now(lane, trainer, state));
    }
    if (lane->members[trainer].session) pd_session_left(lane->members[trainer].session, state);
    return PD_OK;
}

void pd_lane_tell_kept(void *arg)
{
    struct lane *lane = arg;
    for (int t = 0; t < lane->server->config.trainers; t++)
        if (lane->members[t].session) pd_session_tell_kept(lane->members[t].session);
}

/* ---- start and end ---- */

static void on_thread(void *arg)
{
    (void)arg;
    pd_threads_set(1);
}

pd_status pd_lane_open(struct lane *lane)
{
    const struct pd_server_config *job = &lane->server->config;
    /* A step that goes on without a trainer, or with another process in its place, has nothing of it. */
    struct pd_shard_config config = {.trainers = job->trainers,
                                     .is_sync = job->is_sync,
                                     .is_gated = lane->server->order != NULL,
                                     .is_whole = job->on_loss != PD_LOSS_FAIL,
                                     .is_checked = lane->server->engine.is_checked,
                                     .compensates = job->compensates && !job->is_sync,
                                     .hooks = {.begin_step = begin_step,
                                               .run_blocks = run_blocks,
                                               .log = log_change,
                                               .keeps = keeps,
                                               .commit = commit,
                                               .whole = whole,
                                               .applied = applied,
                                               .answer = answer,
                                               .arg = lane}};
    PD_TRY(pd_shard_new(&config, &lane->shard));
    lane->members = pd_calloc((size_t)config.trainers, sizeof *lane->members);
    if (!lane->members) return pd_no_memory();
    if (lane->index == 0) PD_TRY(pd_meet_new(lane, &lane->meet));
    PD_TRY(pd_loop_post(lane->loop, on_thread, NULL));
    return pd_timer_start(lane->loop, PD_SERVER_TICK_MS, PD_SERVER_TICK_MS, tick, lane, NULL);
}

void pd_lane_close(struct lane *lane)
{
    for (int i = 0; i < lane->served.n; i++)
        pd_free(lane->served.at[i].name);
    pd_vec_free(&lane->served);
    pd_map_free(&lane->served_at);
    pd_vec_free(&lane->sessions);
    pd_meet_free(lane->meet);
    pd_free(lane->members);
    pd_shard_free(lane->shard);
}
