/* What the processes of a measurement share, for the bench*.c files only. */
#ifndef PD_PSERVER_BENCH_PRIVATE_H
#define PD_PSERVER_BENCH_PRIVATE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "pserver/bench/bench.h"

/* Times of operations, counted in steps of about 1.5%. */
struct pd_times {
    uint64_t n;
    int64_t max_ns, start_ns, end_ns;
    uint32_t count[64 << 6];
};

void pd_times_add(struct pd_times *times, int64_t ns);
/* The time that a share of all operations did not exceed, over several trainers. */
double pd_times_at(const struct pd_times *const *times, int n, double share);

/* One measurement: a server with one dense parameter (in pieces), or one table. */
struct pd_bench_case {
    const struct pd_bench_options *options;
    const struct pd_op_set *op_set;
    const char *transport;
    int pieces;          /* 0: a table */
    int64_t piece_numel; /* of each */
};

/* In memory that all processes of a case see. */
struct pd_bench_shared {
    _Atomic int port;          /* of the server; 0: it does not listen yet */
    _Atomic int arrived, turn; /* the barrier of the trainers */
    _Atomic int has_trouble;   /* the first who sets it writes the text */
    char trouble[1024];
    double server_cpu_s[PD_BENCH_OPS];
    struct pd_times times[]; /* [trainer][op] */
};

/* bench.c */
void pd_bench_trouble(struct pd_bench_shared *shared, const char *who);
/* A child that goes when this process goes; 0 in the child, as fork(). */
pid_t pd_bench_fork(void);
/* Keeps this process on one core: 0 is the server's. Does nothing unless the options say so. */
void pd_bench_pin(const struct pd_bench_options *options, int which);
/* Names of what the server holds: "w0", "w0@GRAD"; the meta of piece i. */
void pd_bench_name(int piece, int is_grad, char name[32]);
pd_status pd_bench_meta(const struct pd_bench_case *c, int is_grad, struct pd_meta *out);
/* bench_server.c, bench_trainer.c: a child's whole life; they return its exit status. */
int pd_bench_serve(const struct pd_bench_case *c, struct pd_bench_shared *shared);
int pd_bench_train(const struct pd_bench_case *c, struct pd_bench_shared *shared, int trainer, pid_t server);

/* bench_limits.c */
struct pd_bench_limits {
    double stream_bytes_per_s, copy_bytes_per_s, pings_per_s;
};
pd_status pd_bench_limits(const struct pd_bench_options *options, uint64_t bytes,
                          struct pd_bench_limits *out);

#endif
