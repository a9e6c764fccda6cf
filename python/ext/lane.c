/* Lanes of an executor: each has plans and remembered calls of its own, and one run at a time. A single
 * thread has the first one and never makes another.
 *
 * A thread finds its own lane again, where its plans are. One that has none takes a lane that is free, whose
 * thread may be gone, before another is made: there are as many as runs that were there at the same time.
 *
 * In a forked child the lanes of the parent's other threads run for ever. They are left as they are: nobody
 * uses them, and what they hold is half done. */
#include <pthread.h>

#include "executor.h"

static unsigned forks;

static void in_child(void)
{
    forks++;
}

static void count_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void core_lanes_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_forks);
}

static void take(struct core_lane *lane, unsigned long thread)
{
    lane->running = 1;
    lane->thread = thread;
    lane->forks = forks;
}

static int is_parents(const struct core_lane *lane)
{
    return lane->running && lane->forks != forks && lane->thread != PyThread_get_thread_ident();
}

void *core_raise_closed(void)
{
    PyErr_SetString(PyExc_RuntimeError, "This executor is closed. Make a new one to run more Programs.");
    return NULL;
}

static struct core_lane *add(struct core_executor *executor)
{
    struct core_lane *lane = PyMem_Calloc(1, sizeof *lane);
    if (!lane) {
        PyErr_NoMemory();
        return NULL;
    }
    lane->state = executor->first.state;
    if (core_failed(lane->state, pd_executor_create(&lane->at))) {
        PyMem_Free(lane);
        return NULL;
    }
    lane->next = executor->others;
    executor->others = lane;
    executor->n_others++;
    return lane;
}

/* The first lane is not free, or is another thread's. */
static struct core_lane *choose(struct core_executor *executor, unsigned long thread)
{
    struct core_lane *free = NULL;
    int own = 0;
    for (struct core_lane *lane = &executor->first; lane;
         lane = lane == &executor->first ? executor->others : lane->next) {
        if (!lane->running && lane->thread == thread) return lane;
        if (!lane->running && !free) free = lane;
        own += lane->running && lane->thread == thread;
    }
    if (own >= CORE_LANES_NESTED) {
        PyErr_Format(
            PyExc_RuntimeError,
            "This executor is already running in this thread, %d times: a signal handler, or a function "
            "that an op calls, runs it again and again. Let it wait until the run has ended.",
            own);
        return NULL;
    }
    return free ? free : add(executor);
}

struct core_lane *core_lane_take(struct core_executor *executor)
{
    unsigned long thread = PyThread_get_thread_ident();
    struct core_lane *lane = &executor->first;
    if (!lane->at) return core_raise_closed();
    if (lane->running || lane->thread != thread) lane = choose(executor, thread);
    if (lane) take(lane, thread);
    return lane;
}

static void shut(struct core_lane *lane)
{
    int is_left = is_parents(lane);
    for (int i = 0; i < CORE_CALLS && !is_left; i++)
        core_call_clear(&lane->calls[i]);
    lane->ready = NULL;
    if (!is_left) pd_executor_free(lane->at);
    lane->at = NULL;
}

static void drop(struct core_executor *executor, struct core_lane *lane)
{
    struct core_lane **at = &executor->others;
    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    executor->n_others--;
    shut(lane);
    PyMem_Free(lane);
}

void core_lane_give_back(struct core_executor *executor, struct core_lane *lane)
{
    lane->running = 0;
    if (lane != &executor->first && executor->n_others >= CORE_LANES_KEPT) drop(executor, lane);
}

void core_lanes_shut(struct core_executor *executor)
{
    while (executor->others)
        drop(executor, executor->others);
    shut(&executor->first);
}

int core_lanes_running(const struct core_executor *executor)
{
    int running = executor->first.running && !is_parents(&executor->first);
    for (const struct core_lane *lane = executor->others; lane; lane = lane->next)
        running |= lane->running && !is_parents(lane);
    return running;
}
