/* Rows of floats by 64-bit id: what a table without a fixed vocabulary is made of.
 *
 * A row is a head of 16 bytes (its id, how often it was touched, when it was last touched) and its floats,
 * which are the caller's. It lies where it was made until it is removed: in chunks that grow with the store,
 * each about 3% of it, so that no row is ever moved. Ids are found by an index of many small segments (an
 * extendible hash table), which grow one by one: no call waits for more than a few thousand rows to be put
 * in order again. Any 64 bits are an id.
 *
 * Calls take ids in batches: the memory that all of them need is asked for before the first is used. One
 * thread at a time. */
#ifndef PD_KERNELS_ROW_STORE_H
#define PD_KERNELS_ROW_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

struct pd_row_store;

struct pd_row {
    uint32_t id_words[2];
    uint32_t count; /* the caller's; 0 when the row was just made, PD_ROW_FREE: there is none */
    uint32_t step;  /* the caller's */
    float x[];      /* not set when the row was just made */
};

#define PD_ROW_FREE UINT32_MAX
#define PD_ROW_HEAD sizeof(struct pd_row)
#define PD_ROW_FLOATS_MOST (1 << 20)

static inline int64_t pd_row_id(const struct pd_row *row)
{
    int64_t id;
    memcpy(&id, row->id_words, sizeof id);
    return id;
}

/* Rows of `floats` floats, 0 to PD_ROW_FLOATS_MOST. */
pd_status pd_row_store_new(int floats, struct pd_row_store **out);
void pd_row_store_free(struct pd_row_store *store); /* NULL is fine */

/* out[i]: the row of ids[i], NULL when there is none. */
void pd_row_store_find(const struct pd_row_store *store, int64_t n, const int64_t *ids, struct pd_row **out);
/* The same, and rows that are not there are made. Ids may repeat. When memory is short rows that were made
 * until then stay. */
pd_status pd_row_store_make(struct pd_row_store *store, int64_t n, const int64_t *ids, struct pd_row **out);
/* Of a store without rows: so many are about to be made, which goes faster then. */
pd_status pd_row_store_reserve(struct pd_row_store *store, int64_t rows);
/* Its room is used again. 0: there is no such row. */
int pd_row_store_remove(struct pd_row_store *store, int64_t id);

int64_t pd_row_store_rows(const struct pd_row_store *store);   /* that are there */
uint64_t pd_row_store_bytes(const struct pd_row_store *store); /* that it holds */

/* Every row has a number below pd_row_store_numbers, for as long as it is there. NULL: none has this one. */
int64_t pd_row_store_numbers(const struct pd_row_store *store);
struct pd_row *pd_row_store_at(const struct pd_row_store *store, int64_t number);
/* The same as memory: chunks of rows of pd_row_store_stride bytes each, those that are free among them. */
size_t pd_row_store_stride(const struct pd_row_store *store);
int pd_row_store_chunks(const struct pd_row_store *store);
const void *pd_row_store_chunk(const struct pd_row_store *store, int chunk, int64_t *rows);

#endif
