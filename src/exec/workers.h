/* Runs a Program over batches by several threads on one scope, each with a plan of its own.
 *
 * With more than one thread this is Hogwild: each reads and writes the parameters of the scope as it goes,
 * without any lock, and an update may be lost to another of the same moment. That is meant: updates of sparse
 * models rarely meet, and waiting would cost more. It is the one place where threads race on purpose. */
#ifndef PD_EXEC_WORKERS_H
#define PD_EXEC_WORKERS_H

#include "exec/executor.h"

struct pd_workers {
    struct pd_program *program;
    struct pd_scope *scope;
    int n; /* threads */
    int n_feeds, n_fetches;
    const char *const *feeds, *const *fetches;
    /* In the worker's thread: its next batch, a value for each feed, lent until it asks again, and how many
     * samples it has; *values is NULL at the end. */
    pd_status (*next)(void *arg, int worker, struct pd_value *const **values, int64_t *samples);
    /* Any thread, once: workers that wait in `next` are to return. */
    void (*stop)(void *arg);
    /* In the worker's thread, after each batch; NULL: nothing. `prepared` has the fetches. */
    pd_status (*ran)(void *arg, int worker, int64_t batch, const struct pd_prepared *prepared);
    void *arg;
    /* In the calling thread, now and then; not 0: stop. */
    int (*poll)(void *poll_arg);
    void *poll_arg;
    /* Counts of all workers, which the caller may read at any time; atomic. */
    int64_t batches, samples;
    int64_t read_ns, run_ns; /* where time went: until a batch was there, and with it */
    int64_t wait_ns;         /* of run_ns, for servers */
    struct pd_crew *crew;    /* while they run */
};

pd_status pd_workers_run(struct pd_workers *workers);
/* In a worker's thread: the calling thread polls now. */
void pd_workers_wake(struct pd_workers *workers);
/* Of all that run now: threads that may still run a batch that sends gradients to servers. */
int pd_workers_sending(void);

#endif
