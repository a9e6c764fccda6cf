/* What stands on a line of a text file of samples: slots, in their order. */
#ifndef PD_DATA_SCHEMA_H
#define PD_DATA_SCHEMA_H

#include "tensor/meta.h"

struct pd_slot {
    char *name;
    int is_float;         /* else whole numbers of 64 bits */
    int is_dense;         /* fed by its shape, without sequences */
    int is_used;          /* else its numbers are read over */
    struct pd_meta shape; /* of a dense one: one dimension may be -1 */
    int64_t unit; /* the product of its other dimensions: a sample has a multiple of so many numbers */
};

/* Slots are used by their number among the used ones ("column"). */
struct pd_schema {
    int n, n_used;
    struct pd_slot *slot;
    int has_id, has_text; /* a line begins with "1 <id>", then with "1 <text>" */
    int drops_zeros;      /* zeros of slots that are not dense are left out, as upstream does in memory */
};

/* Adds a slot; `shape` of a dense one, else NULL. Borrows all. */
pd_status pd_schema_add(struct pd_schema *schema, const char *name, int is_float, int is_used,
                        const struct pd_meta *shape);
void pd_schema_clear(struct pd_schema *schema);

#endif
