/* Threads of the library's own. Signals are for the program's threads: in ours all are blocked. */
#ifndef PD_BASE_THREAD_H
#define PD_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* stack: bytes, 0: as usual. Returns pthread_create's code. */
static inline int pd_thread_start(pthread_t *thread, size_t stack, void *(*fn)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    if (stack) pthread_attr_setstacksize(&attributes, stack);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, &attributes, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return rc;
}

#endif
