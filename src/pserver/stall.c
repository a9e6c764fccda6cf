/* See stall.h. */
#include "pserver/stall.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/flags.h"
#include "base/log.h"
#include "pserver/proto.h"

enum {
    SLACK_MS = 500, /* for an answer that is on its way on the first connection */
    AGAIN_MS = 1000,
    LOOK_MS = 100,
};

int pd_stall_limit_ms(void)
{
    return pd_flag_int(PD_FLAG_ps_dead_after) * 1000;
}

static void on_second(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct pd_stall *s = pd_conn_user(conn);
    s->met_at = pd_clock_ns();
    s->welcome = *welcome;
}

static pd_status on_nothing(struct pd_conn *conn, const struct pd_message *m)
{
    (void)conn, (void)m;
    return PD_OK;
}

static void on_second_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct pd_stall *s = pd_conn_user(conn);
    (void)why, (void)text;
    s->second = NULL;
    s->met_at = 0;
}

static const struct pd_conn_events second_events = {
    .opened = on_second, .done = on_nothing, .closed = on_second_closed};

static void end_second(struct pd_stall *s)
{
    if (!s->second) return;
    pd_conn_drop(s->second);
    s->second = NULL;
    s->met_at = 0;
}

void pd_stall_forget(struct pd_stall *s)
{
    end_second(s);
    *s = (struct pd_stall){.calls = s->calls, .owner = s->owner, .endpoint = s->endpoint};
}

/* Bytes in or out, or something new is waited for. */
static int has_moved(struct pd_stall *s, struct pd_conn *conn, const struct pd_stall_wait *wait)
{
    uint64_t heard = pd_conn_heard(conn) - wait->unasked;
    size_t unsent = pd_conn_unsent(conn);
    int moved = heard != s->heard || unsent < s->unsent || wait->request != s->request;
    s->request = wait->request;
    s->heard = heard;
    /* That the question itself has left says nothing. */
    if (!s->asked || unsent < s->unsent) s->unsent = unsent;
    return moved;
}

static void use_second(struct pd_stall *s, struct pd_conn *first, int64_t silent_ms)
{
    char why[160];
    struct pd_conn *conn = s->second;
    struct pd_welcome welcome = s->welcome;
    s->second = NULL;
    snprintf(why, sizeof why, "nothing came through the connection for %lld s, and a new one works",
             (long long)(silent_ms / 1000));
    pd_log(PD_LOG_WARNING, "server %s: %s: it takes the other one's place", s->endpoint, why);
    pd_conn_drop(first);
    s->calls->replace(s->owner, conn, &welcome, why);
}

void pd_stall_look(struct pd_stall *s, struct pd_conn *conn, const struct pd_stall_wait *wait, int limit_ms,
                   int64_t now)
{
    if (!limit_ms || (now - s->looked) / 1000000 < LOOK_MS) return;
    if (strcmp(pd_conn_transport(conn), "shm") == 0) return; /* there is nobody on the way */
    s->looked = now;
    int moved = has_moved(s, conn, wait);
    if (moved || !wait->is_on || !s->since) {
        s->since = now;
        s->asked = 0;
        end_second(s);
        return;
    }
    int64_t silent_ms = (now - s->since) / 1000000;
    if (!s->asked && silent_ms >= limit_ms / 2) {
        struct pd_frame_head head = {.type = PD_PS_BEAT, .request = 1};
        s->asked = 1;
        pd_conn_say(conn, &head, NULL);
    }
    if (silent_ms < limit_ms) return;
    if (s->met_at && (now - s->met_at) / 1000000 >= SLACK_MS) {
        use_second(s, conn, silent_ms);
    } else if (!s->second && (now - s->second_at) / 1000000 >= AGAIN_MS) {
        s->second_at = now;
        if (s->calls->connect(s->owner, &second_events, s, &s->second) != PD_OK) s->second = NULL;
    }
}
