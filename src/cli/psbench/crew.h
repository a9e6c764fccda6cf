/* One case of a measurement and its processes: a server that holds one dense parameter (in pieces) or one
 * table, and its trainers. */
#ifndef PADDLE_CLI_PSBENCH_CREW_H
#define PADDLE_CLI_PSBENCH_CREW_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cli/psbench/measure.h"
#include "cli/psbench/times.h"

enum { PD_PSBENCH_LOOPS = 64 }; /* as many as a server may have (the flag ps_loops) */

struct pd_psbench_case {
    const struct pd_psbench_options *options;
    const char *transport;
    int pieces;          /* 0: a table */
    int64_t piece_numel; /* of each */
};

/* In memory that all processes of a case see. */
struct pd_psbench_shared {
    _Atomic int port;          /* of the server; 0: it does not listen yet */
    _Atomic int arrived, turn; /* the barrier of the trainers */
    _Atomic int has_trouble;   /* the first who sets it writes the text */
    char trouble[1024];
    double server_cpu_s[PD_PSBENCH_OPS];
    struct pd_psbench_times times[]; /* [trainer][op] */
};

struct pd_psbench_crew {
    struct pd_psbench_shared *shared;
    size_t shared_bytes;
    pid_t *pids; /* the server, then the trainers; 0: gone */
    int n;
};

/* Starts all of them and waits for their end; the first that fails ends it. Starts from zeros; dismiss it,
 * also on error. */
pd_status pd_psbench_crew_work(const struct pd_psbench_case *c, struct pd_psbench_crew *crew);
void pd_psbench_crew_dismiss(struct pd_psbench_crew *crew);

/* server.c and trainer.c: the whole life of a child. They return its exit status. */
int pd_psbench_serve(const struct pd_psbench_case *c, struct pd_psbench_shared *shared);
int pd_psbench_train(const struct pd_psbench_case *c, struct pd_psbench_shared *shared, int trainer,
                     pid_t server);
/* A child failed: pd_psbench_why() becomes the trouble of all. */
void pd_psbench_trouble(struct pd_psbench_shared *shared, const char *who);

#endif
