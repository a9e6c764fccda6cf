/* See order.h. Everything is decided and sent on the control loop; lanes leave wishes and read what was
 * decided under a lock. */
#include "pserver/server/order.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/line.h"
#include "base/lock.h"
#include "pserver/server/order_private.h"
#include "pserver/server/server_private.h"
#include "pserver/server/waiters.h"
#include "pserver/store/snapshot.h"

/* ---- what lanes do ---- */

void pd_order_want(struct pd_order *o, int trainer, uint64_t incarnation, enum pd_trainer_state state,
                   const char *why)
{
    struct wish wish = {trainer, incarnation, state, pd_clock_ns(), 0, {""}};
    if (why) snprintf(wish.why.text, sizeof wish.why.text, "%s", why);
    pthread_mutex_lock(&o->lock);
    /* Each loop may wish it, and again after each new connection; and who opens now stands for the trainer
     * instead of one that opened before. */
    for (int i = o->wishes.n - 1; i >= 0; i--) {
        const struct wish *old = &o->wishes.at[i];
        if (old->trainer != trainer || old->state != state) continue;
        if (old->incarnation == incarnation) wish.since = old->since;
        if (old->incarnation == incarnation && !wish.why.text[0]) wish.why = old->why;
        if (old->incarnation == incarnation || state == PD_TRAINER_IN) pd_vec_remove(&o->wishes, i);
    }
    int ok = pd_vec_push(&o->wishes, wish);
    pd_status status = ok ? pd_loop_post(o->loop, pd_order_drain, o) : PD_NO_MEMORY;
    pthread_mutex_unlock(&o->lock);
    if (status == PD_NO_MEMORY) pd_server_fail(o->server, pd_no_memory());
}

int pd_order_lets_in(struct pd_order *o)
{
    if (!o) return 1;
    PD_HOLD(&o->lock);
    return o->self ? o->is_open : !o->doubt;
}

void pd_order_whole(struct pd_order *o, struct lane *lane, uint64_t step)
{
    struct progress now = {step, lane->order_version};
    pthread_mutex_lock(&o->lock);
    pd_status status = o->is_apart ? pd_order_apart(o) : PD_OK;
    struct progress *mine = &o->lanes[lane->index];
    if (status == PD_OK && (mine->step != now.step || mine->version != now.version)) {
        *mine = now;
        (void)pd_loop_post(o->loop, pd_order_drain, o);
    }
    pthread_mutex_unlock(&o->lock);
    if (status != PD_OK) pd_server_fail(o->server, status);
}

static void note_taken(struct pd_order *o, const struct lane *lane)
{
    PD_HOLD(&o->lock);
    if (o->taken[lane->index] != lane->order_version) {
        o->taken[lane->index] = lane->order_version;
        (void)pd_loop_post(o->loop, pd_order_drain, o);
    }
}

/* On a lane's thread: takes in what was decided since the last time. A change of membership comes after the
 * steps that were committed before it; one that was prepared before a restart is applied then, before who
 * took part in it is found to be gone. */
static void catch_up(void *arg)
{
    struct lane *lane = arg;
    struct pd_order *o = lane->server->order;
    pd_status status = PD_OK;
    for (int more = 1; more && status == PD_OK;) {
        struct change change = {0};
        pthread_mutex_lock(&o->lock);
        uint64_t committed = o->committed, jump = o->jump;
        more = lane->order_at < o->changes.n;
        if (more) change = o->changes.at[lane->order_at++];
        pthread_mutex_unlock(&o->lock);
        status = pd_lane_jump(lane, jump);
        if (status == PD_OK) status = pd_shard_allow(lane->shard, more ? change.after : committed);
        if (!more || status != PD_OK) break;
        lane->order_version = change.version;
        status = pd_lane_change(lane, change.trainer, change.incarnation, change.state, change.why.text);
    }
    if (status == PD_OK) note_taken(o, lane);
    if (status != PD_OK) pd_server_fail(lane->server, status);
}

void pd_order_tell_lanes(struct pd_order *o)
{
    for (int i = 0; i < o->server->n_lanes; i++)
        (void)pd_loop_post(o->server->lanes[i].loop, catch_up, &o->server->lanes[i]);
}

/* ---- what is decided ---- */

int pd_order_is_so(const struct pd_order *o, const struct wish *wish)
{
    const struct membership *m = &o->members[wish->trainer];
    if (wish->state == PD_TRAINER_IN) return m->state == PD_TRAINER_IN && m->incarnation == wish->incarnation;
    /* Another process stands for it now, or it has left. */
    return m->state == PD_TRAINER_DONE || m->state == PD_TRAINER_LOST ||
           (m->state == PD_TRAINER_IN && wish->incarnation && m->incarnation != wish->incarnation);
}

/* Under the lock: what all lanes have taken in is kept no longer. */
static void forget_taken(struct pd_order *o)
{
    int taken = o->changes.n;
    for (int i = 0; i < o->server->n_lanes; i++)
        if (o->server->lanes[i].order_at < taken) taken = o->server->lanes[i].order_at;
    if (!taken) return;
    o->changes.n -= taken;
    memmove(o->changes.at, o->changes.at + taken, (size_t)o->changes.n * sizeof *o->changes.at);
    for (int i = 0; i < o->server->n_lanes; i++)
        o->server->lanes[i].order_at -= taken;
}

pd_status pd_order_change(struct pd_order *o, const struct wish *so, uint64_t version, uint64_t after)
{
    struct change change = {so->trainer, so->incarnation, so->state, version, after, so->why};
    pthread_mutex_lock(&o->lock);
    forget_taken(o);
    int ok = pd_vec_push(&o->changes, change);
    o->version = version;
    o->members[so->trainer] = (struct membership){.state = so->state, .incarnation = so->incarnation};
    if (after > o->committed) o->committed = after;
    pthread_mutex_unlock(&o->lock);
    return ok ? PD_OK : pd_no_memory();
}

/* At the first server: all of the job hear of it. */
static void decide(struct pd_order *o, const struct wish *wish)
{
    struct wish so = *wish;
    if (!so.incarnation) so.incarnation = o->members[wish->trainer].incarnation;
    pd_status status = pd_order_change(o, &so, o->version + 1, o->committed);
    if (status != PD_OK) {
        pd_server_fail(o->server, status);
        return;
    }
    for (int k = 1; k < o->n_servers; k++)
        if (o->peers[k].conn) pd_order_send_change(o->peers[k].conn, &o->changes.at[o->changes.n - 1]);
    pd_order_tell_lanes(o);
}

int pd_order_all_told(struct pd_order *o, char *who, size_t cap)
{
    struct pd_line line = pd_line_in(who, cap);
    int all = 1;
    if (!o || o->self) return 1;
    PD_HOLD(&o->lock);
    for (int k = 1; k < o->n_servers; k++) {
        if (o->peers[k].told == o->version) continue;
        pd_line_printf(&line, "%sserver %s", all ? "" : ", ", o->names[k]);
        all = 0;
    }
    return all;
}

int pd_order_is_heard(struct pd_order *o)
{
    if (!o || !o->self) return 1;
    PD_HOLD(&o->lock);
    return !o->is_open || o->heard == o->version;
}

int pd_order_tells_others(const struct pd_order *o)
{
    return o && !o->self && o->n_servers > 1;
}

void pd_order_wish(struct pd_order *o, const struct wish *wish)
{
    struct membership *m = &o->members[wish->trainer];
    if (pd_order_is_so(o, wish)) return;
    if (wish->state != PD_TRAINER_FAILED) {
        decide(o, wish);
    } else if (!m->failed_at && m->state == PD_TRAINER_IN) {
        m->failed_at = pd_clock_ns();
        m->why = wish->why;
    }
}

/* Only here is it known of all at the same time: a server that hears of a failure may not have heard yet of a
 * process that took the place of another one. */
void pd_order_give_up(struct pd_order *o)
{
    int64_t last = 0;
    int n = o->server->config.trainers;
    for (int t = 0; t < n; t++) {
        const struct membership *m = &o->members[t];
        if (m->state != PD_TRAINER_IN || !m->failed_at) return;
        if (m->failed_at > last) last = m->failed_at;
    }
    if ((pd_clock_ns() - last) / 1000000 < o->server->config.reconnect_ms) return;
    for (int t = 0; t < n; t++)
        decide(o, &(struct wish){.trainer = t, .state = PD_TRAINER_LOST, .why = o->members[t].why});
}

int pd_order_is_ready(const struct pd_order *o, int k)
{
    const struct order_peer *p = &o->peers[k];
    uint64_t step = o->committed + 1;
    return p->applied >= step || (p->ready.step == step && p->ready.version == o->version);
}

/* At the first server: is the next step whole everywhere, with the same trainers in it? */
void pd_order_commit(struct pd_order *o)
{
    for (;;) {
        uint64_t step = o->committed + 1;
        for (int k = 0; k < o->n_servers; k++)
            if (!pd_order_is_ready(o, k)) return;
        pthread_mutex_lock(&o->lock);
        o->committed = step;
        pthread_mutex_unlock(&o->lock);
        o->runs = 1;
        for (int k = 1; k < o->n_servers; k++)
            if (o->peers[k].conn) pd_order_send_commit(o->peers[k].conn, step);
        pd_order_tell_lanes(o);
    }
}

/* The next step, when all lanes of this server have it whole; step 0: they have not. A lane may have applied
 * it before the server was killed and started again, and another not. */
struct progress pd_order_own(struct pd_order *o)
{
    struct progress next = {o->committed + 1, o->version};
    for (int i = 0; i < o->server->n_lanes; i++) {
        const struct progress *lane = &o->lanes[i];
        if (atomic_load(&o->server->lanes[i].applied) >= next.step) continue;
        if (lane->step != next.step || lane->version != next.version) return (struct progress){0};
    }
    if (o->ready != next.step) o->ready_since = pd_clock_ns();
    o->ready = next.step;
    return next;
}

void pd_order_tidy(struct pd_order *o)
{
    PD_HOLD(&o->lock);
    for (int i = o->wishes.n - 1; i >= 0; i--)
        if (pd_order_is_so(o, &o->wishes.at[i])) pd_vec_remove(&o->wishes, i);
}

/* On the control loop: what lanes have left for it. */
void pd_order_drain(void *arg)
{
    struct pd_order *o = arg;
    struct progress own;
    pthread_mutex_lock(&o->lock);
    own = pd_order_own(o);
    pthread_mutex_unlock(&o->lock);
    if (o->self != 0) {
        pd_order_ask(o, own);
        pd_order_say_known(o);
        return;
    }
    if (!pd_order_may_decide(o)) return;
    for (;;) {
        struct wish wish;
        pthread_mutex_lock(&o->lock);
        int has = o->wishes.n > 0;
        if (has) {
            wish = o->wishes.at[0];
            pd_vec_remove(&o->wishes, 0);
        }
        pthread_mutex_unlock(&o->lock);
        if (!has) break;
        pd_order_wish(o, &wish);
    }
    if (own.step) o->peers[0].ready = own;
    pd_order_commit(o);
}

/* ---- life ---- */

/* However many trainers there are; each server has one loop at least. */
static int is_needed(const struct pd_server *s, int n_servers)
{
    return s->config.is_sync && s->config.on_loss != PD_LOSS_FAIL && (n_servers > 1 || s->n_lanes > 1);
}

pd_status pd_order_new(struct pd_server *s, int n_servers, const char *const *servers, struct pd_order **out)
{
    *out = NULL;
    if (!is_needed(s, n_servers)) return PD_OK;
    struct pd_order *o = pd_calloc(1, sizeof *o);
    if (!o) return pd_no_memory();
    pthread_mutex_init(&o->lock, NULL);
    o->server = s;
    o->n_servers = n_servers > 1 ? n_servers : 1;
    int place = pd_snapshot_place(n_servers, servers, s->config.endpoint);
    o->self = place > 0 ? place : 0;
    o->names = pd_calloc((size_t)o->n_servers, sizeof *o->names);
    int is_named = o->names != NULL;
    for (int i = 0; is_named && i < o->n_servers; i++)
        is_named = (o->names[i] = pd_strdup(n_servers ? servers[i] : "")) != NULL;
    o->members = pd_calloc((size_t)s->config.trainers, sizeof *o->members);
    o->lanes = pd_calloc((size_t)s->n_lanes, sizeof *o->lanes);
    o->taken = pd_calloc((size_t)s->n_lanes, sizeof *o->taken);
    o->peers = pd_calloc((size_t)o->n_servers, sizeof *o->peers);
    if (!is_named || !o->members || !o->lanes || !o->taken || !o->peers) {
        pd_order_free(o);
        return pd_no_memory();
    }
    *out = o;
    return PD_OK;
}

pd_status pd_order_start(struct pd_order *o, struct pd_loop *control)
{
    o->loop = control;
    o->committed = pd_order_look_back(o);
    for (int i = 0; i < o->server->n_lanes; i++)
        atomic_store(&o->server->lanes[i].applied, pd_shard_step(o->server->lanes[i].shard));
    o->peers[0].applied = o->committed;
    /* Others may know versions of a first server that was there before: none of them is one of ours. */
    if (!o->self) o->version = o->server->incarnation;
    for (int i = 0; i < o->server->n_lanes; i++)
        o->taken[i] = o->server->lanes[i].order_version = o->version;
    pd_order_tell_lanes(o);
    if (o->self) return PD_OK;
    PD_TRY(pd_order_watch(o));
    return pd_order_doubt(o);
}

const char *pd_order_first(const struct pd_order *o, int *self)
{
    *self = o->self;
    return o->self ? o->names[0] : NULL;
}

void pd_order_free(struct pd_order *o)
{
    if (!o) return;
    pd_waiters_free(o->waiters);
    pd_vec_free(&o->changes);
    pd_vec_free(&o->wishes);
    for (int i = 0; o->names && i < o->n_servers; i++)
        pd_free(o->names[i]);
    pd_free(o->names);
    pd_free(o->members);
    pd_free(o->taken);
    pd_free(o->lanes);
    pd_free(o->peers);
    pthread_mutex_destroy(&o->lock);
    pd_free(o);
}
