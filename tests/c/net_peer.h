/* A server and a client for the tests of src/net: the server on a thread of its own, the client's loop turned
 * by the test. */
#ifndef NET_PEER_H
#define NET_PEER_H

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "net/conn.h"

enum { TYPE_DATA = 16, TYPE_ECHO = 17, TYPE_BYE = 18, PATIENCE_S = 240 };

/* Turns the loop until the condition holds; a test that waits too long fails with the condition's text. */
#define wait_until(loop, condition)                                                                          \
    do {                                                                                                     \
        int64_t wait_end = pd_clock_ns() + PATIENCE_S * INT64_C(1000000000);                                 \
        while (!(condition)) {                                                                               \
            pd_loop_turn(loop, 20);                                                                          \
            if (pd_clock_ns() > wait_end) fail_msg("still waiting for: %s", #condition);                     \
        }                                                                                                    \
    } while (0)

/* The same while the loop stands still. */
#define wait_aside(condition)                                                                                \
    do {                                                                                                     \
        int64_t wait_end = pd_clock_ns() + PATIENCE_S * INT64_C(1000000000);                                 \
        while (!(condition)) {                                                                               \
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                                         \
            if (pd_clock_ns() > wait_end) fail_msg("still waiting for: %s", #condition);                     \
        }                                                                                                    \
    } while (0)

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        pd_status ok_status = (call);                                                                        \
        if (ok_status != PD_OK) fail_msg("%s: %s: %s", #call, pd_status_name(ok_status), pd_error());        \
    } while (0)

#define assert_holds(text, part)                                                                             \
    do {                                                                                                     \
        if (!strstr(text, part)) fail_msg("'%s' does not say '%s'", text, part);                             \
    } while (0)

enum { TURN = 1 << 17 }; /* the bytes come again after so many */

static inline uint8_t byte_at(uint64_t seed, size_t i)
{
    return (uint8_t)((seed + i) * 131 + ((seed + i) >> 9) * 7);
}

static uint8_t turn[TURN];

static inline void make_turn(void)
{
    for (size_t i = 0; i < TURN; i++)
        turn[i] = byte_at(0, i);
}

/* Where in a turn the bytes of a seed go on behind `at`, and how many of the rest are there in one piece:
 * byte by byte the sanitizers would take most of the time of a test. */
static inline const uint8_t *turn_at(uint64_t seed, size_t at, size_t rest, size_t *piece)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_turn);
    size_t begin = (size_t)((seed + at) % TURN);
    *piece = rest < TURN - begin ? rest : TURN - begin;
    return turn + begin;
}

static inline uint8_t *make_bytes(uint64_t seed, size_t n)
{
    uint8_t *bytes = malloc(n ? n : 1);
    for (size_t i = 0, piece; i < n; i += piece) {
        const uint8_t *from = turn_at(seed, i, n - i, &piece);
        memcpy(bytes + i, from, piece);
    }
    return bytes;
}

static inline int bytes_are_right(uint64_t seed, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0, piece; i < n; i += piece) {
        const uint8_t *from = turn_at(seed, i, n - i, &piece);
        if (memcmp(bytes + i, from, piece) != 0) return 0;
    }
    return 1;
}

/* One end of a connection, on either side. */
struct peer {
    struct pd_conn *conn;
    int uses_spans, borrows;
    atomic_int opened, closed, messages, bad, sent, sent_failed, borrowed;
    atomic_ullong received;
    pd_status why;
    char text[1400];
    struct pd_welcome welcome;
    struct pd_span spans[3];
    uint8_t *place;
    uint64_t next_request; /* order: requests count up */
    pd_status fail_in_done;
};

struct echo {
    uint8_t *bytes;
    struct peer *peer;
};

static inline void echo_sent(void *arg, pd_status status)
{
    struct echo *echo = arg;
    atomic_fetch_add(status == PD_OK ? &echo->peer->sent : &echo->peer->sent_failed, 1);
    free(echo->bytes);
    free(echo);
}

static inline void peer_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct peer *peer = pd_conn_user(conn);
    peer->welcome = *welcome;
    peer->opened = 1;
}

static inline pd_status peer_head(struct pd_conn *conn, struct pd_message *message)
{
    struct peer *peer = pd_conn_user(conn);
    size_t n = (size_t)message->head.payload;
    if (!peer->uses_spans || !n) return PD_OK;
    peer->place = malloc(n);
    peer->spans[0] = (struct pd_span){peer->place, n / 3};
    peer->spans[1] = (struct pd_span){peer->place + n / 3, 0};
    peer->spans[2] = (struct pd_span){peer->place + n / 3, n - n / 3};
    message->spans = peer->spans;
    message->n_spans = 3;
    message->borrows = peer->borrows ? 1 : 0;
    return PD_OK;
}

/* The request's number is the seed of the payload, and of the meta. */
static inline pd_status peer_done(struct pd_conn *conn, const struct pd_message *message)
{
    struct peer *peer = pd_conn_user(conn);
    size_t n = (size_t)message->head.payload;
    pd_status status = PD_OK;
    uint64_t seed = message->head.request;
    const uint8_t *payload = message->n_spans ? peer->place : message->payload;
    if (seed != peer->next_request++) peer->bad++;
    if (!bytes_are_right(seed + 1, message->meta, message->head.meta)) peer->bad++;
    if (!bytes_are_right(seed, payload, n)) peer->bad++;
    if (!message->n_spans && n && !peer->place && (uintptr_t)payload % 16) peer->bad++;
    if (!message->n_spans && peer->place) peer->borrowed++;
    peer->received += n;
    if (message->head.type == TYPE_ECHO) {
        struct echo *echo = malloc(sizeof *echo);
        *echo = (struct echo){malloc(n ? n : 1), peer};
        if (n) memcpy(echo->bytes, payload, n);
        struct pd_frame_head head = {.type = TYPE_DATA, .request = seed};
        struct pd_span spans[2] = {{echo->bytes, n / 2}, {echo->bytes + n / 2, n - n / 2}};
        status = pd_conn_send(conn, &head, message->meta, message->head.meta, spans, 2, echo_sent, echo);
        if (status != PD_OK) echo_sent(echo, PD_GONE);
    }
    free(peer->place);
    peer->place = NULL;
    peer->messages++;
    if (message->head.type == TYPE_BYE) pd_conn_close(conn, PATIENCE_S * 1000);
    return peer->fail_in_done ? pd_fail(peer->fail_in_done, "the handler says no") : status;
}

static inline void peer_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct peer *peer = pd_conn_user(conn);
    peer->why = why;
    snprintf(peer->text, sizeof peer->text, "%s", text);
    free(peer->place);
    peer->place = NULL;
    peer->closed = 1;
}

static const struct pd_conn_events peer_events = {peer_opened, peer_head, peer_done, peer_closed};

/* A server for one client at a time. */
struct server {
    struct pd_loop *loop, *other; /* `other` owns the connections when it is there */
    struct pd_listener *listener;
    struct peer peer;
    char endpoint[64];
    int port;
    atomic_int accepted;
    const char *refusal;
};

static inline pd_status server_greet(void *arg, const struct pd_hello *hello, const char *peer,
                                     struct pd_welcome *welcome, struct pd_loop **loop,
                                     const struct pd_conn_events **events, void **user)
{
    struct server *server = arg;
    if (server->refusal) return pd_fail(PD_EXISTS, "%s", server->refusal);
    welcome->id = hello->id < 0 ? 7 : hello->id;
    welcome->loops = 1;
    welcome->incarnation = 12345678901;
    snprintf(welcome->note, sizeof welcome->note, "hello %s", hello->job);
    *loop = server->other ? server->other : server->loop;
    *events = &peer_events;
    *user = server;
    return peer[0] ? PD_OK : pd_fail(PD_INTERNAL, "no peer");
}

static inline void server_accepted(void *user, struct pd_conn *conn)
{
    struct server *server = user;
    server->peer.conn = conn;
    pd_conn_set_user(conn, &peer_events, &server->peer);
    server->accepted++;
}

static const struct pd_listener_events server_events = {server_greet, server_accepted};

static inline void server_open(struct server *server, const char *job, int threads)
{
    assert_ok(pd_loop_new(&server->loop));
    if (threads > 1) assert_ok(pd_loop_new(&server->other));
    assert_ok(pd_listener_open(server->loop, "127.0.0.1:0", job, &server_events, server, &server->port,
                               &server->listener));
    snprintf(server->endpoint, sizeof server->endpoint, "127.0.0.1:%d", server->port);
    if (threads > 0) assert_ok(pd_loop_start(server->loop, "server"));
    if (threads > 1) assert_ok(pd_loop_start(server->other, "shard"));
}

static inline void server_close(struct server *server)
{
    pd_loop_free(server->loop);
    pd_loop_free(server->other);
}

static inline void peer_connect_ring(struct peer *peer, struct pd_loop *loop, const char *endpoint,
                                     const char *transport, size_t ring)
{
    struct pd_hello hello = {.role = PD_ROLE_TRAINER, .id = -1, .incarnation = 99, .job = "job"};
    struct pd_conn_options options = {.transport = transport, .ring = ring};
    assert_ok(pd_conn_open(loop, endpoint, &hello, &options, &peer_events, peer, &peer->conn));
}

static inline void peer_connect(struct peer *peer, struct pd_loop *loop, const char *endpoint,
                                const char *transport)
{
    peer_connect_ring(peer, loop, endpoint, transport, 256 << 10);
}

static inline void count_sent(void *arg, pd_status status)
{
    struct peer *peer = arg;
    atomic_fetch_add(status == PD_OK ? &peer->sent : &peer->sent_failed, 1);
}

/* A socket of none of our code that listens. */
static inline int listening(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof address;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s, 16), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&address, &n), 0);
    *port = ntohs(address.sin_port);
    return s;
}

/* Memory of this process. */
static inline long resident_kb(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * 4;
}

#endif
