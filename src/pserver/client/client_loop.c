/* Whose thread has the client. Its loop and all that it knows are for one thread at a time; nobody keeps them
 * while there is nothing to do.
 *
 * A call has them for a moment (pd_client_enter). Who waits for answers turns the loop, for all that wait:
 * between two turns others have their moment first, and then any of those that wait turns it. Where there is
 * one thread, that costs a lock that nobody else takes.
 *
 * The minder looks after the connections while all threads are elsewhere: compute, read data, evaluate for an
 * hour. A connection that breaks meanwhile is made again at once, so that the server does not take a busy
 * trainer for a lost one (FLAGS_ps_reconnect), and a server that was started again knows its trainers. It
 * touches nothing while something is asked or pushed: memory that is borrowed for it may be gone after an
 * error. */

#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait.h"
#include "pserver/client/client_private.h"

enum { IDLE_MS = 500, TURNS = 200, MINDER_TURN_MS = 5, STACK = 256 << 10 };

/* ---- one thread at a time ---- */

static void wake(void *arg)
{
    (void)arg; /* being awake is enough */
}

struct pd_client *pd_client_enter(struct pd_client *c)
{
    PD_HOLD(&c->lock);
    c->wanting++;
    while (c->is_owned) {
        if (c->is_turning) (void)pd_loop_post(c->loop, wake, NULL);
        pd_cond_wait_ms(&c->freed, &c->lock, PD_CLIENT_TURN_MS);
    }
    c->wanting--;
    c->is_owned = 1;
    return c;
}

void pd_client_yield(struct pd_client *c)
{
    PD_HOLD(&c->lock);
    c->is_owned = 0;
    c->left_at = pd_clock_ns();
    if (c->wanting || c->waiting) pthread_cond_broadcast(&c->freed);
}

void pd_client_resume(struct pd_client *c)
{
    PD_HOLD(&c->lock);
    c->waiting++;
    while (c->is_owned || c->wanting)
        pd_cond_wait_ms(&c->freed, &c->lock, PD_CLIENT_TURN_MS);
    c->waiting--;
    c->is_owned = 1;
}

void pd_client_leave(struct pd_client **held)
{
    pd_client_yield(*held);
}

static void set_turning(struct pd_client *c, int on)
{
    PD_HOLD(&c->lock);
    c->is_turning = on;
}

void pd_client_turn_loop(struct pd_client *c)
{
    set_turning(c, 1);
    pd_loop_turn(c->loop, PD_CLIENT_TURN_MS);
    set_turning(c, 0);
}

/* ---- the minder ---- */

static int is_idle(const struct pd_client *c)
{
    if (c->failed) return 0;
    PD_EACH_WIRE(c, w)
        if (w->push.pieces.n || w->push.state != PUSH_GATHERS || w->passes || w->requests.n || !w->was_opened)
            return 0;
    return 1;
}

static int all_are_open(const struct pd_client *c)
{
    PD_EACH_WIRE(c, w)
        if (w->state != WIRE_OPEN) return 0;
    return 1;
}

/* With the lock. The client, when nobody has it or waits for it. */
static int take(struct pd_client *c)
{
    if (c->is_owned || c->wanting || c->waiting || c->is_over) return 0;
    return c->is_owned = 1;
}

/* With the lock, as it returns. A handshake has several turns; between them others may have the client. */
static void look_after(struct pd_client *c)
{
    for (int i = 0; i < TURNS && take(c); i++) {
        int goes_on = 0, moved = 0;
        pthread_mutex_unlock(&c->lock);
        if (is_idle(c)) {
            pd_client_tend(c, pd_clock_ns());
            moved = pd_loop_turn(c->loop, 0) > 0;
            goes_on = moved || !all_are_open(c);
        }
        pthread_mutex_lock(&c->lock);
        c->is_owned = 0;
        if (c->wanting || c->waiting) pthread_cond_broadcast(&c->freed);
        if (!goes_on) return;
        if (!moved) pd_cond_wait_ms(&c->over, &c->lock, MINDER_TURN_MS);
    }
}

static void *mind(void *arg)
{
    struct pd_client *c = arg;
    PD_HOLD(&c->lock);
    while (!c->is_over) {
        pd_cond_wait_ms(&c->over, &c->lock, IDLE_MS);
        if ((pd_clock_ns() - c->left_at) / 1000000 >= IDLE_MS) look_after(c);
    }
    return NULL;
}

/* Without it the trainer trains as well: it is a help, not a need. */
void pd_client_mind(struct pd_client *c)
{
    pthread_mutex_init(&c->lock, NULL);
    pd_cond_init(&c->over);
    pd_cond_init(&c->freed);
    c->has_minder = pd_thread_start(&c->minder, STACK, mind, c) == 0;
    if (!c->has_minder) pd_log(PD_LOG_DEBUG, "no thread to look after connections while the trainer is busy");
}

int pd_client_unmind(struct pd_client *c, int waits)
{
    if (waits) pd_client_enter(c);
    pthread_mutex_lock(&c->lock);
    int is_mine = waits || (!c->is_owned && !c->in_wait);
    if (is_mine) c->is_owned = c->is_over = 1;
    pthread_cond_signal(&c->over);
    pthread_mutex_unlock(&c->lock);
    if (is_mine && c->has_minder) pthread_join(c->minder, NULL);
    return is_mine;
}
