/* See control.h. */
#include "pserver/server/control.h"

#include "base/clock.h"
#include "base/log.h"
#include "pserver/proto.h"
#include "pserver/server/admission.h"
#include "pserver/server/order.h"
#include "pserver/server/server_private.h"
#include "pserver/server/status.h"
#include "pserver/server/sums.h"

struct peer {
    struct pd_control *control;
    struct pd_conn *conn;
    int64_t heard; /* when it said something last */
};

struct pd_control {
    struct pd_server *server;
    struct pd_loop *loop;
    struct pd_status_desk *desk;
    struct pd_admission *admission;
    PD_VEC(struct peer *) peers;
};

enum {
    MOST_UNREAD = 1 << 20, /* bytes of answers that a tool has not read */
    TOOLS_MOST = 64,
    TOOL_PATIENCE_MS = 1000, /* when there are as many, one that was silent for longer makes room */
    TOOL_IDLE_MS = 30000,    /* a tool asks, and goes */
    SWEEP_MS = 1000,
};

/* ---- who comes ---- */

static int is_tool(const struct peer *p)
{
    return pd_conn_hello(p->conn)->role == PD_ROLE_TOOL;
}

static int64_t silent_ms(const struct peer *p)
{
    return (pd_clock_ns() - p->heard) / 1000000;
}

static void sweep(void *arg)
{
    struct pd_control *c = arg;
    for (int i = c->peers.n - 1; i >= 0; i--)
        if (is_tool(c->peers.at[i]) && silent_ms(c->peers.at[i]) >= TOOL_IDLE_MS)
            pd_conn_close(c->peers.at[i]->conn, 0);
}

static pd_status make_room(struct pd_control *c)
{
    struct peer *oldest = NULL;
    int tools = 0;
    for (int i = 0; i < c->peers.n; i++) {
        struct peer *p = c->peers.at[i];
        if (!is_tool(p)) continue;
        tools++;
        if (!oldest || p->heard < oldest->heard) oldest = p;
    }
    if (tools < TOOLS_MOST) return PD_OK;
    if (silent_ms(oldest) < TOOL_PATIENCE_MS)
        return pd_fail(PD_UNAVAILABLE, "%d tools are connected, which is the most: ask again in a moment",
                       TOOLS_MOST);
    pd_conn_close(oldest->conn, 0);
    return PD_OK;
}

pd_status pd_control_greet(struct pd_control *c, const struct pd_hello *hello, const char *peer)
{
    if (hello->role == PD_ROLE_TOOL) return make_room(c);
    PD_TRY(pd_admission_check(c->admission, hello, peer));
    for (int i = 0; i < c->peers.n; i++) {
        const struct pd_hello *other = pd_conn_hello(c->peers.at[i]->conn);
        if (other->role == PD_ROLE_SERVER && other->id == hello->id &&
            other->incarnation != hello->incarnation)
            return pd_fail(PD_EXISTS,
                           "it calls itself server %d, and that one is connected (host %.60s, pid %u, %s): "
                           "nobody takes its place while it is there",
                           hello->id, other->host, other->pid, pd_conn_peer(c->peers.at[i]->conn));
    }
    return PD_OK;
}

/* ---- what they say ---- */

/* Before anything of it is kept: no message here has a payload. */
static pd_status on_head(struct pd_conn *conn, struct pd_message *m)
{
    pd_status status = PD_OK;
    if (m->head.payload)
        status = pd_fail(PD_FORMAT, "a message of type %u with %llu bytes of payload, which it does not have",
                         m->head.type, (unsigned long long)m->head.payload);
    else if (pd_conn_queued(conn) > MOST_UNREAD)
        status = pd_fail(PD_INVALID, "it asks, and does not read the answers");
    if (status != PD_OK) pd_log(PD_LOG_WARNING, "%s: refused: %s", pd_conn_peer(conn), pd_error());
    return status;
}

pd_status pd_control_beat(struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_frame_head head = {.type = PD_PS_HERE, .request = m->head.request};
    if (m->head.request) pd_conn_say(conn, &head, NULL);
    return PD_OK;
}

static pd_status answer(struct peer *p, const struct pd_message *m)
{
    if (m->head.type == PD_PS_SUM && pd_conn_hello(p->conn)->role == PD_ROLE_SERVER)
        return pd_sums_message(p->control->server->sums, p->conn, m);
    int is_of_order =
        (m->head.type >= PD_PS_ORDER && m->head.type <= PD_PS_READY) || m->head.type == PD_PS_KNOWN;
    if (is_of_order && p->control->server->order && pd_conn_hello(p->conn)->role == PD_ROLE_SERVER)
        return pd_order_message(p->control->server->order, p->conn, m);
    if (m->head.type == PD_PS_STATUS)
        return pd_status_ask(p->control->desk, p->conn, m->head.request, m->head.flags & PD_PS_AS_JSON);
    if (m->head.type == PD_PS_BEAT) return pd_control_beat(p->conn, m);
    if (m->head.type == PD_PS_BYE) return PD_OK;
    return pd_fail(PD_UNSUPPORTED, "message type %u is not known here", m->head.type);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct peer *p = pd_conn_user(conn);
    p->heard = pd_clock_ns();
    pd_status status = answer(p, m);
    if (status != PD_OK) pd_log(PD_LOG_WARNING, "%s: refused: %s", pd_conn_peer(conn), pd_error());
    return status;
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct peer *p = pd_conn_user(conn);
    (void)why;
    (void)text;
    pd_status_forget(p->control->desk, conn);
    pd_order_forget(p->control->server->order, conn);
    pd_sums_forget(p->control->server->sums, conn);
    pd_vec_drop(&p->control->peers, p);
    pd_free(p);
}

const struct pd_conn_events pd_control_events = {.head = on_head, .done = on_done, .closed = on_closed};

void pd_control_accepted(struct pd_control *c, struct pd_conn *conn)
{
    struct peer *p = pd_calloc(1, sizeof *p);
    if (!p || !pd_vec_push(&c->peers, p)) {
        pd_free(p);
        pd_conn_drop(conn);
        return;
    }
    *p = (struct peer){.control = c, .conn = conn, .heard = pd_clock_ns()};
    pd_conn_set_user(conn, &pd_control_events, p);
    const struct pd_hello *hello = pd_conn_hello(conn);
    if (hello->role == PD_ROLE_SERVER)
        pd_log(PD_LOG_DEBUG, "server %d (host %.60s, pid %u, %s) is connected", hello->id, hello->host,
               hello->pid, pd_conn_peer(conn));
}

pd_status pd_control_new(struct pd_server *server, int n, const char *const *names, struct pd_control **out)
{
    struct pd_control *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    c->server = server;
    pd_status status = pd_loop_new(&c->loop);
    if (status == PD_OK) status = pd_status_desk_new(server, c->loop, &c->desk);
    if (status == PD_OK) status = pd_admission_new(c->loop, n, names, server->is_closed, &c->admission);
    if (status == PD_OK) status = pd_timer_start(c->loop, SWEEP_MS, SWEEP_MS, sweep, c, NULL);
    if (status != PD_OK) {
        pd_control_free(c);
        return status;
    }
    *out = c;
    return PD_OK;
}

struct pd_status_desk *pd_control_desk(const struct pd_control *control)
{
    return control->desk;
}

struct pd_loop *pd_control_loop(const struct pd_control *control)
{
    return control->loop;
}

void pd_control_close(struct pd_control *c)
{
    if (!c) return;
    if (c->loop) pd_loop_stop(c->loop);
    pd_admission_free(c->admission);
    c->admission = NULL;
    pd_loop_close(c->loop);
}

void pd_control_free(struct pd_control *c)
{
    if (!c) return;
    pd_control_close(c);
    pd_loop_free(c->loop);
    pd_status_desk_free(c->desk);
    pd_vec_free(&c->peers);
    pd_free(c);
}
