/* See communicator.h. */
#include "pserver/client/communicator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/flags.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "base/waited.h"
#include "exec/workers.h"
#include "pserver/client/client_private.h"
#include "pserver/client/comm_values.h"
#include "pserver/client/geo.h"
#include "pserver/client/step_copy.h"

enum { LOOK_MS = 20, ROUND_MS = 2 };

/* A run that has begun a step. */
struct open_step {
    const struct pd_step *step;
    int is_own;                /* it exchanges by itself */
    struct pd_step_copy *copy; /* NULL: it is queued, or its own */
};

/* A thread that waits until the steps (from, to] of the queue are over; on its stack. */
struct waiter {
    uint64_t from, to;
    pd_status outcome; /* PD_OK: none of them is lost */
    struct waiter *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of these */
static pthread_cond_t changed;
static atomic_int is_used; /* it was started and not stopped, or a run is open: others need not look */
static struct pd_comm_settings settings;
static int64_t notice_ms;
static pthread_t thread;
static int has_thread, is_stopping, drops, has_begun;
static int is_through;    /* the thread has nothing more to do */
static pthread_t stopper; /* while is_stopping */
static uint64_t starts;
static PD_VEC(struct open_step) open_steps;
static PD_VEC(struct pd_step_copy *) queue;
static int round_left, round_sent; /* of the round that is being sent: steps still in the queue, and sent */
static PD_VEC(struct pd_step_copy *) alone; /* that have `over`, each to go as a step of its own */
static PD_VEC(struct pd_step_copy *) spare;
static PD_VEC(struct pd_step_copy *) ended; /* that have `over`, which is to be called */
static int n_alone;                         /* that were queued, and are not in `ended` yet */
static struct pd_comm_values values;
static uint64_t queued, over; /* steps of the queue; over: sent or lost, in their order */
static uint64_t lost;         /* of both, since it was started */
static struct waiter *waiters;
static int is_waited_for; /* runs wait for room */
static pd_status failure;
static char failure_text[1024];

/* ---- what is over; with the lock ---- */

/* All steps of the queue up to this one. */
static void note_over(uint64_t to, pd_status outcome)
{
    for (struct waiter *w = waiters; outcome != PD_OK && w; w = w->next)
        if (w->from < to && over < w->to) w->outcome = outcome;
    over = to;
    pthread_cond_broadcast(&changed);
}

static pd_status told_failure(void)
{
    return failure == PD_OK ? PD_OK : pd_fail(failure, "%s", failure_text);
}

static pd_status told_outcome(const struct waiter *w)
{
    if (w->outcome == PD_INTERRUPTED)
        return pd_fail(PD_INTERRUPTED, "the communicator was stopped: gradients that it had queued were not "
                                       "sent to the servers");
    return w->outcome == PD_OK ? PD_OK : pd_fail(w->outcome, "%s", failure_text);
}

static void forget_waiter(struct waiter *w)
{
    struct waiter **at = &waiters;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at) *at = w->next;
}

/* The lock is free while it waits, and while poll(arg) is asked, which fails to end it. There is no deadline
 * but the thread's own, which tells whom it waits for. */
static pd_status wait_over(uint64_t from, uint64_t to, pd_status (*poll)(void *arg), void *arg)
{
    struct waiter w = {.from = from, .to = to, .next = waiters};
    pd_status status = PD_OK;
    waiters = &w;
    while (status == PD_OK && over < to) {
        int64_t begun = pd_clock_ns();
        pd_cond_wait_ms(&changed, &lock, LOOK_MS);
        pd_waited_since(begun);
        if (over >= to) break;
        pthread_mutex_unlock(&lock);
        status = poll(arg);
        pthread_mutex_lock(&lock);
    }
    forget_waiter(&w);
    return status == PD_OK ? told_outcome(&w) : status;
}

/* ---- forks ---- */

PD_LOCK_FORKS(&lock)

/* The thread stays with the parent, and so do its steps and those that wait for them: a condition that had
 * waiters there would be waited for here. */
static void in_child(void)
{
    pd_cond_init(&changed);
    has_thread = is_stopping = drops = is_waited_for = 0;
    waiters = NULL;
    open_steps.n = queue.n = alone.n = ended.n = n_alone = 0;
    note_over(queued, PD_INTERRUPTED);
    atomic_store(&is_used, 0);
    pthread_mutex_unlock(&lock);
}

static void make_ready(void)
{
    pd_cond_init(&changed);
    pthread_atfork(before_fork, in_parent, in_child);
}

/* ---- what runs have open; with the lock ---- */

static struct open_step *find_open(const struct pd_step *step)
{
    for (int i = 0; i < open_steps.n; i++)
        if (open_steps.at[i].step == step) return &open_steps.at[i];
    return NULL;
}

static void put_by(struct pd_step_copy *copy, pd_status outcome)
{
    if (!copy) return;
    if (copy->over) {
        copy->outcome = outcome;
        (void)pd_vec_push(&ended, copy); /* there is room: pd_comm_queue */
        n_alone--;
        return;
    }
    pd_step_copy_clear(copy);
    if (!pd_vec_push(&spare, copy)) pd_step_copy_free(copy);
}

/* What waits is not sent any more. */
static void lose(pd_status status)
{
    lost += (uint64_t)queue.n + (uint64_t)alone.n;
    while (queue.n)
        put_by(queue.at[--queue.n], PD_INTERRUPTED);
    while (alone.n)
        put_by(alone.at[--alone.n], PD_INTERRUPTED);
    note_over(queued, status);
}

/* Without the lock: those who are told may queue the next one. */
static void tell_ended(void)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        struct pd_step_copy *copy = ended.n ? ended.at[--ended.n] : NULL;
        pthread_mutex_unlock(&lock);
        if (!copy) return;
        copy->over(copy->arg, copy);
    }
}

static void note_use(void)
{
    atomic_store(&is_used, has_thread || open_steps.n);
}

static pd_status open_one(const struct pd_step *step, int is_own)
{
    struct pd_step_copy *copy = NULL;
    if (!is_own && spare.n)
        copy = spare.at[--spare.n];
    else if (!is_own)
        PD_TRY(pd_step_copy_new(&copy));
    if (pd_vec_push(&open_steps, ((struct open_step){step, is_own, copy}))) return PD_OK;
    put_by(copy, PD_OK);
    return pd_no_memory();
}

pd_status pd_comm_takes(const struct pd_step *step, int *takes)
{
    *takes = 0;
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return PD_OK;
    PD_HOLD(&lock);
    const struct open_step *open = find_open(step);
    if (!open) {
        if (!has_thread || is_stopping) return PD_OK;
        PD_TRY(told_failure());
        int is_own = settings.mode == PD_COMM_ROUNDS ? pd_workers_sending() < 2 : !has_begun;
        PD_TRY(open_one(step, is_own));
        open = find_open(step);
    }
    *takes = !open->is_own;
    return PD_OK;
}

int pd_comm_has(const struct pd_step *step)
{
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return 0;
    PD_HOLD(&lock);
    const struct open_step *open = find_open(step);
    return open && !open->is_own;
}

int pd_comm_is_beside(const struct pd_step *step)
{
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return 0;
    PD_HOLD(&lock);
    return !find_open(step);
}

void pd_comm_began(void)
{
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return;
    PD_HOLD(&lock);
    has_begun = 1;
}

int pd_comm_run_over(const struct pd_step *step)
{
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return 0;
    PD_HOLD(&lock);
    struct open_step *open = find_open(step);
    if (!open) return 0;
    int is_begun = open->copy && open->copy->n;
    if (open->is_own) pd_comm_values_all_fetched(&values);
    put_by(open->copy, PD_OK);
    pd_vec_remove(&open_steps, (int)(open - open_steps.at));
    note_use();
    return is_begun;
}

/* The copy is its run's alone until it is queued: no lock while it is filled. */
static pd_status copy_of(const struct pd_step *step, struct pd_step_copy **out)
{
    PD_HOLD(&lock);
    struct open_step *open = find_open(step);
    *out = open ? open->copy : NULL;
    return *out ? PD_OK
                : pd_fail(PD_INVALID, "a gradient is sent after its step was ended, or the communicator was "
                                      "stopped in the middle of a step");
}

pd_status pd_comm_push_dense(const struct pd_step *step, int number, enum pd_dtype dtype, const void *data,
                             size_t bytes, size_t row)
{
    struct pd_step_copy *copy;
    PD_TRY(copy_of(step, &copy));
    return pd_step_copy_dense(copy, number, dtype, data, bytes, row);
}

pd_status pd_comm_push_rows(const struct pd_step *step, int number, enum pd_dtype dtype, int64_t n,
                            const int64_t *rows, const void *data, size_t row, int is_slice)
{
    struct pd_step_copy *copy;
    PD_TRY(copy_of(step, &copy));
    return pd_step_copy_rows(copy, number, dtype, n, rows, data, row, is_slice);
}

/* ---- the thread ---- */

static pd_status poll_thread(const struct pd_run *run)
{
    (void)run;
    PD_HOLD(&lock);
    return drops ? pd_fail(PD_INTERRUPTED, "the communicator was told to stop at once") : PD_OK;
}

/* How many steps of the queue go as one now; 0: wait for more. With the lock. */
static int due(int64_t since)
{
    if (!queue.n) return 0;
    if (round_left) return round_left;
    if (settings.mode == PD_COMM_ROUNDS) return queue.n >= pd_workers_sending() || is_stopping ? queue.n : 0;
    int n = queue.n < settings.merge ? queue.n : settings.merge;
    int is_time = n == settings.merge || is_stopping || is_waited_for ||
                  pd_clock_ns() - since >= (int64_t)settings.wait_ms * 1000000;
    return is_time ? n : 0;
}

/* A round whose other threads do not come is told of. With the lock. */
static void tell_round(int64_t since, int64_t *told)
{
    int64_t now = pd_clock_ns();
    if (settings.mode != PD_COMM_ROUNDS || (now - *told) / 1000000 < notice_ms) return;
    *told = now;
    pd_log(
        PD_LOG_WARNING,
        "a round of worker threads has waited %lld s: %d of %d have given their gradients, the others read "
        "or compute",
        (long long)((now - since) / 1000000000), queue.n, pd_workers_sending());
}

/* Waits until something is to be sent: *n steps of the queue; 0: one that goes alone. Neither has to wait for
 * more than one of the other. 0: the thread is to end. With the lock. */
static int wait_for_work(int was_alone, int *n)
{
    int64_t since = 0, told = 0;
    for (;;) {
        if (drops || (is_stopping && !queue.n && !alone.n)) return 0;
        if (!queue.n) since = 0;
        if (queue.n && !since) since = told = pd_clock_ns();
        if (queue.n) tell_round(since, &told);
        *n = due(since);
        if (alone.n && (!*n || !was_alone)) *n = 0;
        if (alone.n || *n) return 1;
        pd_cond_wait_ms(&changed, &lock, queue.n ? ROUND_MS : LOOK_MS);
    }
}

/* How many of the first n go as one step: those that end on the same servers as the first. In a round, all of
 * which is over together, they need not stand side by side. With the lock. */
static int count_alike(int n)
{
    int same = 1;
    for (int i = 1; i < n; i++) {
        struct pd_step_copy *copy = queue.at[i];
        if (!pd_step_copy_ends_as(copy, queue.at[0])) {
            if (settings.mode == PD_COMM_ROUNDS) continue;
            break;
        }
        memmove(queue.at + same + 1, queue.at + same, (size_t)(i - same) * sizeof *queue.at);
        queue.at[same++] = copy;
    }
    return same;
}

/* With the lock. */
static pd_status merge(int n, struct pd_step_copy **out)
{
    struct pd_step_copy *first = queue.at[0];
    pd_status status = PD_OK;
    for (int i = 1; i < n && status == PD_OK; i++)
        status = pd_step_copy_add(first, queue.at[i]);
    if (n > 1 && (settings.averages || settings.mode == PD_COMM_ROUNDS)) pd_step_copy_average(first);
    for (int i = 1; i < n; i++)
        put_by(queue.at[i], PD_OK);
    queue.n -= n;
    memmove(queue.at, queue.at + n, (size_t)queue.n * sizeof *queue.at);
    *out = first;
    return status;
}

/* Takes what is to be sent next: n steps of the queue, or one that goes alone (n 0). NULL: the thread is to
 * end. */
static struct pd_step_copy *next(int was_alone, int *n, pd_status *status)
{
    struct pd_step_copy *copy;
    PD_HOLD(&lock);
    *status = PD_OK;
    if (!wait_for_work(was_alone, n)) {
        is_through = 1;
        pthread_cond_broadcast(&changed);
        return NULL;
    }
    if (*n) {
        if (settings.mode == PD_COMM_ROUNDS && !round_left) round_left = *n;
        *n = count_alike(*n);
        if (round_left) round_left -= *n;
        *status = merge(*n, &copy);
    } else {
        copy = alone.at[0];
        pd_vec_remove(&alone, 0);
    }
    pthread_cond_broadcast(&changed);
    return copy;
}

static pd_status ask_for(struct pd_client *client, struct pd_ask *ask, int *n)
{
    PD_HOLD(&lock);
    return pd_comm_values_ask(&values, client, ask, n);
}

static void take_values(int n)
{
    PD_HOLD(&lock);
    pd_comm_values_take(&values, n);
}

/* *is_given: servers have a part of it, or may have one. */
static pd_status give(struct pd_client *client, const struct pd_run *run, const struct pd_step_copy *copy,
                      int pulls, int *is_given)
{
    int n = 0;
    PD_ASK(ask);
    PD_TRY(pd_step_copy_push(copy, client));
    if (pulls) PD_TRY(ask_for(client, &ask, &n));
    PD_TRY(pd_step_copy_ask(copy, client, &ask));
    *is_given = 1;
    PD_TRY(pd_client_exchange(client, run, &ask, copy->endpoints.n, (const char *const *)copy->endpoints.at));
    take_values(n);
    return PD_OK;
}

static pd_status exchange(const struct pd_run *run, const struct pd_step_copy *copy, int pulls, int *is_given)
{
    struct pd_client *client;
    *is_given = 0;
    PD_TRY(pd_client_get(-1, run, 1, &client));
    pd_status status = give(client, run, copy, pulls, is_given);
    *is_given |= pd_client_is_halfway(client);
    if (status == PD_OK) pd_client_rest(client, run);
    return status;
}

/* With the lock. */
static void fail(pd_status status)
{
    failure = status;
    snprintf(failure_text, sizeof failure_text, "%s", pd_error());
    lose(status);
    is_through = 1;
}

static pd_status outcome_of(pd_status status, int is_given)
{
    if (status == PD_OK || !is_given) return status == PD_OK ? PD_OK : PD_INTERRUPTED;
    return status == PD_INTERRUPTED ? PD_UNAVAILABLE : status;
}

static void end_step(struct pd_step_copy *copy, int n, pd_status status, int is_given)
{
    PD_HOLD(&lock);
    put_by(copy, outcome_of(status, is_given));
    round_sent += n;
    if (status == PD_OK && round_left) return;
    note_over(over + (uint64_t)round_sent, status);
    round_sent = 0;
    if (status == PD_OK) return;
    lost += n ? (uint64_t)n : 1;
    fail(status);
}

static void *work(void *arg)
{
    (void)arg;
    struct pd_step step = {.poll = poll_thread};
    struct pd_run run = {.step = &step};
    pd_status status = PD_OK;
    int n = 1, is_given;
    for (uint64_t round = 1; status == PD_OK; round++) {
        struct pd_step_copy *copy = next(!n, &n, &status);
        if (!copy) break;
        is_given = 0;
        if (status == PD_OK)
            status = exchange(&run, copy, round % (uint64_t)settings.pulls_every == 0, &is_given);
        status = pd_client_run_over(&step, status);
        end_step(copy, n, status, is_given);
        tell_ended();
    }
    return NULL;
}

/* ---- a run ends its step ---- */

pd_status pd_comm_poll_run(void *arg)
{
    const struct pd_run *run = arg;
    return run->step->poll(run);
}

static int has_room(void)
{
    return queue.n < settings.queue || settings.mode == PD_COMM_ROUNDS;
}

/* With the lock, which is free while it waits. */
static pd_status wait_for_room(const struct pd_run *run)
{
    pd_status status = PD_OK;
    is_waited_for++;
    pthread_cond_broadcast(&changed);
    while (status == PD_OK && failure == PD_OK && has_thread && !has_room()) {
        int64_t begun = pd_clock_ns();
        pd_cond_wait_ms(&changed, &lock, LOOK_MS);
        pd_waited_since(begun);
        pthread_mutex_unlock(&lock);
        status = run->step->poll(run);
        pthread_mutex_lock(&lock);
    }
    is_waited_for--;
    return status;
}

/* With the lock. */
static pd_status put(const struct pd_run *run)
{
    if (!has_room()) PD_TRY(wait_for_room(run));
    PD_TRY(told_failure());
    struct open_step *open = find_open(run->step);
    if (!has_thread || is_stopping || !open)
        return pd_fail(PD_INVALID, "the communicator was stopped in the middle of a step: its gradients were "
                                   "not sent");
    if (!pd_vec_push(&queue, open->copy)) return pd_no_memory();
    open->copy = NULL;
    uint64_t mine = ++queued;
    pthread_cond_broadcast(&changed);
    return settings.mode == PD_COMM_ROUNDS ? wait_over(mine - 1, mine, pd_comm_poll_run, (void *)run) : PD_OK;
}

pd_status pd_comm_queue(struct pd_step_copy *copy)
{
    PD_HOLD(&lock);
    PD_TRY(told_failure());
    if (!has_thread || is_stopping)
        return pd_fail(PD_INVALID, "no communicator runs in this process: start it before training "
                                   "(fleet.init_worker(), or start() of a fluid.communicator.Communicator)");
    if (!pd_vec_reserve(&ended, ended.n + n_alone + 1) || !pd_vec_push(&alone, copy)) return pd_no_memory();
    n_alone++;
    pthread_cond_broadcast(&changed);
    return PD_OK;
}

pd_status pd_comm_told(void)
{
    PD_HOLD(&lock);
    return told_failure();
}

static pd_status fill_known(struct pd_client *client, const struct pd_ask *ask, struct pd_ask *now)
{
    PD_HOLD(&lock);
    return pd_comm_values_fill(&values, client, ask, now);
}

static void note_fetched(const struct pd_ask *ask)
{
    PD_HOLD(&lock);
    pd_comm_values_fetched(&values, ask);
}

static pd_status queue_step(const struct pd_run *run, int n, const char *const *endpoints)
{
    PD_HOLD(&lock);
    struct open_step *open = find_open(run->step);
    if (!open->copy || !(open->copy->n || n)) return PD_OK;
    PD_TRY(pd_step_copy_ends(open->copy, n, endpoints));
    return put(run);
}

pd_status pd_comm_exchange(struct pd_client *client, const struct pd_run *run, struct pd_ask *ask, int n,
                           const char *const *endpoints)
{
    PD_ASK(now);
    PD_TRY(queue_step(run, n, endpoints));
    PD_TRY(fill_known(client, ask, &now));
    if (!now.first) return PD_OK;
    PD_TRY(pd_ask_wait(client, run, &now, "fetching parameters"));
    note_fetched(ask);
    return PD_OK;
}

/* ---- starting and stopping ---- */

static pd_status check(const struct pd_comm_settings *s)
{
    if (s->queue < 1 || s->merge < 1 || s->pulls_every < 1 || s->wait_ms < 0)
        return pd_fail(PD_RANGE,
                       "a communicator with a queue of %d steps, %d merged, values every %d exchanges and a "
                       "wait of %d ms: the first three must be 1 or more, the last 0 or more",
                       s->queue, s->merge, s->pulls_every, s->wait_ms);
    return PD_OK;
}

pd_status pd_comm_start(const struct pd_comm_settings *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    PD_TRY(check(s));
    pthread_once(&once, make_ready);
    PD_HOLD(&lock);
    if (has_thread)
        return pd_fail(PD_INVALID, "the communicator of this process runs already: stop it before it is "
                                   "started anew");
    settings = *s;
    notice_ms = pd_flag_int(PD_FLAG_ps_notice);
    is_stopping = is_through = drops = has_begun = round_left = round_sent = 0;
    failure = PD_OK;
    lost = 0;
    pd_comm_values_clear(&values);
    starts++;
    has_thread = pd_thread_start(&thread, 0, work, NULL) == 0;
    note_use();
    return has_thread ? PD_OK : pd_fail(PD_NO_MEMORY, "no thread can be started for the communicator");
}

int pd_comm_is_running(void)
{
    PD_HOLD(&lock);
    return has_thread && !is_stopping;
}

/* With the lock. */
static pd_status told_end(void)
{
    if (lost && (failure == PD_OK || failure == PD_INTERRUPTED))
        return pd_fail(PD_INTERRUPTED, "interrupted: %llu steps were not sent to the servers",
                       (unsigned long long)lost);
    return told_failure();
}

/* The thread has ended. It counts as stopped when all who wait were told. */
static pd_status clean_up(void)
{
    pthread_mutex_lock(&lock);
    lose(PD_INTERRUPTED);
    pthread_mutex_unlock(&lock);
    tell_ended();
    PD_HOLD(&lock);
    pd_comm_values_clear(&values);
    while (spare.n)
        pd_step_copy_free(spare.at[--spare.n]);
    pd_vec_free(&queue);
    pd_vec_free(&alone);
    pd_vec_free(&spare);
    has_thread = is_stopping = 0;
    note_use();
    pthread_cond_broadcast(&changed);
    return told_end();
}

/* Another thread stops it, unless this one does, and was interrupted by a function of the user's. With the
 * lock. */
static void wait_for_stopper(int at_once, int (*poll)(void *arg), void *arg)
{
    uint64_t mine = starts;
    while (has_thread && starts == mine && !pthread_equal(stopper, pthread_self())) {
        drops |= at_once;
        pd_cond_wait_ms(&changed, &lock, LOOK_MS);
        pthread_mutex_unlock(&lock);
        at_once |= poll && poll(arg);
        pthread_mutex_lock(&lock);
    }
}

/* With the lock: until the thread has sent all, or is to drop it. */
static void wait_for_thread(int (*poll)(void *arg), void *arg)
{
    while (!is_through && !drops) {
        pd_cond_wait_ms(&changed, &lock, LOOK_MS);
        pthread_mutex_unlock(&lock);
        int gives_up = poll && poll(arg);
        pthread_mutex_lock(&lock);
        drops |= gives_up;
    }
    pthread_cond_broadcast(&changed);
}

static pd_status stop(int at_once, int (*poll)(void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    int is_mine = has_thread && !is_stopping;
    if (is_mine) {
        is_stopping = 1, drops = at_once, stopper = pthread_self();
        pthread_cond_broadcast(&changed);
        wait_for_thread(poll, arg);
    } else {
        wait_for_stopper(at_once, poll, arg);
    }
    pthread_mutex_unlock(&lock);
    if (!is_mine) return PD_OK;
    pthread_join(thread, NULL);
    return clean_up();
}

pd_status pd_comm_poll_user(void *arg)
{
    const struct pd_comm_user *user = arg;
    return user->poll && user->poll(user->arg) ? pd_fail(PD_INTERRUPTED, "interrupted") : PD_OK;
}

/* What is queued now: others may queue more meanwhile. With the lock. */
static pd_status drain(int (*poll)(void *arg), void *arg)
{
    if (!has_thread || settings.mode != PD_COMM_QUEUE) return told_failure();
    is_waited_for++;
    pthread_cond_broadcast(&changed);
    pd_status status = wait_over(over, queued, pd_comm_poll_user, &(struct pd_comm_user){poll, arg});
    is_waited_for--;
    return status == PD_OK ? told_failure() : status;
}

pd_status pd_comm_flush(int (*poll)(void *arg), void *arg)
{
    if (!atomic_load_explicit(&is_used, memory_order_relaxed)) return PD_OK;
    PD_TRY(pd_geo_flush(poll, arg));
    PD_HOLD(&lock);
    return drain(poll, arg);
}

static int is_interrupted(void *arg)
{
    return pd_comm_poll_run(arg) != PD_OK;
}

/* What has the turn would wait for itself. */
pd_status pd_comm_flush_for(const struct pd_run *run)
{
    return pd_client_has_turn(run) ? PD_OK : pd_comm_flush(is_interrupted, (void *)run);
}

pd_status pd_comm_stop(int (*poll)(void *arg), void *arg)
{
    pd_status flushed = pd_comm_is_running() ? pd_geo_flush(poll, arg) : PD_OK;
    pd_status status = stop(flushed == PD_INTERRUPTED, poll, arg);
    return status == PD_OK ? flushed : status;
}

pd_status pd_comm_leave(int at_once, int (*poll)(void *arg), void *arg)
{
    pd_status status = PD_OK;
    if (atomic_load(&is_used)) status = at_once ? stop(1, poll, arg) : pd_comm_stop(poll, arg);
    if (status == PD_OK || at_once) return PD_OK;
    pd_log(PD_LOG_WARNING, "this trainer leaves its job, and its last steps did not reach the servers: %s",
           pd_error());
    return status;
}
