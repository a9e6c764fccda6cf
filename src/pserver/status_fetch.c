/* The tool's side of a status: connects, asks, waits for the report. */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "pserver/proto.h"
#include "pserver/server/status.h"

enum { CONNECT_MS = 5000, ANSWER_MS = 5000, TURN_MS = 50, SMALL_RING = 64 << 10 };

struct fetch {
    int as_json, is_open, is_done;
    struct pd_buf *out;
    pd_status status;
    char text[1200];
};

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct fetch *f = pd_conn_user(conn);
    struct pd_frame_head head = {.type = PD_PS_STATUS, .request = 1, .flags = f->as_json ? PD_PS_AS_JSON : 0};
    (void)welcome;
    f->is_open = 1;
    pd_conn_say(conn, &head, NULL);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct fetch *f = pd_conn_user(conn);
    if (m->head.type != PD_PS_REPORT) return PD_OK;
    pd_buf_add(f->out, m->payload, (size_t)m->head.payload);
    f->is_done = 1;
    f->status = PD_OK;
    return PD_OK;
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct fetch *f = pd_conn_user(conn);
    if (f->is_done) return;
    f->is_done = 1;
    f->status = why == PD_OK ? PD_IO : why;
    if (f->is_open)
        snprintf(f->text, sizeof f->text, "the server hung up before it answered: %s", text);
    else
        snprintf(f->text, sizeof f->text, "%s", text);
}

static const struct pd_conn_events events = {.opened = on_opened, .done = on_done, .closed = on_closed};

pd_status pd_status_fetch(const char *endpoint, int as_json, struct pd_buf *out)
{
    struct fetch f = {.as_json = as_json, .out = out};
    struct pd_hello hello = {.role = PD_ROLE_TOOL, .id = -1, .incarnation = pd_rng_fresh_seed()};
    struct pd_conn_options options = {.connect_ms = CONNECT_MS, .ring = SMALL_RING};
    struct pd_loop *loop;
    struct pd_conn *conn;
    PD_TRY(pd_loop_new(&loop));
    pd_status status = pd_conn_open(loop, endpoint, &hello, &options, &events, &f, &conn);
    /* Twice: a name is looked up before. */
    int64_t until = pd_clock_ns() + (int64_t)(2 * CONNECT_MS + ANSWER_MS) * 1000000;
    while (status == PD_OK && !f.is_done && pd_clock_ns() < until)
        pd_loop_turn(loop, TURN_MS);
    if (status == PD_OK && !f.is_done)
        status =
            pd_fail(PD_UNAVAILABLE, "%s took the connection but gives no status: is it stopped?", endpoint);
    else if (status == PD_OK && f.status != PD_OK)
        status = pd_fail(f.status, "%s", f.text);
    f.is_done = 1;
    pd_loop_free(loop);
    return status == PD_OK && out->failed ? pd_no_memory() : status;
}
