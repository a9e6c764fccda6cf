/* Looks after the connections while the trainer's thread is elsewhere: computes, reads data, evaluates for an
 * hour.
 *
 * A connection that breaks meanwhile is made again at once, so that the server does not take a busy trainer
 * for a lost one (FLAGS_ps_reconnect), and a server that was started again knows its trainers. The minder
 * touches nothing while a step is being exchanged: memory that is borrowed for it may be gone after an
 * error. */
#include <signal.h>

#include "base/log.h"
#include "base/wait.h"
#include "pserver/client/client_private.h"

enum { IDLE_MS = 500, TURNS = 200, TURN_MS = 5, STACK = 256 << 10 };

struct pd_client *pd_client_enter(struct pd_client *c)
{
    pthread_mutex_lock(&c->lock);
    return c;
}

void pd_client_leave(struct pd_client **held)
{
    struct pd_client *c = *held;
    c->left_at = pd_clock_ns();
    pthread_mutex_unlock(&c->lock);
}

static int is_idle(const struct pd_client *c)
{
    if (c->failed || (pd_clock_ns() - c->left_at) / 1000000 < IDLE_MS) return 0;
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++) {
            const struct wire *w = c->links.at[i]->wires.at[k];
            if (w->pieces.n || w->wishes.n || w->is_ended || w->waits || !w->was_opened) return 0;
        }
    return 1;
}

static int all_are_open(const struct pd_client *c)
{
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++)
            if (!c->links.at[i]->wires.at[k]->is_open) return 0;
    return 1;
}

/* A handshake has several turns. The lock is free between them: the trainer's thread goes on with it. */
static void look_after(struct pd_client *c)
{
    for (int i = 0; i < TURNS && !c->is_over && is_idle(c); i++) {
        pd_client_tend(c, pd_clock_ns());
        int moved = pd_loop_turn(c->loop, 0) > 0;
        if (!moved && all_are_open(c)) return;
        if (!moved) pd_cond_wait_ms(&c->over, &c->lock, TURN_MS);
    }
}

static void *mind(void *arg)
{
    struct pd_client *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->is_over) {
        pd_cond_wait_ms(&c->over, &c->lock, IDLE_MS);
        look_after(c);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Without it the trainer trains as well: it is a help, not a need. */
void pd_client_mind(struct pd_client *c)
{
    sigset_t all, before;
    pthread_attr_t small;
    pthread_mutex_init(&c->lock, NULL);
    pd_cond_init(&c->over);
    sigfillset(&all); /* signals are for the trainer's thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    c->has_minder = pthread_create(&c->minder, &small, mind, c) == 0;
    pthread_attr_destroy(&small);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!c->has_minder) pd_log(PD_LOG_DEBUG, "no thread to look after connections while the trainer is busy");
}

static int lock_it(struct pd_client *c, int waits)
{
    return waits ? pthread_mutex_lock(&c->lock) == 0 : pthread_mutex_trylock(&c->lock) == 0;
}

int pd_client_unmind(struct pd_client *c, int waits)
{
    if (!lock_it(c, waits)) return 0;
    c->is_over = 1;
    pthread_cond_signal(&c->over);
    pthread_mutex_unlock(&c->lock);
    if (c->has_minder) pthread_join(c->minder, NULL);
    c->has_minder = 0;
    return lock_it(c, waits);
}
