/* Shared memory as a transport: a ring each way, an eventfd each way to wake a sleeper. The TCP socket of the
 * handshake stays open and silent: its end is how each side learns that the other is gone. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/loop_inside.h"
#include "net/shm_pass.h"
#include "net/shm_ring.h"
#include "net/sockets.h"
#include "net/transport.h"

enum { PAGE = 4096 };
_Static_assert(2 * sizeof(struct pd_ring_control) <= PAGE, "both control blocks lie on the first page");

struct shm_pipe {
    struct pd_pipe base;
    struct pd_poller poller;
    struct pd_shm_parts parts;
    struct pd_ring in, out;
    void *memory;
    int socket, bell;
    int wants_read, wants_write;
    int is_server;
    int ended;      /* the socket did */
    int rule_error; /* ... with a byte, which must not be */
    int open_handles;
    uv_poll_t socket_watch, bell_watch;
};

static const struct pd_transport shm;
static atomic_int n_pipes; /* of servers */

int pd_shm_pipe_count(void)
{
    return atomic_load(&n_pipes);
}

static struct shm_pipe *of_poller(struct pd_poller *poller)
{
    return (struct shm_pipe *)((char *)poller - offsetof(struct shm_pipe, poller));
}

static int can_read(struct shm_pipe *pipe)
{
    return pipe->wants_read && (pipe->ended || pd_ring_readable(&pipe->in));
}

static int can_write(struct shm_pipe *pipe)
{
    return pipe->wants_write && (pipe->ended || pd_ring_writable(&pipe->out));
}

static int shm_poll(struct pd_poller *poller)
{
    struct shm_pipe *pipe = of_poller(poller);
    int read = can_read(pipe), write = can_write(pipe);
    if (!read && !write) return 0;
    struct pd_loop *loop = pipe->base.loop;
    pd_loop_enter(loop);
    pd_pipe_ready(pipe->base.conn, read, write);
    pd_loop_exit(loop);
    return 1;
}

static int shm_sleep(struct pd_poller *poller)
{
    struct shm_pipe *pipe = of_poller(poller);
    if (pipe->wants_read) pd_ring_sleep_reader(&pipe->in, 1);
    if (pipe->wants_write) pd_ring_sleep_writer(&pipe->out, 1);
    return !can_read(pipe) && !can_write(pipe);
}

static void shm_wake(struct pd_poller *poller)
{
    struct shm_pipe *pipe = of_poller(poller);
    pd_ring_sleep_reader(&pipe->in, 0);
    pd_ring_sleep_writer(&pipe->out, 0);
}

static void on_bell(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    struct shm_pipe *pipe = watch->data;
    uint64_t count;
    if (read(pipe->bell, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR) uv_poll_stop(watch);
    shm_poll(&pipe->poller);
}

static void on_socket(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    struct shm_pipe *pipe = watch->data;
    char byte;
    ssize_t n = recv(pipe->socket, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    pipe->ended = 1;
    pipe->rule_error = n > 0;
    uv_poll_stop(watch);
    shm_poll(&pipe->poller);
}

static void on_closed(uv_handle_t *handle)
{
    struct shm_pipe *pipe = handle->data;
    if (--pipe->open_handles == 0) pd_free(pipe);
}

static void shm_close(struct pd_pipe *base)
{
    struct shm_pipe *pipe = (struct shm_pipe *)base;
    if (pipe->is_server) atomic_fetch_sub(&n_pipes, 1);
    pd_loop_remove_poller(base->loop, &pipe->poller);
    uv_close((uv_handle_t *)&pipe->socket_watch, on_closed);
    uv_close((uv_handle_t *)&pipe->bell_watch, on_closed);
    munmap(pipe->memory, PAGE + 2 * pipe->parts.ring);
    pd_socket_close(pipe->socket);
    pd_shm_parts_close(&pipe->parts);
}

static void map_rings(struct shm_pipe *pipe, int is_server)
{
    struct pd_ring_control *controls = pipe->memory;
    uint8_t *bytes = (uint8_t *)pipe->memory + PAGE;
    for (int way = 0; way < 2; way++) { /* 0: to the server */
        struct pd_ring *ring = (way == 0) == is_server ? &pipe->in : &pipe->out;
        ring->control = &controls[way];
        ring->bytes = bytes + (size_t)way * pipe->parts.ring;
        ring->size = pipe->parts.ring;
        ring->bell = pipe->parts.bells[is_server ? 1 : 0];
        ring->reserved = PD_RING_FIRST;
        ring->memory = pipe->parts.memory;
        ring->start = PAGE + (uint64_t)way * pipe->parts.ring;
    }
    pipe->bell = pipe->parts.bells[is_server ? 0 : 1];
}

pd_status pd_shm_pipe(struct pd_loop *loop, struct pd_conn *conn, int socket, struct pd_shm_parts *parts,
                      int is_server, struct pd_pipe **out)
{
    struct shm_pipe *pipe = pd_calloc(1, sizeof *pipe);
    pd_status status = pipe ? PD_OK : pd_no_memory();
    if (!pipe) goto failed;
    pipe->base = (struct pd_pipe){.transport = &shm, .loop = loop, .conn = conn};
    pipe->parts = *parts;
    pipe->socket = socket;
    pipe->memory = mmap(NULL, PAGE + 2 * parts->ring, PROT_READ | PROT_WRITE, MAP_SHARED, parts->memory, 0);
    if (pipe->memory == MAP_FAILED) {
        status = pd_fail(PD_IO, "shared memory cannot be mapped: %s", strerror(errno));
        goto failed;
    }
    map_rings(pipe, is_server);
    status = pd_loop_watch(loop, &pipe->socket_watch, socket, pipe);
    if (status != PD_OK) goto failed;
    pipe->open_handles = 1;
    status = pd_loop_watch(loop, &pipe->bell_watch, pipe->bell, pipe);
    if (status != PD_OK) goto failed;
    pipe->open_handles = 2;
    uv_poll_start(&pipe->socket_watch, UV_READABLE, on_socket);
    uv_poll_start(&pipe->bell_watch, UV_READABLE, on_bell);
    pipe->poller = (struct pd_poller){.poll = shm_poll, .sleep = shm_sleep, .wake = shm_wake};
    pd_loop_add_poller(loop, &pipe->poller);
    pipe->is_server = is_server;
    if (is_server) atomic_fetch_add(&n_pipes, 1);
    *out = &pipe->base;
    return PD_OK;
failed:
    if (pipe && pipe->memory != MAP_FAILED) munmap(pipe->memory, PAGE + 2 * parts->ring);
    if (pipe && pipe->open_handles)
        uv_close((uv_handle_t *)&pipe->socket_watch, on_closed); /* which frees the pipe */
    else
        pd_free(pipe);
    pd_shm_parts_close(parts);
    pd_socket_close(socket);
    return status;
}

static pd_status shm_write(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done)
{
    struct shm_pipe *pipe = (struct shm_pipe *)base;
    if (pipe->ended) return pd_fail(PD_IO, "the other side closed the connection");
    return pd_ring_write(&pipe->out, parts, n, done);
}

static pd_status shm_read(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done, int *end)
{
    struct shm_pipe *pipe = (struct shm_pipe *)base;
    int ended =
        pipe->ended; /* seen before the ring is read: what the other side wrote before its end is there */
    if (pipe->rule_error) return pd_fail(PD_FORMAT, "the other side uses TCP and shared memory at once");
    pipe->in.streams = base->is_large;
    PD_TRY(pd_ring_read(&pipe->in, parts, n, done));
    *end = ended && *done == 0;
    return PD_OK;
}

static const void *shm_borrow(struct pd_pipe *base, size_t n, size_t alignment)
{
    return pd_ring_show(&((struct shm_pipe *)base)->in, n, alignment);
}

static void shm_give_back(struct pd_pipe *base, size_t n)
{
    pd_ring_drop(&((struct shm_pipe *)base)->in, n);
}

static void shm_want(struct pd_pipe *base, int read, int write)
{
    struct shm_pipe *pipe = (struct shm_pipe *)base;
    pipe->wants_read = read;
    pipe->wants_write = write;
}

static int shm_finish(struct pd_pipe *base)
{
    (void)base; /* the bytes stay in the memory, which lives as long as either side maps it */
    return 0;
}

static int shm_socket(const struct pd_pipe *base)
{
    return ((const struct shm_pipe *)base)->socket;
}

static const struct pd_transport shm = {
    .name = "shm",
    .write = shm_write,
    .read = shm_read,
    .borrow = shm_borrow,
    .give_back = shm_give_back,
    .socket = shm_socket,
    .want = shm_want,
    .finish = shm_finish,
    .close = shm_close,
};
