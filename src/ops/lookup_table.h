/* What ops share that look rows of a table up. */
#ifndef PD_OPS_LOOKUP_TABLE_H
#define PD_OPS_LOOKUP_TABLE_H

#include "program/op.h"

/* Ids that are not int64 are converted, into room of as many bytes. */
static inline size_t pd_lookup_ids_room(const struct pd_tensor *ids)
{
    return ids->meta.dtype == PD_DTYPE_INT64 ? 0 : (size_t)pd_tensor_numel(ids) * sizeof(int64_t);
}

/* The ids as int64, all in [0, height) or equal to `padding` (>= 0). */
pd_status pd_lookup_ids(const struct pd_tensor *ids, int64_t height, int64_t padding, int64_t *room,
                        const int64_t **out);

/* Transpilers of v1.3 to v1.8 name servers in the op itself (attribute epmap), which then held the table's
 * rows. */
pd_status pd_lookup_is_here(const struct pd_attr *epmap);

#endif
