/* What rows of a table without a fixed vocabulary begin with: the numbers that the whole table would have
 * there, drawn when a row is needed.
 *
 * A block of the server's Program says how: one random fill of a row (attributes row_begin and height of
 * ops/random.c). A row is a function of the seed, the op's place in the user's Program and the id, so that a
 * row which was never trained is the same each time, here and in one process. */
#ifndef PD_PSERVER_ROW_START_H
#define PD_PSERVER_ROW_START_H

#include "pserver/engine.h"

struct pd_row_start;

/* `table` is what the op of the block fills. Borrows the Program. */
pd_status pd_row_start_new(const struct pd_engine *engine, int block, const char *table, int64_t width,
                           struct pd_row_start **out);
void pd_row_start_free(struct pd_row_start *start); /* NULL is fine */
/* Of ops without a seed of the user's: kept with the rows, for a server that is started again. */
uint64_t pd_row_start_seed(const struct pd_row_start *start);
void pd_row_start_set_seed(struct pd_row_start *start, uint64_t seed);
/* A row of `width` floats. */
pd_status pd_row_start_fill(struct pd_row_start *start, int64_t id, float *out);

#endif
