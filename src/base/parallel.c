/* See parallel.h. Built without OpenMP (fuzzers), everything runs in the calling thread. */
#include "base/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static atomic_int process_threads;
static __thread int own_threads, is_alone, is_forked;

/* The threads that helped this one are not in the child, and the runtime would wait for them for ever. What
 * it does there it does alone. Threads that the child makes itself get helpers of their own. */
static void in_child(void)
{
    is_forked = 1;
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

int pd_threads(void)
{
    if (own_threads) return own_threads;
    int threads = atomic_load_explicit(&process_threads, memory_order_relaxed);
    if (!threads) {
#ifdef _OPENMP
        threads = omp_get_max_threads();
#else
        threads = 1;
#endif
        atomic_store_explicit(&process_threads, threads, memory_order_relaxed);
    }
    return threads;
}

int pd_threads_at_hand(void)
{
    return is_forked ? 1 : pd_threads();
}

void pd_threads_set(int count)
{
    own_threads = count > 0 ? count : 0;
#ifdef _OPENMP
    omp_set_num_threads(pd_threads_at_hand()); /* of this thread's own regions, and of oneDNN's */
#endif
}

void pd_threads_alone(int alone)
{
    is_alone = alone;
}

void pd_threads_set_default(int count)
{
    process_threads = count > 0 ? count : 1;
#ifdef _OPENMP
    omp_set_num_threads(is_forked ? 1 : process_threads);
#endif
}

void pd_threads_start(void)
{
#ifdef _OPENMP
    sigset_t all, before;
    int threads = pd_threads(), started = 0;
    if (threads < 2 || is_forked) return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
#pragma omp parallel num_threads(threads) reduction(+ : started)
    started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
}

void pd_parallel(int64_t count, int64_t grain, void (*body)(void *arg, int64_t begin, int64_t end), void *arg)
{
    if (count <= 0) return;
    int64_t parts = grain > 0 ? count / grain : count;
    if (parts < 2) {
        body(arg, 0, count);
        return;
    }
    int threads = pd_threads();
    if (parts > threads) parts = threads;
    if (parts < 2) {
        body(arg, 0, count);
        return;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads((int)parts) schedule(static, 1) if (!is_alone && !is_forked)
#endif
    for (int64_t part = 0; part < parts; part++)
        body(arg, count * part / parts, count * (part + 1) / parts);
}
