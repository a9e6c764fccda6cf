/* A data set: files, what stands in them, and how they are cut into batches. Samples come straight from the
 * files (a queue), or are loaded into memory first, where they can be shuffled and used again.
 *
 * It rests, or one call changes it (its settings, what is in memory), or passes go over it. A call that does
 * not fit to what goes on is refused; any thread may try. A pass has several workers. */
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
    pthread_mutex_t lock;   /* for what follows */
    int passes;             /* that go over it */
    const char *doing;      /* the change that goes on, "being loaded"; NULL: none */
    int64_t samples, bytes; /* in memory, when it last rested */
};

pd_status pd_dataset_new(int is_in_memory, struct pd_dataset **out);
void pd_dataset_free(struct pd_dataset *dataset); /* NULL is fine */
/* Begins a change, which is `doing` ("being loaded"). While another goes on, or a pass, it is refused with
 * what goes on; `then` says what to do when that is over ("load it"). Both are borrowed until the end. */
pd_status pd_dataset_change(struct pd_dataset *dataset, const char *doing, const char *then);
void pd_dataset_changed(struct pd_dataset *dataset);
pd_status pd_dataset_set_files(struct pd_dataset *dataset, int n, const char *const *paths);
pd_status pd_dataset_set_command(struct pd_dataset *dataset,
                                 const char *command); /* borrowed; "" or NULL: none */
/* Adds the samples of the files to those in memory. */
pd_status pd_dataset_read(struct pd_dataset *dataset, int (*poll)(void *), void *arg);

/* One time through the data by several workers, each a thread at most. A worker takes the next batch that
 * nobody has. */
struct pd_pass;

/* Borrows the data set, which stays as it is until pd_pass_free. */
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
