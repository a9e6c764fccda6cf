/* Samples in memory: blocks of records, and their order, which can be shuffled. */
#ifndef PD_DATA_STORE_H
#define PD_DATA_STORE_H

#include <pthread.h>

#include "base/buf.h"
#include "base/vec.h"
#include "data/schema.h"

struct pd_store_block {
    char *at;
    size_t n;
    int64_t rank;
};

struct pd_store {
    pthread_mutex_t lock; /* for pd_store_take */
    PD_VEC(struct pd_store_block) blocks;
    int n_arranged;      /* blocks whose records are in the order */
    const char **record; /* in the order in which they are used */
    int64_t n, cap;
    int64_t bytes; /* of blocks and of the order */
};

void pd_store_init(struct pd_store *store);
void pd_store_clear(struct pd_store *store);
/* Takes a buffer of whole records, which is empty then. Any thread. */
pd_status pd_store_take(struct pd_store *store, struct pd_buf *records, int64_t rank);
/* What was taken since the last time comes behind what was there, by its rank: whichever thread read it
 * first. */
pd_status pd_store_arrange(struct pd_store *store, const struct pd_schema *schema);
/* Lets go of what was taken since then. */
void pd_store_forget(struct pd_store *store);
/* The same seed and the same order before give the same order. */
void pd_store_shuffle(struct pd_store *store, uint64_t seed);
/* Each sample gets the numbers of one other sample in the columns that `moves` marks, and keeps its own in
 * the others: what is a slot worth to a model? */
pd_status pd_store_exchange(struct pd_store *store, const struct pd_schema *schema, const char *moves,
                            uint64_t seed);
/* Samples of one id become one, with the numbers of all, in the order of the text of ids. Ids that do not
 * have `size` samples are left out; 0: any number. What was merged from so many stays as it is when it is
 * done again. Samples have ids. *dropped counts what was left out. */
pd_status pd_store_merge(struct pd_store *store, const struct pd_schema *schema, int size, int64_t *dropped);

#endif
