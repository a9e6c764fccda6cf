/* What a server knows of the order of steps when it was killed and is started again.
 *
 * The first server commits a step and tells the others; that it did so is nowhere in its log. When its log
 * has a step p that all its loops have prepared and none has applied, another server may have heard
 * COMMIT(p), or none. To decide that p goes on with other trainers would be wrong in the first case, so it
 * decides nothing until one of the others knows p, or all have said that they do not: then nobody has applied
 * it.
 *
 * The others say so at once when they run. One that has ended for good does not; it ended because all
 * trainers had left it, and none of them had been answered p here. So either they are all dead, or they wait
 * for this server until their deadline, which is the deadline here too. When the book of this server says
 * that all have left, there is no doubt: each of them left after this server had prepared p, and had p been
 * committed before that, the loops would have applied it first. */
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "pserver/server/order_private.h"
#include "pserver/server/server_private.h"

/* Loops may be a step apart. Where those behind have it prepared, a loop that has applied it was allowed to:
 * it was committed. */
uint64_t pd_order_look_back(struct pd_order *o)
{
    uint64_t least = UINT64_MAX, most = 0;
    o->came_with = UINT64_MAX;
    for (int i = 0; i < o->server->n_lanes; i++) {
        const struct pd_shard *shard = o->server->lanes[i].shard;
        uint64_t step = pd_shard_step(shard), has = pd_shard_prepared(shard) ? step + 1 : step;
        if (step < least) least = step;
        if (step > most) most = step;
        if (has < o->came_with) o->came_with = has;
    }
    for (int i = 0; i < o->server->n_lanes; i++) {
        const struct pd_shard *shard = o->server->lanes[i].shard;
        if (pd_shard_step(shard) < most && pd_shard_prepared(shard) != most) return least;
    }
    return most;
}

static void jump(struct pd_order *o, uint64_t step)
{
    pd_log(PD_LOG_WARNING,
           "this server came back with step %llu, and the job is at step %llu: going on with its older "
           "parameters (FLAGS_ps_accept_rollback)",
           (unsigned long long)o->came_with, (unsigned long long)step);
    PD_HOLD(&o->lock);
    o->jump = step;
}

pd_status pd_order_apart(const struct pd_order *o)
{
    int i_lack = o->committed < o->apart_from;
    return pd_fail(PD_INVALID,
                   "server %s came back with step %llu, but the job is at step %llu: it lost updates. Start "
                   "it from a newer snapshot, or set FLAGS_ps_accept_rollback=1 on all servers",
                   o->names[i_lack ? o->self : 0],
                   (unsigned long long)(i_lack ? o->came_with : o->apart_from),
                   (unsigned long long)(i_lack ? o->apart_from : o->committed));
}

/* One step may be missing, because trainers send it again; where more are, no step could be agreed on. This
 * server is behind only after it was started again.
 *
 * In a job that runs, the one that came back is wrong, and its trainers wait for a better one. Where all were
 * started again, neither is. Trainers have to hear of it, each when it comes, and they see all servers: so
 * they are let in, refuse to go on (client_step.c) and say so to every server. Only when they would go on
 * does a server refuse (pd_order_whole). */
void pd_order_meet(struct pd_order *o, uint64_t step, int runs)
{
    int is_new = !o->was_open && o->came_with < step, accepts = o->server->config.accepts_rollback;
    pthread_mutex_lock(&o->lock);
    o->is_apart = is_new ? !accepts && o->came_with + 1 < step : step + 1 < o->committed;
    o->apart_from = step;
    pthread_mutex_unlock(&o->lock);
    if (is_new && accepts) jump(o, step);
    if (!o->is_apart) return;
    if (runs || o->runs)
        pd_server_fail(o->server, pd_order_apart(o));
    else
        pd_log(PD_LOG_WARNING,
               "this server is at step %llu, the first server %s at step %llu: they cannot go on together. "
               "The trainers say what to do",
               (unsigned long long)o->committed, o->names[0], (unsigned long long)step);
}

static void settle(struct pd_order *o)
{
    uint64_t step = o->doubt;
    int is_prepared = o->came_with >= step, was_applied = o->most >= step;
    pthread_mutex_lock(&o->lock);
    o->doubt = 0;
    pthread_mutex_unlock(&o->lock);
    pd_timer_stop(&o->timer);
    if (is_prepared)
        pd_log(PD_LOG_INFO,
               was_applied ? "step %llu was applied by another server: so it is here"
                           : "no server has applied step %llu: it is open",
               (unsigned long long)step);
    if (o->most > o->came_with && o->server->config.accepts_rollback) {
        step = o->most;
        jump(o, step);
    }
    if (was_applied) {
        pthread_mutex_lock(&o->lock);
        o->committed = step;
        pthread_mutex_unlock(&o->lock);
        o->peers[0].applied = step;
        pd_order_tell_lanes(o);
    }
    (void)pd_loop_post(o->loop, pd_order_drain, o);
}

int pd_order_hear(struct pd_order *o, int k, uint64_t step)
{
    int is_silent = 0;
    if (!o->doubt) return 1;
    o->peers[k].has_spoken = 1;
    if (step > o->most) o->most = step;
    for (int i = 1; i < o->n_servers; i++)
        is_silent |= !o->peers[i].has_spoken;
    if (is_silent && (step < o->doubt || o->server->config.accepts_rollback)) return 0;
    settle(o);
    return 1;
}

int pd_order_may_decide(struct pd_order *o)
{
    int left = 0;
    if (!o->doubt) return 1;
    pthread_mutex_lock(&o->lock);
    for (int t = 0; t < o->server->config.trainers; t++) {
        int leaves = 0;
        for (int i = 0; i < o->wishes.n; i++)
            if (o->wishes.at[i].trainer == t) leaves = o->wishes.at[i].state != PD_TRAINER_IN;
        left += leaves;
    }
    pthread_mutex_unlock(&o->lock);
    if (left < o->server->config.trainers) return 0;
    settle(o);
    return 1;
}

/* Since when somebody waits to be let in; 0: nobody does. */
static int64_t waits_since(struct pd_order *o)
{
    int64_t since = 0;
    PD_HOLD(&o->lock);
    for (int i = 0; i < o->wishes.n; i++)
        if (!since || o->wishes.at[i].since < since) since = o->wishes.at[i].since;
    return since;
}

static void tick(void *arg)
{
    struct pd_order *o = arg;
    const struct pd_server_config *config = &o->server->config;
    int64_t now = pd_clock_ns(), since = waits_since(o), waited = (now - o->doubts_since) / 1000000000;
    int k = 1;
    while (k + 1 < o->n_servers && o->peers[k].has_spoken)
        k++;
    if (since && (now - since) / 1000000 >= config->deadline_ms) {
        pd_timer_stop(&o->timer);
        pd_server_fail(o->server, pd_fail(PD_UNAVAILABLE,
                                          "waited %lld s for server %s to say whether step %llu was applied: "
                                          "given up (FLAGS_rpc_deadline is %d ms); start that server too",
                                          (long long)waited, o->names[k], (unsigned long long)o->doubt,
                                          config->deadline_ms));
        return;
    }
    if ((now - o->noticed) / 1000000 < config->notice_ms) return;
    o->noticed = now;
    pd_log(PD_LOG_WARNING, "has waited %lld s for server %s to say whether step %llu was applied",
           (long long)waited, o->names[k], (unsigned long long)o->doubt);
}

pd_status pd_order_doubt(struct pd_order *o)
{
    uint64_t step = o->committed + 1;
    int is_prepared = o->came_with >= step;
    if (o->n_servers == 1) return PD_OK; /* nobody else could have applied it */
    if (!is_prepared && !o->server->config.accepts_rollback) return PD_OK;
    o->doubt = step;
    o->doubts_since = o->noticed = pd_clock_ns();
    if (is_prepared)
        pd_log(PD_LOG_INFO,
               "step %llu was whole when this server ended: waiting for the other servers to say whether it "
               "was applied",
               (unsigned long long)step);
    return pd_timer_start(o->loop, PD_SERVER_TICK_MS, PD_SERVER_TICK_MS, tick, o, &o->timer);
}
