/* How often something took how long: counts by powers of four, from ten microseconds to ten seconds and more.
 *
 * Of one thread; others get a copy. Costs a few nanoseconds beside the clock. */
#ifndef PD_BASE_HISTOGRAM_H
#define PD_BASE_HISTOGRAM_H

#include <stdint.h>

enum { PD_HISTOGRAM_BOUNDS = 11 };

struct pd_histogram {
    uint64_t
        counts[PD_HISTOGRAM_BOUNDS + 1]; /* up to each bound and above the one before; the last: above all */
    double sum;
};

/* The bound of a count, in units of the first one: 1, 4, 16, ... */
static inline uint64_t pd_histogram_bound(int i)
{
    return (uint64_t)1 << (2 * i);
}

/* `value` in units of the first bound; `amount` is what is added to the sum. */
static inline void pd_histogram_add(struct pd_histogram *h, double value, double amount)
{
    int i = 0;
    while (i < PD_HISTOGRAM_BOUNDS && value > (double)pd_histogram_bound(i))
        i++;
    h->counts[i]++;
    h->sum += amount;
}

/* Times: the first bound is ten microseconds, the sum is in seconds. */
static const double pd_histogram_seconds = 1e-5;

static inline void pd_histogram_add_ns(struct pd_histogram *h, int64_t ns)
{
    double seconds = (double)(ns > 0 ? ns : 0) * 1e-9;
    pd_histogram_add(h, seconds / pd_histogram_seconds, seconds);
}

static inline void pd_histogram_join(struct pd_histogram *to, const struct pd_histogram *from)
{
    for (int i = 0; i <= PD_HISTOGRAM_BOUNDS; i++)
        to->counts[i] += from->counts[i];
    to->sum += from->sum;
}

#endif
