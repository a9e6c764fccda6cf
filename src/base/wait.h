/* Waiting on the monotonic clock: condition variables with a time limit, and the patience of one who waits
 * for others. */
#ifndef PD_BASE_WAIT_H
#define PD_BASE_WAIT_H

#include <pthread.h>

#include "base/clock.h"

static inline void pd_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* Waits for a signal, or `ms`. The condition was made by pd_cond_init. */
static inline void pd_cond_wait_ms(pthread_cond_t *cond, pthread_mutex_t *lock, int ms)
{
    int64_t until = pd_clock_ns() + (int64_t)ms * 1000000;
    struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_cond_timedwait(cond, lock, &at);
}

/* Nobody waits in silence or for ever: one who waits says so every notice_ms and gives up after deadline_ms.
 * While its process is stopped, or the machine sleeps, it does not wait: who looks again after more than a
 * second has not waited meanwhile. So it is asked more often than that. */
struct pd_patience {
    int64_t start, told, asked;
    int64_t notice_ms, deadline_ms;
};
enum { PD_PATIENCE_AWAY_MS = 1000 };
enum pd_patience_now { PD_WAIT_ON, PD_WAIT_TELL, PD_WAIT_GIVE_UP };

static inline struct pd_patience pd_patience_start(int64_t notice_ms, int64_t deadline_ms)
{
    int64_t now = pd_clock_ns();
    return (struct pd_patience){now, now, now, notice_ms, deadline_ms};
}

/* What to do now. TELL comes once for each notice_ms. */
static inline enum pd_patience_now pd_patience_ask(struct pd_patience *p)
{
    int64_t now = pd_clock_ns(), away = now - p->asked;
    p->asked = now;
    if (away / 1000000 > PD_PATIENCE_AWAY_MS) {
        p->start += away;
        p->told += away;
    }
    if ((now - p->start) / 1000000 >= p->deadline_ms) return PD_WAIT_GIVE_UP;
    if ((now - p->told) / 1000000 < p->notice_ms) return PD_WAIT_ON;
    p->told = now;
    return PD_WAIT_TELL;
}

static inline long long pd_patience_seconds(const struct pd_patience *p)
{
    return (long long)((pd_clock_ns() - p->start) / 1000000000);
}

/* How often one says that it waits, whom nobody waits for in turn: less often with time. */
static inline int64_t pd_patience_seldom(int64_t notice_ms, int64_t waited_ms)
{
    int64_t longer = waited_ms / 4 < 60000 ? waited_ms / 4 : 60000;
    return longer > notice_ms ? longer : notice_ms;
}

#endif
