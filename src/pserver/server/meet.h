/* Where trainers meet: each gives some bytes under a name, and when all that are expected have, each is
 * answered with those of all, in the order of trainers. A barrier is that without bytes. The server only
 * gathers; what is made of it (sums, ...) is for the trainers.
 *
 * Those who are DONE or LOST are not waited for, those who have not come yet are. The rounds of a name are
 * counted from 1 on; a trainer says for which it asks, or 0: for the open one. It may ask again on a new
 * connection: what it gave counts once, and the answer of the last round is kept. A server that was started
 * again takes the round from those who ask: one that is at a later round than another has had the answer that
 * the other one asks for. That is enough for a barrier; what was gathered is lost with the server.
 *
 * In a sync job the others may wait in a step for a trainer that is here: it hears so (AWAITED), and gives
 * nothing to that step. While steps are done nobody is too late.
 *
 * It is of the first loop, and on its thread. */
#ifndef PD_PSERVER_MEET_H
#define PD_PSERVER_MEET_H

#include <paddle/status.h>
#include <stdint.h>

struct lane;
struct pd_meet;
struct pd_message;
struct session;

pd_status pd_meet_new(struct lane *lane, struct pd_meet **out);
void pd_meet_free(struct pd_meet *meet); /* when its loop was freed. NULL is fine */
/* A MEET whose payload has not come: an error unless it may. NULL: another loop's. */
pd_status pd_meet_check(const struct pd_meet *meet, const struct session *session,
                        const struct pd_message *message);
/* It is here. An error refuses the connection. */
pd_status pd_meet_give(struct pd_meet *meet, struct session *session, const struct pd_message *message);
/* The connection has ended: its trainer asks again on the next one. NULL is fine. */
void pd_meet_forget(struct pd_meet *meet, const struct session *session);
/* A trainer has ended a step. NULL is fine. */
void pd_meet_step(struct pd_meet *meet);
/* Now and then: goes on without those who have left, and tells for whom it waits. NULL is fine. */
void pd_meet_tend(struct pd_meet *meet, int64_t now);

#endif
