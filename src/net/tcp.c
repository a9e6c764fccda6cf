/* TCP as a transport: a raw socket, so that bytes go straight from and into tensors; libuv only says when it
 * is ready. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "net/alive.h"
#include "net/conn.h"
#include "net/loop_inside.h"
#include "net/sockets.h"
#include "net/transport.h"

enum {
    PARTS = 64, /* of one read */
    PIECE = 128 << 10,
};

struct tcp_pipe {
    struct pd_pipe base;
    int socket;
    int events; /* what libuv watches now */
    uv_poll_t watch;
    struct pd_alive alive;
    struct pd_timer *looks; /* whether the other machine is still there */
};

static const struct pd_transport tcp;

static void on_ready(uv_poll_t *watch, int status, int events)
{
    struct tcp_pipe *pipe = watch->data;
    struct pd_loop *loop = pipe->base.loop;
    pd_loop_enter(loop);
    if (status < 0) {
        /* libuv has stopped watching; the next read or write tells what is wrong. */
        pipe->events = 0;
        events = UV_READABLE | UV_WRITABLE;
    }
    pd_pipe_ready(pipe->base.conn, events & UV_READABLE, events & UV_WRITABLE);
    pd_loop_exit(loop);
}

/* A lost machine is told at once: whoever is above may only find that the next connection fails too. */
static pd_status broken(const struct pd_pipe *pipe, int error)
{
    if (error == ECONNRESET || error == EPIPE)
        return pd_fail(PD_IO, "the other side closed or lost the connection (%s)", strerror(error));
    if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
        pd_log(PD_LOG_WARNING,
               "the machine of %s no longer answers: its power, its cable or the network is gone",
               pd_conn_peer(pipe->conn));
        return pd_fail(PD_IO, "the other side's machine no longer answers (%s)", strerror(error));
    }
    return pd_fail(PD_IO, "the connection broke: %s", strerror(error));
}

static void look(void *arg)
{
    struct tcp_pipe *pipe = arg;
    if (pd_alive_is_lost(&pipe->alive, pipe->socket))
        pd_pipe_broken(pipe->base.conn, broken(&pipe->base, ETIMEDOUT));
}

pd_status pd_tcp_pipe(struct pd_loop *loop, struct pd_conn *conn, int socket, struct pd_pipe **out)
{
    struct tcp_pipe *pipe = pd_calloc(1, sizeof *pipe);
    if (!pipe) {
        pd_socket_close(socket);
        return pd_no_memory();
    }
    pipe->base = (struct pd_pipe){.transport = &tcp, .loop = loop, .conn = conn};
    pipe->socket = socket;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* no harm where it fails */
    pd_alive_start(&pipe->alive, socket);
    uint64_t every = (uint64_t)pd_alive_every_ms(&pipe->alive);
    pd_status status = every ? pd_timer_start(loop, every, every, look, pipe, &pipe->looks) : PD_OK;
    if (status == PD_OK) status = pd_loop_watch(loop, &pipe->watch, socket, pipe);
    if (status != PD_OK) {
        pd_timer_stop(&pipe->looks);
        pd_socket_close(socket);
        pd_free(pipe);
        return status;
    }
    *out = &pipe->base;
    return PD_OK;
}

int pd_tcp_socket(const struct pd_pipe *base)
{
    return ((const struct tcp_pipe *)base)->socket;
}

int pd_tcp_error(const struct pd_pipe *base)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(pd_tcp_socket(base), SOL_SOCKET, SO_ERROR, &error, &n) < 0) return errno;
    return error;
}

static pd_status tcp_write(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)n};
    ssize_t wrote;
    do
        wrote = sendmsg(pd_tcp_socket(base), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (wrote < 0 && errno == EINTR);
    if (wrote < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS) return broken(base, errno);
    *done = wrote < 0 ? 0 : (size_t)wrote;
    return PD_OK;
}

static ssize_t receive(int socket, const struct iovec *parts, int n)
{
    ssize_t got;
    do
        got = readv(socket, parts, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* A large part is read in pieces: as long as the kernel copies, the connection takes nothing from the other
 * side. */
static pd_status tcp_read(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done, int *end)
{
    int socket = pd_tcp_socket(base);
    struct iovec rest[PARTS];
    size_t before = 0;
    ssize_t got;
    if (n > PARTS) n = PARTS;
    memcpy(rest, parts, (size_t)n * sizeof *rest);
    for (;;) {
        int is_last = rest[0].iov_len <= PIECE;
        got =
            is_last ? receive(socket, rest, n) : receive(socket, &(struct iovec){rest[0].iov_base, PIECE}, 1);
        if (is_last || got < PIECE) break;
        rest[0] = (struct iovec){(char *)rest[0].iov_base + PIECE, rest[0].iov_len - PIECE};
        before += PIECE;
    }
    /* An error, or the end, that comes after some bytes comes again. */
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && !before) return broken(base, errno);
    *done = before + (got < 0 ? 0 : (size_t)got);
    *end = got == 0 && !before;
    return PD_OK;
}

static void tcp_want(struct pd_pipe *base, int read, int write)
{
    struct tcp_pipe *pipe = (struct tcp_pipe *)base;
    int events = (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);
    if (events == pipe->events) return;
    pipe->events = events;
    if (events)
        uv_poll_start(&pipe->watch, events, on_ready);
    else
        uv_poll_stop(&pipe->watch);
}

static size_t tcp_pending(const struct pd_pipe *base)
{
    int n = 0;
    return ioctl(pd_tcp_socket(base), SIOCOUTQ, &n) == 0 && n > 0 ? (size_t)n : 0;
}

static int tcp_finish(struct pd_pipe *base)
{
    shutdown(pd_tcp_socket(base), SHUT_WR);
    return 1;
}

static void free_pipe(uv_handle_t *handle)
{
    pd_free(handle->data);
}

static int tcp_detach(struct pd_pipe *base)
{
    struct tcp_pipe *pipe = (struct tcp_pipe *)base;
    pd_timer_stop(&pipe->looks);
    /* From here on libuv does not touch the socket; only the memory waits for its callback. */
    uv_close((uv_handle_t *)&pipe->watch, free_pipe);
    return pipe->socket;
}

static void tcp_close(struct pd_pipe *base)
{
    pd_socket_close(tcp_detach(base));
}

static const struct pd_transport tcp = {
    .name = "tcp",
    .write = tcp_write,
    .read = tcp_read,
    .pending = tcp_pending,
    .socket = pd_tcp_socket,
    .want = tcp_want,
    .finish = tcp_finish,
    .detach = tcp_detach,
    .close = tcp_close,
};
