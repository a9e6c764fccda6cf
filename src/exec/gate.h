/* A place where the threads of a run wait for each other, and for what is done between two batches when none
 * of them computes. */
#ifndef PD_EXEC_GATE_H
#define PD_EXEC_GATE_H

#include <paddle/status.h>
#include <pthread.h>

struct pd_gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int threads; /* that may still come */
    int waiting, times, is_stopped;
};

void pd_gate_init(struct pd_gate *gate, int threads);
void pd_gate_clear(struct pd_gate *gate);
/* In a thread: waits until it is opened; PD_INTERRUPTED once it is stopped. `full` is called by the last one
 * that comes, before it waits. */
pd_status pd_gate_wait(struct pd_gate *gate, void (*full)(void *arg), void *arg);
/* In a thread: it does not come again. Others may be all that is missing now. */
void pd_gate_leave(struct pd_gate *gate, void (*full)(void *arg), void *arg);
/* Any thread. Do all wait that may still come? */
int pd_gate_is_full(struct pd_gate *gate);
void pd_gate_open(struct pd_gate *gate);
void pd_gate_stop(struct pd_gate *gate);

#endif
