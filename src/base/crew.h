/* Threads that do one work together, while the calling thread waits for them and can be interrupted. */
#ifndef PD_BASE_CREW_H
#define PD_BASE_CREW_H

#include <paddle/status.h>

struct pd_crew {
    int n;
    /* Called once in each thread, with its number. Signals are blocked there. */
    pd_status (*work)(void *arg, int number);
    /* Called once, in any thread, when one of them has failed or the caller wants to stop: the others are to
     * end soon. */
    void (*stop)(void *arg);
    void *arg;
    /* Called now and then in the calling thread; not 0: stop, with PD_INTERRUPTED, and it is not called
     * again. NULL: never. */
    int (*poll)(void *poll_arg);
    void *poll_arg;
    struct pd_crew_run *run; /* while it runs */
};

/* Returns when all have ended, with the first failure and its message. */
pd_status pd_crew_run(struct pd_crew *crew);
/* In one of the threads: the calling thread polls now. */
void pd_crew_wake(struct pd_crew *crew);

#endif
