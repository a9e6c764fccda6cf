/* psbench in the public API. */
#include "api/api.h"

#if PD_WITH_DISTRIBUTE
#include "pserver/bench/bench.h"

_Static_assert((int)PD_PSBENCH_PUSH == (int)PD_BENCH_PUSH && (int)PD_PSBENCH_PULL == (int)PD_BENCH_PULL &&
                   (int)PD_PSBENCH_BOTH == (int)PD_BENCH_BOTH,
               "public operations");

struct listener {
    void (*row)(void *arg, const pd_psbench_row *row);
    void *arg;
};

static void pass_on(void *arg, const struct pd_bench_row *r)
{
    const struct listener *l = arg;
    pd_psbench_row row = {.op = r->op,
                          .transport = r->transport,
                          .connections = r->connections,
                          .rows = r->rows,
                          .bytes = r->bytes,
                          .operations = r->operations,
                          .seconds = r->seconds,
                          .ops_per_s = r->ops_per_s,
                          .bytes_per_s = r->bytes_per_s,
                          .p50_us = r->p50_us,
                          .p90_us = r->p90_us,
                          .p99_us = r->p99_us,
                          .max_us = r->max_us,
                          .server_cpu_s = r->server_cpu_s,
                          .rows_per_cpu_s = r->rows_per_cpu_s,
                          .stream_bytes_per_s = r->stream_bytes_per_s,
                          .copy_bytes_per_s = r->copy_bytes_per_s,
                          .pings_per_s = r->pings_per_s};
    l->row(l->arg, &row);
}

pd_status pd_psbench(const pd_psbench_options *o, void (*row)(void *arg, const pd_psbench_row *row),
                     void *arg)
{
    struct pd_bench_options options = {
        .ops = o->ops ? o->ops : PD_BENCH_PUSH | PD_BENCH_PULL | PD_BENCH_BOTH,
        .n_sizes = o->n_sizes,
        .sizes = o->sizes,
        .rows = o->rows,
        .width = o->width,
        .table = o->table,
        .connections = o->connections,
        .transport = o->transport,
        .loops = o->loops,
        .seconds = o->seconds,
        .pins = o->pins,
        .optimizer = o->optimizer ? o->optimizer : "sgd",
    };
    return pd_bench_run(&options, &pd_ops, pass_on, &(struct listener){row, arg});
}
#else
pd_status pd_psbench(const pd_psbench_options *o, void (*row)(void *arg, const pd_psbench_row *row),
                     void *arg)
{
    (void)o, (void)row, (void)arg;
    return pd_fail(PD_UNSUPPORTED, "there is no parameter server in this build (WITH_DISTRIBUTE=OFF)");
}
#endif
