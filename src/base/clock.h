/* Monotonic time in nanoseconds. */
#ifndef PD_BASE_CLOCK_H
#define PD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t pd_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A few milliseconds coarse, but only some nanoseconds to read. */
static inline int64_t pd_clock_coarse_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
