/* What the machine can do with as many bytes: a blocking TCP stream between two processes, a ping-pong over
 * one, memcpy. No event loop, no frames, no update. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/psbench/limits.h"
#include "cli/psbench/process.h"
#include "cli/psbench/times.h"
#include "cli/psbench/why.h"

enum {
    CHUNK = 128 << 10, /* of one send or receive, as iperf3 does */
    HEAD = 48,         /* the answer of a ping */
    LEAST = 3,
    HUGE_PAGE = 2 << 20,
};

/* On large pages where they pay, as the engine's own buffers. */
static char *room_for(size_t bytes)
{
    size_t page = bytes < (size_t)4 * HUGE_PAGE ? 64 : HUGE_PAGE, whole = (bytes + page - 1) / page * page;
    char *memory = aligned_alloc(page, whole);
    if (memory && page == HUGE_PAGE) madvise(memory, whole, MADV_HUGEPAGE);
    return memory;
}

/* All of it; 0: the other side is gone. */
static int send_all(int socket, const char *at, size_t n)
{
    while (n) {
        ssize_t did = send(socket, at, n < CHUNK ? n : CHUNK, MSG_NOSIGNAL);
        if (did < 0 && errno == EINTR) continue;
        if (did <= 0) return 0;
        at += did, n -= (size_t)did;
    }
    return 1;
}

static int recv_all(int socket, char *at, size_t n)
{
    while (n) {
        ssize_t did = recv(socket, at, n < CHUNK ? n : CHUNK, 0);
        if (did < 0 && errno == EINTR) continue;
        if (did <= 0) return 0;
        at += did, n -= (size_t)did;
    }
    return 1;
}

/* The other process: says that it is ready, then takes `bytes` at a time, until the end. With `answers` each
 * is answered, else the end is. */
static void take_bytes(int socket, char *buffer, size_t bytes, int answers)
{
    char head[HEAD] = {0};
    memset(buffer, 3, bytes); /* pages of its own, before the clock runs */
    if (!send_all(socket, head, HEAD)) return;
    while (recv_all(socket, buffer, bytes))
        if (answers && !send_all(socket, head, HEAD)) return;
    if (!answers) (void)send_all(socket, head, HEAD);
}

/* A connected pair of TCP sockets over loopback. */
static pd_status connect_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[1] = -1;
    if (listener >= 0 && pair[0] >= 0 && bind(listener, (struct sockaddr *)&address, n) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &n) == 0 &&
        connect(pair[0], (struct sockaddr *)&address, n) == 0)
        pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int error = errno;
    if (listener >= 0) close(listener);
    if (pair[1] < 0) {
        if (pair[0] >= 0) close(pair[0]);
        return pd_psbench_fail(PD_IO, "no socket pair over loopback for comparison: %s", strerror(error));
    }
    for (int i = 0; i < 2; i++)
        setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return PD_OK;
}

/* Sends `bytes` again and again; returns how often a second. */
static double send_for(int socket, char *buffer, size_t bytes, double seconds, int answers)
{
    int64_t start = pd_psbench_now(), end = start + (int64_t)(seconds * 1e9), now = start;
    uint64_t n = 0;
    char head[HEAD];
    while (n < LEAST || now < end) {
        if (!send_all(socket, buffer, bytes) || (answers && !recv_all(socket, head, HEAD))) return 0;
        now = pd_psbench_now();
        n++;
    }
    if (!answers) { /* until the last byte is there */
        shutdown(socket, SHUT_WR);
        if (!recv_all(socket, head, HEAD)) return 0;
        now = pd_psbench_now();
    }
    return (double)n / ((double)(now - start) * 1e-9);
}

static pd_status over_socket(const struct pd_psbench_options *options, char *from, char *to, size_t bytes,
                             double seconds, int answers, double *rate)
{
    int pair[2];
    cpu_set_t before;
    PD_PSBENCH_TRY(connect_pair(pair));
    sched_getaffinity(0, sizeof before, &before);
    pid_t child = pd_psbench_fork();
    pd_psbench_pin(options, child == 0 ? 0 : 1);
    if (child == 0) {
        close(pair[0]);
        take_bytes(pair[1], to, bytes, answers);
        _exit(0);
    }
    close(pair[1]);
    char head[HEAD];
    if (child > 0 && recv_all(pair[0], head, HEAD)) {
        if (answers) (void)send_for(pair[0], from, bytes, seconds / 10, 1); /* warm-up */
        *rate = send_for(pair[0], from, bytes, seconds, answers);
    }
    sched_setaffinity(0, sizeof before, &before);
    close(pair[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0) return pd_psbench_fail(PD_IO, "a process cannot be started: %s", strerror(errno));
    return *rate > 0 ? PD_OK : pd_psbench_fail(PD_IO, "the socket for comparison broke");
}

static double copy_for(char *to, const char *from, size_t bytes, double seconds)
{
    int64_t start = pd_psbench_now(), end = start + (int64_t)(seconds * 1e9), now = start;
    uint64_t n = 0;
    while (n < LEAST || now < end) {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory"); /* each copy counts */
        now = pd_psbench_now();
        n++;
    }
    return (double)n / ((double)(now - start) * 1e-9);
}

pd_status pd_psbench_limits(const struct pd_psbench_options *options, uint64_t bytes,
                            struct pd_psbench_limits *out)
{
    char *from = room_for((size_t)bytes), *to = room_for((size_t)bytes);
    double part = options->seconds < 0.5 ? options->seconds : 0.5, streams = 0, pings = 0, copies = 0;
    pd_status status = from && to ? PD_OK : pd_psbench_no_memory();
    if (status == PD_OK) {
        memset(from, 1, (size_t)bytes);
        memset(to, 2, (size_t)bytes);
        copies = copy_for(to, from, (size_t)bytes, part / 2);
        status = over_socket(options, from, to, (size_t)bytes, part, 0, &streams);
    }
    if (status == PD_OK) status = over_socket(options, from, to, (size_t)bytes, part, 1, &pings);
    if (status == PD_OK)
        *out = (struct pd_psbench_limits){streams * (double)bytes, copies * (double)bytes, pings};
    free(from);
    free(to);
    return status;
}
