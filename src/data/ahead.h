/* A thread that makes things ahead of the one who uses them, in slots that both go round. What comes out, and
 * in which order, is what making them one by one would give. */
#ifndef PD_DATA_AHEAD_H
#define PD_DATA_AHEAD_H

#include <paddle/status.h>

struct pd_ahead;

/* The thread calls make(arg, slot, &more) for slot 0, 1, ... slots - 1, 0, ... until there is no more, or it
 * fails. A slot is made again when the next but one was asked for. Two slots or more. */
pd_status pd_ahead_start(int slots, pd_status (*make)(void *arg, int slot, int *more), void *arg,
                         struct pd_ahead **out);
/* The next slot, the caller's until it asks again; -1 at the end. A failure comes when all before it was
 * handed out, and again each time. */
pd_status pd_ahead_next(struct pd_ahead *ahead, int *slot);
/* Ends the thread, whose `make` has been told to return soon. NULL is fine. */
void pd_ahead_free(struct pd_ahead *ahead);

#endif
