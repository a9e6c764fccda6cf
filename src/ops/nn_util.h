/* Small checks that the ops of this family share. */
#ifndef PD_OPS_NN_UTIL_H
#define PD_OPS_NN_UTIL_H

#include <string.h>

#include "ops/check.h"

/* An axis that may count from the end. */
static inline pd_status pd_nn_axis(int axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return pd_fail(PD_RANGE, "axis is %d, but the input has %d dimensions: give one of %d to %d.", axis,
                       rank, -rank, rank - 1);
    *out = axis < 0 ? axis + rank : axis;
    return PD_OK;
}

/* Transpilers of v1.3 to v1.8 name servers in the op itself (attribute epmap), which then held the table's
 * rows. */
static inline pd_status pd_nn_table_is_here(const struct pd_attr *epmap)
{
    if (!epmap->n) return PD_OK;
    return pd_fail(
        PD_UNSUPPORTED,
        "the table lies on servers (epmap names %s), but this form of the op reads it here. Transpile "
        "the Program with this package's DistributeTranspiler, which puts distributed_lookup_table "
        "there.",
        epmap->strings[0]);
}

/* "NHWC" or "NDHWC"; everything else (NCHW, NCDHW, AnyLayout, ...) has the channels first. */
static inline int pd_nn_channels_last(const char *format)
{
    return format && (!strcmp(format, "NHWC") || !strcmp(format, "NDHWC"));
}

/* Scratch memory of this run, or an error. */
static inline pd_status pd_nn_scratch(const struct pd_run *r, size_t bytes, void **out)
{
    *out = r->step->scratch(r, bytes ? bytes : 1);
    return *out ? PD_OK : pd_no_memory();
}

/* Class numbers, int32 or int64. */
static inline int64_t pd_nn_label(const struct pd_tensor *labels, int64_t i)
{
    return labels->meta.dtype == PD_DTYPE_INT32 ? ((const int32_t *)labels->data)[i]
                                                : ((const int64_t *)labels->data)[i];
}

static inline pd_status pd_nn_need_labels(const struct pd_meta *meta, const char *slot)
{
    if (meta->dtype == PD_DTYPE_NONE || pd_dtype_is_index(meta->dtype)) return PD_OK;
    return pd_fail(
        PD_TYPE,
        "%s is %s, but class numbers are int64 or int32. Cast them, or set soft_label for probabilities.",
        slot, pd_dtype_name(meta->dtype));
}

/* Labels for `x`: class numbers, or with `soft` probabilities of the type of `x`. */
static inline pd_status pd_nn_label_type(const struct pd_meta *label, int soft, const struct pd_meta *x,
                                         const char *x_slot)
{
    return soft ? pd_check_same_type(x, x_slot, label, "Label") : pd_nn_need_labels(label, "Label");
}

/* Every label is in [0, classes) or the one to ignore. */
static inline pd_status pd_nn_check_labels(const struct pd_tensor *labels, int64_t n, int64_t classes,
                                           int64_t ignore)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t label = pd_nn_label(labels, i);
        if (__builtin_expect((uint64_t)label >= (uint64_t)classes, 0) && label != ignore)
            return pd_fail(
                PD_RANGE,
                "Label %lld of row %lld is out of range: there are %lld classes, so labels are 0 to %lld.",
                (long long)label, (long long)i, (long long)classes, (long long)classes - 1);
    }
    return PD_OK;
}

#endif
