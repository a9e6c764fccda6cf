/* A connection that stalls: what is sent arrives at some machine on the way, and nothing comes back. No error
 * tells, and the kernel's own probes are answered.
 *
 * Where something is waited for and nothing moves, the server is asked for a word (BEAT). One that computes,
 * or is stopped, does not answer either, and its connection must stay. So a second connection to the same
 * loop is made beside the first: when the server welcomes it, and still nothing comes on the first, the
 * second takes its place, and what was not acknowledged is sent again there. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "pserver/client_private.h"
#include "pserver/proto.h"

enum {
    SLACK_MS = 500, /* for an answer that is on its way on the first connection */
    AGAIN_MS = 1000,
    LOOK_MS = 100,
};

static void on_second(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct wire *w = pd_conn_user(conn);
    w->watch.met_at = pd_clock_ns();
    w->watch.welcome = *welcome;
}

static pd_status on_nothing(struct pd_conn *conn, const struct pd_message *m)
{
    (void)conn, (void)m;
    return PD_OK;
}

static void on_second_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct wire *w = pd_conn_user(conn);
    (void)why, (void)text;
    w->watch.second = NULL;
    w->watch.met_at = 0;
}

static const struct pd_conn_events second_events = {
    .opened = on_second, .done = on_nothing, .closed = on_second_closed};

static void end_second(struct wire *w)
{
    static const struct pd_conn_events nobody = {0};
    if (!w->watch.second) return;
    pd_conn_set_user(w->watch.second, &nobody, NULL);
    pd_conn_close(w->watch.second, 0);
    w->watch.second = NULL;
    w->watch.met_at = 0;
}

void pd_wire_unwatch(struct wire *w)
{
    end_second(w);
    w->watch = (struct pd_watch){0};
}

/* Bytes in or out, or something new is waited for. Notices do not count: they come without being asked for,
 * also when nothing arrives there. */
static int has_moved(struct wire *w)
{
    uint64_t heard = pd_conn_bytes(w->conn, 0) - w->watch.notices;
    size_t unsent = pd_conn_unsent(w->conn);
    uint64_t request = w->request + (uint64_t)w->names_opened;
    int moved = heard != w->watch.heard || unsent < w->watch.unsent || request != w->watch.request;
    w->watch.request = request;
    w->watch.heard = heard;
    /* That the question itself has left says nothing. */
    if (!w->watch.asked || unsent < w->watch.unsent) w->watch.unsent = unsent;
    return moved;
}

static int is_waited_for(const struct wire *w)
{
    return w->waits || !w->is_open || w->names_answered < w->names_opened;
}

static void use_second(struct wire *w, int64_t silent_ms)
{
    char why[160];
    struct pd_conn *conn = w->watch.second;
    struct pd_welcome welcome = w->watch.welcome;
    w->watch.second = NULL;
    snprintf(why, sizeof why, "nothing came through the connection for %lld s, and a new one works",
             (long long)(silent_ms / 1000));
    pd_log(PD_LOG_WARNING, "server %s: %s: it takes the other one's place", w->link->endpoint, why);
    pd_wire_replace(w, conn, &welcome, why);
}

void pd_wire_watch(struct wire *w, int64_t now)
{
    int64_t limit = w->link->client->silence_ms;
    if (!limit || !w->conn || !w->is_welcome || strcmp(pd_conn_transport(w->conn), "shm") == 0) return;
    if ((now - w->watch.looked) / 1000000 < LOOK_MS) return;
    w->watch.looked = now;
    int moved = has_moved(w);
    if (moved || !is_waited_for(w) || !w->watch.since) {
        w->watch.since = now;
        w->watch.asked = 0;
        end_second(w);
        return;
    }
    int64_t silent_ms = (now - w->watch.since) / 1000000;
    if (!w->watch.asked && silent_ms >= limit / 2) {
        struct pd_frame_head head = {.type = PD_PS_BEAT, .request = 1};
        w->watch.asked = 1;
        (void)pd_conn_send(w->conn, &head, NULL, 0, NULL, 0, NULL, NULL);
    }
    if (silent_ms < limit) return;
    if (w->watch.met_at && (now - w->watch.met_at) / 1000000 >= SLACK_MS) {
        use_second(w, silent_ms);
    } else if (!w->watch.second && (now - w->watch.second_at) / 1000000 >= AGAIN_MS) {
        w->watch.second_at = now;
        if (pd_wire_connect(w, &second_events, w, &w->watch.second) != PD_OK) w->watch.second = NULL;
    }
}
