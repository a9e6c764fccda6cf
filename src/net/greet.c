/* The server's half of the handshake. A guest is a connection on the listener's loop until it has proved
 * itself; then it moves to the loop that the application names, and is welcomed there. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "net/listener_inside.h"
#include "net/sockets.h"

enum {
    SHM_MOST = 64, /* connections over shared memory, where that is our choice; polling more rings than this
                    * gains nothing */
};

static struct pd_guest *guest_of(struct pd_conn *conn)
{
    return (struct pd_guest *)conn->handshake;
}

static void leave(struct pd_guest *guest)
{
    struct pd_listener *listener = guest->listener;
    if (!listener) return;
    *(guest->prev ? &guest->prev->next : &listener->oldest) = guest->next;
    *(guest->next ? &guest->next->prev : &listener->newest) = guest->prev;
    listener->n_guests--;
    listener->n_surplus -= guest->surplus;
    guest->listener = NULL;
}

static void warn(struct pd_conn *conn, const char *text)
{
    struct pd_guest *guest = guest_of(conn);
    if (guest->listener)
        pd_listener_warn(guest->listener, conn->peer, text);
    else
        pd_log(PD_LOG_WARNING, "%s was not accepted: %s", conn->peer, text);
}

static void goodbye_is_over(void *arg)
{
    pd_conn_end(arg, PD_OK, "refused");
}

/* Tells the client pd_error(), and closes when that has arrived. A handler's result: it was handled. */
static pd_status refuse(struct pd_conn *conn, pd_status why)
{
    struct pd_buf meta = {0};
    pd_refused_pack(pd_error(), &meta);
    warn(conn, pd_error());
    guest_of(conn)->refused = 1;
    pd_timer_stop(&conn->timer);
    if (pd_conn_send_meta(conn, PD_REFUSED, (uint64_t)why, &meta) != PD_OK ||
        pd_timer_start(conn->loop, PD_GOODBYE_MS, 0, goodbye_is_over, conn, &conn->timer) != PD_OK)
        pd_conn_end(conn, PD_NO_MEMORY, pd_error());
    else
        conn->state = PD_CONN_CLOSING;
    return PD_OK;
}

static void other_version(struct pd_conn *conn, int version)
{
    refuse(conn, pd_fail(PD_INVALID,
                         "the client speaks protocol version %d, the server version %d: install the same "
                         "cpaddle on all machines",
                         version, PD_FRAME_VERSION));
}

static pd_status on_hello(struct pd_conn *conn, const struct pd_message *message)
{
    struct pd_guest *guest = guest_of(conn);
    struct pd_listener *listener = guest->listener;
    PD_TRY(pd_hello_unpack(message->meta, message->head.meta, &guest->hello));
    conn->hello = guest->hello.hello;
    conn->hello.incarnation = pd_hello_mark(conn->hello.incarnation);
    guest->same_host = listener->boot[0] && strcmp(listener->boot, conn->hello.boot) == 0;
    guest->ring = guest->hello.ring ? (size_t)guest->hello.ring : listener->ring;
    if (conn->hello.version != PD_FRAME_VERSION) {
        other_version(conn, conn->hello.version);
        return PD_OK;
    }
    if (guest->surplus)
        return refuse(conn,
                      pd_fail(PD_IO,
                              "the server has nearly all files open that it may (ulimit -n is %d there), and "
                              "the rest is for snapshots and logs. Raise the limit, or use fewer trainers",
                              listener->files));
    if (listener->secret_n && !guest->hello.has_secret)
        return refuse(conn, pd_fail(PD_INVALID,
                                    "the server needs a secret and the client has none: set "
                                    "PADDLE_PS_SECRET (or PADDLE_PS_SECRET_FILE) to the server's value"));
    struct pd_challenge challenge = {.needs_secret = listener->secret_n > 0};
    struct pd_buf meta = {0};
    PD_TRY(pd_nonce_make(challenge.nonce));
    pd_challenge_pack(&challenge, &meta);
    pd_buf_add(&guest->base.hello, message->meta, message->head.meta);
    pd_buf_add(&guest->base.challenge, meta.at, meta.n);
    if (guest->base.hello.failed || guest->base.challenge.failed) {
        pd_buf_free(&meta);
        return pd_no_memory();
    }
    guest->turn = PD_GUEST_SAYS_PROOF;
    return pd_conn_send_meta(conn, PD_CHALLENGE, 0, &meta);
}

static pd_status on_proof(struct pd_conn *conn, const struct pd_message *message)
{
    struct pd_guest *guest = guest_of(conn);
    struct pd_listener *listener = guest->listener;
    struct pd_proof proof, right;
    PD_TRY(pd_proof_unpack(message->meta, message->head.meta, &proof));
    PD_TRY(pd_proof_make(guest->base.secret, guest->base.secret_n, "cpaddle client", &guest->base.hello,
                         &guest->base.challenge, NULL, 0, &right));
    if (guest->base.secret_n && !pd_proof_same(&proof, &right))
        return refuse(
            conn, pd_fail(PD_INVALID,
                          "the client's secret is not the server's: set the same PADDLE_PS_SECRET on all"));
    /* A tool without a job looks at any. */
    if (strcmp(listener->job, conn->hello.job) != 0 &&
        (conn->hello.role != PD_ROLE_TOOL || conn->hello.job[0]))
        return refuse(conn, pd_fail(PD_INVALID,
                                    "the client belongs to job '%s', the server to job '%s': check the "
                                    "endpoints, and give FLAGS_ps_job to all processes of a job, or to none",
                                    conn->hello.job, listener->job));
    /* The choice is of how trainers exchange; servers and tools have little to say. */
    if (guest->choice == PD_TRANSPORT_SHM && conn->hello.role != PD_ROLE_TRAINER)
        guest->choice = PD_TRANSPORT_AUTO;
    if (guest->choice == PD_TRANSPORT_SHM && (!guest->same_host || !conn->hello.wants_shm))
        return refuse(conn, pd_fail(PD_UNSUPPORTED,
                                    "the server was told to use shared memory only, and the client %s: use "
                                    "PADDLE_PS_TRANSPORT=auto",
                                    guest->same_host ? "was told to use TCP" : "is on another machine"));
    pd_loop_made(conn->loop);
    pd_status status =
        listener->events->greet(listener->arg, &conn->hello, conn->peer, &guest->welcome.welcome,
                                &guest->target, &guest->events, &guest->user);
    if (status != PD_OK) return refuse(conn, status);
    conn->hello.id = guest->welcome.welcome.id;
    conn->held = 1; /* the rest happens when this callback is over: see move */
    pd_loop_want(conn->loop, &conn->task);
    return PD_OK;
}

/* The connection is open on its loop. */
static void open_now(struct pd_conn *conn)
{
    void (*accepted)(void *user, struct pd_conn *conn) = guest_of(conn)->accepted;
    pd_log(PD_LOG_DEBUG, "%s (%s, process %u) is connected over %s", conn->peer, conn->hello.host,
           (unsigned)conn->hello.pid, pd_conn_transport(conn));
    conn->events = guest_of(conn)->events;
    conn->user = guest_of(conn)->user;
    conn->silent = 0;
    pd_conn_opened(conn);
    pd_loop_made(conn->loop);
    accepted(conn->user, conn);
}

static pd_status on_switch(struct pd_conn *conn, const struct pd_message *message)
{
    struct pd_guest *guest = guest_of(conn);
    struct pd_shm_parts parts;
    int to_shm;
    PD_TRY(pd_switch_unpack(message->meta, message->head.meta, &to_shm));
    if (to_shm && !pd_shm_offer_take(guest->offer, &parts))
        return pd_fail(PD_FORMAT, "the client switches to shared memory that it has not fetched");
    if (!to_shm && guest->choice == PD_TRANSPORT_SHM)
        return refuse(conn, pd_fail(PD_UNSUPPORTED,
                                    "the server was told to use shared memory only, and the client cannot "
                                    "reach it: is it in another container? Use PADDLE_PS_TRANSPORT=auto"));
    pd_shm_offer_free(guest->offer);
    guest->offer = NULL;
    if (to_shm) PD_TRY(pd_conn_to_shm(conn, &parts, 1));
    open_now(conn);
    return PD_OK;
}

static void switch_is_late(void *arg)
{
    struct pd_conn *conn = arg;
    pd_conn_end(conn, PD_IO, "the client did not finish the handshake");
}

/* One line is enough: it is so for the next ones too. */
static void log_no_shm(const struct pd_conn *conn)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    enum pd_log_level level = atomic_flag_test_and_set(&told) ? PD_LOG_DEBUG : PD_LOG_WARNING;
    pd_log(level, "no shared memory for %s, which goes on over TCP: %s", conn->peer, pd_error());
}

static pd_status offer_shm(struct pd_conn *conn)
{
    struct pd_guest *guest = guest_of(conn);
    if (guest->choice != PD_TRANSPORT_SHM && guest->socket >= guest->most_shm_fd)
        return pd_fail(PD_IO, "it takes four files, and this process may open %d (ulimit -n)", guest->files);
    return pd_shm_offer_start(conn->loop, guest->ring, &guest->offer);
}

static pd_status welcome(struct pd_conn *conn)
{
    struct pd_guest *guest = guest_of(conn);
    struct pd_proof proof;
    struct pd_buf meta = {0};
    if (guest->same_host && conn->hello.wants_shm && guest->choice != PD_TRANSPORT_TCP &&
        (pd_shm_pipe_count() < SHM_MOST || guest->choice == PD_TRANSPORT_SHM)) {
        pd_status status = offer_shm(conn);
        if (status != PD_OK && guest->choice == PD_TRANSPORT_SHM)
            return refuse(conn, pd_fail(status,
                                        "the server was told to use shared memory only, and cannot make any: "
                                        "%s. Use PADDLE_PS_TRANSPORT=auto",
                                        pd_error()));
        if (status != PD_OK) log_no_shm(conn);
    }
    if (guest->offer) {
        pd_shm_offer_tell(guest->offer, guest->welcome.shm_name, guest->welcome.shm_token,
                          &guest->welcome.ring);
    }
    pd_welcome_pack(&guest->welcome, &meta);
    pd_status status = pd_proof_make(guest->base.secret, guest->base.secret_n, "cpaddle server",
                                     &guest->base.hello, &guest->base.challenge, meta.at, meta.n, &proof);
    if (status != PD_OK) {
        pd_buf_free(&meta);
        return status;
    }
    pd_proof_pack(&proof, &meta);
    PD_TRY(pd_conn_send_meta(conn, PD_WELCOME, 0, &meta));
    if (conn->stash) return pd_fail(PD_FORMAT, "the client sent more than its PROOF before it was welcomed");
    PD_TRY(pd_conn_seal(conn, 1));
    if (!guest->offer) {
        open_now(conn);
        return PD_OK;
    }
    guest->turn = PD_GUEST_SAYS_SWITCH;
    return pd_timer_start(conn->loop, (uint64_t)pd_handshake_ms, 0, switch_is_late, conn, &conn->timer);
}

/* On the loop that owns the connection from now on. */
static void arrive(void *arg)
{
    struct pd_conn *conn = arg;
    struct pd_guest *guest = guest_of(conn);
    pd_status status = pd_conn_attach(conn, guest->target, guest->socket);
    if (status == PD_OK) status = welcome(conn);
    if (status != PD_OK) pd_conn_end(conn, status, pd_error());
}

static void move(struct pd_conn *conn)
{
    struct pd_guest *guest = guest_of(conn);
    struct pd_loop *target = guest->target;
    guest->socket = pd_conn_detach(conn);
    leave(guest);
    if (pd_loop_post(target, arrive, conn) == PD_OK) return;
    pd_socket_close(guest->socket);
    pd_conn_free(conn);
}

static pd_status on_message(struct pd_conn *conn, const struct pd_message *message)
{
    enum pd_guest_turn turn = guest_of(conn)->turn;
    int type = message->head.type;
    char text[1100];
    if (type == PD_HELLO && turn == PD_GUEST_SAYS_HELLO) return on_hello(conn, message);
    if (type == PD_PROOF && turn == PD_GUEST_SAYS_PROOF) return on_proof(conn, message);
    if (type == PD_SWITCH && turn == PD_GUEST_SAYS_SWITCH) return on_switch(conn, message);
    if (type == PD_REFUSED && turn != PD_GUEST_SAYS_HELLO) {
        PD_TRY(pd_refused_unpack(message->meta, message->head.meta, text, sizeof text));
        return pd_fail(PD_INVALID, "the client refuses this server: %s", text);
    }
    return pd_fail(PD_FORMAT, "a message of type %d was not expected in the handshake", type);
}

static const char *reason(struct pd_conn *conn, pd_status why, const char *text)
{
    /* Who connects and goes away without a word is of no interest: port checks do that. */
    if (why != PD_OK && why != PD_IO) warn(conn, text);
    return text;
}

static void free_guest(struct pd_conn *conn)
{
    struct pd_guest *guest = guest_of(conn);
    leave(guest);
    pd_shm_offer_free(guest->offer);
    pd_buf_free(&guest->base.hello);
    pd_buf_free(&guest->base.challenge);
    pd_free(guest);
    conn->handshake = NULL;
}

pd_status pd_guest_new(struct pd_listener *listener, int socket, const char *peer, int surplus)
{
    struct pd_guest *guest = pd_calloc(1, sizeof *guest);
    struct pd_conn *conn;
    if (!guest || pd_conn_make(listener->loop, &guest->base, &conn) != PD_OK) {
        pd_free(guest);
        pd_socket_close(socket);
        return pd_no_memory();
    }
    guest->base.message = on_message;
    guest->base.work = move;
    guest->base.free = free_guest;
    guest->base.reason = reason;
    guest->base.version = other_version;
    guest->base.secret = listener->secret;
    guest->base.secret_n = listener->secret_n;
    guest->choice = listener->choice;
    guest->surplus = surplus;
    guest->files = listener->files;
    guest->most_shm_fd = listener->most_shm_fd;
    guest->accepted = listener->events->accepted;
    guest->conn = conn;
    guest->since = pd_loop_now(listener->loop);
    conn->silent = 1;
    conn->state = PD_CONN_GREETING;
    snprintf(conn->peer, sizeof conn->peer, "%s", peer);
    guest->listener = listener;
    guest->prev = listener->newest;
    *(listener->newest ? &listener->newest->next : &listener->oldest) = guest;
    listener->newest = guest;
    listener->n_guests++;
    listener->n_surplus += surplus;
    pd_status status = pd_tcp_pipe(listener->loop, conn, socket, &conn->pipe);
    if (status == PD_OK) status = pd_conn_secure(conn, listener->tls, NULL);
    if (status != PD_OK)
        pd_conn_end(conn, status, pd_error());
    else
        pd_conn_update(conn);
    return status;
}

void pd_guest_late(struct pd_guest *guest)
{
    struct pd_conn *conn = guest->conn;
    if (guest->refused)
        pd_conn_end(conn, PD_OK, "refused");
    else if (conn->state == PD_CONN_GREETING)
        refuse(conn, pd_fail(PD_IO, "the client did not finish the handshake within %d ms", pd_handshake_ms));
}

void pd_guest_make_room(struct pd_guest *guest, int most)
{
    char text[160];
    snprintf(text, sizeof text,
             "it had not proved itself when all %d places for such clients were taken, and made room", most);
    warn(guest->conn, text);
    pd_guest_drop(guest);
}

void pd_guest_drop(struct pd_guest *guest)
{
    struct pd_conn *conn = guest->conn;
    leave(guest);
    pd_conn_end(conn, PD_OK, "the server stopped listening");
}
