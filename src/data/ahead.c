/* See ahead.h. */
#include "data/ahead.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

struct pd_ahead {
    int slots;
    pd_status (*make)(void *arg, int slot, int *more);
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    int64_t made, taken; /* slots, of all rounds */
    int is_over;         /* nothing more is made */
    int is_ended;        /* nothing more is wanted */
    pd_status status;
    char *text; /* NULL: memory is short */
};

/* The slot to fill, when it is free; -1: nobody wants it. */
static int next_free(struct pd_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    /* The user has the slot that it took last. */
    while (!a->is_ended && a->made - a->taken >= a->slots - (a->taken > 0))
        pthread_cond_wait(&a->changed, &a->lock);
    int slot = a->is_ended ? -1 : (int)(a->made % a->slots);
    pthread_mutex_unlock(&a->lock);
    return slot;
}

static void *work(void *arg)
{
    struct pd_ahead *a = arg;
    for (int slot, more = 1; more && (slot = next_free(a)) >= 0;) {
        pd_status status = a->make(a->arg, slot, &more);
        if (status != PD_OK) more = 0;
        pthread_mutex_lock(&a->lock);
        a->made += more;
        a->is_over = !more;
        a->status = status;
        if (status != PD_OK) a->text = pd_strdup(pd_error());
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
    }
    return NULL;
}

pd_status pd_ahead_start(int slots, pd_status (*make)(void *arg, int slot, int *more), void *arg,
                         struct pd_ahead **out)
{
    struct pd_ahead *a = pd_calloc(1, sizeof *a);
    if (!a) return pd_no_memory();
    *a = (struct pd_ahead){.slots = slots,
                           .make = make,
                           .arg = arg,
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER};
    int failed = pd_thread_start(&a->thread, 0, work, a);
    if (failed) {
        pd_free(a);
        return pd_fail(PD_INTERNAL, "no thread can be started that reads ahead: %s", strerror(failed));
    }
    *out = a;
    return PD_OK;
}

pd_status pd_ahead_next(struct pd_ahead *ahead, int *slot)
{
    struct pd_ahead *a = ahead;
    pd_status status = PD_OK;
    *slot = -1;
    pthread_mutex_lock(&a->lock);
    while (a->made == a->taken && !a->is_over)
        pthread_cond_wait(&a->changed, &a->lock);
    if (a->made > a->taken) {
        *slot = (int)(a->taken++ % a->slots);
        pthread_cond_signal(&a->changed);
    } else
        status = a->status;
    pthread_mutex_unlock(&a->lock);
    if (status == PD_OK) return PD_OK;
    return a->text ? pd_fail(status, "%s", a->text) : pd_no_memory();
}

void pd_ahead_free(struct pd_ahead *ahead)
{
    if (!ahead) return;
    pthread_mutex_lock(&ahead->lock);
    ahead->is_ended = 1;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    pthread_join(ahead->thread, NULL);
    pd_free(ahead->text);
    pd_free(ahead);
}
