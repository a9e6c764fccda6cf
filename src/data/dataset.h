/* A data set: files, what stands in them, and how they are cut into batches. Samples come straight from the
 * files (a queue), or are loaded into memory first, where they can be shuffled and used again.
 *
 * Settings and loading come from one thread; a pass has several workers. */
#ifndef PD_DATA_DATASET_H
#define PD_DATA_DATASET_H

#include "data/batch.h"
#include "data/reader.h"
#include "data/store.h"

struct pd_dataset {
    struct pd_schema schema;
    char *command; /* NULL: none */
    PD_VEC(char *) paths;
    int64_t batch_size;
    int threads; /* that load */
    int is_in_memory;
    struct pd_store store;
    int passes; /* that run; atomic */
};

pd_status pd_dataset_new(int is_in_memory, struct pd_dataset **out);
void pd_dataset_free(struct pd_dataset *dataset); /* NULL is fine */
pd_status pd_dataset_set_files(struct pd_dataset *dataset, int n, const char *const *paths);
pd_status pd_dataset_set_command(struct pd_dataset *dataset,
                                 const char *command); /* borrowed; "" or NULL: none */
/* Adds the samples of the files to those in memory. */
pd_status pd_dataset_read(struct pd_dataset *dataset, int (*poll)(void *), void *arg);

/* One time through the data by several workers, each a thread at most. A worker takes the next batch that
 * nobody has. */
struct pd_pass;

/* Borrows the data set. */
pd_status pd_pass_begin(struct pd_dataset *dataset, int workers, struct pd_pass **out);
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
