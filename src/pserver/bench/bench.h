/* Measures a parameter server on this machine: a server process as users run it, trainer processes with the
 * trainers' own client, and beside each figure what the machine can do (a plain socket stream, a ping-pong,
 * memcpy). All processes are children of the caller, end by _exit and are waited for. */
#ifndef PD_PSERVER_BENCH_H
#define PD_PSERVER_BENCH_H

#include "program/op.h"

enum { PD_BENCH_PUSH = 1, PD_BENCH_PULL = 2, PD_BENCH_BOTH = 4, PD_BENCH_OPS = 3 };

struct pd_bench_options {
    unsigned ops;
    int n_sizes;
    const uint64_t *sizes; /* bytes of dense parameters */
    int64_t rows;          /* of a sparse push; 0: none */
    int64_t width, table;
    int connections;
    const char *transport; /* NULL: tcp, then shm */
    int loops;             /* 0: the server chooses */
    double seconds;
    int pins;
    const char *optimizer;
};

struct pd_bench_row {
    const char *op, *transport;
    int connections;
    int64_t rows; /* 0: dense */
    uint64_t bytes, operations;
    double seconds, ops_per_s, bytes_per_s;
    double p50_us, p90_us, p99_us, max_us;
    double server_cpu_s, rows_per_cpu_s;
    double stream_bytes_per_s, copy_bytes_per_s, pings_per_s;
};

/* The process must have one thread only: it forks. `ops` is what the server's Program is made of. */
pd_status pd_bench_run(const struct pd_bench_options *options, const struct pd_op_set *ops,
                       void (*row)(void *arg, const struct pd_bench_row *row), void *arg);

#endif
