/* A lock that is held until the end of the block, on every way out of it. */
#ifndef PD_BASE_LOCK_H
#define PD_BASE_LOCK_H

#include <pthread.h>

static inline pthread_mutex_t *pd_lock_take(pthread_mutex_t *lock)
{
    pthread_mutex_lock(lock);
    return lock;
}

static inline void pd_lock_give(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

#define PD_HOLD(lock)                                                                                        \
    __attribute__((cleanup(pd_lock_give))) pthread_mutex_t *held_until_the_end = pd_lock_take(lock);         \
    (void)held_until_the_end

/* before_fork and in_parent, for pthread_atfork: no thread has the lock while this process forks. In the
 * child it is to be given back when what it guards is in order there. */
#define PD_LOCK_FORKS(lock)                                                                                  \
    static void before_fork(void)                                                                            \
    {                                                                                                        \
        pthread_mutex_lock(lock);                                                                            \
    }                                                                                                        \
    static void in_parent(void)                                                                              \
    {                                                                                                        \
        pthread_mutex_unlock(lock);                                                                          \
    }

#endif
