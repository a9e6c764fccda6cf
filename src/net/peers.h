/* Workers that hand each other bytes, each straight to each: for what is too much for a meeting at a server.
 *
 * Every one listens, and connects to all others. What it gives goes out over the connection that it made, in
 * order; what comes to it is handed on as it comes. A connection that breaks ends all of it: half of what was
 * given may have come. Whoever connects must know the token that the workers agreed on, and the job's secret
 * where there is one.
 *
 * All of it is on the calling thread, inside these calls: they handle what comes, and wait no longer than the
 * flag rpc_deadline while nothing moves. */
#ifndef PD_NET_PEERS_H
#define PD_NET_PEERS_H

#include <paddle/status.h>
#include <stdint.h>

#include "base/buf.h"

struct pd_peers;

struct pd_peers_use {
    const char *const *endpoints; /* of all workers, by number; borrowed until the end */
    /* A piece has come; takes the buffer. An error ends all of it. */
    pd_status (*take)(void *arg, int from, struct pd_buf *piece);
    void *take_arg;
    int (*poll)(void *arg); /* not 0: end with PD_INTERRUPTED; NULL: never */
    void *poll_arg;
};

enum { PD_PEERS_PIECE = 64 << 20 }; /* bytes of a piece at most */

/* The token is not 0. Worker `self` of `n` listens at "host:port"; *port is the real one. */
pd_status pd_peers_listen(const char *address, int self, int n, uint64_t token, struct pd_peers **out,
                          int *port);
/* Connects to all others, who have listened by now. */
pd_status pd_peers_connect(struct pd_peers *peers, const struct pd_peers_use *use);
/* Takes the piece, and waits while too much is on its way. */
pd_status pd_peers_give(struct pd_peers *peers, int to, struct pd_buf *piece);
/* This one gives no more. Returns when all have said so, and what it gave has arrived. */
pd_status pd_peers_finish(struct pd_peers *peers);
void pd_peers_free(struct pd_peers *peers); /* NULL is fine */

#endif
