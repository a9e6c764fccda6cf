/* Measures a parameter server on this machine: a server process and trainer processes as any C program would
 * make them, and beside each figure what the machine can do (a plain socket stream, a ping-pong, memcpy). All
 * of it is on the public C API. The processes are children of this one, end by _exit and are waited for. */
#ifndef PADDLE_CLI_PSBENCH_MEASURE_H
#define PADDLE_CLI_PSBENCH_MEASURE_H

#include <paddle/paddle.h>

/* BOTH: a push and a pull in one exchange. */
enum { PD_PSBENCH_PUSH = 1, PD_PSBENCH_PULL = 2, PD_PSBENCH_BOTH = 4, PD_PSBENCH_OPS = 3 };

struct pd_psbench_options {
    unsigned ops;          /* of the above */
    int n_sizes;           /* dense parameters */
    const uint64_t *sizes; /* their bytes, multiples of 4 */
    int64_t rows;          /* of a sparse push or pull; 0: none */
    int64_t width, table;  /* numbers in a row, rows of the table */
    int connections;       /* trainers, each a process */
    const char *transport; /* "tcp", "shm" or "auto"; NULL: TCP, then shared memory */
    int loops; /* threads of the server, and pieces a dense parameter is cut into; 0: as a server chooses */
    double seconds;        /* of each measurement */
    int pins;              /* the server stays on the first core, trainers on the others in turn */
    const char *optimizer; /* the op that the server applies, e.g. "sgd" */
};

struct pd_psbench_row {
    const char *op; /* "push", "pull", "both" */
    const char *transport;
    int connections;
    int64_t rows;   /* 0: dense */
    uint64_t bytes; /* one operation moves so many, without heads */
    uint64_t operations;
    double seconds;
    double ops_per_s, bytes_per_s;               /* of all trainers together */
    double p50_us, p90_us, p99_us, max_us;       /* of one operation */
    double server_cpu_s;                         /* of the server process while it was measured */
    double rows_per_cpu_s;                       /* sparse: rows served in a second of that */
    double stream_bytes_per_s, copy_bytes_per_s; /* limits: one blocking socket stream, memcpy on one core */
    double pings_per_s;                          /* as many bytes over a blocking socket, one head back */
};

/* Calls row(arg, ...) for each measurement when it is done; pd_psbench_why() tells what went wrong. The
 * process must have one thread only: it forks. */
pd_status pd_psbench_measure(const struct pd_psbench_options *options,
                             void (*row)(void *arg, const struct pd_psbench_row *row), void *arg);

#endif
