/* Class numbers, int32 or int64. */
#ifndef PD_OPS_LABEL_H
#define PD_OPS_LABEL_H

#include "program/op.h"

static inline int64_t pd_label_at(const struct pd_tensor *labels, int64_t i)
{
    return labels->meta.dtype == PD_DTYPE_INT32 ? ((const int32_t *)labels->data)[i]
                                                : ((const int64_t *)labels->data)[i];
}

/* The type is one of them, or not known yet. */
pd_status pd_label_check_index(const struct pd_meta *meta, const char *slot);
/* Labels for `x`: class numbers, or with `soft` probabilities of the type of `x`. */
pd_status pd_label_check_type(const struct pd_meta *label, int soft, const struct pd_meta *x,
                              const char *x_slot);
/* Every one of n labels is in [0, classes) or the one to ignore. */
pd_status pd_label_check_range(const struct pd_tensor *labels, int64_t n, int64_t classes, int64_t ignore);

#endif
