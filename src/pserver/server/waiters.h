/* Trainers that wait because servers do not reach each other, or one of them stands still: they are told
 * which one is to blame, again and again, and the job ends with that at the deadline. The server that they
 * are connected to is there; without this they could only name that one. Each who may have something to tell
 * has its own. */
#ifndef PD_PSERVER_WAITERS_H
#define PD_PSERVER_WAITERS_H

#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

struct pd_server;
struct pd_waiters;

enum { PD_WAITERS_TEXT = 900 };

/* When the lanes are there. */
pd_status pd_waiters_new(struct pd_server *server, struct pd_waiters **out);
void pd_waiters_free(struct pd_waiters *waiters); /* after all loops were freed. NULL is fine */
/* On the control loop, on each tick: since `since` (0: all is well) it is as describe(arg) says. The log has
 * it too, only while a trainer waits when `is_quiet`. A trainer that has waited deadline_ms ends the job; 0:
 * none does. */
void pd_waiters_tend(struct pd_waiters *waiters, int64_t since, int is_quiet, int64_t deadline_ms,
                     void (*describe)(void *arg, char *out, size_t cap), void *arg);

#endif
