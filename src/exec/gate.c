/* See gate.h. */
#include "exec/gate.h"

#include "base/error.h"
#include "base/lock.h"

void pd_gate_init(struct pd_gate *gate, int threads)
{
    *gate = (struct pd_gate){.lock = PTHREAD_MUTEX_INITIALIZER, .threads = threads};
    pthread_cond_init(&gate->opened, NULL);
}

void pd_gate_clear(struct pd_gate *gate)
{
    pthread_cond_destroy(&gate->opened);
    pthread_mutex_destroy(&gate->lock);
}

static int is_full(const struct pd_gate *gate)
{
    return gate->waiting > 0 && gate->waiting == gate->threads;
}

pd_status pd_gate_wait(struct pd_gate *gate, void (*full)(void *arg), void *arg)
{
    PD_HOLD(&gate->lock);
    int times = gate->times;
    gate->waiting++;
    if (is_full(gate)) full(arg);
    while (gate->times == times && !gate->is_stopped)
        pthread_cond_wait(&gate->opened, &gate->lock);
    return gate->times == times ? pd_fail(PD_INTERRUPTED, "interrupted") : PD_OK;
}

void pd_gate_leave(struct pd_gate *gate, void (*full)(void *arg), void *arg)
{
    PD_HOLD(&gate->lock);
    gate->threads--;
    if (is_full(gate)) full(arg);
}

int pd_gate_is_full(struct pd_gate *gate)
{
    PD_HOLD(&gate->lock);
    return is_full(gate);
}

void pd_gate_open(struct pd_gate *gate)
{
    PD_HOLD(&gate->lock);
    gate->waiting = 0;
    gate->times++;
    pthread_cond_broadcast(&gate->opened);
}

void pd_gate_stop(struct pd_gate *gate)
{
    PD_HOLD(&gate->lock);
    gate->is_stopped = 1;
    pthread_cond_broadcast(&gate->opened);
}
