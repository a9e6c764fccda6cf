/* See shm_pass.h. */
#include "net/shm_pass.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/loop_inside.h"
#include "net/shm_ring.h"

enum { PAGE = 4096, N_PARTS = 3, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct pd_shm_offer {
    struct pd_shm_parts parts;
    int socket, fetched;
    char name[PD_SHM_NAME];
    uint8_t token[PD_SHM_TOKEN];
    uv_poll_t watch;
};

struct pd_shm_fetch {
    struct pd_loop *loop;
    size_t ring;
    int socket;
    void (*done)(void *arg, struct pd_shm_parts *parts);
    void *arg;
    uv_poll_t watch;
};

/* Room for the descriptors and the sender's credentials. */
union control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(N_PARTS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

void pd_shm_parts_close(struct pd_shm_parts *parts)
{
    if (parts->memory >= 0) close(parts->memory);
    for (int i = 0; i < 2; i++)
        if (parts->bells[i] >= 0) close(parts->bells[i]);
    *parts = (struct pd_shm_parts){-1, {-1, -1}, 0};
}

static size_t whole_size(size_t ring)
{
    return PAGE + 2 * ring;
}

static pd_status make_parts(size_t ring, struct pd_shm_parts *out)
{
    struct pd_shm_parts parts = {-1, {-1, -1}, PD_RING_LEAST};
    while (parts.ring < ring && parts.ring < PD_RING_MOST)
        parts.ring *= 2;
    parts.memory = memfd_create("paddle-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    parts.bells[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    parts.bells[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (parts.memory < 0 || parts.bells[0] < 0 || parts.bells[1] < 0 ||
        ftruncate(parts.memory, (off_t)whole_size(parts.ring)) < 0 ||
        fcntl(parts.memory, F_ADD_SEALS, SEALS) < 0) {
        pd_status status = pd_fail(PD_IO, "shared memory cannot be made: %s", strerror(errno));
        pd_shm_parts_close(&parts);
        return status;
    }
    /* The page with both controls, and the beginning of each ring; the rest comes as it is used. */
    if (!pd_ring_reserve(parts.memory, 0, PAGE + PD_RING_FIRST) ||
        !pd_ring_reserve(parts.memory, PAGE + parts.ring, PD_RING_FIRST)) {
        pd_shm_parts_close(&parts);
        return pd_fail(PD_NO_MEMORY, "the system has no memory left for shared memory");
    }
    *out = parts;
    return PD_OK;
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *out)
{
    size_t n = strlen(name);
    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    memcpy(out->sun_path + 1, name, n); /* the zero before it makes it abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int make_socket(void)
{
    int one = 1, s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s >= 0) setsockopt(s, SOL_SOCKET, SO_PASSCRED, &one, sizeof one);
    return s;
}

/* Takes the sender's user and the descriptors out of a message; 0 when it comes from somebody else. */
static int take_control(struct msghdr *message, int fds[N_PARTS], int *n_fds)
{
    int mine = 0;
    *n_fds = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET) continue;
        if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(struct ucred))) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(c), sizeof who);
            mine = who.uid == getuid() || who.uid == geteuid();
        } else if (c->cmsg_type == SCM_RIGHTS) {
            size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (size_t i = 0; i < n; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
                if (*n_fds < N_PARTS)
                    fds[(*n_fds)++] = fd;
                else
                    close(fd);
            }
        }
    }
    return mine;
}

static int send_parts(int socket, const struct sockaddr_un *to, socklen_t to_n,
                      const struct pd_shm_parts *parts)
{
    int fds[N_PARTS] = {parts->memory, parts->bells[0], parts->bells[1]};
    union control control = {0};
    char byte = 1;
    struct iovec body = {&byte, 1};
    struct msghdr message = {.msg_name = (void *)to,
                             .msg_namelen = to_n,
                             .msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof fds)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

static void close_descriptors(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        close(fds[i]);
}

static void on_ask(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    struct pd_shm_offer *offer = watch->data;
    for (;;) {
        uint8_t token[PD_SHM_TOKEN + 1];
        struct sockaddr_un from;
        union control control;
        int fds[N_PARTS], n_fds;
        struct iovec body = {token, sizeof token};
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof from,
                                 .msg_iov = &body,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(offer->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return;
        int mine = take_control(&message, fds, &n_fds);
        close_descriptors(fds, n_fds); /* nobody has anything to send us */
        if (!mine || n != PD_SHM_TOKEN || memcmp(token, offer->token, PD_SHM_TOKEN) != 0) continue;
        if (!offer->fetched)
            offer->fetched = send_parts(offer->socket, &from, message.msg_namelen, &offer->parts);
    }
}

static pd_status start_offer(struct pd_loop *loop, struct pd_shm_offer *offer)
{
    uint8_t random[PD_SHM_TOKEN];
    struct sockaddr_un address;
    if (getrandom(random, sizeof random, 0) != sizeof random ||
        getrandom(offer->token, sizeof offer->token, 0) != sizeof offer->token)
        return pd_fail(PD_IO, "the system gives no random bytes: %s", strerror(errno));
    int n = snprintf(offer->name, sizeof offer->name, "paddle-");
    for (size_t i = 0; i < sizeof random; i++)
        n += snprintf(offer->name + n, sizeof offer->name - (size_t)n, "%02x", random[i]);
    offer->socket = make_socket();
    if (offer->socket < 0 ||
        bind(offer->socket, (struct sockaddr *)&address, abstract_address(offer->name, &address)) < 0)
        return pd_fail(PD_IO, "a socket to pass shared memory cannot be made: %s", strerror(errno));
    PD_TRY(pd_loop_watch(loop, &offer->watch, offer->socket, offer));
    uv_poll_start(&offer->watch, UV_READABLE, on_ask);
    return PD_OK;
}

pd_status pd_shm_offer_start(struct pd_loop *loop, size_t ring, struct pd_shm_offer **out)
{
    struct pd_shm_offer *offer = pd_calloc(1, sizeof *offer);
    if (!offer) return pd_no_memory();
    offer->socket = -1;
    offer->parts = (struct pd_shm_parts){-1, {-1, -1}, 0};
    pd_status status = make_parts(ring, &offer->parts);
    if (status == PD_OK) status = start_offer(loop, offer);
    if (status == PD_OK) {
        *out = offer;
        return PD_OK;
    }
    if (offer->socket >= 0) close(offer->socket);
    pd_shm_parts_close(&offer->parts);
    pd_free(offer);
    return status;
}

void pd_shm_offer_tell(const struct pd_shm_offer *offer, char name[PD_SHM_NAME], uint8_t token[PD_SHM_TOKEN],
                       uint64_t *ring)
{
    memcpy(name, offer->name, PD_SHM_NAME);
    memcpy(token, offer->token, PD_SHM_TOKEN);
    *ring = offer->parts.ring;
}

int pd_shm_offer_take(struct pd_shm_offer *offer, struct pd_shm_parts *out)
{
    if (!offer->fetched) return 0;
    *out = offer->parts;
    offer->parts = (struct pd_shm_parts){-1, {-1, -1}, 0};
    return 1;
}

static void free_handle(uv_handle_t *handle)
{
    pd_free(handle->data);
}

void pd_shm_offer_free(struct pd_shm_offer *offer)
{
    if (!offer) return;
    uv_close((uv_handle_t *)&offer->watch, free_handle);
    close(offer->socket);
    pd_shm_parts_close(&offer->parts);
}

/* What came must be what was promised: a sealed memory of that size, and two eventfds (checked by using
 * them). */
static int parts_are_good(const struct pd_shm_parts *parts)
{
    struct stat stat;
    int seals = fcntl(parts->memory, F_GET_SEALS);
    return fstat(parts->memory, &stat) == 0 && (size_t)stat.st_size == whole_size(parts->ring) &&
           seals >= 0 && (seals & F_SEAL_SHRINK);
}

static void on_answer(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    struct pd_shm_fetch *fetch = watch->data;
    struct pd_loop *loop = fetch->loop;
    union control control;
    int fds[N_PARTS], n_fds;
    char byte;
    struct iovec body = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    ssize_t n;
    do
        n = recvmsg(fetch->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) return;
    struct pd_shm_parts parts = {-1, {-1, -1}, 0};
    if (n >= 0) {
        int mine = take_control(&message, fds, &n_fds);
        if (n_fds == N_PARTS) {
            parts = (struct pd_shm_parts){fds[0], {fds[1], fds[2]}, fetch->ring};
            if (!mine || !parts_are_good(&parts)) pd_shm_parts_close(&parts);
        } else {
            close_descriptors(fds, n_fds);
        }
    }
    uv_poll_stop(watch);
    pd_loop_enter(loop);
    fetch->done(fetch->arg, &parts);
    pd_loop_exit(loop);
}

pd_status pd_shm_fetch_start(struct pd_loop *loop, const char *name, const uint8_t token[PD_SHM_TOKEN],
                             size_t ring, void (*done)(void *arg, struct pd_shm_parts *parts), void *arg,
                             struct pd_shm_fetch **out)
{
    struct sockaddr_un address;
    sa_family_t any = AF_UNIX;
    if (ring < PD_RING_LEAST || ring > PD_RING_MOST || (ring & (ring - 1)))
        return pd_fail(PD_FORMAT, "the server offers a ring of %zu bytes", ring);
    struct pd_shm_fetch *fetch = pd_calloc(1, sizeof *fetch);
    if (!fetch) return pd_no_memory();
    fetch->loop = loop;
    fetch->ring = ring;
    fetch->done = done;
    fetch->arg = arg;
    fetch->socket = make_socket();
    pd_status status;
    /* An address of no length lets the kernel choose an abstract name, to which the answer comes. */
    if (fetch->socket < 0 || bind(fetch->socket, (struct sockaddr *)&any, sizeof any) < 0 ||
        connect(fetch->socket, (struct sockaddr *)&address, abstract_address(name, &address)) < 0 ||
        send(fetch->socket, token, PD_SHM_TOKEN, MSG_NOSIGNAL) != PD_SHM_TOKEN) {
        status = pd_fail(PD_IO, "the server's shared memory cannot be reached: %s", strerror(errno));
        goto failed;
    }
    status = pd_loop_watch(loop, &fetch->watch, fetch->socket, fetch);
    if (status != PD_OK) goto failed;
    uv_poll_start(&fetch->watch, UV_READABLE, on_answer);
    *out = fetch;
    return PD_OK;
failed:
    if (fetch->socket >= 0) close(fetch->socket);
    pd_free(fetch);
    return status;
}

void pd_shm_fetch_free(struct pd_shm_fetch *fetch)
{
    if (!fetch) return;
    uv_close((uv_handle_t *)&fetch->watch, free_handle);
    close(fetch->socket);
}
