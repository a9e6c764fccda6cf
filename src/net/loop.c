/* See loop.h and loop_inside.h. libuv waits and keeps timers; posts, tasks and polling are ours.
 *
 * A loop that looks for work does so in this order: tasks, posts, rings, libuv. Before it sleeps it says so
 * (`asleep`, and a flag in each ring) and looks once more: whoever adds work first adds, then reads the flag.
 * Both sides use sequentially consistent accesses, so at least one of them sees the other. */
#include "net/loop_inside.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/std_files.h"
#include "base/thread.h"
#include "base/vec.h"

enum {
    SPARE_MOST = 4 << 20, /* a buffer up to this size is kept */
    TASK_ROUNDS = 4,      /* tasks that queue tasks: as often in a row, then libuv has its turn */
    RINGS_PER_UV = 16,    /* while rings are busy, libuv is asked each so many times */
    UV_EVERY_NS =
        10000, /* while rings are polled and quiet, as often: asking costs more than a small message */
    SPIN_US = 50,
    SPIN_FAILS = 3,      /* after as many polls for nothing in a row, some are left out */
    SPIN_SKIP_BITS = 10, /* 2^10 at most */
};

struct post {
    void (*fn)(void *arg);
    void *arg;
};

struct pd_loop {
    uv_loop_t uv;
    uv_async_t bell;
    uv_timer_t nap;
    pthread_t thread;
    int has_thread;

    pthread_mutex_t lock; /* of the posts and `gone` */
    PD_VEC(struct post) posts;
    int gone, closed;
    atomic_int n_posts, asleep, spin, stop, ended;

    struct pd_member *members;
    struct pd_poller *pollers, *next_poller;
    struct pd_task *first_task, **last_task;
    struct pd_timer *timers;
    uint8_t *scratch;
    struct pd_spare spare;
    int depth;
    unsigned turns;
    unsigned spin_fails, spin_skip;
    uint64_t made, moved;
};

struct pd_timer {
    uv_timer_t uv;
    struct pd_loop *loop;
    struct pd_timer *prev, *next;
    void (*fn)(void *arg);
    void *arg;
};

/* Lists whose items know both neighbours. */
#define LIST_ADD(list, item)                                                                                 \
    do {                                                                                                     \
        (item)->prev = NULL;                                                                                 \
        (item)->next = (list);                                                                               \
        if (list) (list)->prev = (item);                                                                     \
        (list) = (item);                                                                                     \
    } while (0)
#define LIST_REMOVE(list, item)                                                                              \
    do {                                                                                                     \
        *((item)->prev ? &(item)->prev->next : &(list)) = (item)->next;                                      \
        if ((item)->next) (item)->next->prev = (item)->prev;                                                 \
    } while (0)

pd_status pd_loop_watch(struct pd_loop *loop, uv_poll_t *watch, int fd, void *data)
{
    int rc = uv_poll_init(&loop->uv, watch, fd);
    watch->data = data;
    return rc ? pd_fail(PD_IO, "a socket cannot be watched: %s", uv_strerror(rc)) : PD_OK;
}

uint8_t *pd_loop_scratch(struct pd_loop *loop)
{
    return loop->scratch;
}

uint8_t *pd_loop_raw(struct pd_loop *loop)
{
    return loop->scratch + PD_LOOP_SCRATCH;
}

struct pd_spare pd_loop_take_spare(struct pd_loop *loop)
{
    struct pd_spare spare = loop->spare;
    loop->spare = (struct pd_spare){0};
    return spare;
}

void pd_loop_give_spare(struct pd_loop *loop, struct pd_spare spare)
{
    if (spare.cap > SPARE_MOST || spare.cap <= loop->spare.cap) {
        pd_free(spare.at);
        return;
    }
    pd_free(loop->spare.at);
    loop->spare = spare;
}

void pd_loop_add(struct pd_loop *loop, struct pd_member *member)
{
    LIST_ADD(loop->members, member);
}

void pd_loop_remove(struct pd_loop *loop, struct pd_member *member)
{
    LIST_REMOVE(loop->members, member);
}

void pd_loop_add_poller(struct pd_loop *loop, struct pd_poller *poller)
{
    LIST_ADD(loop->pollers, poller);
}

void pd_loop_remove_poller(struct pd_loop *loop, struct pd_poller *poller)
{
    if (loop->next_poller == poller) loop->next_poller = poller->next;
    LIST_REMOVE(loop->pollers, poller);
}

void pd_loop_want(struct pd_loop *loop, struct pd_task *task)
{
    if (task->queued) return;
    task->queued = 1;
    task->next = NULL;
    *loop->last_task = task;
    loop->last_task = &task->next;
}

void pd_loop_forget(struct pd_loop *loop, struct pd_task *task)
{
    if (!task->queued) return;
    struct pd_task **at = &loop->first_task;
    while (*at && *at != task)
        at = &(*at)->next;
    if (!*at) return;
    *at = task->next;
    if (!*at) loop->last_task = at;
    task->queued = 0;
}

/* Runs as many as were queued when it started; what they queue waits for the next round. */
static void run_tasks(struct pd_loop *loop)
{
    struct pd_task *task;
    int n = 0;
    for (task = loop->first_task; task; task = task->next)
        n++;
    for (; n && (task = loop->first_task); n--) {
        loop->first_task = task->next;
        if (!loop->first_task) loop->last_task = &loop->first_task;
        task->queued = 0;
        task->run(task);
    }
}

static void run_task_rounds(struct pd_loop *loop)
{
    loop->depth++;
    for (int i = 0; i < TASK_ROUNDS && loop->first_task; i++)
        run_tasks(loop);
    loop->depth--;
}

void pd_loop_enter(struct pd_loop *loop)
{
    loop->depth++;
}

void pd_loop_exit(struct pd_loop *loop)
{
    if (--loop->depth == 0 && loop->first_task) run_task_rounds(loop);
}

int pd_loop_inside(const struct pd_loop *loop)
{
    return loop->depth > 0;
}

void pd_loop_made(struct pd_loop *loop)
{
    loop->made++;
}

void pd_loop_moved(struct pd_loop *loop)
{
    loop->moved++;
}

pd_status pd_loop_check(const struct pd_loop *loop)
{
    if (atomic_load(&loop->stop)) return pd_fail(PD_GONE, "the loop is being freed and takes no more work");
    return PD_OK;
}

uint64_t pd_loop_now(struct pd_loop *loop)
{
    uv_update_time(&loop->uv);
    return uv_now(&loop->uv);
}

/* Posts in order. Those that a post posts wait for the next time. */
static void run_posts(struct pd_loop *loop)
{
    if (atomic_load_explicit(&loop->n_posts, memory_order_acquire) == 0) return;
    pthread_mutex_lock(&loop->lock);
    struct post *list = loop->posts.at;
    int n = loop->posts.n;
    memset(&loop->posts, 0, sizeof loop->posts);
    atomic_store(&loop->n_posts, 0);
    pthread_mutex_unlock(&loop->lock);
    for (int i = 0; i < n; i++) {
        pd_loop_enter(loop);
        loop->made++;
        list[i].fn(list[i].arg);
        pd_loop_exit(loop);
    }
    pd_free(list);
}

pd_status pd_loop_post(struct pd_loop *loop, void (*fn)(void *arg), void *arg)
{
    pthread_mutex_lock(&loop->lock);
    int gone = loop->gone;
    int kept = !gone && pd_vec_push(&loop->posts, ((struct post){fn, arg}));
    if (kept) atomic_store(&loop->n_posts, loop->posts.n);
    /* Inside the lock, because pd_loop_free waits for it before it takes the bell down. */
    if (kept && atomic_load(&loop->asleep)) uv_async_send(&loop->bell);
    pthread_mutex_unlock(&loop->lock);
    if (gone) return pd_fail(PD_GONE, "the loop is being freed and takes no more work");
    return kept ? PD_OK : pd_no_memory();
}

static void on_bell(uv_async_t *bell)
{
    (void)bell; /* being awake is enough */
}

/* libuv before 1.45 runs timers that are due first and then waits for sockets. Whoever was called may want
 * what nobody was asked for when the loop went to sleep: the room or the bytes of a ring, a task's turn. So
 * this round ends without waiting; the flag is gone with it. */
static void do_not_wait(struct pd_loop *loop)
{
    uv_stop(&loop->uv);
}

static void on_nap(uv_timer_t *nap)
{
    do_not_wait(nap->data);
}

static int poll_rings(struct pd_loop *loop)
{
    int any = 0;
    for (struct pd_poller *poller = loop->pollers; poller; poller = loop->next_poller) {
        loop->next_poller = poller->next;
        any |= poller->poll(poller);
    }
    return any;
}

/* Everything that is ready now. */
static void look(struct pd_loop *loop, int with_uv)
{
    if (loop->first_task) run_task_rounds(loop);
    run_posts(loop);
    if (loop->pollers) poll_rings(loop);
    if (with_uv) uv_run(&loop->uv, UV_RUN_NOWAIT);
}

static void spin(struct pd_loop *loop, int microseconds, uint64_t made)
{
    int64_t now = pd_clock_ns(), end = now + (int64_t)microseconds * 1000, asked = now;
    while (loop->made == made && !atomic_load_explicit(&loop->stop, memory_order_relaxed)) {
        uint64_t moved = loop->moved;
        int with_uv = !loop->pollers || now - asked >= UV_EVERY_NS;
        look(loop, with_uv);
        now = pd_clock_ns();
        if (with_uv) asked = now;
        if (loop->moved != moved)
            end = now + (int64_t)microseconds * 1000;
        else if (now >= end)
            return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

/* Polls while that pays. It does not when the others are busy for longer, and it does harm when they share
 * this core and cannot run: after some polls for nothing more and more are left out, up to a thousand between
 * two tries. A try lasts twice as long, so that it also finds an answer of one who sleeps between messages.
 */
static void spin_if_it_pays(struct pd_loop *loop, int microseconds, uint64_t made)
{
    uint64_t moved = loop->moved;
    if (loop->spin_skip) {
        loop->spin_skip--;
        return;
    }
    spin(loop, loop->spin_fails < SPIN_FAILS ? microseconds : 2 * microseconds, made);
    if (loop->made != made || loop->moved != moved) {
        loop->spin_fails = 0;
        return;
    }
    if (loop->spin_fails < SPIN_SKIP_BITS) loop->spin_fails++;
    if (loop->spin_fails >= SPIN_FAILS) loop->spin_skip = 1u << loop->spin_fails;
}

/* Sleeps in libuv until something happens; timeout_ms < 0: without end. */
static void sleep_once(struct pd_loop *loop, int64_t timeout_ms)
{
    struct pd_poller *poller;
    int ready = 0;
    atomic_store(&loop->asleep, 1);
    for (poller = loop->pollers; poller && !ready; poller = poller->next)
        ready = !poller->sleep(poller);
    if (!ready && !loop->first_task && atomic_load(&loop->n_posts) == 0 && !atomic_load(&loop->stop)) {
        if (timeout_ms >= 0) {
            uv_update_time(&loop->uv);
            uv_timer_start(&loop->nap, on_nap, (uint64_t)timeout_ms, 0);
        }
        uv_run(&loop->uv, UV_RUN_ONCE);
        if (timeout_ms >= 0) uv_timer_stop(&loop->nap);
    }
    atomic_store(&loop->asleep, 0);
    /* Some may not have been asked; taking a wish back that was not made does no harm. */
    for (poller = loop->pollers; poller; poller = poller->next)
        poller->wake(poller);
}

/* Looks, spins and sleeps until a callback was made or the time is over; timeout_ms < 0: without end. */
static void wait_for_work(struct pd_loop *loop, int timeout_ms)
{
    uint64_t made = loop->made;
    int64_t end = timeout_ms > 0 ? pd_clock_ns() + (int64_t)timeout_ms * 1000000 : 0;
    int microseconds = atomic_load_explicit(&loop->spin, memory_order_relaxed);
    /* Rings that are always busy must not keep timers and sockets waiting, nor the other way round. */
    look(loop, loop->pollers && loop->turns++ % RINGS_PER_UV == 0);
    if (timeout_ms == 0 && loop->made == made) look(loop, 1);
    while (loop->made == made && timeout_ms != 0 &&
           !atomic_load_explicit(&loop->stop, memory_order_relaxed)) {
        if (microseconds) spin_if_it_pays(loop, microseconds, made);
        if (loop->made != made) break;
        int64_t left = timeout_ms < 0 ? -1 : (end - pd_clock_ns() + 999999) / 1000000;
        if (timeout_ms > 0 && left <= 0) break;
        sleep_once(loop, left);
        look(loop, 0);
    }
}

int pd_loop_turn(struct pd_loop *loop, int timeout_ms)
{
    uint64_t made = loop->made;
    wait_for_work(loop, timeout_ms > 0 ? timeout_ms : 0);
    return loop->made - made > INT32_MAX ? INT32_MAX : (int)(loop->made - made);
}

void pd_loop_set_spin(struct pd_loop *loop, int microseconds)
{
    atomic_store(&loop->spin, microseconds > 0 ? microseconds : 0);
}

void pd_loop_spin_for(struct pd_loop *loop, int processes)
{
    int asked = pd_flag_int(PD_FLAG_ps_spin);
    pd_loop_set_spin(loop, asked >= 0 ? asked : processes <= sysconf(_SC_NPROCESSORS_ONLN) ? SPIN_US : 0);
}

static void *thread_main(void *arg)
{
    struct pd_loop *loop = arg;
    while (!atomic_load_explicit(&loop->stop, memory_order_acquire))
        wait_for_work(loop, -1);
    atomic_store_explicit(&loop->ended, 1, memory_order_release);
    return NULL;
}

pd_status pd_loop_start(struct pd_loop *loop, const char *name)
{
    char short_name[16];
    if (loop->has_thread) return pd_fail(PD_EXISTS, "the loop has a thread already");
    int rc = pd_thread_start(&loop->thread, 0, thread_main, loop);
    if (rc) return pd_fail(PD_IO, "a thread for the network cannot be started: %s", strerror(rc));
    loop->has_thread = 1;
    snprintf(short_name, sizeof short_name, "%s", name ? name : "pd-loop");
    pthread_setname_np(loop->thread, short_name);
    return PD_OK;
}

pd_status pd_loop_new(struct pd_loop **out)
{
    struct pd_loop *loop = pd_calloc(1, sizeof *loop);
    if (!loop) return pd_no_memory();
    loop->last_task = &loop->first_task;
    loop->scratch = pd_malloc_aligned(PD_LOOP_SCRATCH + PD_LOOP_RAW);
    pd_status status;
    if (!loop->scratch) {
        status = pd_no_memory();
        goto free_loop;
    }
    pd_std_files_take(); /* libuv closes no file of its own with such a number: it aborts */
    int rc = uv_loop_init(&loop->uv);
    if (rc) {
        status = pd_fail(rc == UV_ENOMEM ? PD_NO_MEMORY : PD_IO, "an event loop cannot be made: %s",
                         uv_strerror(rc));
        goto free_scratch;
    }
    uv_timer_init(&loop->uv, &loop->nap);
    loop->nap.data = loop;
    rc = uv_async_init(&loop->uv, &loop->bell, on_bell);
    if (rc) {
        status = pd_fail(PD_IO, "an event loop cannot be made: %s", uv_strerror(rc));
        goto close_uv;
    }
    pthread_mutex_init(&loop->lock, NULL);
    *out = loop;
    return PD_OK;
close_uv:
    uv_close((uv_handle_t *)&loop->nap, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
free_scratch:
    pd_free_aligned(loop->scratch);
free_loop:
    pd_free(loop);
    return status;
}

static void ask_to_stop(struct pd_loop *loop)
{
    if (loop->closed) return;
    atomic_store(&loop->stop, 1);
    pthread_mutex_lock(&loop->lock);
    loop->gone = 1;
    uv_async_send(&loop->bell);
    pthread_mutex_unlock(&loop->lock);
}

void pd_loop_stop(struct pd_loop *loop)
{
    ask_to_stop(loop);
    if (loop->has_thread) pthread_join(loop->thread, NULL);
    loop->has_thread = 0;
}

int pd_loop_stop_within(struct pd_loop *loop, int ms)
{
    int64_t until = pd_clock_ns() + (int64_t)ms * 1000000;
    ask_to_stop(loop);
    while (loop->has_thread && !atomic_load_explicit(&loop->ended, memory_order_acquire)) {
        if (pd_clock_ns() >= until) return 0;
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    pd_loop_stop(loop);
    return 1;
}

void pd_loop_close(struct pd_loop *loop)
{
    if (!loop || loop->closed) return;
    PD_KEEP_ERROR; /* of what the others want to begin here, in vain */
    pd_loop_stop(loop);
    run_posts(loop); /* those that were taken, as their posters expect */
    loop->depth++;
    while (loop->members)
        loop->members->end(loop->members);
    while (loop->first_task)
        run_tasks(loop);
    loop->depth--;
    for (struct pd_timer *timer; (timer = loop->timers);)
        pd_timer_stop(&timer);
    uv_close((uv_handle_t *)&loop->bell, NULL);
    uv_close((uv_handle_t *)&loop->nap, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    loop->closed = 1;
}

void pd_loop_free(struct pd_loop *loop)
{
    if (!loop) return;
    pd_loop_close(loop);
    pthread_mutex_destroy(&loop->lock);
    pd_vec_free(&loop->posts);
    pd_free_aligned(loop->scratch);
    pd_free(loop->spare.at);
    pd_free(loop);
}

static void on_timer(uv_timer_t *uv)
{
    struct pd_timer *timer = uv->data;
    struct pd_loop *loop = timer->loop; /* the callback may stop the timer */
    pd_loop_enter(loop);
    loop->made++;
    timer->fn(timer->arg);
    pd_loop_exit(loop);
    do_not_wait(loop);
}

static void free_timer(uv_handle_t *handle)
{
    pd_free(handle->data);
}

pd_status pd_timer_start(struct pd_loop *loop, uint64_t ms, uint64_t repeat_ms, void (*fn)(void *arg),
                         void *arg, struct pd_timer **out)
{
    struct pd_timer *timer = pd_calloc(1, sizeof *timer);
    if (!timer) return pd_no_memory();
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    LIST_ADD(loop->timers, timer);
    uv_timer_init(&loop->uv, &timer->uv);
    timer->uv.data = timer;
    /* libuv's clock stands still while nobody runs it, so a trainer's would be late. */
    uv_update_time(&loop->uv);
    uv_timer_start(&timer->uv, on_timer, ms, repeat_ms);
    if (out) *out = timer;
    return PD_OK;
}

void pd_timer_stop(struct pd_timer **timer)
{
    struct pd_timer *stopped = *timer;
    *timer = NULL;
    if (!stopped) return;
    LIST_REMOVE(stopped->loop->timers, stopped);
    uv_close((uv_handle_t *)&stopped->uv, free_timer);
}
