/* What table_hashed*.c share. */
#ifndef PD_PSERVER_TABLE_HASHED_PRIVATE_H
#define PD_PSERVER_TABLE_HASHED_PRIVATE_H

#include "base/alloc.h"
#include "base/error.h"
#include "kernels/row_store.h"
#include "kernels/rows.h"
#include "pserver/shard/table_hashed.h"

/* Rows that are updated together: found, gathered and put back while they are in the cache. */
enum { PD_HASHED_BATCH = 512 };

struct hashed {
    struct pd_table table;
    struct pd_hashed_options options;
    struct pd_rule *rule;
    struct pd_row_start *start;
    struct pd_row_store *store;
    struct pd_row_store *waiting; /* ids that came, but not often enough yet; NULL: all get a row */
    int columns;
    int64_t width;
    float *begin;               /* what the states of a new row are, by column; the parameter's is not used */
    uint64_t clock;             /* updates that are over */
    uint64_t admitted, evicted; /* rows, since the server was started */
    int64_t swept[2]; /* how far the search for what has expired is: in the store, among those that wait */
    void *groups;     /* memory for pd_rows_group */
    size_t groups_size;
    void *grad; /* of a batch, put together */
    size_t grad_size;
    PD_VEC(int64_t) rows; /* their places in the batch */
    struct head {         /* what a snapshot has beside the rows */
        uint64_t clock, seed;
        uint32_t columns, width;
    } head;
};

/* The update under way or, for a lookup, the next one: both find the same rows. */
static inline uint64_t pd_hashed_now(const struct hashed *h)
{
    return h->clock + 1;
}

static inline int pd_hashed_is_expired(const struct hashed *h, const struct pd_row *row)
{
    return h->options.expires && (uint32_t)pd_hashed_now(h) - row->step > (uint64_t)h->options.expires;
}

/* A row whose numbers are not set yet: memory was short when it was made. */
static inline int pd_hashed_is_there(const struct hashed *h, const struct pd_row *row)
{
    return row && row->count && !pd_hashed_is_expired(h, row);
}

/* table_hashed_admit.c: the rows of some different ids, made where they are to be; NULL: its gradient is
 * dropped. All of them count as touched. */
pd_status pd_hashed_admit(struct hashed *h, int n, const int64_t *ids, struct pd_row **out);
/* After an update of n rows: looks for what has expired among some more, and keeps the limit. */
void pd_hashed_sweep(struct hashed *h, int64_t n);
/* table_hashed_keep.c */
int pd_hashed_part(const struct pd_table *table, int index, struct pd_table_part *out);
pd_status pd_hashed_load(struct pd_table *table, const struct pd_table_part *part);
pd_status pd_hashed_save(const struct pd_table *table, const struct pd_value *of, FILE *file);
/* table_hashed_take.c: the rows that variables of the scope have or name; these have none afterwards. */
pd_status pd_hashed_take(struct hashed *h, const struct pd_engine *engine);

#endif
