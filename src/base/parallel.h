/* Threads inside an op: one OpenMP runtime for the whole process (oneDNN shares it). */
#ifndef PD_BASE_PARALLEL_H
#define PD_BASE_PARALLEL_H

#include <stdint.h>

/* Calls body(arg, begin, end) over [0, count) cut into contiguous parts, one per thread, each at least
 * `grain` long. Runs in the calling thread when one part is enough, or when it is alone. The body must not
 * fail and must not call this again. */
void pd_parallel(int64_t count, int64_t grain, void (*body)(void *arg, int64_t begin, int64_t end),
                 void *arg);

/* Threads that pd_parallel may use from the calling thread: what pd_threads_set said there, else the
 * process's number (OMP_NUM_THREADS or the cores). */
int pd_threads(void);
/* The same for code that has regions of its own (oneDNN): 1 in a thread that was forked, whose helpers stayed
 * in the parent. pd_parallel cuts there as before and does all parts alone. */
int pd_threads_at_hand(void);
/* For the calling thread only; 0 restores the process's number. Worker threads that run whole steps set 1. */
void pd_threads_set(int count);
/* For the calling thread only: with `alone` it does all parts itself, one after the other. They are cut as
 * before, so that results stay the same bit by bit. */
void pd_threads_alone(int alone);
/* For the process. */
void pd_threads_set_default(int count);
/* Starts the worker threads with all signals blocked, so that handlers never run on them. Called before code
 * that runs with a stack pointer of its own (oneDNN's AVX-512 products): a signal frame written there would
 * land in a tensor. */
void pd_threads_start(void);

#endif
