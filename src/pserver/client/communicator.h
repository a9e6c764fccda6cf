/* The communicator of a trainer: a thread of its own exchanges steps with the servers, while the trainer goes
 * on computing. A run gives it a copy of its gradients and takes the newest values that have come.
 *
 * Queue: a run waits only while the queue is full; several steps of the queue may go as one. Rounds: the
 * worker threads of this process that send (exec/workers.h) wait for each other, and what each of them gave
 * in one round goes as one step, the average; one thread alone exchanges by itself, as without a
 * communicator. What servers do with a step is their affair: rounds go to sync and async ones.
 *
 * The thread fails where a run would, with the same words: the next run says so, and pd_comm_stop. Nothing
 * that is queued gets lost unless it fails, or is told to drop it: who waits for that then hears of it. One
 * for the process; any thread. */
#ifndef PD_PSERVER_COMMUNICATOR_H
#define PD_PSERVER_COMMUNICATOR_H

#include "pserver/client/client.h"

struct pd_step_copy;

enum pd_comm_mode { PD_COMM_QUEUE, PD_COMM_ROUNDS };

struct pd_comm_settings {
    enum pd_comm_mode mode;
    int queue;       /* steps that wait at most; 1 or more. The next three: of a queue */
    int merge;       /* steps that go as one at most; 1 or more; */
    int wait_ms;     /* so long they may wait for each other */
    int averages;    /* steps that go as one are averaged; 0: added up */
    int pulls_every; /* so many exchanges bring the values once; 1 or more */
};

pd_status pd_comm_start(const struct pd_comm_settings *settings);
/* Sends what is queued, and ends the thread. poll(arg), which may be NULL, drops the queue when it is not 0.
 * PD_OK when there is none; when another thread stops it, as soon as that is done. */
pd_status pd_comm_stop(int (*poll)(void *arg), void *arg);
/* Waits until all that runs have queued before is with the servers, and of GEO-SGD what was not told yet.
 * Rounds are not waited for: those who are in one wait for it themselves. */
pd_status pd_comm_flush(int (*poll)(void *arg), void *arg);
/* The same for an op, which asks servers for what they hold. One whose run has the turn does not wait: the
 * communicator's thread would wait for it. */
pd_status pd_comm_flush_for(const struct pd_run *run);
int pd_comm_is_running(void);

/* For ops. Does the communicator have this run's step? The first call of a run decides. */
pd_status pd_comm_takes(const struct pd_step *step, int *takes);
int pd_comm_has(const struct pd_step *step);
/* Is there one, and has this run begun no step? */
int pd_comm_is_beside(const struct pd_step *step);
pd_status pd_comm_push_dense(const struct pd_step *step, int number, enum pd_dtype dtype, const void *data,
                             size_t bytes, size_t row);
pd_status pd_comm_push_rows(const struct pd_step *step, int number, enum pd_dtype dtype, int64_t n,
                            const int64_t *rows, const void *data, size_t row, int is_slice);
/* As pd_client_exchange: queues the step, and fills what `ask` wants with the newest values that have come,
 * or fetches them where none has. */
pd_status pd_comm_exchange(struct pd_client *client, const struct pd_run *run, struct pd_ask *ask, int n,
                           const char *const *endpoints);
/* Queues a step that no run has open, goes alone, and is told when it is over (`over` of step_copy.h). Takes
 * it when it is PD_OK. */
pd_status pd_comm_queue(struct pd_step_copy *copy);
/* What made it fail; PD_OK: nothing did. */
pd_status pd_comm_told(void);
/* A run has exchanged by itself: servers, names and values are as they should be. Before that a queue
 * takes no step, so that a mistake is told by the run that makes it. */
void pd_comm_began(void);
/* A run is over; one that did not end its step gives nothing. 1: it had begun one. */
int pd_comm_run_over(const struct pd_step *step);
/* How one who waits asks whether to go on: of a run, or of a pd_comm_user. */
struct pd_comm_user {
    int (*poll)(void *arg); /* may be NULL */
    void *arg;
};
pd_status pd_comm_poll_run(void *run);
pd_status pd_comm_poll_user(void *user);
/* The process leaves its job: as pd_comm_stop, or without sending anything, which is PD_OK. */
pd_status pd_comm_leave(int drops, int (*poll)(void *arg), void *arg);

#endif
