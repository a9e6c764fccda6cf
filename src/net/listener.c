/* Listening: sockets on every address of an endpoint, and a limit on clients that have not proved themselves.
 */
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "net/endpoint.h"
#include "net/holder.h"
#include "net/listener_inside.h"
#include "net/sockets.h"

enum {
    ADDRESSES = 8,
    BACKLOG = 1024,
    GUESTS_MOST = 1024,
    GUEST_PATIENCE_MS = 100, /* when the place is full, guests older than this make room */
    SWEEP_MS = 50,
    ACCEPT_AT_ONCE = 64,
    PORTS_TRIED = 8,
    TAKEN_MS = 1000, /* so long a port may be taken by what a killed server leaves */
    TAKEN_LOOK_MS = 20,
    WARN_EVERY_MS = 1000,
    FILES_MOST = 512,  /* descriptors that sockets leave, when there are enough */
    SURPLUS_MOST = 16, /* clients at once that use one of these to hear why they are refused */
};

void pd_listener_warn(struct pd_listener *listener, const char *peer, const char *text)
{
    uint64_t now = pd_loop_now(listener->loop);
    listener->refused++;
    if (now < listener->quiet_until) {
        listener->unsaid++;
        return;
    }
    listener->quiet_until = now + WARN_EVERY_MS;
    if (listener->unsaid)
        pd_log(PD_LOG_WARNING, "%s was not accepted: %s (and %d more since the last such message)", peer,
               text, listener->unsaid);
    else
        pd_log(PD_LOG_WARNING, "%s was not accepted: %s", peer, text);
    listener->unsaid = 0;
}

uint64_t pd_listener_refused(const struct pd_listener *listener)
{
    return listener->refused;
}

static void on_client(uv_poll_t *watch, int status, int events);

static void rest(struct pd_listener *listener, int resting)
{
    if (listener->resting == resting) return;
    listener->resting = resting;
    for (int i = 0; i < listener->n_sockets; i++)
        if (resting)
            uv_poll_stop(&listener->sockets[i].watch);
        else
            uv_poll_start(&listener->sockets[i].watch, UV_READABLE, on_client);
}

/* Room for one more? An old one makes room, whichever: were it always the oldest, nobody who has a long way
 * would ever get through a crowd. Young ones are given a moment, and so are those that hear that they are too
 * many. */
static int has_room(struct pd_listener *listener)
{
    if (listener->n_surplus >= listener->most_surplus) return 0;
    if (listener->n_guests < listener->most_guests) return 1;
    uint64_t now = pd_loop_now(listener->loop);
    int n = 0;
    struct pd_guest *guest = listener->oldest;
    for (; guest && now - guest->since >= GUEST_PATIENCE_MS; guest = guest->next)
        n++;
    if (!n) return 0;
    guest = listener->oldest;
    for (uint64_t skip = pd_rng_fresh_seed() % (uint64_t)n; skip; skip--)
        guest = guest->next;
    pd_guest_make_room(guest, listener->most_guests);
    return 1;
}

static void sweep(void *arg)
{
    struct pd_listener *listener = arg;
    uint64_t now = pd_loop_now(listener->loop);
    struct pd_guest *guest = listener->oldest;
    while (guest && now - guest->since >= (uint64_t)pd_handshake_ms) {
        struct pd_guest *next = guest->next;
        pd_guest_late(guest);
        guest = next;
    }
    for (guest = listener->n_surplus ? listener->oldest : NULL; guest;) {
        struct pd_guest *next = guest->next;
        if (guest->surplus && now - guest->since >= PD_GOODBYE_MS) pd_guest_drop(guest);
        guest = next;
    }
    rest(listener, 0);
    if (!listener->oldest && !listener->resting) {
        pd_timer_stop(&listener->sweep);
    }
}

static void need_sweep(struct pd_listener *listener)
{
    if (!listener->sweep)
        pd_timer_start(listener->loop, SWEEP_MS, SWEEP_MS, sweep, listener, &listener->sweep);
}

static void on_client(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    struct socket *socket = watch->data;
    struct pd_listener *listener = socket->listener;
    pd_loop_enter(listener->loop);
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct sockaddr_storage from;
        socklen_t n = sizeof from;
        char peer[80];
        need_sweep(listener);
        if (!has_room(listener)) {
            rest(listener, listener->sweep != NULL);
            break;
        }
        int fd =
            pd_socket_made(accept4(socket->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) {
            /* Without a descriptor left the client stays in the queue; without this rest the loop would turn
             * for nothing. */
            if (errno != EAGAIN && errno != EWOULDBLOCK) {
                pd_listener_warn(listener, "a client", strerror(errno));
                rest(listener, listener->sweep != NULL); /* which ends it */
            }
            break;
        }
        pd_endpoint_text((struct sockaddr *)&from, peer, sizeof peer);
        int surplus = fd >= listener->most_fd;
        if (pd_guest_new(listener, fd, peer, surplus) != PD_OK) pd_listener_warn(listener, peer, pd_error());
    }
    pd_loop_exit(listener->loop);
}

static pd_status cannot_listen(const char *endpoint, int port, int error)
{
    struct pd_holder holder;
    if (error == EADDRINUSE) {
        pd_port_holder(port, &holder);
        return pd_fail(PD_EXISTS, "cannot listen on %s: port %d is taken%s. %s", endpoint, port, holder.who,
                       holder.advice);
    }
    if (error == EADDRNOTAVAIL)
        return pd_fail(PD_IO,
                       "cannot listen on %s: this machine does not have that address. PADDLE_PS_BIND names "
                       "the one to listen at, or 0.0.0.0 for all interfaces",
                       endpoint);
    if (error == EACCES)
        return pd_fail(PD_IO, "cannot listen on %s: ports below 1024 are for root. Use another port",
                       endpoint);
    return pd_fail(PD_IO, "cannot listen on %s: %s", endpoint, strerror(error));
}

static int bind_one(const struct sockaddr_storage *address, socklen_t n, int *fd)
{
    int one = 1, zero = 0;
    int s = pd_socket_made(socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (s < 0) return errno;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        int any = IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr);
        setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, any ? &zero : &one, sizeof one);
    }
    if (bind(s, (const struct sockaddr *)address, n) < 0 || listen(s, BACKLOG) < 0) {
        int error = errno;
        pd_socket_close(s);
        return error;
    }
    *fd = s;
    return 0;
}

static int port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
}

static void set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)(void *)address)->sin_port = htons((uint16_t)port);
}

/* Binds these addresses, all at one port; some of them may not be this machine's. Returns 0, or the first
 * error: one that is taken makes all fail, for half a server would be worse than none. */
static int bind_each(const struct pd_endpoint *endpoint, int count, struct sockaddr_storage *addresses,
                     const socklen_t *lengths, int *fds, int *n, int *port)
{
    int first_error = 0, is_taken = 0;
    *n = 0;
    *port = endpoint->port;
    for (int i = 0; i < count && !is_taken; i++) {
        set_port(&addresses[i], *port);
        int error = bind_one(&addresses[i], lengths[i], &fds[*n]);
        if (error && !first_error) first_error = error;
        is_taken = error == EADDRINUSE;
        if (error) continue;
        socklen_t length = sizeof addresses[i];
        getsockname(fds[(*n)++], (struct sockaddr *)&addresses[i], &length);
        *port = port_of(&addresses[i]);
        if (!endpoint->host[0]) break;
    }
    if (*n && !is_taken) return 0;
    while (*n)
        pd_socket_close(fds[--*n]);
    return is_taken ? EADDRINUSE : first_error;
}

/* Waits a moment, for TAKEN_MS in all. A process that was killed may have a child that was forked this
 * instant (the writer of a snapshot) and has the port until it runs for the first time: who is started again
 * at once need not fail for that. */
static int is_worth_waiting(int64_t since)
{
    if ((pd_clock_ns() - since) / 1000000 >= TAKEN_MS) return 0;
    nanosleep(&(struct timespec){.tv_nsec = TAKEN_LOOK_MS * 1000000}, NULL);
    return 1;
}

/* Binds what the endpoint names: both addresses of "localhost", the wildcard of IPv6 (which takes IPv4 too)
 * or of IPv4. A port that the system chose for the first address may be taken at the second one: then
 * another. */
static pd_status bind_all(const char *text, const struct pd_endpoint *endpoint, int *fds, int *n, int *port)
{
    struct sockaddr_storage addresses[ADDRESSES];
    socklen_t lengths[ADDRESSES];
    int count, error;
    int64_t since = pd_clock_ns();
    pd_status status = pd_endpoint_resolve(endpoint, 1, ADDRESSES, addresses, lengths, &count);
    if (status != PD_OK) return pd_fail(status, "cannot listen on %s: %s", text, pd_error());
    int tried = 0;
    do
        error = bind_each(endpoint, count, addresses, lengths, fds, n, port);
    while (error == EADDRINUSE && (endpoint->port ? is_worth_waiting(since) : ++tried < PORTS_TRIED));
    return error ? cannot_listen(text, *port, error) : PD_OK;
}

static void socket_is_closed(uv_handle_t *handle)
{
    struct pd_listener *listener = ((struct socket *)handle->data)->listener;
    if (--listener->open_handles) return;
    pd_free(listener->sockets);
    pd_free(listener);
}

void pd_listener_close(struct pd_listener *listener)
{
    if (!listener) return;
    pd_loop_remove(listener->loop, &listener->member);
    pd_timer_stop(&listener->sweep);
    while (listener->oldest)
        pd_guest_drop(listener->oldest);
    for (int i = 0; i < listener->n_sockets; i++) {
        uv_close((uv_handle_t *)&listener->sockets[i].watch, socket_is_closed);
        pd_socket_close(listener->sockets[i].fd);
    }
}

static void end_member(struct pd_member *member)
{
    pd_listener_close((struct pd_listener *)((char *)member - offsetof(struct pd_listener, member)));
}

/* From another machine: is one of the addresses not loopback? */
static int is_reachable(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        struct sockaddr_storage at;
        socklen_t length = sizeof at;
        if (getsockname(fds[i], (struct sockaddr *)&at, &length) == 0 && !pd_endpoint_is_loopback(&at))
            return 1;
    }
    return 0;
}

static pd_status watch_all(struct pd_listener *listener, const int *fds, int n)
{
    listener->sockets = pd_calloc((size_t)n, sizeof *listener->sockets);
    if (!listener->sockets) return pd_no_memory();
    for (int i = 0; i < n; i++) {
        struct socket *socket = &listener->sockets[i];
        socket->fd = fds[i];
        socket->listener = listener;
        PD_TRY(pd_loop_watch(listener->loop, &socket->watch, fds[i], socket));
        listener->n_sockets = listener->open_handles = i + 1;
    }
    for (int i = 0; i < n; i++)
        uv_poll_start(&listener->sockets[i].watch, UV_READABLE, on_client);
    return PD_OK;
}

static pd_status configure(struct pd_listener *listener, const char *job)
{
    if (snprintf(listener->job, sizeof listener->job, "%s", job ? job : "") >= (int)sizeof listener->job)
        return pd_fail(PD_INVALID, "the job's name '%s' has more than %zu characters", job,
                       sizeof listener->job - 1);
    PD_TRY(pd_transport_choose(NULL, &listener->choice));
    PD_TRY(pd_ring_choose(0, &listener->ring));
    PD_TRY(pd_secret(&listener->secret, &listener->secret_n));
    PD_TRY(pd_tls_choose(&listener->tls));
    pd_boot_id(listener->boot);
    /* Strangers must leave descriptors for the job. */
    struct rlimit files;
    listener->most_guests = GUESTS_MOST;
    listener->files = listener->most_fd = listener->most_shm_fd = listener->most_surplus = INT_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur > INT_MAX) return PD_OK;
    int most = (int)files.rlim_cur, kept = most / 4 < FILES_MOST ? most / 4 : FILES_MOST;
    if (most / 4 < GUESTS_MOST) listener->most_guests = most / 4 > 8 ? most / 4 : 8;
    listener->files = most;
    listener->most_fd = most - kept;
    listener->most_shm_fd = listener->most_fd / 2;
    listener->most_surplus = kept / 4 < 1 ? 1 : kept / 4 < SURPLUS_MOST ? kept / 4 : SURPLUS_MOST;
    return PD_OK;
}

void pd_listener_expect(const struct pd_listener *listener, int connections, const char *whose)
{
    int needed = listener->sockets[0].fd + 1 + connections;
    if (needed <= listener->most_fd) return;
    int kept = needed / 3 + 1 < FILES_MOST ? needed / 3 + 1 : FILES_MOST;
    pd_log(PD_LOG_WARNING,
           "this process may open %d files (ulimit -n), which is too low for %s: with what is kept for "
           "snapshots and logs they need %d. Raise the limit, or some of them will be refused",
           listener->files, whose, needed + kept);
}

pd_status pd_listener_open(struct pd_loop *loop, const char *endpoint, const char *job,
                           const struct pd_listener_events *events, void *arg, int *port,
                           struct pd_listener **out)
{
    struct pd_endpoint where;
    char text[600];
    const char *bind = getenv("PADDLE_PS_BIND");
    int fds[ADDRESSES], n = 0, real_port;
    PD_TRY(pd_endpoint_to_bind(endpoint, &where));
    if (bind && *bind)
        snprintf(text, sizeof text, "%s (PADDLE_PS_BIND is %s)", endpoint, bind);
    else
        snprintf(text, sizeof text, "%s", endpoint);
    PD_TRY(pd_loop_check(loop));
    struct pd_listener *listener = pd_calloc(1, sizeof *listener);
    if (!listener) return pd_no_memory();
    listener->loop = loop;
    listener->events = events;
    listener->arg = arg;
    listener->member.end = end_member;
    pd_status status = configure(listener, job);
    if (status == PD_OK) status = bind_all(text, &where, fds, &n, &real_port);
    if (status != PD_OK) goto free_listener;
    status = watch_all(listener, fds, n);
    if (status != PD_OK) goto close_sockets;
    pd_loop_add(loop, &listener->member);
    if (!listener->secret_n && !listener->tls && is_reachable(fds, n))
        pd_log(PD_LOG_WARNING,
               "%s can be reached from other machines, and has no secret: who gets to port %d can take part "
               "in the job. Set PADDLE_PS_SECRET to the same value on all processes, or use TLS",
               endpoint, real_port);
    *port = real_port;
    *out = listener;
    return PD_OK;
close_sockets:
    for (int i = 0; i < n; i++)
        pd_socket_close(fds[i]);
    if (listener->open_handles) {
        for (int i = 0; i < listener->n_sockets; i++)
            uv_close((uv_handle_t *)&listener->sockets[i].watch, socket_is_closed);
        return status;
    }
    pd_free(listener->sockets);
free_listener:
    pd_free(listener);
    return status;
}
