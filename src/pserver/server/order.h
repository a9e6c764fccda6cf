/* One order of steps and of who takes part in them, for all servers of a job and all their loops.
 *
 * Needed where a trainer may be lost and the job goes on (sync, FLAGS_ps_on_trainer_loss shrink or wait, more
 * than one loop in the job): one shard may have all that the trainer gave to a step, another may not. That is
 * so with a single trainer, too: another process may come in its place. So no shard applies a step alone. The
 * first server of the job decides:
 *
 *   a server, when all its loops have the step whole:   READY (step, changes of membership that it knows)
 *   the first, when all are ready and know the same:    COMMIT (step)
 *   a server, when a trainer opens, leaves or is lost:  WANT
 *   the first, to all, between two steps:               CHANGED
 *   a server, when all its loops have taken that in:    KNOWN
 *
 * All shards hear COMMIT and CHANGED in the same order, so each step is averaged over the same trainers
 * everywhere, and what a lost trainer gave to an unapplied step is dropped everywhere.
 *
 * With a log, servers that are killed do not change that. What a server is READY for is in its log before it
 * says so (shard.h, PD_CHANGE_PREPARE); started again it hears what was committed before it hears who is in
 * the job, and applies it as it was then. A first server that was killed asks the others (order_doubt.c). */
#ifndef PD_PSERVER_ORDER_H
#define PD_PSERVER_ORDER_H

#include "net/conn.h"
#include "pserver/shard/shard.h"

struct lane;
struct pd_server;
struct pd_order;

/* Before the lanes run. *out is NULL when the job needs none. Borrows the list for the call. */
pd_status pd_order_new(struct pd_server *server, int n_servers, const char *const *servers,
                       struct pd_order **out);
pd_status pd_order_start(struct pd_order *order, struct pd_loop *control); /* before that loop runs */
void pd_order_free(struct pd_order *order); /* after all loops were freed. NULL is fine */

/* On a lane's thread. The trainer is to be in the job (IN), or to leave it (DONE, LOST, and then why, if that
 * is known: all servers hear it); the lane hears of it through pd_lane_change. FAILED: it is waited for,
 * unless all have failed and none is back within FLAGS_ps_reconnect; then all are lost. */
void pd_order_want(struct pd_order *order, int trainer, uint64_t incarnation, enum pd_trainer_state state,
                   const char *why);
int pd_order_lets_in(struct pd_order *order); /* 0: nobody can join just now. NULL is fine */
/* The lane has this step whole. */
void pd_order_whole(struct pd_order *order, struct lane *lane, uint64_t step);

/* Any thread, at the first server: has each of the others kept all that was decided? Else names those in
 * `who` that have not said so. NULL is fine: there is nothing to tell. */
int pd_order_all_told(struct pd_order *order, char *who, size_t cap);
/* Any thread, at another server: does the first know that this one has? One that is gone is not waited for.
 */
int pd_order_is_heard(struct pd_order *order);
/* Any thread: is this the first server, which tells the others who has left? NULL is fine: there are none. */
int pd_order_tells_others(const struct pd_order *order);

/* On the control loop: a message of another server; its connection is gone. */
pd_status pd_order_message(struct pd_order *order, struct pd_conn *conn, const struct pd_message *message);
void pd_order_forget(struct pd_order *order, const struct pd_conn *conn);

/* At the others, for first_link.c; on the control loop. */
const char *pd_order_first(const struct pd_order *order,
                           int *self); /* the first server; NULL: it is this one */
void pd_order_first_opened(struct pd_order *order, struct pd_conn *conn);
pd_status pd_order_first_said(struct pd_order *order, const struct pd_message *message);
void pd_order_first_closed(struct pd_order *order);
void pd_order_first_tick(struct pd_order *order);
/* Since when it has had no word on a step that is whole here; 0: it waits for none. */
int64_t pd_order_first_silent(const struct pd_order *order, uint64_t *step);
/* Is a word of it waited for? Adds to *request what changes with the question. */
int pd_order_first_owes(struct pd_order *order, uint64_t *request);

#endif
