/* A data set: files, what stands in them, and how they are cut into batches. Samples come straight from the
 * files (a queue), or are loaded into memory first, where they can be shuffled and used again.
 *
 * It rests, or one call changes it (its settings, what is in memory), or a pass goes over it. A call that
 * does not fit to what goes on is refused; any thread may try. A pass has several workers. */
#ifndef PD_DATA_DATASET_H
#define PD_DATA_DATASET_H

#include "data/reader.h"
#include "data/store.h"

struct pd_dataset {
    struct pd_schema schema;
    char *command; /* NULL: none */
    PD_VEC(struct pd_file) files;
    int64_t batch_size;
    int threads; /* that load */
    int is_in_memory;
    struct pd_store store;
    pthread_mutex_t lock;   /* for what follows */
    int has_pass;           /* one goes over it */
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
pd_status pd_dataset_set_sources(struct pd_dataset *dataset, int n, const struct pd_file *files); /* copied */
pd_status pd_dataset_set_command(struct pd_dataset *dataset,
                                 const char *command); /* borrowed; "" or NULL: none */
/* Adds the samples of the files to those in memory. */
pd_status pd_dataset_read(struct pd_dataset *dataset, int (*poll)(void *), void *arg);

/* For a pass over it (pass.h), which nothing else may be beside. */
pd_status pd_dataset_enter(struct pd_dataset *dataset);
void pd_dataset_leave(struct pd_dataset *dataset);
pd_status pd_dataset_open_files(const struct pd_dataset *dataset, struct pd_files *files);

#endif
