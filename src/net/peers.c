/* See peers.h. */
#include "net/peers.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/line.h"
#include "base/log.h"
#include "base/wait.h"
#include "net/conn.h"
#include "net/endpoint.h"
#include "net/hello_inside.h"

enum {
    PIECE = 64,        /* messages: a piece; its number is the step */
    NO_MORE = 65,      /* the last one; the step says how many pieces came before it */
    UNSENT = 32 << 20, /* bytes that may be on their way */
    TURN_MS = 20,
    SHOWN = 8, /* workers that a message names */
};

#define JOB "workers"

/* Another worker. */
struct peer {
    struct pd_peers *all;
    int number;
    struct pd_conn *to, *from; /* ours to it, its to us; NULL: not there */
    int is_open, has_ended;
    uint64_t given, taken; /* pieces */
    struct pd_buf piece;   /* that is coming */
    struct pd_span span;
};

struct pd_peers {
    int self, n;
    uint64_t token;
    struct pd_loop *loop;
    struct pd_peers_use use;
    struct peer *peer; /* by number; that of `self` is not used */
    size_t unsent;     /* bytes that were given and are not written yet */
    uint64_t moved;    /* counts whatever happens */
    int is_over;       /* connections may end now */
    pd_status status;  /* what ended it */
    char text[500];
};

static void fail(struct pd_peers *p, pd_status status, const char *text)
{
    if (p->status != PD_OK) return;
    p->status = status;
    snprintf(p->text, sizeof p->text, "%s", text);
}

static void lost(struct peer *peer, const char *why)
{
    struct pd_peers *p = peer->all;
    char text[500];
    if (p->is_over) return;
    snprintf(text, sizeof text, "worker %d (%.100s) was lost while workers handed each other samples: %.300s",
             peer->number, p->use.endpoints ? p->use.endpoints[peer->number] : "not connected yet", why);
    fail(p, PD_UNAVAILABLE, text);
}

/* ---- what this one gives ---- */

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct peer *peer = pd_conn_user(conn);
    (void)welcome;
    peer->is_open = 1;
    peer->all->moved++;
}

static pd_status on_word(struct pd_conn *conn, const struct pd_message *m)
{
    (void)conn;
    return pd_fail(PD_FORMAT, "a worker answers with a message of type %u", m->head.type);
}

static void to_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct peer *peer = pd_conn_user(conn);
    (void)why;
    peer->to = NULL;
    lost(peer, text);
}

struct parcel {
    struct pd_peers *peers;
    char *at;
    size_t n;
};

static void was_sent(void *arg, pd_status status)
{
    struct parcel *parcel = arg;
    (void)status;
    parcel->peers->unsent -= parcel->n;
    parcel->peers->moved++;
    pd_free(parcel->at);
    pd_free(parcel);
}

/* ---- what comes ---- */

static pd_status on_head(struct pd_conn *conn, struct pd_message *m)
{
    struct peer *peer = pd_conn_user(conn);
    size_t n = (size_t)m->head.payload;
    if (m->head.meta || m->head.step != peer->taken || peer->has_ended ||
        !(m->head.type == PIECE ? n && n <= PD_PEERS_PIECE : m->head.type == NO_MORE && !n))
        return pd_fail(
            PD_FORMAT, "worker %d sends a message of type %u and %zu bytes, number %llu after %llu",
            peer->number, m->head.type, n, (unsigned long long)m->head.step, (unsigned long long)peer->taken);
    if (!n) return PD_OK;
    if (!pd_buf_reserve(&peer->piece, n)) return pd_no_memory();
    peer->span = (struct pd_span){peer->piece.at, n};
    m->spans = &peer->span;
    m->n_spans = 1;
    return PD_OK;
}

static pd_status on_piece(struct pd_conn *conn, const struct pd_message *m)
{
    struct peer *peer = pd_conn_user(conn);
    struct pd_peers *p = peer->all;
    p->moved++;
    if (m->head.type == NO_MORE) {
        peer->has_ended = 1;
        return PD_OK;
    }
    struct pd_buf piece = peer->piece;
    peer->piece = (struct pd_buf){0};
    piece.n = (size_t)m->head.payload;
    peer->taken++;
    pd_status status = p->use.take(p->use.take_arg, peer->number, &piece);
    pd_buf_free(&piece);
    if (status != PD_OK) fail(p, status, pd_error());
    return status;
}

static void from_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct peer *peer = pd_conn_user(conn);
    (void)why;
    peer->from = NULL;
    if (!peer->has_ended) lost(peer, text);
}

static const struct pd_conn_events to_events = {on_opened, NULL, on_word, to_closed};
static const struct pd_conn_events from_events = {NULL, on_head, on_piece, from_closed};

static pd_status greet(void *arg, const struct pd_hello *hello, const char *who, struct pd_welcome *welcome,
                       struct pd_loop **loop, const struct pd_conn_events **events, void **user)
{
    struct pd_peers *p = arg;
    (void)who;
    if (hello->incarnation != pd_hello_mark(p->token) || hello->id < 0 || hello->id >= p->n ||
        hello->id == p->self)
        return pd_fail(PD_INVALID, "worker %d hands samples to the other workers of its job only", p->self);
    struct peer *peer = &p->peer[hello->id];
    if (peer->from || peer->taken || peer->has_ended)
        return pd_fail(PD_EXISTS, "worker %d is connected to worker %d already", hello->id, p->self);
    welcome->id = hello->id;
    welcome->loops = 1;
    *loop = p->loop;
    *events = &from_events;
    *user = peer;
    return PD_OK;
}

static void accepted(void *user, struct pd_conn *conn)
{
    struct peer *peer = user;
    if (peer->from) {
        pd_conn_drop(conn);
        return;
    }
    peer->from = conn;
    peer->all->moved++;
}

static const struct pd_listener_events listener_events = {greet, accepted};

/* ---- waiting ---- */

static int is_open(const struct peer *peer)
{
    return peer->is_open;
}

static int is_through(const struct peer *peer)
{
    return peer->has_ended && peer->to && !pd_conn_unsent(peer->to);
}

static const char *name_late(struct pd_peers *p, int (*is_done)(const struct peer *), char *out, size_t cap)
{
    struct pd_line line = pd_line_in(out, cap);
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        if (i == p->self || is_done(&p->peer[i])) continue;
        if (n < SHOWN) pd_line_printf(&line, "%sworker %d (%s)", n ? ", " : "", i, p->use.endpoints[i]);
        n++;
    }
    if (n > SHOWN) pd_line_printf(&line, " and %d more", n - SHOWN);
    return out;
}

/* Handles what is there; waits for more where `ms` says so. */
static pd_status turn(struct pd_peers *p, int ms)
{
    pd_loop_turn(p->loop, ms);
    if (p->status != PD_OK) return pd_fail(p->status, "%s", p->text);
    if (p->use.poll && p->use.poll(p->use.poll_arg)) return pd_fail(PD_INTERRUPTED, "interrupted");
    return PD_OK;
}

static pd_status wait_for_more(struct pd_peers *p, struct pd_patience *patience, uint64_t *moved,
                               int (*is_done)(const struct peer *))
{
    char who[700];
    PD_TRY(turn(p, TURN_MS));
    if (p->moved != *moved) {
        *moved = p->moved;
        *patience = pd_patience_start(patience->notice_ms, patience->deadline_ms);
        return PD_OK;
    }
    switch (pd_patience_ask(patience)) {
    case PD_WAIT_ON:
        return PD_OK;
    case PD_WAIT_TELL:
        pd_log(PD_LOG_WARNING, "this worker has waited %lld s for %s", pd_patience_seconds(patience),
               name_late(p, is_done, who, sizeof who));
        return PD_OK;
    default:
        return pd_fail(PD_UNAVAILABLE,
                       "workers hand each other samples, and nothing has moved for %lld s; still waiting for "
                       "%s. FLAGS_rpc_deadline sets how long to wait",
                       pd_patience_seconds(patience), name_late(p, is_done, who, sizeof who));
    }
}

static struct pd_patience new_patience(void)
{
    return pd_patience_start(pd_flag_int(PD_FLAG_ps_notice), pd_flag_int(PD_FLAG_rpc_deadline));
}

static pd_status wait_for_all(struct pd_peers *p, int (*is_done)(const struct peer *))
{
    struct pd_patience patience = new_patience();
    uint64_t moved = p->moved;
    for (int i = 0; i < p->n; i++)
        while (i != p->self && !is_done(&p->peer[i]))
            PD_TRY(wait_for_more(p, &patience, &moved, is_done));
    return PD_OK;
}

/* ---- the calls ---- */

pd_status pd_peers_listen(const char *address, int self, int n, uint64_t token, struct pd_peers **out,
                          int *port)
{
    struct pd_listener *listener;
    struct pd_peers *p = pd_calloc(1, sizeof *p);
    if (!p) return pd_no_memory();
    *p = (struct pd_peers){
        .self = self, .n = n, .token = token, .peer = pd_calloc((size_t)n, sizeof *p->peer)};
    pd_status status = p->peer ? pd_loop_new(&p->loop) : pd_no_memory();
    if (status == PD_OK)
        status = pd_listener_open(p->loop, address, JOB, &listener_events, p, port, &listener);
    if (status != PD_OK) {
        pd_peers_free(p);
        return status;
    }
    pd_listener_expect(listener, 2 * n, "the workers of the job");
    for (int i = 0; i < n; i++)
        p->peer[i] = (struct peer){.all = p, .number = i};
    *out = p;
    return PD_OK;
}

pd_status pd_peers_connect(struct pd_peers *peers, const struct pd_peers_use *use)
{
    struct pd_peers *p = peers;
    char mapped[280];
    struct pd_hello hello = {.role = PD_ROLE_TRAINER, .id = p->self, .incarnation = p->token, .job = JOB};
    p->use = *use;
    for (int i = 0; i < p->n; i++) {
        if (i == p->self) continue;
        const char *to = pd_endpoint_map(use->endpoints[i], mapped, sizeof mapped);
        struct pd_conn_options options = {.connect_ms = pd_flag_int(PD_FLAG_rpc_deadline)};
        PD_TRY(pd_conn_open(p->loop, to, &hello, &options, &to_events, &p->peer[i], &p->peer[i].to));
    }
    return wait_for_all(p, is_open);
}

pd_status pd_peers_give(struct pd_peers *peers, int to, struct pd_buf *piece)
{
    struct pd_peers *p = peers;
    struct peer *peer = &p->peer[to];
    struct pd_patience patience = new_patience();
    uint64_t moved = p->moved;
    PD_TRY(turn(p, 0));
    while (p->unsent && p->unsent + piece->n > UNSENT)
        PD_TRY(wait_for_more(p, &patience, &moved, is_through));
    struct parcel *parcel = pd_malloc(sizeof *parcel);
    if (!parcel) return pd_no_memory();
    *parcel = (struct parcel){p, piece->at, piece->n};
    struct pd_frame_head head = {.type = PIECE, .step = peer->given};
    struct pd_span span = {piece->at, piece->n};
    pd_status status = pd_conn_send(peer->to, &head, NULL, 0, &span, 1, was_sent, parcel);
    if (status != PD_OK) {
        pd_free(parcel);
        return status;
    }
    *piece = (struct pd_buf){0};
    p->unsent += parcel->n;
    peer->given++;
    return PD_OK;
}

pd_status pd_peers_finish(struct pd_peers *peers)
{
    struct pd_peers *p = peers;
    PD_TRY(turn(p, 0));
    for (int i = 0; i < p->n; i++) {
        struct pd_frame_head head = {.type = NO_MORE, .step = p->peer[i].given};
        if (i != p->self) PD_TRY(pd_conn_send(p->peer[i].to, &head, NULL, 0, NULL, 0, NULL, NULL));
    }
    PD_TRY(wait_for_all(p, is_through));
    p->is_over = 1;
    return PD_OK;
}

void pd_peers_free(struct pd_peers *peers)
{
    if (!peers) return;
    peers->is_over = 1;
    pd_loop_free(peers->loop);
    for (int i = 0; peers->peer && i < peers->n; i++)
        pd_buf_free(&peers->peer[i].piece);
    pd_free(peers->peer);
    pd_free(peers);
}
