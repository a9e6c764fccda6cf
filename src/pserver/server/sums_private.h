/* The inside of sums, for sums.c (the numbers) and sums_link.c (messages between servers). */
#ifndef PD_PSERVER_SUMS_PRIVATE_H
#define PD_PSERVER_SUMS_PRIVATE_H

#include <pthread.h>

#include "base/vec.h"
#include "pserver/server/sums.h"

/* Another server that waits for an answer. */
struct asker {
    struct pd_conn *conn; /* NULL: it does not */
    uint64_t request;
};

/* One op ps_sum. */
struct sum {
    int number;        /* among all of them */
    const char *group; /* of the Program */
    int n, given;
    uint64_t step;        /* whose numbers these are */
    double *values;       /* those who add x n; at the others only their own row is used */
    char *has;            /* by server, as in `adders` */
    struct asker *askers; /* the same; at the one that adds */
    uint64_t totals_step; /* whose sums are known */
    double *totals;
    int is_sent; /* at the others: on the present connection */
};

/* A server that has a part in the sums. Not all of the job need have one. */
struct adder {
    char *name;
    int place; /* in the job's list: as which it calls */
};

struct pd_sums {
    struct pd_server *server;
    int self, n_adders; /* this server's number among them; number 0 adds up */
    struct adder *adders;
    struct pd_loop *loop; /* the control loop */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    PD_VEC(struct sum *) sums;
    /* Not at the one that adds; of the control loop. */
    struct pd_conn *link; /* NULL: none now */
};

/* Under the lock. The sum of a group; NULL: the Program has none. */
struct sum *pd_sums_find(const struct pd_sums *sums, const char *group);
void pd_sums_begin(const struct pd_sums *sums, struct sum *sum, uint64_t step); /* numbers of a new step */
void pd_sums_know(struct pd_sums *sums, struct sum *sum, const double *totals); /* of its step */
/* Takes a server's numbers; the last one's complete the totals. */
void pd_sums_give(struct pd_sums *sums, struct sum *sum, int adder, const double *values);
/* sums_link.c; posted to the control loop */
void pd_sums_answer(void *sums); /* those who wait, where the totals are known */
void pd_sums_send(void *sums);   /* this server's numbers, to the one that adds */

#endif
