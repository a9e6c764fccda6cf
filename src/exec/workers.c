/* See workers.h. */
#include "exec/workers.h"

#include "base/clock.h"
#include "base/crew.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/waited.h"
#include "program/program.h"

static int all_sending; /* of all runs; atomic */

struct run {
    struct pd_workers *w;
    int sends;      /* its Program sends gradients */
    int is_stopped; /* atomic */
    int left;       /* threads; atomic */
};

static int is_stopped(void *arg)
{
    struct run *r = arg;
    return __atomic_load_n(&r->is_stopped, __ATOMIC_RELAXED);
}

static void add(int64_t *to, int64_t more)
{
    __atomic_fetch_add(to, more, __ATOMIC_RELAXED);
}

/* Feeds a batch and runs it. */
static pd_status run_batch(struct run *r, struct pd_prepared *p, struct pd_value *const *values)
{
    struct pd_workers *w = r->w;
    for (int i = 0; i < w->n_feeds; i++)
        PD_TRY(pd_exec_feed_value(p, i, values[i]));
    return pd_exec_run(p, w->scope, is_stopped, r);
}

static pd_status run_all(struct run *r, struct pd_executor *executor, int number)
{
    struct pd_workers *w = r->w;
    struct pd_prepared *p;
    PD_TRY(pd_exec_prepare(executor, w->program, w->n_feeds, w->feeds, w->n_fetches, w->fetches, &p));
    int64_t begin = pd_clock_ns(), now, waited = pd_waited();
    for (int64_t batch = 0;; batch++) {
        struct pd_value *const *values;
        int64_t samples;
        if (is_stopped(r)) return PD_OK;
        PD_TRY(w->next(w->arg, number, &values, &samples));
        now = pd_clock_ns();
        add(&w->read_ns, now - begin);
        if (!values) return PD_OK;
        PD_TRY(run_batch(r, p, values));
        begin = pd_clock_ns();
        add(&w->run_ns, begin - now);
        if (pd_waited() != waited) {
            add(&w->wait_ns, pd_waited() - waited);
            waited = pd_waited();
        }
        add(&w->batches, 1);
        add(&w->samples, samples);
        pd_status status = w->ran ? w->ran(w->arg, number, batch, p) : PD_OK; /* feeds may be fetched */
        pd_exec_unfeed(p);
        PD_TRY(status);
        if (w->ran) begin = pd_clock_ns(); /* that was no reading */
    }
}

static void leave(struct run *r, int n)
{
    __atomic_fetch_sub(&r->left, n, __ATOMIC_RELAXED);
    if (r->sends) __atomic_fetch_sub(&all_sending, n, __ATOMIC_RELAXED);
}

static pd_status work(void *arg, int number)
{
    struct run *r = arg;
    struct pd_executor *executor;
    if (r->w->n > 1) pd_threads_set(1); /* they have the cores already */
    pd_status status = pd_exec_new(&executor);
    if (status == PD_OK) {
        status = run_all(r, executor, number);
        pd_exec_free(executor);
    }
    leave(r, 1);
    return status;
}

static void stop(void *arg)
{
    struct run *r = arg;
    __atomic_store_n(&r->is_stopped, 1, __ATOMIC_RELAXED);
    r->w->stop(r->w->arg);
}

static int sends(const struct pd_program *program)
{
    for (int b = 0; b < program->blocks.n; b++) {
        const struct pd_block *block = program->blocks.at[b];
        for (int i = 0; i < block->ops.n; i++)
            if (block->ops.at[i]->def && block->ops.at[i]->def->flags & PD_OP_SENDS) return 1;
    }
    return 0;
}

pd_status pd_workers_run(struct pd_workers *workers)
{
    struct run run = {.w = workers, .sends = sends(workers->program), .left = workers->n};
    struct pd_crew crew = {.n = workers->n,
                           .work = work,
                           .stop = stop,
                           .arg = &run,
                           .poll = workers->poll,
                           .poll_arg = workers->poll_arg};
    workers->crew = &crew;
    if (run.sends) __atomic_fetch_add(&all_sending, workers->n, __ATOMIC_RELAXED);
    pd_status status = pd_crew_run(&crew);
    leave(&run, run.left); /* that could not be started */
    return status;
}

void pd_workers_wake(struct pd_workers *workers)
{
    pd_crew_wake(workers->crew);
}

int pd_workers_sending(void)
{
    return __atomic_load_n(&all_sending, __ATOMIC_RELAXED);
}
