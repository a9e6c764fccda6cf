/* See bring.h. */
#include "pserver/client/bring.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "base/wait.h"
#include "net/conn.h"
#include "net/endpoint.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

enum { CONNECT_MS = 5000, TURN_MS = 50, RETRY_MS = 50 };

struct bringing {
    const struct pd_client_settings *settings;
    struct pd_buf *bytes;
    size_t n_startup;
    struct pd_conn *conn; /* NULL: none now */
    int is_over;          /* the server has answered, or the connection has ended: */
    pd_status status;     /* PD_IO: it can be tried again */
    char text[1200];
};

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct bringing *b = pd_conn_user(conn);
    struct pd_frame_head head = {.type = PD_PS_BRING, .request = 1, .payload = b->bytes->n};
    struct pd_span all = {b->bytes->at, b->bytes->n};
    struct pd_buf meta = {0};
    (void)welcome;
    pd_put_u64(&meta, b->n_startup);
    pd_conn_give(conn, &head, &meta, &all, 1);
}

static void answered(struct bringing *b, pd_status status, const char *text)
{
    if (b->is_over) return;
    b->is_over = 1;
    b->status = status;
    snprintf(b->text, sizeof b->text, "%s", text);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    char text[PD_PS_TEXT_MOST + 1] = "";
    if (m->head.type == PD_PS_FAILED) {
        uint32_t status = pd_read_u32(&r);
        pd_read_text(&r, text, sizeof text);
        answered(pd_conn_user(conn), status && status <= PD_UNAVAILABLE ? (pd_status)status : PD_INVALID,
                 text);
    } else if (m->head.type == PD_PS_DONE) {
        answered(pd_conn_user(conn), PD_OK, "");
    }
    return PD_OK;
}

/* PD_EXISTS: it has its Programs. PD_GONE: somebody else is about to bring it them. */
static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct bringing *b = pd_conn_user(conn);
    int again = why == PD_OK || why == PD_IO || why == PD_NOT_FOUND || why == PD_GONE;
    b->conn = NULL;
    answered(b, why == PD_EXISTS ? PD_OK : again ? PD_IO : why, text);
}

static const struct pd_conn_events events = {.opened = on_opened, .done = on_done, .closed = on_closed};

static pd_status start(struct pd_loop *loop, const char *endpoint, struct bringing *b)
{
    struct pd_hello hello = {
        .role = PD_ROLE_TRAINER, .loop = PD_PS_BRINGS, .id = 0, .incarnation = pd_rng_fresh_seed() | 1};
    struct pd_conn_options options = {.connect_ms = CONNECT_MS};
    char mapped[280];
    memcpy(hello.job, b->settings->job, sizeof hello.job);
    return pd_conn_open(loop, pd_endpoint_map(endpoint, mapped, sizeof mapped), &hello, &options, &events, b,
                        &b->conn);
}

static pd_status bring(struct pd_loop *loop, const char *endpoint, struct bringing *b, int (*poll)(void *arg),
                       void *arg)
{
    struct pd_patience patience = pd_patience_start(b->settings->notice_ms, b->settings->deadline_ms);
    char what[320];
    snprintf(what, sizeof what, "bringing server %.280s its Program", endpoint);
    PD_TRY(start(loop, endpoint, b));
    for (;;) {
        pd_loop_turn(loop, TURN_MS);
        if (poll && poll(arg)) return pd_fail(PD_INTERRUPTED, "interrupted");
        if (b->is_over && b->status == PD_OK) return PD_OK;
        if (b->is_over && b->status != PD_IO)
            return pd_fail(b->status, "server %s does not take the Program that it is brought: %s", endpoint,
                           b->text);
        const char *why = b->conn ? "no answer yet" : b->text;
        PD_TRY(pd_client_tell_waits(&patience, pd_patience_ask(&patience), what, why, 0));
        if (!b->is_over || b->conn) continue;
        usleep(RETRY_MS * 1000);
        b->is_over = 0;
        PD_TRY(start(loop, endpoint, b));
    }
}

pd_status pd_bring(const char *endpoint, const struct pd_program *startup, const struct pd_program *serve,
                   int (*poll)(void *arg), void *arg)
{
    struct pd_buf bytes = {0};
    struct pd_client_settings settings = pd_client_settings_read();
    struct bringing b = {.settings = &settings, .bytes = &bytes};
    pd_status status = pd_program_write(startup, &bytes);
    b.n_startup = bytes.n;
    if (status == PD_OK) status = pd_program_write(serve, &bytes);
    if (status == PD_OK && bytes.failed) status = pd_no_memory();
    struct pd_loop *loop = NULL;
    if (status == PD_OK) status = pd_loop_new(&loop);
    if (status == PD_OK) status = bring(loop, endpoint, &b, poll, arg);
    b.is_over = 1;
    pd_loop_free(loop);
    pd_buf_free(&bytes);
    return status;
}
