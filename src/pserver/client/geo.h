/* GEO-SGD, a trainer's side: it trains with its own optimizer, and every so many batches tells servers what
 * has changed since the last time, a share of it for each trainer; servers add that up. What the others have
 * changed comes with the answer and is added to what is here. Of a table with sparse gradients only the rows
 * that were touched travel.
 *
 * The batches in between wait for nothing: the communicator's thread exchanges, and the next batch that finds
 * an answer takes it in. A batch is held up only where it would tell again and the answer is not there.
 * Worker threads train on the same parameters meanwhile, without a lock (exec/workers.h): what one of them
 * writes while this one adds may be lost, as among themselves. */
#ifndef PD_PSERVER_GEO_H
#define PD_PSERVER_GEO_H

#include "program/op.h"

struct pd_geo;

/* A part of a parameter that one server holds. */
struct pd_geo_slice {
    int param;        /* which one */
    int64_t first, n; /* rows; n -1: all */
    int push, pull;   /* the numbers of what is told, and of the value (pd_client_name) */
};

struct pd_geo_step {
    int n_slices;
    const struct pd_geo_slice *slices; /* in the order of their parameters, then of rows */
    uint64_t client;                   /* whose numbers they are */
    int trainers, every;
    int n_ids;
    struct pd_value *const *ids;
    const int *ids_of; /* the parameter whose rows the i-th ids are */
};

/* The parameters are as servers have them: what changes from now on is told. Another call for the same ones
 * begins anew. */
pd_status pd_geo_begin(const struct pd_run *run, int n, struct pd_value *const *params, const int *is_sparse);
/* A batch has changed them. */
pd_status pd_geo_batch(const struct pd_run *run, int n, struct pd_value *const *params,
                       const struct pd_geo_step *step);
/* Queues what was not told yet, of all models. poll(arg), which may be NULL, ends the waiting. */
pd_status pd_geo_flush(int (*poll)(void *arg), void *arg);
void pd_geo_forget(void); /* all of it */

#endif
