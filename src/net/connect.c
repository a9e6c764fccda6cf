/* The client's way to an open connection: a name's addresses, one after the other, the handshake, shared
 * memory where both ends can. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "net/conn_inside.h"
#include "net/endpoint.h"
#include "net/lookup.h"
#include "net/sockets.h"

enum { FETCH_MS = 2000 };

enum turn { WAITS_FOR_CHALLENGE, WAITS_FOR_WELCOME, FETCHES };

struct client {
    struct pd_handshake base;
    enum turn turn;
    enum pd_transport_choice choice;
    char endpoint[280];
    struct pd_lookup *lookup; /* under way */
    struct pd_addresses addresses;
    int at;      /* the next of them to try */
    int refused; /* by one of them: what the user is told, whatever the others say */
    int limit_ms;
    uint64_t until;
    int told; /* the text says all: do not add to it */
    struct pd_hello_message hello;
    struct pd_welcome_message welcome;
    struct pd_shm_fetch *fetch;
    const struct pd_tls_settings *tls; /* NULL: without */
    char host[256];
    char text[1400];
};

static struct client *client_of(struct pd_conn *conn)
{
    return (struct client *)conn->handshake;
}

static void try_next(struct pd_conn *conn);

/* Ends with pd_error() as it is; as a handler's result: there is nothing to add. */
static pd_status give_up(struct pd_conn *conn, pd_status why)
{
    client_of(conn)->told = 1;
    pd_conn_end(conn, why, pd_error());
    return PD_OK;
}

/* The same, after telling the server why. */
static pd_status refuse(struct pd_conn *conn, const char *for_server, const char *for_user)
{
    struct pd_buf meta = {0};
    pd_refused_pack(for_server, &meta);
    if (pd_conn_send_meta(conn, PD_REFUSED, PD_INVALID, &meta) == PD_OK) pd_conn_flush(conn);
    return give_up(conn, pd_fail(PD_INVALID, "%s: %s", client_of(conn)->endpoint, for_user));
}

static void say_why(struct client *client, int error)
{
    const char *to = client->endpoint;
    int seconds = (client->limit_ms + 999) / 1000;
    if (client->refused) return;
    client->refused = error == ECONNREFUSED;
    switch (error) {
    case ECONNREFUSED:
        snprintf(client->text, sizeof client->text, "connection to %s refused: is the server running?", to);
        break;
    case EHOSTUNREACH:
    case ENETUNREACH:
        snprintf(client->text, sizeof client->text, "no route to %s: check the address and the network", to);
        break;
    case ETIMEDOUT:
        snprintf(
            client->text, sizeof client->text,
            "%s did not answer within %d s: is the machine up, and does its firewall let the port through?",
            to, seconds);
        break;
    case EMFILE:
    case ENFILE:
        snprintf(client->text, sizeof client->text,
                 "connection to %s: too many open files: raise the limit with ulimit -n", to);
        break;
    default:
        snprintf(client->text, sizeof client->text, "connection to %s failed: %s", to, strerror(error));
    }
}

static void on_time(void *arg)
{
    struct pd_conn *conn = arg;
    struct client *client = client_of(conn);
    pd_timer_stop(&conn->timer);
    if (conn->state == PD_CONN_CONNECTING) {
        say_why(client, ETIMEDOUT);
        try_next(conn);
    } else if (conn->state == PD_CONN_RESOLVING) {
        give_up(conn, pd_fail(PD_NOT_FOUND,
                              "%s: the name was not found within %d s: does the DNS server answer? A line in "
                              "/etc/hosts, or an address in place of the name, does without it",
                              client->endpoint, (client->limit_ms + 999) / 1000));
    } else if (conn->state == PD_CONN_GREETING) {
        give_up(conn, pd_fail(PD_IO,
                              "%s took the connection but did not finish the handshake within %d s: is it a "
                              "parameter server, and does it run?",
                              client->endpoint, (client->limit_ms + 999) / 1000));
    }
}

static uint64_t time_left(struct pd_conn *conn)
{
    uint64_t now = pd_loop_now(conn->loop), until = client_of(conn)->until;
    return now < until ? until - now : 0;
}

static void set_timer(struct pd_conn *conn, uint64_t ms, void (*fn)(void *arg))
{
    pd_timer_stop(&conn->timer);
    if (pd_timer_start(conn->loop, ms, 0, fn, conn, &conn->timer) != PD_OK)
        pd_conn_end(conn, PD_NO_MEMORY, pd_error());
}

/* Connects to one address; 0: on its way. The socket gets a port of its own, which may be one that a server
 * wants: with SO_REUSEADDR on both sides it can listen there all the same, now and in TIME_WAIT. */
static int start_connect(struct pd_conn *conn, const struct sockaddr_storage *address, socklen_t n)
{
    int one = 1,
        s = pd_socket_made(socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (s < 0) return errno;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (connect(s, (const struct sockaddr *)address, n) < 0 && errno != EINPROGRESS) {
        int error = errno;
        pd_socket_close(s);
        return error;
    }
    return pd_tcp_pipe(conn->loop, conn, s, &conn->pipe) == PD_OK ? 0 : ENOMEM;
}

static void try_next(struct pd_conn *conn)
{
    struct client *client = client_of(conn);
    pd_conn_close_pipe(conn);
    while (client->at < client->addresses.n) {
        int at = client->at++, error;
        uint64_t left = time_left(conn);
        if (!left) break;
        pd_endpoint_text((struct sockaddr *)&client->addresses.at[at], conn->peer, sizeof conn->peer);
        error = start_connect(conn, &client->addresses.at[at], client->addresses.lengths[at]);
        if (!error) {
            set_timer(conn, left / (uint64_t)(client->addresses.n - at), on_time);
            pd_conn_update(conn);
            return;
        }
        say_why(client, error);
    }
    if (!client->text[0]) say_why(client, ETIMEDOUT);
    give_up(conn, pd_fail(PD_IO, "%s", client->text));
}

/* Its time starts here, however long the lookup took. */
static void start_connecting(struct pd_conn *conn)
{
    struct client *client = client_of(conn);
    conn->state = PD_CONN_CONNECTING;
    client->until = pd_loop_now(conn->loop) + (uint64_t)client->limit_ms;
    try_next(conn);
}

static void looked_up(void *arg, pd_status status, const char *text, const struct pd_addresses *addresses)
{
    struct pd_conn *conn = arg;
    struct client *client = client_of(conn);
    client->lookup = NULL;
    if (conn->state != PD_CONN_RESOLVING) return; /* it ends */
    if (status != PD_OK) {
        /* A name that is not known may be known in a second: told like a refused connection, as `closed`. */
        give_up(conn, pd_fail(status, "%s", text));
        return;
    }
    client->addresses = *addresses;
    start_connecting(conn);
}

/* A socket that connects to a free port of the range the kernel chooses from may get that very port: it then
 * talks to itself. */
static int connected_to_itself(int socket)
{
    struct sockaddr_storage a, b;
    socklen_t a_n = sizeof a, b_n = sizeof b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if (getsockname(socket, (struct sockaddr *)&a, &a_n) < 0 ||
        getpeername(socket, (struct sockaddr *)&b, &b_n) < 0)
        return 0;
    return a_n == b_n && memcmp(&a, &b, a_n) == 0;
}

static void connected(struct pd_conn *conn)
{
    struct client *client = client_of(conn);
    struct pd_buf meta = {0};
    int error = pd_tcp_error(conn->pipe);
    if (!error && connected_to_itself(pd_tcp_socket(conn->pipe))) error = ECONNREFUSED;
    if (error) {
        say_why(client, error);
        try_next(conn);
        return;
    }
    if (pd_conn_secure(conn, client->tls, client->host) != PD_OK) {
        pd_conn_end(conn, PD_NO_MEMORY, pd_error());
        return;
    }
    conn->state = PD_CONN_GREETING;
    uint64_t left = time_left(conn);
    set_timer(conn, left ? left : 1, on_time);
    pd_buf_add(&meta, client->base.hello.at, client->base.hello.n);
    if (pd_conn_send_meta(conn, PD_HELLO, 0, &meta) != PD_OK) pd_conn_end(conn, PD_NO_MEMORY, pd_error());
    pd_conn_update(conn);
}

static pd_status on_challenge(struct pd_conn *conn, const struct pd_message *message)
{
    struct client *client = client_of(conn);
    struct pd_challenge challenge;
    struct pd_proof proof;
    struct pd_buf meta = {0};
    PD_TRY(pd_challenge_unpack(message->meta, message->head.meta, &challenge));
    if (!challenge.needs_secret && client->base.secret_n)
        return refuse(conn, "the client has a secret and the server has none",
                      "the server has no secret, but this process has one: set PADDLE_PS_SECRET (or "
                      "PADDLE_PS_SECRET_FILE) to the same value on all");
    pd_buf_add(&client->base.challenge, message->meta, message->head.meta);
    if (client->base.challenge.failed) return pd_no_memory();
    PD_TRY(pd_proof_make(client->base.secret, client->base.secret_n, "cpaddle client", &client->base.hello,
                         &client->base.challenge, NULL, 0, &proof));
    pd_proof_pack(&proof, &meta);
    PD_TRY(pd_conn_send_meta(conn, PD_PROOF, 0, &meta));
    client->turn = WAITS_FOR_WELCOME;
    return PD_OK;
}

static void open_now(struct pd_conn *conn)
{
    struct pd_welcome welcome = client_of(conn)->welcome.welcome;
    conn->hello.id = welcome.id;
    pd_conn_opened(conn);
    if (!conn->events->opened) return;
    pd_loop_made(conn->loop);
    conn->events->opened(conn, &welcome);
}

/* The decision goes out over TCP. */
static void decide(struct pd_conn *conn, struct pd_shm_parts *parts)
{
    struct pd_buf meta = {0};
    pd_shm_fetch_free(client_of(conn)->fetch);
    client_of(conn)->fetch = NULL;
    if (!parts && client_of(conn)->choice == PD_TRANSPORT_SHM) {
        give_up(conn, pd_fail(PD_UNSUPPORTED,
                              "%s: shared memory was asked for, but the server's cannot be reached: is it in "
                              "another container? Use PADDLE_PS_TRANSPORT=auto",
                              client_of(conn)->endpoint));
        return;
    }
    pd_switch_pack(parts != NULL, &meta);
    pd_status status = pd_conn_send_meta(conn, PD_SWITCH, 0, &meta);
    if (status == PD_OK) pd_conn_flush(conn);
    if (status == PD_OK && parts && conn->first) status = pd_fail(PD_IO, "the socket takes no more bytes");
    if (status == PD_OK && parts) {
        struct pd_shm_parts moved = *parts;
        *parts = (struct pd_shm_parts){-1, {-1, -1}, 0};
        if (conn->state != PD_CONN_ENDED)
            status = pd_conn_to_shm(conn, &moved, 0);
        else
            pd_shm_parts_close(&moved);
    }
    if (status != PD_OK)
        pd_conn_end(conn, status, pd_error());
    else if (conn->state == PD_CONN_GREETING)
        open_now(conn);
}

static void fetched(void *arg, struct pd_shm_parts *parts)
{
    struct pd_conn *conn = arg;
    int good = parts->memory >= 0;
    if (conn->state == PD_CONN_GREETING) decide(conn, good ? parts : NULL);
    pd_shm_parts_close(parts);
}

static void fetch_is_late(void *arg)
{
    struct pd_conn *conn = arg;
    if (conn->state == PD_CONN_GREETING) decide(conn, NULL);
}

static pd_status on_welcome(struct pd_conn *conn, const struct pd_message *message)
{
    struct client *client = client_of(conn);
    struct pd_proof proof, right;
    size_t body;
    PD_TRY(pd_welcome_unpack(message->meta, message->head.meta, &client->welcome, &proof, &body));
    PD_TRY(pd_proof_make(client->base.secret, client->base.secret_n, "cpaddle server", &client->base.hello,
                         &client->base.challenge, message->meta, body, &right));
    if (client->base.secret_n && !pd_proof_same(&proof, &right))
        return refuse(
            conn, "the server's proof of the secret is wrong",
            "the server cannot prove that it knows the secret: set the same PADDLE_PS_SECRET on all");
    PD_TRY(pd_conn_seal(conn, 0));
    conn->is_sealed_now = 1;
    if (!client->welcome.shm_name[0]) {
        if (client->choice == PD_TRANSPORT_SHM)
            give_up(
                conn,
                pd_fail(
                    PD_UNSUPPORTED,
                    "%s: shared memory was asked for, but the server does not offer it: is it on another "
                    "machine, told to use TCP, or has it 64 such connections? Use PADDLE_PS_TRANSPORT=auto",
                    client->endpoint));
        else
            open_now(conn);
        return PD_OK;
    }
    client->turn = FETCHES;
    if (pd_shm_fetch_start(conn->loop, client->welcome.shm_name, client->welcome.shm_token,
                           (size_t)client->welcome.ring, fetched, conn, &client->fetch) != PD_OK) {
        pd_log(PD_LOG_DEBUG, "%s: no shared memory: %s", client->endpoint, pd_error());
        decide(conn, NULL);
        return PD_OK;
    }
    uint64_t left = time_left(conn);
    set_timer(conn, left < FETCH_MS ? left : FETCH_MS, fetch_is_late);
    return PD_OK;
}

static pd_status on_refused(struct pd_conn *conn, const struct pd_message *message)
{
    char text[1100];
    PD_TRY(pd_refused_unpack(message->meta, message->head.meta, text, sizeof text));
    return give_up(conn, pd_fail(pd_refused_status(message->head.extra), "%s refused this process: %s",
                                 client_of(conn)->endpoint, text));
}

static pd_status on_message(struct pd_conn *conn, const struct pd_message *message)
{
    enum turn turn = client_of(conn)->turn;
    int type = message->head.type;
    if (type == PD_REFUSED) return on_refused(conn, message);
    if (type == PD_CHALLENGE && turn == WAITS_FOR_CHALLENGE) return on_challenge(conn, message);
    if (type == PD_WELCOME && turn == WAITS_FOR_WELCOME) return on_welcome(conn, message);
    return pd_fail(PD_FORMAT, "a message of type %d was not expected in the handshake", type);
}

/* The end before the connection was open, whoever decided it: the text names the endpoint. */
static const char *reason(struct pd_conn *conn, pd_status why, const char *text)
{
    struct client *client = client_of(conn);
    if (client->told || why == PD_OK) return text;
    snprintf(client->text, sizeof client->text, "%s: the handshake failed: %s", client->endpoint, text);
    return client->text;
}

static void free_client(struct pd_conn *conn)
{
    struct client *client = client_of(conn);
    pd_lookup_cancel(client->lookup);
    pd_shm_fetch_free(client->fetch);
    pd_buf_free(&client->base.hello);
    pd_buf_free(&client->base.challenge);
    pd_free(client);
    conn->handshake = NULL;
}

static pd_status prepare(struct client *client, const struct pd_hello *hello,
                         const struct pd_conn_options *options)
{
    PD_TRY(pd_transport_choose(options ? options->transport : NULL, &client->choice));
    PD_TRY(pd_secret(&client->base.secret, &client->base.secret_n));
    PD_TRY(pd_tls_choose(&client->tls));
    client->limit_ms = options && options->connect_ms > 0 ? options->connect_ms : pd_handshake_ms;
    client->hello.hello = *hello;
    client->hello.hello.wants_shm = client->choice != PD_TRANSPORT_TCP;
    client->hello.ring = options ? options->ring : 0;
    PD_TRY(pd_hello_fill(&client->hello, client->base.secret_n > 0));
    pd_hello_pack(&client->hello, &client->base.hello);
    return client->base.hello.failed ? pd_no_memory() : PD_OK;
}

pd_status pd_conn_open(struct pd_loop *loop, const char *endpoint, const struct pd_hello *hello,
                       const struct pd_conn_options *options, const struct pd_conn_events *events, void *user,
                       struct pd_conn **out)
{
    struct pd_endpoint where;
    struct pd_conn *conn = NULL;
    PD_TRY(pd_endpoint_parse(endpoint, &where));
    if (!where.port)
        return pd_fail(PD_INVALID,
                       "no server can be reached at %s: port 0 stands for one that the system chooses. Give "
                       "the port that the server printed when it started",
                       endpoint);
    PD_TRY(pd_loop_check(loop));
    struct client *client = pd_calloc(1, sizeof *client);
    if (!client) return pd_no_memory();
    client->base.message = on_message;
    client->base.free = free_client;
    client->base.reason = reason;
    client->base.writable = connected;
    snprintf(client->endpoint, sizeof client->endpoint, "%s", endpoint);
    snprintf(client->host, sizeof client->host, "%s", where.host[0] ? where.host : "localhost");
    pd_status status = prepare(client, hello, options);
    if (status == PD_OK) status = pd_conn_make(loop, &client->base, &conn);
    if (status != PD_OK) {
        pd_buf_free(&client->base.hello);
        pd_free(client);
        return status;
    }
    conn->events = events;
    conn->user = user;
    conn->hello = client->hello.hello;
    snprintf(conn->peer, sizeof conn->peer, "%.79s", endpoint);
    *out = conn;
    struct pd_addresses *addresses = &client->addresses;
    if (pd_endpoint_is_numeric(&where, PD_LOOKUP_ADDRESSES, addresses->at, addresses->lengths,
                               &addresses->n)) {
        start_connecting(conn);
        return PD_OK;
    }
    set_timer(conn, (uint64_t)client->limit_ms, on_time);
    status = pd_lookup_start(loop, &where, looked_up, conn, &client->lookup);
    if (status != PD_OK) give_up(conn, status);
    return PD_OK;
}
