/* A batch: what each used slot feeds, made from records. Its memory is kept from batch to batch. */
#ifndef PD_DATA_BATCH_H
#define PD_DATA_BATCH_H

#include "data/schema.h"
#include "tensor/value.h"

struct pd_batch {
    const struct pd_schema *schema;
    struct pd_value **value; /* by column */
    char **to;               /* where the next number of a column goes */
    int64_t *total;          /* numbers of a column */
    int64_t samples;
};

pd_status pd_batch_init(struct pd_batch *batch, const struct pd_schema *schema);
void pd_batch_clear(struct pd_batch *batch);
/* Borrows the records. */
pd_status pd_batch_fill(struct pd_batch *batch, const char *const *records, int64_t n);

#endif
