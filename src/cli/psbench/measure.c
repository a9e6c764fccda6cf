/* Which cases are measured, and the figures of each; see measure.h. */
#include "cli/psbench/measure.h"

#include <stdlib.h>
#include <string.h>

#include "cli/psbench/crew.h"
#include "cli/psbench/limits.h"
#include "cli/psbench/why.h"

enum { MAX_CONNECTIONS = 1024 };

static const char *const op_names[PD_PSBENCH_OPS] = {"push", "pull", "both"};

static uint64_t bytes_of(const struct pd_psbench_case *c, int op)
{
    const struct pd_psbench_options *o = c->options;
    uint64_t dense = (uint64_t)c->pieces * (uint64_t)c->piece_numel * sizeof(float);
    uint64_t sparse = (uint64_t)o->rows * (sizeof(int64_t) + (uint64_t)o->width * sizeof(float));
    return (c->pieces ? dense : sparse) * (1u << op == PD_PSBENCH_BOTH ? 2 : 1);
}

static void fill_row(const struct pd_psbench_case *c, const struct pd_psbench_shared *shared, int op,
                     const struct pd_psbench_times *const *times, struct pd_psbench_row *row)
{
    const struct pd_psbench_options *o = c->options;
    double longest = 0;
    row->op = op_names[op];
    row->transport = c->transport;
    row->connections = o->connections;
    row->rows = c->pieces ? 0 : o->rows;
    row->bytes = bytes_of(c, op);
    for (int t = 0; t < o->connections; t++) {
        double seconds = (double)(times[t]->end_ns - times[t]->start_ns) * 1e-9;
        row->operations += times[t]->n;
        row->ops_per_s += (double)times[t]->n / seconds;
        if (seconds > longest) longest = seconds;
        if ((double)times[t]->max_ns * 1e-3 > row->max_us) row->max_us = (double)times[t]->max_ns * 1e-3;
    }
    row->seconds = longest;
    row->bytes_per_s = row->ops_per_s * (double)row->bytes;
    row->p50_us = pd_psbench_times_at(times, o->connections, 0.5) * 1e-3;
    row->p90_us = pd_psbench_times_at(times, o->connections, 0.9) * 1e-3;
    row->p99_us = pd_psbench_times_at(times, o->connections, 0.99) * 1e-3;
    row->server_cpu_s = shared->server_cpu_s[op];
    if (row->rows && row->server_cpu_s > 0)
        row->rows_per_cpu_s = (double)row->rows * (double)row->operations / row->server_cpu_s;
}

static pd_status measure_case(const struct pd_psbench_case *c, const struct pd_psbench_limits *limits,
                              void (*tell)(void *arg, const struct pd_psbench_row *row), void *arg)
{
    struct pd_psbench_crew crew = {0};
    const struct pd_psbench_options *o = c->options;
    const struct pd_psbench_times **times = calloc((size_t)o->connections, sizeof *times);
    pd_status status = times ? pd_psbench_crew_work(c, &crew) : pd_psbench_no_memory();
    for (int op = 0; status == PD_OK && op < PD_PSBENCH_OPS; op++) {
        struct pd_psbench_row row = {.stream_bytes_per_s = limits->stream_bytes_per_s,
                                     .copy_bytes_per_s = limits->copy_bytes_per_s,
                                     .pings_per_s = limits->pings_per_s};
        if (!(o->ops & 1u << op)) continue;
        for (int t = 0; t < o->connections; t++)
            times[t] = &crew.shared->times[t * PD_PSBENCH_OPS + op];
        fill_row(c, crew.shared, op, times, &row);
        tell(arg, &row);
    }
    pd_psbench_crew_dismiss(&crew);
    free(times);
    return status;
}

static pd_status check(const struct pd_psbench_options *o)
{
    if (!pd_build_has("distribute"))
        return pd_psbench_fail(PD_UNSUPPORTED,
                               "there is no parameter server in this build (WITH_DISTRIBUTE=OFF)");
    if (!o->n_sizes && !o->rows)
        return pd_psbench_fail(PD_INVALID, "nothing to measure: give a dense size or rows");
    for (int i = 0; i < o->n_sizes; i++)
        if (!o->sizes[i] || o->sizes[i] % sizeof(float) || o->sizes[i] > (uint64_t)1 << 40)
            return pd_psbench_fail(PD_RANGE,
                                   "a dense size of %llu bytes: it must be a multiple of 4, up to 1 TB",
                                   (unsigned long long)o->sizes[i]);
    if (o->rows < 0 || o->rows > 1 << 30)
        return pd_psbench_fail(PD_RANGE, "%lld rows a push: at most %d", (long long)o->rows, 1 << 30);
    if (o->rows && (o->width < 1 || o->width > 1 << 20 || o->table < 1 || o->table > (int64_t)1 << 40))
        return pd_psbench_fail(PD_RANGE, "a table of %lld rows of %lld numbers cannot be measured",
                               (long long)o->table, (long long)o->width);
    if (o->connections < 1 || o->connections > MAX_CONNECTIONS)
        return pd_psbench_fail(PD_RANGE, "%d connections: give 1 to %d", o->connections, MAX_CONNECTIONS);
    if (o->loops < 0 || o->loops > PD_PSBENCH_LOOPS)
        return pd_psbench_fail(PD_RANGE, "%d loops: give 1 to %d, or 0 to let the server choose", o->loops,
                               PD_PSBENCH_LOOPS);
    if (!(o->seconds > 0) || o->seconds > 3600)
        return pd_psbench_fail(PD_RANGE, "%g seconds a measurement: give a number above 0, up to 3600",
                               o->seconds);
    return pd_flag_check();
}

pd_status pd_psbench_measure(const struct pd_psbench_options *options,
                             void (*row)(void *arg, const struct pd_psbench_row *row), void *arg)
{
    static const char *const both[] = {"tcp", "shm"};
    int n_transports = options->transport ? 1 : 2, n_cases = options->n_sizes + (options->rows > 0);
    PD_PSBENCH_TRY(check(options));
    for (int i = 0; i < n_cases; i++) {
        struct pd_psbench_case c = {.options = options};
        struct pd_psbench_limits limits;
        if (i < options->n_sizes) {
            int64_t numel = (int64_t)(options->sizes[i] / sizeof(float));
            c.pieces = options->loops > 1 && options->loops <= numel ? options->loops : 1;
            c.piece_numel = numel / c.pieces;
        }
        PD_PSBENCH_TRY(pd_psbench_limits(options, bytes_of(&c, 0), &limits));
        for (int t = 0; t < n_transports; t++) {
            c.transport = options->transport ? options->transport : both[t];
            PD_PSBENCH_TRY(measure_case(&c, &limits, row, arg));
        }
    }
    return PD_OK;
}
