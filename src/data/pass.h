/* One time through a data set by several workers, each a thread at most. A worker takes the next batch that
 * nobody has, or where that is asked for the next of its own. Batches that come from files may be read ahead,
 * by a thread beside each worker. */
#ifndef PD_DATA_PASS_H
#define PD_DATA_PASS_H

#include "data/batch.h"
#include "data/dataset.h"

struct pd_pass;

struct pd_pass_options {
    int workers;
    int ahead;    /* batches of each worker that are read ahead; 0: it reads when it asks */
    int is_fixed; /* which batches a worker gets depends on its number alone: every so many, or of every so
                     many files */
    int64_t skip; /* so many batches of each worker are read over; is_fixed says which */
};

/* Borrows the data set, which stays as it is until pd_pass_free. */
pd_status pd_pass_begin(struct pd_dataset *dataset, const struct pd_pass_options *options,
                        struct pd_pass **out);
/* The worker's next batch, its own until it asks again; *batch is NULL at the end. */
pd_status pd_pass_next(struct pd_pass *pass, int worker, const struct pd_batch **batch);
/* Any thread: workers that wait for data end with PD_INTERRUPTED. */
void pd_pass_stop(struct pd_pass *pass);
/* How far it is, in bytes of the files or in samples in memory. Any thread. */
void pd_pass_progress(const struct pd_pass *pass, int64_t *done, int64_t *all);
/* All workers are through: was it worth it? */
pd_status pd_pass_check(struct pd_pass *pass);
void pd_pass_free(struct pd_pass *pass);

#endif
