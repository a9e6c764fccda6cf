/* Samples in memory of several workers, dealt out among all of them at random.
 *
 * All samples together have numbers: those of worker 0 first, each worker's in the order of its files. A
 * permutation of the seed's gives each its place, and a worker has an equal part of the places; so each
 * worker knows where a sample goes without asking anybody, and the result is a function of the seed and of
 * the samples. Or samples of one id go to one worker, as merging by id needs.
 *
 * A block of samples is let go of when it is dealt out, so that a worker holds at most what it had and what
 * it gets. */
#ifndef PD_DATA_DEAL_H
#define PD_DATA_DEAL_H

#include "base/buf.h"
#include "data/dataset.h"

struct pd_deal;

/* What carries the samples. */
struct pd_deal_way {
    /* Takes the piece, whole records for another worker; pd_deal_take may be called inside. May wait. */
    pd_status (*give)(void *arg, int to, struct pd_buf *piece);
    /* Returns when all pieces have come and gone. May wait. */
    pd_status (*finish)(void *arg);
    void *arg;
};

struct pd_deal_spec {
    int self, n;           /* which of how many workers */
    const int64_t *counts; /* samples of each; borrowed */
    uint64_t seed;         /* the same in all */
    int by_id;             /* samples of one id stay together */
};

/* Borrows the data set, which the caller has to itself. */
pd_status pd_deal_begin(struct pd_dataset *dataset, const struct pd_deal_spec *spec, struct pd_deal **out);
/* Another worker's piece, of any bytes: they are checked. Takes it. */
pd_status pd_deal_take(struct pd_deal *deal, int from, struct pd_buf *piece);
/* Deals out, takes, and shuffles. After an error nothing is in memory. */
pd_status pd_deal_run(struct pd_deal *deal, const struct pd_deal_way *way);
void pd_deal_free(struct pd_deal *deal); /* NULL is fine */

/* The permutation: the place of a sample among `all`. */
int64_t pd_deal_place(uint64_t seed, int64_t all, int64_t sample);

#endif
