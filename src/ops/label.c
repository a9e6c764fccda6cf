/* See label.h. */
#include "ops/label.h"

#include "ops/check.h"

pd_status pd_label_check_index(const struct pd_meta *meta, const char *slot)
{
    if (meta->dtype == PD_DTYPE_NONE || pd_dtype_is_index(meta->dtype)) return PD_OK;
    return pd_fail(
        PD_TYPE,
        "%s is %s, but class numbers are int64 or int32. Cast them, or set soft_label for probabilities.",
        slot, pd_dtype_name(meta->dtype));
}

pd_status pd_label_check_type(const struct pd_meta *label, int soft, const struct pd_meta *x,
                              const char *x_slot)
{
    return soft ? pd_check_same_type(x, x_slot, label, "Label") : pd_label_check_index(label, "Label");
}

pd_status pd_label_check_range(const struct pd_tensor *labels, int64_t n, int64_t classes, int64_t ignore)
{
    if (pd_tensor_numel(labels) < n)
        return pd_fail(PD_SHAPE, "Label has shape %s, which is too few for %lld rows",
                       pd_meta_dims_text(&labels->meta), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t label = pd_label_at(labels, i);
        if (__builtin_expect((uint64_t)label >= (uint64_t)classes, 0) && label != ignore)
            return pd_fail(
                PD_RANGE,
                "Label %lld of row %lld is out of range: there are %lld classes, so labels are 0 to %lld.",
                (long long)label, (long long)i, (long long)classes, (long long)classes - 1);
    }
    return PD_OK;
}
