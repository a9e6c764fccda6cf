/* See crew.h. */
#include "base/crew.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"
#include "base/wait.h"

enum { POLL_MS = 50 };

struct pd_crew_run {
    const struct pd_crew *crew;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int left, is_stopped, is_woken;
    pd_status status;
    char *text; /* NULL: memory is short */
};

struct member {
    struct pd_crew_run *run;
    pthread_t thread;
    int number;
};

/* The first failure counts; it stops the others. Under no lock. */
static void fail(struct pd_crew_run *r, pd_status status, const char *text)
{
    pthread_mutex_lock(&r->lock);
    int is_first = !r->is_stopped;
    r->is_stopped = 1;
    if (is_first) {
        r->status = status;
        r->text = pd_strdup(text);
    }
    pthread_mutex_unlock(&r->lock);
    if (is_first) r->crew->stop(r->crew->arg);
}

static void *begin(void *arg)
{
    struct member *m = arg;
    struct pd_crew_run *r = m->run;
    pd_status status = r->crew->work(r->crew->arg, m->number);
    if (status != PD_OK) fail(r, status, pd_error());
    pthread_mutex_lock(&r->lock);
    r->left--;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Starts them. Returns how many there are. */
static int start(struct pd_crew_run *r, struct member *members)
{
    int n = 0, failed = 0;
    for (; n < r->crew->n && !failed; n++) {
        members[n] = (struct member){.run = r, .number = n};
        failed = pd_thread_start(&members[n].thread, 0, begin, &members[n]);
        if (failed) break;
    }
    if (failed) {
        char text[120];
        snprintf(text, sizeof text, "thread %d of %d cannot be started: %s", n + 1, r->crew->n,
                 strerror(failed));
        fail(r, PD_INTERNAL, text);
        pthread_mutex_lock(&r->lock);
        r->left -= r->crew->n - n;
        pthread_mutex_unlock(&r->lock);
    }
    return n;
}

void pd_crew_wake(struct pd_crew *crew)
{
    PD_HOLD(&crew->run->lock);
    crew->run->is_woken = 1;
    pthread_cond_signal(&crew->run->changed);
}

pd_status pd_crew_run(struct pd_crew *crew)
{
    struct pd_crew_run r = {.crew = crew, .lock = PTHREAD_MUTEX_INITIALIZER, .left = crew->n};
    struct member *members = pd_calloc((size_t)crew->n, sizeof *members);
    if (!members) return pd_no_memory();
    pd_cond_init(&r.changed);
    crew->run = &r;
    int n = start(&r, members), polls = crew->poll != NULL;
    pthread_mutex_lock(&r.lock);
    while (r.left > 0) {
        if (!r.is_woken) pd_cond_wait_ms(&r.changed, &r.lock, POLL_MS);
        r.is_woken = 0;
        pthread_mutex_unlock(&r.lock);
        if (polls && crew->poll(crew->poll_arg)) {
            polls = 0;
            fail(&r, PD_INTERRUPTED, "interrupted");
        }
        pthread_mutex_lock(&r.lock);
    }
    pthread_mutex_unlock(&r.lock);
    for (int i = 0; i < n; i++)
        pthread_join(members[i].thread, NULL);
    pthread_cond_destroy(&r.changed);
    pd_free(members);
    if (r.status != PD_OK) {
        pd_status status = r.text ? pd_fail(r.status, "%s", r.text) : pd_no_memory();
        pd_free(r.text);
        return status;
    }
    return PD_OK;
}
