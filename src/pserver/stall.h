/* A connection that stalls: what is sent arrives at some machine on the way, and nothing comes back. No error
 * tells, and the kernel's own probes are answered.
 *
 * Where something is waited for and nothing moves, the other side is asked for a word (BEAT). One that
 * computes, or is stopped, does not answer either, and its connection must stay. So a second connection to
 * the same loop is made beside the first: when it is welcomed, and still nothing comes on the first, the
 * second takes its place, and what was not acknowledged is sent again there. */
#ifndef PD_PSERVER_STALL_H
#define PD_PSERVER_STALL_H

#include "net/conn.h"

/* What the owner of the connection does. */
struct pd_stall_owner {
    pd_status (*connect)(void *owner, const struct pd_conn_events *events, void *user, struct pd_conn **out);
    /* Takes the second connection, which is welcome, for the first, which is gone. */
    void (*replace)(void *owner, struct pd_conn *conn, const struct pd_welcome *welcome, const char *why);
};

struct pd_stall {
    const struct pd_stall_owner *calls;
    void *owner;
    const char *endpoint;   /* for the log */
    uint64_t heard;         /* bytes that came, when last looked at */
    size_t unsent;          /* bytes on their way out, then */
    uint64_t request;       /* what was waited for, then */
    int64_t looked, since;  /* when that was; none of them has moved since then */
    int asked;              /* a BEAT wants an answer */
    struct pd_conn *second; /* another connection to the same loop; NULL: none */
    int64_t second_at;      /* when it was begun, */
    int64_t met_at;         /* and welcomed; 0: it was not */
    struct pd_welcome welcome;
};

/* What is waited for on a connection. */
struct pd_stall_wait {
    int is_on;        /* something is */
    uint64_t request; /* changes when it is something else */
    uint64_t unasked; /* bytes that came without being asked for: they come also when nothing arrives there */
};

/* How long a connection may be silent, in ms: FLAGS_ps_dead_after; 0: for ever. */
int pd_stall_limit_ms(void);
/* Again and again, on the connection's loop. */
void pd_stall_look(struct pd_stall *stall, struct pd_conn *conn, const struct pd_stall_wait *wait,
                   int limit_ms, int64_t now);
void pd_stall_forget(struct pd_stall *stall); /* its connection has ended */

#endif
