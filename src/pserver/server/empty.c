/* See empty.h. */
#include "pserver/server/empty.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/wait.h"
#include "exec/executor.h"
#include "net/conn.h"
#include "net/endpoint.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/server/server.h"
#include "pserver/server/watch.h"
#include "pserver/store/durable.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot.h"

#define KEPT "programs" /* the file in the server's folder */

enum { TURN_MS = 50, LINGER_MS = 2000, MOST = 256 << 20 };

/* Both Programs, as bytes: a head of 24 (their sizes, and a checksum of the rest), then one after the other.
 */
struct brought {
    struct pd_buf bytes;
    size_t n_startup, n_serve;
};

struct empty {
    const struct pd_op_set *ops;
    char *folder; /* where they are kept; NULL: nowhere */
    int port;
    struct pd_loop *loop;
    struct pd_conn *bringer; /* one at a time */
    struct brought brought;
    int is_there;
    uint64_t incarnation;
    struct pd_server_config config; /* what flags say */
};

/* May a server run it, though it comes from outside? An error names the op that it must not. */
static pd_status check_brought(const struct pd_program *program)
{
    for (int b = 0; b < program->blocks.n; b++) {
        const struct pd_block *block = program->blocks.at[b];
        for (int i = 0; i < block->ops.n; i++) {
            const struct pd_opdesc *op = block->ops.at[i];
            if (op->def && op->def->flags & PD_OP_ON_SERVER) continue;
            return pd_fail(PD_UNSUPPORTED,
                           "op '%s' (number %d of block %d) is not one that a server runs for others: "
                           "updates, schedules, fills and sums are",
                           op->type, i, b);
        }
    }
    return PD_OK;
}

static pd_status read_program(const struct pd_op_set *ops, const void *bytes, size_t n,
                              struct pd_program **out)
{
    struct pd_program *p;
    PD_TRY(pd_program_read(ops, bytes, n, &p));
    pd_status status = check_brought(p);
    if (status != PD_OK)
        pd_program_unref(p);
    else
        *out = p;
    return status;
}

/* Both, or none. */
static pd_status read_both(const struct pd_op_set *ops, const struct brought *b, struct pd_program **startup,
                           struct pd_program **serve)
{
    const char *at = b->bytes.at;
    PD_TRY(read_program(ops, at, b->n_startup, startup));
    pd_status status = read_program(ops, at + b->n_startup, b->n_serve, serve);
    if (status != PD_OK) pd_program_unref(*startup);
    return status;
}

/* ---- what was brought before ---- */

struct kept_head {
    uint64_t n_startup, n_serve, checksum;
};

static pd_status keep(const char *folder, const struct brought *b)
{
    struct pd_buf file = {0};
    struct kept_head head = {b->n_startup, b->n_serve, pd_crc32c(0, b->bytes.at, b->bytes.n)};
    pd_buf_add(&file, &head, sizeof head);
    pd_buf_add(&file, b->bytes.at, b->bytes.n);
    pd_status status = file.failed ? pd_no_memory() : pd_folder_make(folder);
    if (status == PD_OK) status = pd_folder_write(folder, KEPT, file.at, file.n);
    pd_buf_free(&file);
    return status;
}

static pd_status damaged(const char *path)
{
    return pd_fail(PD_FORMAT,
                   "'%s', the Programs that this server was brought, is damaged: move it away, and trainer 0 "
                   "brings them again",
                   path);
}

static pd_status find_kept(const char *folder, struct empty *e)
{
    struct brought *b = &e->brought;
    struct kept_head head = {0};
    char path[PATH_MAX];
    int is_there;
    PD_TRY(pd_folder_path(path, folder, KEPT));
    PD_TRY(pd_folder_read(folder, KEPT, 2 * (size_t)MOST + sizeof head, &b->bytes, &is_there));
    if (!is_there) return PD_OK;
    if (b->bytes.n < sizeof head) return damaged(path);
    memcpy(&head, b->bytes.at, sizeof head);
    b->bytes.n -= sizeof head;
    memmove(b->bytes.at, b->bytes.at + sizeof head, b->bytes.n);
    if (head.n_startup > MOST || head.n_serve > MOST || head.n_startup + head.n_serve != b->bytes.n ||
        pd_crc32c(0, b->bytes.at, b->bytes.n) != head.checksum)
        return damaged(path);
    b->n_startup = (size_t)head.n_startup;
    b->n_serve = (size_t)head.n_serve;
    e->is_there = 1;
    return PD_OK;
}

/* ---- the connection of who brings them ---- */

/* The port that it was brought to is the one that it shall serve at. */
static pd_status check_port(const struct pd_program *serve, int port)
{
    const struct pd_block *block = serve->blocks.at[0];
    for (int i = 0; i < block->ops.n; i++) {
        const struct pd_attr *endpoint = pd_opdesc_attr(block->ops.at[i], "endpoint");
        if (strcmp(block->ops.at[i]->type, "listen_and_serv") != 0 || !endpoint) continue;
        const char *colon = strrchr(endpoint->s, ':');
        if (colon && atoi(colon + 1) == port) return PD_OK;
        return pd_fail(PD_INVALID, "the Program is for the server at %s, and this one is at port %d",
                       endpoint->s, port);
    }
    return pd_fail(PD_INVALID, "the second Program has no listen_and_serv, so that it serves nothing");
}

static pd_status on_head(struct pd_conn *conn, struct pd_message *m)
{
    (void)conn;
    if (m->head.type != PD_PS_BRING)
        return pd_fail(PD_INVALID, "a message of type %u, but this server has no Program yet", m->head.type);
    if (m->head.payload > MOST)
        return pd_fail(PD_RANGE, "Programs of %llu bytes; a server takes %d at most",
                       (unsigned long long)m->head.payload, MOST);
    return PD_OK;
}

static pd_status take(struct empty *e, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint64_t n_startup = pd_read_u64(&r);
    struct pd_program *startup, *serve;
    if (!pd_reader_done(&r) || n_startup > m->head.payload) return pd_fail(PD_FORMAT, "malformed BRING");
    struct brought b = {.n_startup = (size_t)n_startup, .n_serve = (size_t)(m->head.payload - n_startup)};
    pd_buf_add(&b.bytes, m->payload, (size_t)m->head.payload);
    pd_status status = b.bytes.failed ? pd_no_memory() : read_both(e->ops, &b, &startup, &serve);
    if (status == PD_OK) {
        status = check_port(serve, e->port);
        pd_program_unref(startup);
        pd_program_unref(serve);
    }
    if (status == PD_OK && e->folder)
        status = keep(e->folder, &b); /* before the trainer hears that it is there */
    if (status != PD_OK) {
        pd_buf_free(&b.bytes);
        return status;
    }
    e->brought = b;
    e->is_there = 1;
    return PD_OK;
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct empty *e = pd_conn_user(conn);
    struct pd_frame_head head = {.type = PD_PS_DONE, .request = m->head.request};
    struct pd_buf meta = {0};
    pd_status status = e->is_there ? PD_OK : take(e, m);
    if (status != PD_OK) {
        pd_log(PD_LOG_WARNING, "%s: the Programs that it brings are refused: %s", pd_conn_peer(conn),
               pd_error());
        head.type = PD_PS_FAILED;
        pd_put_u32(&meta, status);
        pd_put_line(&meta, pd_error(), PD_PS_TEXT_MOST);
    }
    pd_conn_say(conn, &head, &meta);
    pd_conn_close(conn, LINGER_MS);
    return PD_OK;
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct empty *e = pd_conn_user(conn);
    if (why != PD_OK && why != PD_IO) pd_log(PD_LOG_WARNING, "%s: refused: %s", pd_conn_peer(conn), text);
    e->bringer = NULL;
}

static const struct pd_conn_events events = {.head = on_head, .done = on_done, .closed = on_closed};

/* ---- waiting for it ---- */

static pd_status greet(void *arg, const struct pd_hello *hello, const char *peer, struct pd_welcome *welcome,
                       struct pd_loop **loop, const struct pd_conn_events **its_events, void **user)
{
    struct empty *e = arg;
    (void)peer;
    if (hello->role != PD_ROLE_TRAINER || hello->loop != PD_PS_BRINGS)
        return pd_fail(PD_GONE, "this server has no Program yet: trainer 0 brings it");
    if (hello->id != 0)
        return pd_fail(PD_INVALID, "trainer %d brings a Program; trainer 0 does that", hello->id);
    if (e->bringer) return pd_fail(PD_GONE, "somebody else brings this server its Program just now");
    *welcome = (struct pd_welcome){.loops = 1, .incarnation = e->incarnation};
    *loop = e->loop;
    *its_events = &events;
    *user = e;
    return PD_OK;
}

static void accepted(void *user, struct pd_conn *conn)
{
    struct empty *e = user;
    if (e->bringer || e->is_there) {
        pd_conn_drop(conn);
        return;
    }
    e->bringer = conn;
    pd_conn_set_user(conn, &events, e);
}

static const struct pd_listener_events listener_events = {.greet = greet, .accepted = accepted};

static pd_status wait_for_it(struct empty *e, const char *endpoint, int (*poll)(void *arg), void *arg)
{
    int64_t start = pd_clock_ns(), told = start, most = e->config.wait_seconds;
    while (!e->is_there || e->bringer) {
        pd_loop_turn(e->loop, TURN_MS);
        int64_t now = pd_clock_ns(), waited = (now - start) / 1000000;
        if (poll && poll(arg)) return pd_fail(PD_INTERRUPTED, "interrupted");
        if (most >= 0 && waited >= most * 1000 && !e->is_there)
            return pd_fail(PD_UNAVAILABLE,
                           "nobody brought the server at %s a Program within %lld s "
                           "(FLAGS_ps_wait_trainers): is trainer 0 running, and does it name this server?",
                           endpoint, (long long)most);
        if ((now - told) / 1000000 < pd_patience_seldom(e->config.notice_ms, waited)) continue;
        told = now;
        pd_log(PD_LOG_WARNING, "the server at %s has waited %lld s for trainer 0 to bring its Program",
               endpoint, (long long)(waited / 1000));
    }
    return PD_OK;
}

/* The port is free again when it returns: the Program that was brought names it. */
static pd_status be_brought(struct empty *e, const char *endpoint, int (*poll)(void *arg), void *arg)
{
    struct pd_listener *listener;
    struct pd_endpoint said;
    PD_TRY(pd_endpoint_parse(endpoint, &said));
    PD_TRY(pd_loop_new(&e->loop));
    struct pd_watch *watch = NULL;
    pd_status status = pd_watch_open(NULL, e->config.http, &watch);
    if (status == PD_OK)
        status = pd_listener_open(e->loop, endpoint, e->config.job, &listener_events, e, &e->port, &listener);
    if (status == PD_OK) {
        pd_log(PD_LOG_INFO, "an empty server listens on %s, port %d: trainer 0 brings its Program", endpoint,
               e->port);
        if (said.port) e->port = said.port; /* PADDLE_PS_BIND may name another */
        status = wait_for_it(e, endpoint, poll, arg);
    }
    pd_watch_close(watch);
    pd_watch_free(watch);
    pd_loop_free(e->loop);
    return status;
}

/* ---- running it ---- */

static pd_status run_one(struct pd_program *p, struct pd_scope *scope, int (*poll)(void *arg), void *arg)
{
    struct pd_executor *exe;
    struct pd_prepared *prepared;
    PD_TRY(pd_exec_new(&exe));
    pd_status status = pd_exec_prepare(exe, p, 0, NULL, 0, NULL, &prepared);
    if (status == PD_OK) status = pd_exec_run(prepared, scope, poll, arg);
    pd_exec_free(exe);
    return status;
}

static pd_status run_both(const struct empty *e, int (*poll)(void *arg), void *arg)
{
    struct pd_program *startup, *serve;
    struct pd_scope *scope;
    PD_TRY(read_both(e->ops, &e->brought, &startup, &serve));
    pd_status status = pd_scope_new(NULL, &scope);
    if (status == PD_OK) {
        status = run_one(startup, scope, poll, arg);
        if (status == PD_OK) status = run_one(serve, scope, poll, arg);
        pd_scope_unref(scope);
    }
    pd_program_unref(startup);
    pd_program_unref(serve);
    return status;
}

pd_status pd_serve_empty(const struct pd_op_set *ops, const char *endpoint, int (*poll)(void *arg), void *arg)
{
    struct empty e = {.ops = ops, .incarnation = pd_rng_fresh_seed()};
    struct pd_durable_config durable;
    PD_TRY(pd_server_config_read(&e.config, &durable));
    if (*durable.root) PD_TRY(pd_snapshot_folder(durable.root, endpoint, &e.folder));
    pd_status status = e.folder && !durable.is_fresh ? find_kept(e.folder, &e) : PD_OK;
    if (status == PD_OK && e.is_there)
        pd_log(PD_LOG_INFO, "the server at %s goes on with the Program that it was brought before", endpoint);
    if (status == PD_OK && !e.is_there) status = be_brought(&e, endpoint, poll, arg);
    if (status == PD_OK) status = run_both(&e, poll, arg);
    pd_buf_free(&e.brought.bytes);
    pd_free(e.folder);
    return status;
}
