/* The client of the process, the runs that use it, and whose step it is. Many threads may use it, an executor
 * each; what they ask for goes side by side. What a run pushes is gathered in the client until an exchange,
 * so one run at a time has the turn to push: from its first gradient to the end of its exchange. The others
 * wait, and each run is a step of its own.
 *
 * The turn belongs to a run, not to a thread: what runs within it (a signal handler, a function of the
 * user's) must not end its step, and cannot wait for it. It ends with the run at the latest, also with one
 * that fails. */
#include <stdio.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/wait.h"
#include "pserver/client/client_private.h"
#include "pserver/client/communicator.h"
#include "pserver/client/geo.h"

enum { LOOK_MS = 50 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of these */
static pthread_cond_t given_back;
static struct pd_client *the_client;
static int is_parents; /* the_client is that of the process that this one was forked from */
static int has_left;   /* this process has said goodbye before, */
static int trains_on;  /* and its next client is for a step, not for the start of another job */
/* Runs that use the client now; nobody frees it under them. */
struct user {
    const struct pd_step *step;
    pthread_t thread;
};
static PD_VEC(struct user) users;
static const struct pd_step *pusher; /* the one that has the turn; NULL: nobody */
static pthread_t pusher_thread;
static int is_leaving; /* a thread says goodbye: */
static pthread_t leaver;
static atomic_int breaks_off; /* it has failed: steps of the others end */

/* ---- the lock and forks ---- */

PD_LOCK_FORKS(&lock)

/* The parent's client is refused here; nobody is to wait for a thread that stayed with the parent, and a
 * condition that had waiters there would. */
static void in_child(void)
{
    pd_cond_init(&given_back);
    is_parents = the_client != NULL;
    pusher = NULL;
    users.n = is_leaving = 0;
    pthread_mutex_unlock(&lock);
}

static void make_ready(void)
{
    pd_cond_init(&given_back);
    pthread_atfork(before_fork, in_parent, in_child);
}

static void lock_all(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_ready);
    pthread_mutex_lock(&lock);
}

static void unlock_all(void)
{
    pthread_mutex_unlock(&lock);
}

static int is_here(void)
{
    return the_client && !is_parents;
}

/* ---- the turn ---- */

/* With the lock. */
static int is_self(pthread_t thread)
{
    return pthread_equal(thread, pthread_self());
}

static int find(const struct pd_step *step)
{
    for (int i = 0; i < users.n; i++)
        if (users.at[i].step == step) return i;
    return -1;
}

/* With the lock. */
static pd_status add_user(const struct pd_step *step)
{
    if (find(step) >= 0) return PD_OK;
    return pd_vec_push(&users, ((struct user){step, pthread_self()})) ? PD_OK : pd_no_memory();
}

static void remove_user(const struct pd_step *step)
{
    lock_all();
    int i = find(step);
    if (i >= 0) pd_vec_remove(&users, i);
    if (pusher == step) pusher = NULL;
    pthread_cond_broadcast(&given_back);
    unlock_all();
}

/* NULL: the run does not use it. */
static struct pd_client *client_of(const struct pd_step *step)
{
    lock_all();
    struct pd_client *c = find(step) >= 0 ? the_client : NULL;
    unlock_all();
    return c;
}

static int has_turn(const struct pd_step *step)
{
    lock_all();
    int is_it = pusher == step;
    unlock_all();
    return is_it;
}

int pd_client_has_turn(const struct pd_run *run)
{
    return has_turn(run->step);
}

int pd_client_try_turn(const struct pd_run *run)
{
    lock_all();
    int gets_it = !pusher && !is_leaving;
    if (gets_it) pusher = run->step, pusher_thread = pthread_self();
    unlock_all();
    return gets_it;
}

void pd_client_pass_turn(const struct pd_run *run)
{
    lock_all();
    if (pusher == run->step) pusher = NULL;
    pthread_cond_broadcast(&given_back);
    unlock_all();
}

/* With the lock, which is free while it waits: until the turn is given back, or for a moment. */
static void doze(void)
{
    pd_cond_wait_ms(&given_back, &lock, LOOK_MS);
}

/* With the lock: must this run wait? An error where it would wait for its own thread. */
static pd_status must_wait(const struct pd_step *step, int pushes, int *waits)
{
    int is_pushed = pushes && pusher && pusher != step;
    *waits = is_leaving || is_pushed;
    if (is_leaving && is_self(leaver))
        return pd_fail(PD_INVALID,
                       "this thread says goodbye to the servers, and asks them for something else");
    if (is_pushed && is_self(pusher_thread))
        return pd_fail(PD_INVALID,
                       "this thread is in a step with the servers already, and begins another one: a signal "
                       "handler that does so has to wait for the step's end, e.g. by a variable that is "
                       "looked at after exe.run");
    return PD_OK;
}

/* With the lock. There is no deadline but those of the runs that are waited for. */
static pd_status wait_for_turn(const struct pd_run *run, int pushes)
{
    int waits;
    PD_TRY(must_wait(run->step, pushes, &waits));
    if (!waits) return PD_OK; /* each op of a step comes here: no clock */
    int64_t start = pd_clock_ns(), told = start,
            notice = (int64_t)1000000 * pd_client_settings_read().notice_ms;
    while (waits) {
        doze();
        unlock_all();
        pd_status status = run->step->poll(run);
        int64_t now = pd_clock_ns();
        if (status == PD_OK && now - told >= notice) {
            told = now;
            pd_log(PD_LOG_WARNING,
                   "a run has waited %lld s for another thread of this process, which has a step with the "
                   "servers (models with servers of their own, in sync mode, are trained in turn by one "
                   "thread)",
                   (long long)((now - start) / 1000000000));
        }
        lock_all();
        PD_TRY(status);
        PD_TRY(must_wait(run->step, pushes, &waits));
    }
    return PD_OK;
}

/* With the lock. */
static pd_status check_fork(void)
{
    if (!the_client || is_here()) return PD_OK;
    return pd_fail(PD_INVALID,
                   "this process was forked by a trainer (pid %d), whose connections it does not have: "
                   "start each trainer as a process of its own, or fork before the first step",
                   (int)the_client->pid);
}

pd_status pd_client_get(int trainer_id, const struct pd_run *run, int pushes, struct pd_client **out)
{
    lock_all();
    pd_status status = check_fork();
    if (status == PD_OK) status = wait_for_turn(run, pushes);
    if (status == PD_OK && !the_client) {
        status = pd_client_new(trainer_id, has_left, &the_client);
        if (status == PD_OK) the_client->trains_on = trains_on;
        trains_on = 0;
    }
    if (status == PD_OK) status = add_user(run->step);
    if (status == PD_OK && pushes) pusher = run->step, pusher_thread = pthread_self();
    *out = the_client;
    unlock_all();
    return status;
}

void pd_client_rest(struct pd_client *client, const struct pd_run *run)
{
    if (!has_turn(run->step) || !pd_client_is_pushing(client)) remove_user(run->step);
}

void pd_client_abandon(const struct pd_step *step)
{
    struct pd_client *c = client_of(step);
    if (!c) return;
    if (has_turn(step)) pd_client_drop_step(c);
    remove_user(step);
}

pd_status pd_client_run_over(const struct pd_step *step, pd_status status)
{
    int is_open = pd_comm_run_over(step);
    struct pd_client *c = client_of(step);
    is_open |= c && has_turn(step) && pd_client_is_pushing(c);
    if (status == PD_OK && is_open)
        status = pd_fail(PD_INVALID,
                         "the Program sends gradients and does not end its step: it needs a send_barrier or "
                         "a recv behind its last send");
    if (c) pd_client_abandon(step);
    return status;
}

/* ---- the process ---- */

int pd_client_own_id(void)
{
    lock_all();
    int id = the_client ? the_client->id : -1;
    unlock_all();
    return id;
}

void pd_client_own_trains_on(void)
{
    lock_all();
    trains_on = has_left && !the_client;
    unlock_all();
}

uint64_t pd_client_own_steps(const char *endpoint)
{
    lock_all();
    uint64_t steps = is_here() ? pd_client_steps_at(the_client, endpoint) : 0;
    unlock_all();
    return steps;
}

uint64_t pd_client_own_job(const char *endpoint)
{
    lock_all();
    uint64_t job = is_here() ? pd_client_job_at(the_client, endpoint) : 0;
    unlock_all();
    return job;
}

uint64_t pd_client_own_passed(const char *endpoint)
{
    lock_all();
    uint64_t passed = is_here() ? pd_client_passed_at(the_client, endpoint) : 0;
    unlock_all();
    return passed;
}

/* With the lock: does a run use it? Of this thread, or of others. */
static int is_used(int by_self)
{
    for (int i = 0; i < users.n; i++)
        if (!is_self(users.at[i].thread) == !by_self) return 1;
    return 0;
}

/* With the lock: until no other thread's run uses it. 0: poll(arg) was not 0. Past busy_ms (-1: none) it
 * returns 1 all the same. */
static int wait_for_others(int busy_ms, int (*poll)(void *arg), void *arg)
{
    int64_t start = pd_clock_ns();
    while (is_here() && is_used(0)) {
        if (busy_ms >= 0 && (pd_clock_ns() - start) / 1000000 >= busy_ms) return 1;
        doze();
        unlock_all();
        int gives_up = poll && poll(arg);
        lock_all();
        if (gives_up) return 0;
    }
    return 1;
}

int pd_client_breaks_off(void)
{
    return atomic_load_explicit(&breaks_off, memory_order_relaxed);
}

/* A forked child is not the trainer; and who is called back from within a run, by a signal, leaves that
 * first. A run that uses the client past busy_ms is one of a process that ends: between two calls it is
 * stopped where it is, and may have pointers to the client. One that failed does not wait for a step of
 * another thread, which may wait for others for long: that is broken off. One whose last steps were refused
 * has failed, however it ends. */
void pd_client_goodbye(int failed, const char *why, int busy_ms, int (*poll)(void *arg), void *arg)
{
    char lost[1024];
    pd_status status = pd_comm_leave(failed, poll, arg);
    if (status != PD_OK && status != PD_INTERRUPTED) {
        snprintf(lost, sizeof lost, "its last steps did not reach the servers: %s", pd_error());
        failed = 1, why = lost;
    }
    lock_all();
    atomic_store(&breaks_off, failed);
    int goes = wait_for_others(busy_ms, poll, arg) && is_here() && !is_leaving && !is_used(1);
    struct pd_client *c = goes ? the_client : NULL;
    int is_torn = goes && users.n;
    if (goes) the_client = NULL, has_left = is_leaving = 1, leaver = pthread_self();
    atomic_store(&breaks_off, 0);
    unlock_all();
    if (!goes || !pd_client_unmind(c, !is_torn)) return;
    pd_client_depart(c, failed, why ? why : "", poll, arg);
    if (is_torn) return;
    pd_client_free(c);
    pd_geo_forget();
    lock_all();
    is_leaving = 0;
    pthread_cond_broadcast(&given_back);
    unlock_all();
}
