/* See check.h. */
#include "ops/check.h"

pd_status pd_check_float(const struct pd_meta *meta, const char *slot)
{
    if (meta->dtype == PD_DTYPE_NONE || pd_dtype_is_float(meta->dtype)) return PD_OK;
    return pd_fail(PD_TYPE, "%s is %s; float32 or float64 is needed, cast it first", slot,
                   pd_dtype_name(meta->dtype));
}

pd_status pd_check_index(const struct pd_meta *meta, const char *slot)
{
    if (meta->dtype == PD_DTYPE_NONE || pd_dtype_is_index(meta->dtype)) return PD_OK;
    return pd_fail(PD_TYPE, "%s must be int64 or int32, found %s", slot, pd_dtype_name(meta->dtype));
}

/* What is read has a type. */
static pd_status check_known(const struct pd_tensor *t, const char *slot)
{
    if (t->meta.dtype != PD_DTYPE_NONE) return PD_OK;
    return pd_fail(PD_TYPE, "%s has no element type: nothing has been written to it", slot);
}

pd_status pd_check_float_data(const struct pd_tensor *t, const char *slot)
{
    PD_TRY(check_known(t, slot));
    return pd_check_float(&t->meta, slot);
}

pd_status pd_check_index_data(const struct pd_tensor *t, const char *slot)
{
    PD_TRY(check_known(t, slot));
    return pd_check_index(&t->meta, slot);
}

pd_status pd_check_number_data(const struct pd_tensor *t, const char *slot)
{
    if (pd_dtype_is_float(t->meta.dtype) || pd_dtype_is_index(t->meta.dtype)) return PD_OK;
    return pd_fail(PD_TYPE, "%s is %s; float32, float64, int32 or int64 is needed, cast it first", slot,
                   pd_dtype_name(t->meta.dtype));
}

pd_status pd_check_ids_data(const struct pd_tensor *t, const char *slot)
{
    if (t->meta.dtype == PD_DTYPE_INT64) return PD_OK;
    return pd_fail(PD_TYPE, "%s must be int64, found %s", slot, pd_dtype_name(t->meta.dtype));
}

pd_status pd_check_same_type(const struct pd_meta *a, const char *a_slot, const struct pd_meta *b,
                             const char *b_slot)
{
    if (a->dtype == b->dtype || a->dtype == PD_DTYPE_NONE || b->dtype == PD_DTYPE_NONE) return PD_OK;
    return pd_fail(PD_TYPE, "%s is %s and %s is %s; they must be of one type, cast one of them", a_slot,
                   pd_dtype_name(a->dtype), b_slot, pd_dtype_name(b->dtype));
}

pd_status pd_check_same_dims(const struct pd_meta *a, const char *a_slot, const struct pd_meta *b,
                             const char *b_slot)
{
    if (pd_meta_dims_match(a, b)) return PD_OK;
    return pd_fail(PD_SHAPE, "%s has shape %s and %s has shape %s; they must be the same", a_slot,
                   pd_meta_dims_text(a), b_slot, pd_meta_dims_text(b));
}

pd_status pd_check_rank(const struct pd_meta *meta, const char *slot, int low, int high)
{
    if (meta->rank >= low && meta->rank <= high) return PD_OK;
    if (low == high)
        return pd_fail(PD_SHAPE, "%s has shape %s, but needs %d dimensions", slot, pd_meta_dims_text(meta),
                       low);
    return pd_fail(PD_SHAPE, "%s has shape %s, but needs %d to %d dimensions", slot, pd_meta_dims_text(meta),
                   low, high);
}

pd_status pd_check_dtype(int number, const char *attr, enum pd_dtype *dtype)
{
    if (!pd_dtype_size((enum pd_dtype)number))
        return pd_fail(PD_TYPE, "attribute %s is %d, which is no element type; use e.g. 5 for float32", attr,
                       number);
    *dtype = (enum pd_dtype)number;
    return PD_OK;
}
