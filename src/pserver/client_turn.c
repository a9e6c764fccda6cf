/* Threads of one trainer take turns. What a run pushes is gathered until its exchange ends the step: nothing
 * of another run may get between. See client.h. */
#include <time.h>

#include "base/log.h"
#include "base/wait.h"
#include "pserver/client_private.h"

/* Has another thread begun what is not over? */
static int is_others(const struct pd_client *c)
{
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++) {
            const struct wire *w = c->links.at[i]->wires.at[k];
            if ((w->pieces.n || w->wishes.n || w->is_ended) && !pthread_equal(w->by, pthread_self()))
                return 1;
        }
    return 0;
}

pd_status pd_client_take_turn(struct pd_client *c, const struct pd_run *run)
{
    struct pd_patience patience = pd_patience_start(c->notice_ms, c->deadline_ms);
    uint64_t turns = c->turns;
    while (is_others(c)) {
        pd_cond_wait_ms(&c->turn_over, &c->lock, PD_CLIENT_TURN_MS);
        atomic_store(&c->owner, pthread_self());
        if (run) PD_TRY(run->step->poll(run));
        if (c->turns != turns) { /* there may be many threads: each has its time */
            patience = pd_patience_start(c->notice_ms, c->deadline_ms);
            turns = c->turns;
        }
        enum pd_patience_now now = pd_patience_ask(&patience);
        if (now == PD_WAIT_GIVE_UP && is_others(c))
            return pd_fail(PD_UNAVAILABLE,
                           "another thread of this trainer has begun a step and not ended it after %lld s: "
                           "does its Program send gradients without a send_barrier or recv behind them? "
                           "FLAGS_rpc_deadline sets how long to wait",
                           pd_patience_seconds(&patience));
        if (now == PD_WAIT_TELL)
            pd_log(PD_LOG_WARNING, "a thread has waited %lld s for another one's step to end",
                   pd_patience_seconds(&patience));
    }
    return PD_OK;
}

void pd_client_end_turn(struct pd_client *c)
{
    c->turns++;
    pthread_cond_broadcast(&c->turn_over);
}

/* Another thread may be in a call for as long as servers make it wait: Ctrl-C works meanwhile. */
pd_status pd_client_begin(struct pd_client *c, const struct pd_run *run)
{
    while (pthread_mutex_trylock(&c->lock) != 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME,
                      &until); /* the only clock that all systems have here; no harm in a jump */
        until.tv_nsec += PD_CLIENT_TURN_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_mutex_timedlock(&c->lock, &until) == 0) break;
        PD_TRY(run->step->poll(run));
    }
    atomic_store(&c->owner, pthread_self());
    pd_status status = pd_client_take_turn(c, run);
    pd_client_leave(&c);
    return status;
}
