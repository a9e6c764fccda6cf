/* A connection's body, for the files of src/net that share the work: conn.c (its life), conn_read.c,
 * conn_write.c, connect.c (the client's handshake), greet.c (the server's) and listener.c. */
#ifndef PD_NET_CONN_INSIDE_H
#define PD_NET_CONN_INSIDE_H

#include "base/buf.h"
#include "net/conn.h"
#include "net/hello_inside.h"
#include "net/loop_inside.h"
#include "net/tls.h"
#include "net/transport.h"

enum pd_conn_state {
    PD_CONN_RESOLVING,  /* a client's endpoint is a name that is being looked up; there is no pipe */
    PD_CONN_CONNECTING, /* a client's socket is not connected yet */
    PD_CONN_GREETING,   /* the handshake */
    PD_CONN_OPEN,
    PD_CONN_CLOSING, /* asked to close, writing the rest */
    PD_CONN_ENDED,   /* only `closed` is left to say */
};

/* What is needed until the connection is open. connect.c or greet.c owns it. */
struct pd_handshake {
    /* A message of the handshake is in. An error ends the connection with that message. */
    pd_status (*message)(struct pd_conn *conn, const struct pd_message *message);
    /* What a held connection waits for the end of the current callback with; the connection is not touched
     * after it. */
    void (*work)(struct pd_conn *conn);
    /* Frees the handshake: the connection is open, or ends. */
    void (*free)(struct pd_conn *conn);
    /* The connection ends before it is open: a client's user is told this text instead; optional. */
    const char *(*reason)(struct pd_conn *conn, pd_status why, const char *text);
    void (*writable)(struct pd_conn *conn); /* while connecting */
    /* A head of another version came in; optional. */
    void (*version)(struct pd_conn *conn, int version);
    const uint8_t *secret;
    int secret_n;
    struct pd_buf hello, challenge; /* the messages as they were sent, for the proofs */
};

struct pd_out; /* a message on its way out */

enum pd_read_phase { PD_READ_HEAD, PD_READ_META, PD_READ_PAYLOAD };

struct pd_conn {
    struct pd_loop *loop;
    struct pd_member member;
    struct pd_task task;
    struct pd_pipe *pipe;
    struct pd_tls *tls; /* NULL: without */
    enum pd_conn_state state;
    const struct pd_conn_events *events;
    void *user;
    struct pd_handshake *handshake; /* NULL once open */
    struct pd_hello hello;
    char peer[80];
    uint64_t bytes[2];
    struct pd_timer *timer; /* connecting, handshake, linger */

    int silent;        /* the user knows nothing of this connection (yet), so no event is made */
    int held;          /* about to move to another loop: nothing is handled here any more */
    int is_sealed_now; /* inside the reading of the handshake's end: the bytes behind it are records */
    int blocked;       /* the pipe is full */
    int finished;      /* closing: all is written, waiting for the other side's end */

    pd_status why; /* ended: what `closed` says */
    char *text;

    /* conn_read.c */
    enum pd_read_phase phase;
    struct pd_message message;
    uint8_t head[PD_FRAME_HEAD];
    size_t have;        /* bytes of the current phase that are in */
    uint32_t meta_most; /* 0: PD_FRAME_META_MAX */
    struct pd_spare meta, body;
    int span; /* the payload goes on at spans[span].at + span_at */
    size_t span_at;
    uint8_t *stash; /* read but not handled: the connection moves to another loop */
    size_t stash_n;

    /* conn_write.c */
    struct pd_out *first, *last; /* to be written; part and offset of the first */
    int part;
    size_t offset;
    struct pd_out *sent_first, *sent_last; /* written, `sent` not called yet */
    size_t queued;
};

/* conn.c. Makes a connection on a loop, without a pipe; takes the handshake on success. */
pd_status pd_conn_make(struct pd_loop *loop, struct pd_handshake *handshake, struct pd_conn **out);
/* Ends it for a reason; the first reason stays. Safe everywhere: the rest happens in the connection's task.
 */
void pd_conn_end(struct pd_conn *conn, pd_status why, const char *text);
/* The handshake is through. */
void pd_conn_opened(struct pd_conn *conn);
/* Takes it off its loop, to go on with pd_conn_attach on another one's thread. The pipe must be TCP. Returns
 * the socket. */
int pd_conn_detach(struct pd_conn *conn);
/* Takes the socket, also on failure. */
pd_status pd_conn_attach(struct pd_conn *conn, struct pd_loop *loop, int socket);
/* With its socket. */
void pd_conn_close_pipe(struct pd_conn *conn);
/* For a connection that is on no loop. */
void pd_conn_free(struct pd_conn *conn);
/* Tells the pipe what is wanted now. */
void pd_conn_update(struct pd_conn *conn);
/* Its pipe is TCP's, and gets TLS on top. host: of the server; NULL: this is the server. */
pd_status pd_conn_secure(struct pd_conn *conn, const struct pd_tls_settings *settings, const char *host);
/* The handshake's messages are over: from here on all that goes over TCP is in records (record.c), with a key
 * where there is a secret. */
pd_status pd_conn_seal(struct pd_conn *conn, int is_server);
/* From TCP to the rings. Takes the parts. */
pd_status pd_conn_to_shm(struct pd_conn *conn, struct pd_shm_parts *parts, int is_server);

/* conn_read.c */
void pd_conn_read(struct pd_conn *conn);
void pd_conn_read_stash(struct pd_conn *conn);
void pd_conn_read_free(struct pd_conn *conn);

/* conn_write.c */
void pd_conn_tell_sent(struct pd_conn *conn);
/* Calls every `sent` that is left with an error. */
void pd_conn_drop_queue(struct pd_conn *conn);
/* A message of the handshake; takes and frees the buffer. */
pd_status pd_conn_send_meta(struct pd_conn *conn, uint16_t type, uint64_t extra, struct pd_buf *meta);

#endif
