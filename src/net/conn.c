/* A connection's life: made, connected or accepted, open, closed; see conn.h. Its way in is conn_read.c, its
 * way out conn_write.c.
 *
 * Nothing ends a connection on the spot, because somebody up the stack may be using it: pd_conn_end notes the
 * reason, and the connection's task (which runs when the loop's outermost callback is over) tells the user
 * and frees. */
#include <openssl/crypto.h>
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/conn_inside.h"

static void run(struct pd_task *task);
static void end_member(struct pd_member *member);

static struct pd_conn *of_task(struct pd_task *task)
{
    return (struct pd_conn *)((char *)task - offsetof(struct pd_conn, task));
}

static struct pd_conn *of_member(struct pd_member *member)
{
    return (struct pd_conn *)((char *)member - offsetof(struct pd_conn, member));
}

pd_status pd_conn_make(struct pd_loop *loop, struct pd_handshake *handshake, struct pd_conn **out)
{
    static const struct pd_conn_events none = {0};
    struct pd_conn *conn = pd_calloc(1, sizeof *conn);
    if (!conn) return pd_no_memory();
    conn->loop = loop;
    conn->handshake = handshake;
    conn->events = &none;
    conn->task.run = run;
    conn->member.end = end_member;
    pd_loop_add(loop, &conn->member);
    *out = conn;
    return PD_OK;
}

void pd_conn_update(struct pd_conn *conn)
{
    if (!conn->pipe) return;
    int read =
        !conn->held && !conn->stash &&
        (conn->state == PD_CONN_GREETING || conn->state == PD_CONN_CLOSING || conn->state == PD_CONN_OPEN);
    int write = conn->state == PD_CONN_CONNECTING || (conn->first && conn->state != PD_CONN_ENDED);
    conn->pipe->transport->want(conn->pipe, read, write);
}

void pd_conn_end(struct pd_conn *conn, pd_status why, const char *text)
{
    if (conn->state == PD_CONN_ENDED) return;
    if (conn->state == PD_CONN_CLOSING) {
        why = PD_OK; /* the user asked for the end; how it came does not matter any more */
        text = "closed";
    }
    if (conn->state < PD_CONN_OPEN && conn->handshake && conn->handshake->reason)
        text = conn->handshake->reason(conn, why, text);
    conn->state = PD_CONN_ENDED;
    conn->why = why;
    conn->text = pd_strdup(text); /* NULL is told as the status's own text */
    if (conn->pipe) conn->pipe->transport->want(conn->pipe, 0, 0);
    pd_loop_want(conn->loop, &conn->task);
}

void pd_conn_opened(struct pd_conn *conn)
{
    pd_timer_stop(&conn->timer);
    conn->state = PD_CONN_OPEN;
    conn->handshake->free(conn);
    conn->handshake = NULL;
    pd_conn_update(conn);
}

/* Takes the layers off the pipe: what is left has the socket, and is the connection's no more. */
static struct pd_pipe *bare_pipe(struct pd_conn *conn)
{
    struct pd_pipe *pipe = conn->pipe, *under;
    conn->pipe = NULL;
    for (; (under = pipe->under); pipe = under)
        pipe->transport->free(pipe);
    return pipe;
}

void pd_conn_close_pipe(struct pd_conn *conn)
{
    if (!conn->pipe) return;
    struct pd_pipe *pipe = bare_pipe(conn);
    pipe->transport->close(pipe);
}

static int detach_pipe(struct pd_conn *conn)
{
    struct pd_pipe *pipe = bare_pipe(conn);
    return pipe->transport->detach(pipe);
}

void pd_conn_free(struct pd_conn *conn)
{
    if (conn->handshake) conn->handshake->free(conn);
    pd_conn_read_free(conn);
    pd_conn_drop_queue(conn);
    pd_tls_free(conn->tls);
    pd_free(conn->text);
    pd_free(conn);
}

/* The second phase of closing. */
static void dispose(struct pd_conn *conn)
{
    pd_timer_stop(&conn->timer);
    /* The pipe first: from here on nothing is written into the user's spans or read from them. */
    pd_conn_close_pipe(conn);
    pd_conn_drop_queue(conn);
    if (!conn->silent && conn->events->closed) {
        pd_loop_made(conn->loop);
        conn->events->closed(conn, conn->why, conn->text ? conn->text : pd_status_text(conn->why));
    }
    pd_loop_forget(conn->loop, &conn->task);
    pd_loop_remove(conn->loop, &conn->member);
    pd_conn_free(conn);
}

/* The loop is being freed. */
static void end_member(struct pd_member *member)
{
    struct pd_conn *conn = of_member(member);
    pd_conn_end(conn, PD_OK, "the loop was freed");
    pd_loop_forget(conn->loop, &conn->task);
    dispose(conn);
}

/* All is written: closing goes on to its end. */
static void finish(struct pd_conn *conn)
{
    if (conn->state != PD_CONN_CLOSING || conn->first || conn->finished) return;
    conn->finished = 1;
    for (struct pd_pipe *pipe = conn->pipe; pipe->under; pipe = pipe->under)
        if (pipe->transport->last_words) pipe->transport->last_words(pipe);
    struct pd_pipe *base = pd_pipe_base(conn->pipe);
    if (!base->transport->finish(base)) pd_conn_end(conn, PD_OK, "closed");
}

static void run(struct pd_task *task)
{
    struct pd_conn *conn = of_task(task);
    if (conn->held && conn->state != PD_CONN_ENDED) {
        conn->handshake->work(conn);
        return;
    }
    if (!conn->blocked) pd_conn_flush(conn);
    pd_conn_tell_sent(conn);
    pd_conn_read_stash(conn);
    finish(conn);
    if (conn->state == PD_CONN_ENDED)
        dispose(conn);
    else
        pd_conn_update(conn);
}

void pd_pipe_ready(struct pd_conn *conn, int readable, int writable)
{
    if (conn->state == PD_CONN_ENDED) return;
    if (conn->state == PD_CONN_CONNECTING) {
        conn->handshake->writable(conn);
        return;
    }
    /* Reading may replace the pipe (TCP by shared memory), which is harmless: both ask the connection's own.
     */
    if (readable) pd_conn_read(conn);
    if (writable && conn->first && conn->state != PD_CONN_ENDED) {
        conn->blocked = 0;
        pd_conn_flush(conn);
    }
    finish(conn);
    if (conn->state != PD_CONN_ENDED) pd_conn_update(conn);
}

void pd_pipe_broken(struct pd_conn *conn, pd_status why)
{
    pd_conn_end(conn, why, pd_error());
}

int pd_conn_detach(struct pd_conn *conn)
{
    int socket = detach_pipe(conn);
    pd_timer_stop(&conn->timer);
    pd_loop_forget(conn->loop, &conn->task);
    pd_loop_remove(conn->loop, &conn->member);
    conn->loop = NULL;
    return socket;
}

pd_status pd_conn_attach(struct pd_conn *conn, struct pd_loop *loop, int socket)
{
    conn->loop = loop;
    pd_status status = pd_tcp_pipe(loop, conn, socket, &conn->pipe);
    if (status == PD_OK && conn->tls) status = pd_tls_pipe(conn->tls, conn->pipe, &conn->pipe);
    pd_loop_add(loop, &conn->member);
    conn->held = 0;
    if (status == PD_OK) pd_loop_want(loop, &conn->task);
    return status;
}

pd_status pd_conn_secure(struct pd_conn *conn, const struct pd_tls_settings *settings, const char *host)
{
    if (!settings) return PD_OK;
    pd_tls_free(conn->tls); /* of an address that was tried before */
    conn->tls = NULL;
    PD_TRY(pd_tls_new(settings, host, &conn->tls));
    return pd_tls_pipe(conn->tls, conn->pipe, &conn->pipe);
}

pd_status pd_conn_seal(struct pd_conn *conn, int is_server)
{
    if (conn->tls) return PD_OK; /* which does it itself */
    const struct pd_handshake *h = conn->handshake;
    struct pd_proof keys[2]; /* of the client's way out, of the server's */
    static const char *const labels[2] = {"cpaddle client's seals", "cpaddle server's seals"};
    PD_TRY(pd_proof_make(h->secret, h->secret_n, labels[0], &h->hello, &h->challenge, NULL, 0, &keys[0]));
    PD_TRY(pd_proof_make(h->secret, h->secret_n, labels[1], &h->hello, &h->challenge, NULL, 0, &keys[1]));
    const uint8_t *in = h->secret_n ? keys[!is_server].bytes : NULL;
    const uint8_t *out = h->secret_n ? keys[is_server].bytes : NULL;
    pd_status status = pd_record_pipe(conn->pipe, in, out, conn->queued, &conn->pipe);
    OPENSSL_cleanse(keys, sizeof keys);
    if (status == PD_OK) pd_conn_update(conn);
    return status;
}

pd_status pd_conn_to_shm(struct pd_conn *conn, struct pd_shm_parts *parts, int is_server)
{
    int socket = detach_pipe(conn);
    pd_status status = pd_shm_pipe(conn->loop, conn, socket, parts, is_server, &conn->pipe);
    if (status == PD_OK) pd_conn_update(conn);
    return status;
}

static void on_linger(void *arg)
{
    struct pd_conn *conn = arg;
    pd_conn_end(conn, PD_OK, "closed");
}

void pd_conn_close(struct pd_conn *conn, int linger_ms)
{
    if (conn->state == PD_CONN_ENDED) return;
    if (conn->state == PD_CONN_OPEN && linger_ms > 0) {
        conn->state = PD_CONN_CLOSING;
        pd_timer_stop(&conn->timer);
        if (pd_timer_start(conn->loop, (uint64_t)linger_ms, 0, on_linger, conn, &conn->timer) == PD_OK) {
            pd_loop_want(conn->loop, &conn->task);
            return;
        }
    }
    if (conn->state == PD_CONN_CLOSING && linger_ms > 0) return; /* already on its way */
    conn->state = PD_CONN_CLOSING;
    pd_conn_end(conn, PD_OK, "closed");
}

void pd_conn_drop(struct pd_conn *conn)
{
    static const struct pd_conn_events nobody = {0};
    pd_conn_set_user(conn, &nobody, NULL);
    pd_conn_close(conn, 0);
}

void pd_conn_limit_meta(struct pd_conn *conn, uint32_t most)
{
    conn->meta_most = most;
}

void *pd_conn_user(const struct pd_conn *conn)
{
    return conn->user;
}

void pd_conn_set_user(struct pd_conn *conn, const struct pd_conn_events *events, void *user)
{
    conn->events = events;
    conn->user = user;
}

const struct pd_hello *pd_conn_hello(const struct pd_conn *conn)
{
    return &conn->hello;
}

const char *pd_conn_peer(const struct pd_conn *conn)
{
    return conn->peer;
}

const char *pd_conn_transport(const struct pd_conn *conn)
{
    return conn->pipe ? conn->pipe->transport->name : "tcp";
}

uint64_t pd_conn_bytes(const struct pd_conn *conn, int sent)
{
    return conn->bytes[sent ? 1 : 0];
}

uint64_t pd_conn_heard(const struct pd_conn *conn)
{
    const struct pd_pipe *pipe = conn->pipe;
    return conn->bytes[0] + (pipe && pipe->transport->arriving ? pipe->transport->arriving(pipe) : 0);
}

size_t pd_conn_unsent(const struct pd_conn *conn)
{
    const struct pd_pipe *pipe = conn->pipe ? pd_pipe_base(conn->pipe) : NULL;
    return conn->queued + (pipe && pipe->transport->pending ? pipe->transport->pending(pipe) : 0);
}

int pd_conn_is_hung_up(const struct pd_conn *conn)
{
    if (!conn->pipe) return 1;
    const struct pd_pipe *base = pd_pipe_base(conn->pipe);
    struct pollfd end = {.fd = base->transport->socket(base), .events = POLLRDHUP};
    return poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

size_t pd_conn_queued(const struct pd_conn *conn)
{
    return conn->queued;
}
