/* The order of steps between servers: every server has a connection to the first (first_link.h). On each new
 * one both tell what they know: the first who is in the job, the other how far it is. */
#include <stdio.h>

#include "base/clock.h"
#include "base/line.h"
#include "base/lock.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/server/first_link.h"
#include "pserver/server/order_private.h"
#include "pserver/server/server_private.h"
#include "pserver/server/waiters.h"

#define MAX_AHEAD ((uint64_t)1 << 32) /* of a server that came back with older parameters */

/* Who is in the job, as this server knows it. */
static void put_members(const struct pd_order *o, struct pd_buf *meta)
{
    int n = o->server->config.trainers;
    pd_put_u32(meta, (uint32_t)n);
    for (int t = 0; t < n; t++) {
        pd_put_u8(meta, (uint8_t)o->members[t].state);
        pd_put_u64(meta, o->members[t].incarnation);
    }
}

static void send_members(const struct pd_order *o, struct pd_conn *conn, uint16_t type, uint64_t step)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = type, .step = step, .extra = o->version};
    if (type == PD_PS_MEMBERS && o->runs) head.flags = PD_PS_RUNS;
    put_members(o, &meta);
    pd_conn_say(conn, &head, &meta);
}

static int next_member(struct pd_reader *r, struct wish *out, int trainer, enum pd_trainer_state most)
{
    int state = pd_read_u8(r);
    *out = (struct wish){trainer, pd_read_u64(r), (enum pd_trainer_state)state, 0, 0, {""}};
    if (state > (int)most) r->bad = 1;
    return !r->bad && state != PD_TRAINER_ABSENT;
}

/* One member, and why it is lost where that is known: WANT and CHANGED. */
static void put_member(struct pd_buf *meta, int trainer, enum pd_trainer_state state, uint64_t incarnation,
                       const struct reason *why)
{
    pd_put_u32(meta, (uint32_t)trainer);
    pd_put_u8(meta, (uint8_t)state);
    pd_put_u64(meta, incarnation);
    if (why->text[0]) pd_put_line(meta, why->text, PD_PS_WHY_MOST);
}

static int read_member(const struct pd_order *o, const struct pd_message *m, struct wish *out)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t t = pd_read_u32(&r);
    enum pd_trainer_state most = m->head.type == PD_PS_WANT ? PD_TRAINER_FAILED : PD_TRAINER_LOST;
    int is_one = next_member(&r, out, (int)t, most) && t < (uint32_t)o->server->config.trainers;
    if (is_one && r.at < r.end) pd_read_text(&r, out->why.text, sizeof out->why.text);
    return is_one && pd_reader_done(&r);
}

/* ---- at the first server ---- */

void pd_order_send_change(struct pd_conn *conn, const struct change *c)
{
    struct pd_buf meta = {0};
    put_member(&meta, c->trainer, c->state, c->incarnation, &c->why);
    pd_conn_say(conn, &(struct pd_frame_head){.type = PD_PS_CHANGED, .step = c->after, .extra = c->version},
                &meta);
}

void pd_order_send_commit(struct pd_conn *conn, uint64_t step)
{
    pd_conn_say(conn, &(struct pd_frame_head){.type = PD_PS_COMMIT, .step = step}, NULL);
}

/* A server comes, or comes back: it may know more than a first server that was started again. */
static pd_status on_order(struct pd_order *o, int k, struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t n = pd_read_u32(&r);
    if (r.bad || n != (uint32_t)o->server->config.trainers)
        return pd_fail(PD_INVALID, "a server was started for %u trainers, this one for %d", n,
                       o->server->config.trainers);
    struct pd_reader ahead = r; /* nothing of it is believed before all of it is read */
    for (int t = 0; t < (int)n; t++) {
        struct wish unused;
        (void)next_member(&ahead, &unused, t, PD_TRAINER_LOST);
    }
    if (!pd_reader_done(&ahead)) return pd_fail(PD_FORMAT, "malformed ORDER");
    if (m->head.step > o->committed + MAX_AHEAD)
        return pd_fail(PD_RANGE, "server %d says that step %llu was applied; this one is at %llu", k,
                       (unsigned long long)m->head.step, (unsigned long long)o->committed);
    if (!pd_order_hear(o, k, m->head.step)) {
        pd_conn_close(conn, 0); /* it comes again with its next tick, and says the same */
        return PD_OK;
    }
    for (int t = 0; t < (int)n; t++) {
        struct wish wish;
        int is_known = next_member(&r, &wish, t, PD_TRAINER_LOST);
        if (is_known && o->members[t].state == PD_TRAINER_ABSENT) pd_order_wish(o, &wish);
    }
    int is_apart = m->head.step > o->committed + 1; /* further than it may be: it is ready for nothing */
    o->peers[k] = (struct order_peer){.conn = conn, .applied = is_apart ? 0 : m->head.step};
    send_members(o, conn, PD_PS_MEMBERS, o->committed);
    pd_order_commit(o); /* it may have applied already what all others are ready for */
    return PD_OK;
}

static pd_status on_want(struct pd_order *o, const struct pd_message *m)
{
    struct wish wish;
    if (!read_member(o, m, &wish)) return pd_fail(PD_FORMAT, "malformed WANT");
    pd_order_wish(o, &wish);
    return PD_OK;
}

static pd_status on_ready(struct pd_order *o, int k, struct pd_conn *conn, const struct pd_message *m)
{
    struct order_peer *p = &o->peers[k];
    if (m->head.step <= o->committed) { /* it was away when that was committed */
        pd_order_send_commit(conn, m->head.step);
        return PD_OK;
    }
    if (m->head.step != o->committed + 1)
        return pd_fail(PD_INVALID, "server %d is ready for step %llu, but step %llu comes next", k,
                       (unsigned long long)m->head.step, (unsigned long long)o->committed + 1);
    p->ready = (struct progress){m->head.step, m->head.extra};
    pd_order_commit(o);
    return PD_OK;
}

/* It has kept what it was told: killed now, it would not wait for who has left. It ends when it knows that
 * this was heard. */
static void on_known(struct pd_order *o, int k, struct pd_conn *conn, const struct pd_message *m)
{
    pthread_mutex_lock(&o->lock);
    o->peers[k].told = m->head.extra;
    pthread_mutex_unlock(&o->lock);
    pd_conn_say(conn, &(struct pd_frame_head){.type = PD_PS_HEARD, .extra = m->head.extra}, NULL);
    pd_server_wake(o->server);
}

pd_status pd_order_message(struct pd_order *o, struct pd_conn *conn, const struct pd_message *m)
{
    int k = pd_conn_hello(conn)->id;
    if (o->self || k < 1 || k >= o->n_servers)
        return pd_fail(
            PD_INVALID,
            "server %d asks this one for the order of steps: do all have the same list of servers?", k);
    if (m->head.type == PD_PS_ORDER) return on_order(o, k, conn, m);
    if (o->peers[k].conn != conn) return pd_fail(PD_INVALID, "another connection stands for server %d", k);
    if (m->head.type == PD_PS_WANT) return on_want(o, m);
    if (m->head.type == PD_PS_READY) return on_ready(o, k, conn, m);
    on_known(o, k, conn, m);
    return PD_OK;
}

void pd_order_forget(struct pd_order *o, const struct pd_conn *conn)
{
    for (int k = 0; o && k < o->n_servers; k++)
        if (o->peers[k].conn == conn) {
            o->peers[k].conn = NULL;
            o->peers[k].away_since = pd_clock_ns();
            o->peers[k].ready = (struct progress){0}; /* it says so again when it is back, if it still is */
        }
}

/* ---- who is not there, who is late ---- */

static int is_missing(const struct pd_order *o, int k)
{
    return !o->peers[k].conn;
}

/* It stands still, or computes; or a trainer has not given it all, which it says itself. */
static int is_late(const struct pd_order *o, int k)
{
    return o->peers[k].conn && pd_order_is_ready(o, 0) && !pd_order_is_ready(o, k);
}

static void list(const struct pd_order *o, int (*is_one)(const struct pd_order *o, int k),
                 struct pd_line *out)
{
    for (int k = 1; k < o->n_servers; k++)
        if (is_one(o, k)) pd_line_printf(out, "%sserver %s", out->n ? ", " : "", o->names[k]);
}

static void describe_missing(void *arg, char *out, size_t cap)
{
    const struct pd_order *o = arg;
    int64_t since = pd_clock_ns(), now = since;
    for (int k = 1; k < o->n_servers; k++)
        if (is_missing(o, k) && o->peers[k].away_since < since) since = o->peers[k].away_since;
    struct pd_line line = pd_line_in(out, cap);
    list(o, is_missing, &line);
    pd_line_printf(&line, " has not reached the first server %s, which decides on steps, for %lld s",
                   o->names[0], (long long)((now - since) / 1000000000));
}

static void describe_late(void *arg, char *out, size_t cap)
{
    const struct pd_order *o = arg;
    char who[PD_WAITERS_TEXT / 2];
    struct pd_line line = pd_line_in(who, sizeof who);
    list(o, is_late, &line);
    snprintf(out, cap,
             "step %llu is whole on the first server %s, and has waited %lld s for %s, which is connected "
             "and has not said that it is whole there: is it stopped, or busy?",
             (unsigned long long)o->committed + 1, o->names[0],
             (long long)((pd_clock_ns() - o->ready_since) / 1000000000), who);
}

/* Past the deadline: a server that is late because of a trainer knows better whom the step waits for. */
enum { GRACE_MS = 1000 };

/* In doubt it says so itself (order_doubt.c). */
static void watch_peers(struct pd_order *o)
{
    int64_t away = 0, late = 0;
    int64_t deadline = o->server->config.deadline_ms;
    for (int k = 1; !o->doubt && k < o->n_servers; k++) {
        if (is_missing(o, k) && (!away || o->peers[k].away_since < away)) away = o->peers[k].away_since;
        if (is_late(o, k)) late = o->ready_since;
    }
    if (away || !late)
        pd_waiters_tend(o->waiters, away, 1, deadline, describe_missing, o);
    else
        pd_waiters_tend(o->waiters, late, 1, deadline + GRACE_MS, describe_late, o);
}

static void watch(void *arg)
{
    struct pd_order *o = arg;
    if (o->waiters) watch_peers(o);
    pd_order_give_up(o);
}

pd_status pd_order_watch(struct pd_order *o)
{
    for (int k = 1; k < o->n_servers; k++)
        o->peers[k].away_since = pd_clock_ns();
    if (o->n_servers > 1) PD_TRY(pd_waiters_new(o->server, &o->waiters));
    return pd_timer_start(o->loop, PD_SERVER_TICK_MS, PD_SERVER_TICK_MS, watch, o, NULL);
}

/* ---- at the others ---- */

static void send_wish(struct pd_order *o, const struct wish *wish)
{
    struct pd_buf meta = {0};
    put_member(&meta, wish->trainer, wish->state, wish->incarnation, &wish->why);
    pd_conn_say(o->link, &(struct pd_frame_head){.type = PD_PS_WANT}, &meta);
}

/* Wishes stay until they are so, for the first server may go before it has heard them. */
void pd_order_ask(struct pd_order *o, struct progress own)
{
    pd_order_tidy(o);
    pthread_mutex_lock(&o->lock);
    for (int i = 0; o->is_open && i < o->wishes.n; i++) {
        if (o->wishes.at[i].is_sent) continue;
        o->wishes.at[i].is_sent = 1;
        send_wish(o, &o->wishes.at[i]);
    }
    pthread_mutex_unlock(&o->lock);
    if (o->is_open && own.step)
        pd_conn_say(o->link,
                    &(struct pd_frame_head){.type = PD_PS_READY, .step = own.step, .extra = own.version},
                    NULL);
}

void pd_order_say_known(struct pd_order *o)
{
    pthread_mutex_lock(&o->lock);
    int is_news = o->is_open && o->known != o->version;
    for (int i = 0; i < o->server->n_lanes; i++)
        is_news &= o->taken[i] == o->version;
    if (is_news) o->known = o->version;
    uint64_t version = o->version;
    pthread_mutex_unlock(&o->lock);
    if (is_news) pd_conn_say(o->link, &(struct pd_frame_head){.type = PD_PS_KNOWN, .extra = version}, NULL);
}

static void ask_again(struct pd_order *o)
{
    pthread_mutex_lock(&o->lock);
    struct progress own = pd_order_own(o);
    for (int i = 0; i < o->wishes.n; i++)
        o->wishes.at[i].is_sent = 0;
    pthread_mutex_unlock(&o->lock);
    pd_order_ask(o, own);
}

void pd_order_first_opened(struct pd_order *o, struct pd_conn *conn)
{
    o->link = conn;
    o->known = 0;
    send_members(o, conn, PD_PS_ORDER, o->committed); /* what is not applied yet will be, whoever says what */
}

/* The last step that may be applied here when the first server is at `step`. */
static uint64_t allowed(const struct pd_order *o, uint64_t step)
{
    return o->is_apart ? o->committed : step;
}

static pd_status on_members(struct pd_order *o, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t n = pd_read_u32(&r);
    if (r.bad || n != (uint32_t)o->server->config.trainers) return pd_fail(PD_FORMAT, "malformed MEMBERS");
    pd_order_meet(o, m->head.step, m->head.flags & PD_PS_RUNS);
    if (!o->is_apart) o->was_open = 1;
    uint64_t step = allowed(o, m->head.step);
    o->broke_at = 0; /* a first server in doubt hangs up instead (order_doubt.c) */
    for (int t = 0; t < (int)n; t++) {
        struct wish now;
        const struct membership *mine = &o->members[t];
        if (!next_member(&r, &now, t, PD_TRAINER_LOST)) continue;
        if (mine->state != now.state || mine->incarnation != now.incarnation)
            PD_TRY(pd_order_change(o, &now, m->head.extra, step));
    }
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed MEMBERS");
    /* The version counts even when nobody has changed: lanes take it from the last change. */
    struct wish same = {.incarnation = o->members[0].incarnation, .state = o->members[0].state};
    if (o->version != m->head.extra) PD_TRY(pd_order_change(o, &same, m->head.extra, step));
    pthread_mutex_lock(&o->lock);
    if (step > o->committed) o->committed = step;
    o->is_open = 1;
    pthread_mutex_unlock(&o->lock);
    pd_first_link_works(o->server->first);
    return PD_OK;
}

static pd_status on_changed(struct pd_order *o, const struct pd_message *m)
{
    struct wish now;
    if (!read_member(o, m, &now)) return pd_fail(PD_FORMAT, "malformed CHANGED");
    return pd_order_change(o, &now, m->head.extra, allowed(o, m->head.step));
}

pd_status pd_order_first_said(struct pd_order *o, const struct pd_message *m)
{
    pd_status status = PD_OK;
    switch (m->head.type) {
    case PD_PS_MEMBERS:
        status = on_members(o, m);
        break;
    case PD_PS_CHANGED:
        if (o->is_open) status = on_changed(o, m);
        break;
    case PD_PS_COMMIT:
        pthread_mutex_lock(&o->lock);
        if (m->head.step > o->committed) o->committed = m->head.step;
        pthread_mutex_unlock(&o->lock);
        o->runs = 1;
        break;
    case PD_PS_HEARD:
        pthread_mutex_lock(&o->lock);
        o->heard = m->head.extra;
        pthread_mutex_unlock(&o->lock);
        pd_server_wake(o->server);
        return PD_OK;
    default:
        return pd_fail(PD_FORMAT, "the first server sends a message of type %u", m->head.type);
    }
    PD_TRY(status);
    pd_order_tidy(o); /* a wish that was so once must not come up again when somebody has changed it since */
    pd_order_tell_lanes(o);
    if (m->head.type == PD_PS_MEMBERS) ask_again(o);
    pd_order_say_known(o); /* where there was no news for the lanes */
    return PD_OK;
}

void pd_order_first_closed(struct pd_order *o)
{
    o->link = NULL;
    pthread_mutex_lock(&o->lock);
    o->is_open = 0;
    pthread_mutex_unlock(&o->lock);
    if (!o->broke_at) o->broke_at = pd_clock_ns();
}

/* Has everybody left, or been wished away for that long? Then there is no step any more to agree on. */
static int is_deserted(struct pd_order *o, int64_t before)
{
    PD_HOLD(&o->lock);
    for (int t = 0; t < o->server->config.trainers; t++) {
        int leaves = o->members[t].state == PD_TRAINER_DONE || o->members[t].state == PD_TRAINER_LOST;
        for (int i = 0; i < o->wishes.n; i++)
            if (o->wishes.at[i].trainer == t)
                leaves = o->wishes.at[i].state != PD_TRAINER_IN && o->wishes.at[i].since <= before;
        if (!leaves) return 0;
    }
    return 1;
}

/* The first server is gone, and trainers wait to leave, or are lost and nobody is left: it has ended with the
 * job, or will hear of it when it is back. */
static void leave_alone(struct pd_order *o)
{
    int64_t now = pd_clock_ns(), patience = (int64_t)o->server->config.reconnect_ms * 1000000;
    int changed = 0;
    if (!o->broke_at || now - o->broke_at < patience) return;
    int deserted = is_deserted(o, now - patience);
    for (int i = 0;; i++) {
        struct wish wish = {0};
        pthread_mutex_lock(&o->lock);
        int has = i < o->wishes.n;
        if (has) wish = o->wishes.at[i];
        pthread_mutex_unlock(&o->lock);
        if (!has) break;
        if (wish.state != PD_TRAINER_DONE && !deserted) continue;
        if (now - wish.since < patience || pd_order_is_so(o, &wish)) continue;
        (void)pd_order_change(o, &wish, o->version, o->committed);
        changed = 1;
    }
    if (changed) pd_order_tell_lanes(o);
}

void pd_order_first_tick(struct pd_order *o)
{
    if (!o->is_open) leave_alone(o);
}

int64_t pd_order_first_silent(const struct pd_order *o, uint64_t *step)
{
    *step = o->ready;
    return o->ready > o->committed ? o->ready_since : 0;
}

int pd_order_first_owes(struct pd_order *o, uint64_t *request)
{
    PD_HOLD(&o->lock);
    *request += o->ready + (uint64_t)o->wishes.n;
    return !o->is_open || o->wishes.n > 0 || o->ready > o->committed;
}
