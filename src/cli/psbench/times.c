/* Times in classes: 64 for each power of two, so that a percentile is right within 1.5%. */
#include "cli/psbench/times.h"

enum { FINE = 6 };

static int class_of(int64_t ns)
{
    uint64_t v = ns > 0 ? (uint64_t)ns : 0;
    if (v < 1 << FINE) return (int)v;
    int shift = 63 - __builtin_clzll(v) - FINE;
    return ((shift + 1) << FINE) + (int)((v >> shift) & ((1 << FINE) - 1));
}

static double middle_of(int class)
{
    int shift = (class >> FINE) - 1;
    if (shift < 0) return class;
    double low = (double)(((uint64_t)1 << FINE) + (uint64_t)(class & ((1 << FINE) - 1)));
    return (low + 0.5) * (double)((uint64_t)1 << shift);
}

void pd_psbench_times_add(struct pd_psbench_times *times, int64_t ns)
{
    times->n++;
    times->count[class_of(ns)]++;
    if (ns > times->max_ns) times->max_ns = ns;
}

double pd_psbench_times_at(const struct pd_psbench_times *const *times, int n, double share)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < n; i++)
        all += times[i]->n;
    for (int class = 0; class < 64 << FINE; class ++) {
        for (int i = 0; i < n; i++)
            seen += times[i]->count[class];
        if (seen && (double)seen >= share * (double)all) return middle_of(class);
    }
    return 0;
}
