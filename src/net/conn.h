/* Connections: whole messages over a transport (TCP, or shared memory on one host), on one loop.
 *
 * A connection belongs to its loop's thread: all calls and all events happen there. Close is two-phase:
 * pd_conn_close asks, `closed` is the last event, and the memory goes after it. */
#ifndef PD_NET_CONN_H
#define PD_NET_CONN_H

#include <stddef.h>

#include "base/buf.h"
#include "net/frame.h"
#include "net/hello.h"
#include "net/loop.h"

struct pd_conn;
struct pd_listener;

/* A message coming in. */
struct pd_message {
    struct pd_frame_head head;
    const void *meta; /* head.meta bytes; borrowed until `done` returns */
    void *payload; /* in `done`: where it lies when the handler gave no spans (at most 256 MiB); aligned to 16
                    * bytes; borrowed until `done` returns */
    /* Set in `head` to receive straight into place: spans in order, `n_spans` of them, sizes adding up to
     * head.payload. The array and the memory stay valid until `done` or `closed`. */
    const struct pd_span *spans;
    int n_spans;
    /* Set in `head` beside the spans, with an alignment: the payload may also stay where the transport has
     * it. `done` then finds it in `payload`, and no spans; the other side may change it while it is looked
     * at. */
    size_t borrows;
};

struct pd_conn_events {
    /* The handshake is through (clients: `welcome` is the server's answer). */
    void (*opened)(struct pd_conn *conn, const struct pd_welcome *welcome);
    /* Head and meta of a message are in, its payload is not. NULL: nothing to place. An error closes the
     * connection. */
    pd_status (*head)(struct pd_conn *conn, struct pd_message *message);
    /* The whole message is in. An error closes the connection. */
    pd_status (*done)(struct pd_conn *conn, const struct pd_message *message);
    /* The last event. `why` is PD_OK after pd_conn_close (or pd_loop_free) by this side, else a code, with
     * `text` saying what happened ("connection to ps-1:6174 refused: is the server running?", "closed by the
     * other side"). PD_IO and PD_NOT_FOUND (a name): trying again may help. Others: the two do not fit
     * together (a server's refusal carries the code that its greet returned), or bytes that make no sense
     * (PD_FORMAT). */
    void (*closed)(struct pd_conn *conn, pd_status why, const char *text);
};

struct pd_conn_options {
    /* "auto" (shared memory where both ends are on one host), "tcp", "shm". NULL or auto:
     * PADDLE_PS_TRANSPORT. */
    const char *transport;
    size_t ring; /* bytes of each direction's ring; 0: the server's choice (its PADDLE_PS_RING, else 2 MiB) */
    /* Handshake included; 0: 10 s. A name that must be looked up has as much again before it. */
    int connect_ms;
};

/* Starts connecting to the first address that answers. The result comes as `opened` or `closed`, from the
 * loop, also when the name is not known. Never blocks. An error here is about the arguments.
 * `hello` is copied. */
pd_status pd_conn_open(struct pd_loop *loop, const char *endpoint, const struct pd_hello *hello,
                       const struct pd_conn_options *options, const struct pd_conn_events *events, void *user,
                       struct pd_conn **out);
/* Queues a message and writes what can be written now. `meta` is copied. The spans' memory is borrowed until
 * sent(arg, status) is called from the loop (never inside this call): PD_OK when it may be changed again, an
 * error when the connection ended first. sent may be NULL when there is no payload. Order is kept. Never
 * blocks. head's meta and payload are set here; its type is 16 or more. PD_GONE when the connection is
 * closed: `sent` is not called. Small messages of one callback go out together when it ends. */
pd_status pd_conn_send(struct pd_conn *conn, const struct pd_frame_head *head, const void *meta,
                       size_t meta_n, const struct pd_span *spans, int n_spans,
                       void (*sent)(void *arg, pd_status status), void *arg);
/* A `sent` that frees `arg`: the memory of what was sent. */
void pd_conn_free_sent(void *arg, pd_status status);
/* The same for who waits for the answer, or for what comes of it: takes `meta` (NULL: none), and a message
 * that cannot be made or queued ends the connection, as if it had broken (PD_IO) when memory is short. Who
 * makes it again says all again; a message that is left out would be waited for. The spans' memory stays as
 * it is until the other side has answered, or `closed`. */
void pd_conn_say(struct pd_conn *conn, const struct pd_frame_head *head, struct pd_buf *meta);
void pd_conn_give(struct pd_conn *conn, const struct pd_frame_head *head, struct pd_buf *meta,
                  const struct pd_span *spans, int n_spans);
/* Writes what can be written now, for a callback that goes on for long after it has sent something small. */
void pd_conn_flush(struct pd_conn *conn);
/* Ends the connection after what is queued was written and the other side has seen the end (`linger_ms` at
 * most; 0: at once). Of the events only `closed` comes after it. */
void pd_conn_close(struct pd_conn *conn, int linger_ms);
/* The same at once, for an owner that has no more use for it: no event comes after it. */
void pd_conn_drop(struct pd_conn *conn);

/* Messages with a larger meta end the connection when their head is in; 0: PD_FRAME_META_MAX. */
void pd_conn_limit_meta(struct pd_conn *conn, uint32_t most);

void *pd_conn_user(const struct pd_conn *conn);
void pd_conn_set_user(struct pd_conn *conn, const struct pd_conn_events *events, void *user);
/* The client's, on both ends; id as granted. */
const struct pd_hello *pd_conn_hello(const struct pd_conn *conn);
const char *pd_conn_peer(const struct pd_conn *conn);         /* "192.168.1.2:51234" */
const char *pd_conn_transport(const struct pd_conn *conn);    /* "tcp" or "shm" */
uint64_t pd_conn_bytes(const struct pd_conn *conn, int sent); /* so far */
/* The first, and what came of a record that is not whole yet. */
uint64_t pd_conn_heard(const struct pd_conn *conn);
/* Has the other side closed? For a callback that goes on for long: the loop tells it after all that came
 * before. */
int pd_conn_is_hung_up(const struct pd_conn *conn);
size_t pd_conn_queued(const struct pd_conn *conn); /* bytes waiting to be written */
/* The same, and those on their way to the other machine. */
size_t pd_conn_unsent(const struct pd_conn *conn);

struct pd_listener_events {
    /* A client has proved itself. Fills `welcome` and names the loop that shall own the connection (the hello
     * says which it wants) with its events and user; an error refuses the client with that message and code.
     * On the listener's loop. The client may still go away before `accepted`: keep accounts there. */
    pd_status (*greet)(void *arg, const struct pd_hello *hello, const char *peer, struct pd_welcome *welcome,
                       struct pd_loop **loop, const struct pd_conn_events **events, void **user);
    /* The connection is on its loop and ready; called on that loop before any other event. */
    void (*accepted)(void *user, struct pd_conn *conn);
};

/* Binds and listens. SO_REUSEADDR, not SO_REUSEPORT: a taken port is an error that names it (and the process
 * that holds it where /proc tells). *port is the real one. */
pd_status pd_listener_open(struct pd_loop *loop, const char *endpoint, const char *job,
                           const struct pd_listener_events *events, void *arg, int *port,
                           struct pd_listener **out);
/* Clients that were not accepted so far. On the loop's thread. */
uint64_t pd_listener_refused(const struct pd_listener *listener);
/* So many connections are to come, `whose` says in words: warns when this process may not open so many files.
 */
void pd_listener_expect(const struct pd_listener *listener, int connections, const char *whose);
/* Closes; connections stay. On the loop's thread, or while its loop is not running. */
void pd_listener_close(struct pd_listener *listener);

#endif
