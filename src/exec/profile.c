/* The profiler's table; see profile.h. */
#include "exec/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct row {
    const char *type;
    int64_t calls, total, min, max;
};

int pd_profile_running;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static PD_VEC(struct row) rows;

void pd_profile_switch(int on)
{
    __atomic_store_n(&pd_profile_running, on, __ATOMIC_RELAXED);
}

void pd_profile_clear(void)
{
    pthread_mutex_lock(&lock);
    rows.n = 0;
    pthread_mutex_unlock(&lock);
}

void pd_profile_add(const char *type, int64_t ns)
{
    pthread_mutex_lock(&lock);
    struct row *r = NULL;
    for (int i = 0; i < rows.n && !r; i++)
        if (strcmp(rows.at[i].type, type) == 0) r = &rows.at[i];
    if (!r && pd_vec_push(&rows, ((struct row){.type = type, .min = ns}))) r = &rows.at[rows.n - 1];
    if (r) {
        r->calls++;
        r->total += ns;
        if (ns < r->min) r->min = ns;
        if (ns > r->max) r->max = ns;
    }
    pthread_mutex_unlock(&lock);
}

static int64_t key_calls(const struct row *r)
{
    return r->calls;
}
static int64_t key_total(const struct row *r)
{
    return r->total;
}
static int64_t key_max(const struct row *r)
{
    return r->max;
}
static int64_t key_min(const struct row *r)
{
    return r->min;
}
static int64_t key_ave(const struct row *r)
{
    return r->total / r->calls;
}

static const struct {
    const char *name;
    int64_t (*key)(const struct row *);
} sorts[] = {
    {"total", key_total}, {"calls", key_calls}, {"max", key_max}, {"min", key_min}, {"ave", key_ave}};

pd_status pd_profile_print(const char *sort, struct pd_buf *out)
{
    int64_t (*key)(const struct row *) = sort ? NULL : key_total;
    for (size_t i = 0; sort && i < sizeof sorts / sizeof *sorts; i++)
        if (strcmp(sorts[i].name, sort) == 0) key = sorts[i].key;
    if (!key)
        return pd_fail(PD_INVALID, "the profile cannot be sorted by '%s'; take calls, total, max, min or ave",
                       sort);
    pthread_mutex_lock(&lock);
    int64_t all = 0;
    for (int i = 1; i < rows.n; i++)
        for (int k = i; k > 0 && key(&rows.at[k]) > key(&rows.at[k - 1]); k--) {
            struct row swap = rows.at[k];
            rows.at[k] = rows.at[k - 1];
            rows.at[k - 1] = swap;
        }
    for (int i = 0; i < rows.n; i++)
        all += rows.at[i].total;
    pd_buf_printf(out, "%-40s %10s %12s %12s %12s %12s %8s\n", "Event", "Calls", "Total ms", "Min ms",
                  "Max ms", "Ave ms", "Ratio");
    for (int i = 0; i < rows.n; i++) {
        const struct row *r = &rows.at[i];
        pd_buf_printf(out, "%-40s %10lld %12.4f %12.4f %12.4f %12.4f %7.2f%%\n", r->type, (long long)r->calls,
                      (double)r->total / 1e6, (double)r->min / 1e6, (double)r->max / 1e6,
                      (double)r->total / 1e6 / (double)r->calls,
                      all ? 100.0 * (double)r->total / (double)all : 0.0);
    }
    pthread_mutex_unlock(&lock);
    return out->failed ? pd_no_memory() : PD_OK;
}
