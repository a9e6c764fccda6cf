/* See control.h. */
#include "pserver/control.h"

#include "base/log.h"
#include "pserver/order.h"
#include "pserver/proto.h"
#include "pserver/server_private.h"
#include "pserver/status.h"
#include "pserver/sums.h"

struct peer {
    struct pd_control *control;
    struct pd_conn *conn;
};

struct pd_control {
    struct pd_server *server;
    struct pd_loop *loop;
    struct pd_status_desk *desk;
    PD_VEC(struct peer *) peers;
};

enum { MOST_UNREAD = 1 << 20 }; /* bytes of answers that a tool has not read */

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

static pd_status answer(struct peer *p, const struct pd_message *m)
{
    if (m->head.type == PD_PS_SUM && pd_conn_hello(p->conn)->role == PD_ROLE_SERVER)
        return pd_sums_message(p->control->server->sums, p->conn, m);
    if (m->head.type >= PD_PS_ORDER && m->head.type <= PD_PS_READY && p->control->server->order &&
        pd_conn_hello(p->conn)->role == PD_ROLE_SERVER)
        return pd_order_message(p->control->server->order, p->conn, m);
    if (m->head.type == PD_PS_STATUS)
        return pd_status_ask(p->control->desk, p->conn, m->head.request, m->head.flags & PD_PS_AS_JSON);
    if (m->head.type == PD_PS_BEAT || m->head.type == PD_PS_BYE) return PD_OK;
    return pd_fail(PD_UNSUPPORTED, "message type %u is not known here", m->head.type);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    pd_status status = answer(pd_conn_user(conn), m);
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
    for (int i = 0; i < p->control->peers.n; i++)
        if (p->control->peers.at[i] == p) {
            pd_vec_remove(&p->control->peers, i);
            break;
        }
    pd_free(p);
}

const struct pd_conn_events pd_control_events = {.head = on_head, .done = on_done, .closed = on_closed};

void pd_control_accepted(struct pd_control *c, struct pd_conn *conn)
{
    struct peer *p = pd_calloc(1, sizeof *p);
    if (!p || !pd_vec_push(&c->peers, p)) {
        pd_free(p);
        pd_server_turn_away(conn);
        return;
    }
    *p = (struct peer){.control = c, .conn = conn};
    pd_conn_set_user(conn, &pd_control_events, p);
}

pd_status pd_control_new(struct pd_server *server, struct pd_control **out)
{
    struct pd_control *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    c->server = server;
    pd_status status = pd_loop_new(&c->loop);
    if (status == PD_OK) status = pd_status_desk_new(server, c->loop, &c->desk);
    if (status != PD_OK) {
        pd_control_free(c);
        return status;
    }
    *out = c;
    return PD_OK;
}

struct pd_loop *pd_control_loop(const struct pd_control *control)
{
    return control->loop;
}

void pd_control_free(struct pd_control *c)
{
    if (!c) return;
    pd_status_desk_close(c->desk);
    pd_loop_free(c->loop);
    pd_status_desk_free(c->desk);
    pd_vec_free(&c->peers);
    pd_free(c);
}
