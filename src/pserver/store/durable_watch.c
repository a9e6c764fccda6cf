/* Work on the disk that does not come back. Who touches the disk says before what he is about to do; a thread
 * that never does names what takes long. */

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wait.h"
#include "pserver/store/durable_private.h"

enum { TICK_MS = 100 };

static const char *const texts[] = {
    [DISK_LOGS] = "writing the log",
    [DISK_ROTATES] = "beginning a new file of the log",
    [DISK_MAKES] = "making the folder of a snapshot",
    [DISK_REMOVES] = "removing old snapshots and logs",
    [DISK_LOADS] = "loading what is kept",
    [DISK_BOOK] = "writing the book of trainers and the job's id",
};

struct disk_work {
    _Atomic int64_t since; /* 0: none */
    _Atomic int what;
    int64_t told; /* of the thread */
};

struct disk_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    int is_running, is_over;
    struct disk_work work[]; /* by lane, then the main thread, then who has the book */
};

void pd_durable_begin(struct pd_durable *d, int who, enum disk_what what)
{
    struct disk_work *w = &d->watch->work[who];
    atomic_store_explicit(&w->what, what, memory_order_relaxed);
    atomic_store_explicit(&w->since, pd_clock_coarse_ns(), memory_order_release);
}

void pd_durable_end(struct pd_durable *d, int who)
{
    atomic_store_explicit(&d->watch->work[who].since, 0, memory_order_relaxed);
}

void pd_durable_begin_book(struct pd_durable *d)
{
    if (d) pd_durable_begin(d, d->server->n_lanes + 1, DISK_BOOK);
}

void pd_durable_end_book(struct pd_durable *d)
{
    if (d) pd_durable_end(d, d->server->n_lanes + 1);
}

/* How long it has taken, in ms; 0: nothing is done. */
static int64_t taken(const struct disk_work *w)
{
    int64_t since = atomic_load_explicit(&w->since, memory_order_acquire);
    return since ? (pd_clock_coarse_ns() - since) / 1000000 : 0;
}

static void look(const struct pd_durable *d)
{
    int64_t now = pd_clock_coarse_ns(), notice = d->server->config.notice_ms;
    for (int i = 0; i < d->server->n_lanes + 2; i++) {
        struct disk_work *w = &d->watch->work[i];
        int64_t ms = taken(w);
        int what = atomic_load_explicit(&w->what, memory_order_relaxed);
        if (ms < notice || (now - w->told) / 1000000 < notice) continue;
        w->told = now;
        pd_log(PD_LOG_WARNING, "%s in %s has taken %lld s%s", texts[what], d->folder, (long long)(ms / 1000),
               what == DISK_LOADS ? "" : ": is the disk stuck?");
    }
}

static void *watch(void *arg)
{
    const struct pd_durable *d = arg;
    struct disk_watch *w = d->watch;
    pthread_mutex_lock(&w->lock);
    while (!w->is_over) {
        pd_cond_wait_ms(&w->over, &w->lock, TICK_MS);
        look(d);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

pd_status pd_durable_watch(struct pd_durable *d)
{
    struct disk_watch *w = pd_calloc(1, sizeof *w + ((size_t)d->server->n_lanes + 2) * sizeof *w->work);
    if (!w) return pd_no_memory();
    pthread_mutex_init(&w->lock, NULL);
    pd_cond_init(&w->over);
    d->watch = w;
    w->is_running = pthread_create(&w->thread, NULL, watch, d) == 0;
    return w->is_running ? PD_OK : pd_fail(PD_NO_MEMORY, "cannot start the thread that watches the disk");
}

void pd_durable_watch_end(struct pd_durable *d)
{
    struct disk_watch *w = d->watch;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->is_over = 1;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
    if (w->is_running) pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->over);
    pd_free(w);
}

static int is_held_for(const struct pd_durable *d, int64_t ms)
{
    for (int i = 0; d && i < d->server->n_lanes + 2; i++)
        if (i != d->server->n_lanes && taken(&d->watch->work[i]) >= ms) return 1;
    return 0;
}

int pd_durable_is_held(const struct pd_durable *d)
{
    return d && is_held_for(d, d->server->config.notice_ms);
}

int pd_durable_is_given_up(const struct pd_durable *d)
{
    return d && is_held_for(d, d->server->config.deadline_ms);
}
