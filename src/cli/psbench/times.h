/* Times of operations, counted in classes of about 1.5%, and the clock that they are taken with. */
#ifndef PADDLE_CLI_PSBENCH_TIMES_H
#define PADDLE_CLI_PSBENCH_TIMES_H

#include <stdint.h>
#include <time.h>

struct pd_psbench_times {
    uint64_t n;
    int64_t max_ns, start_ns, end_ns;
    uint32_t count[64 << 6];
};

static inline int64_t pd_psbench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void pd_psbench_times_add(struct pd_psbench_times *times, int64_t ns);
/* The time that a share of all operations did not exceed, over several trainers. */
double pd_psbench_times_at(const struct pd_psbench_times *const *times, int n, double share);

#endif
