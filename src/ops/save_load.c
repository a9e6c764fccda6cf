/* See save_load.h. */
#include "ops/save_load.h"

#include <errno.h>
#include <string.h>

#include "tensor/half.h"

pd_status pd_save_load_infer(const struct pd_infer *c)
{
    (void)c;
    return PD_OK;
}

pd_status pd_save_load_half(struct pd_tensor *to, const struct pd_tensor *from)
{
    int64_t n = pd_tensor_numel(from);
    PD_TRY(pd_tensor_resize(to, PD_DTYPE_FP16, from->meta.rank, from->meta.dim));
    pd_meta_share_lod(&to->meta, &from->meta);
    uint16_t *out = to->data;
    if (from->meta.dtype == PD_DTYPE_FP32)
        for (int64_t i = 0; i < n; i++)
            out[i] = pd_half_from_float(((const float *)from->data)[i]);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = pd_half_from_float((float)((const double *)from->data)[i]);
    return PD_OK;
}

pd_status pd_save_load_error(const char *doing, const char *path)
{
    return pd_fail(PD_IO, "cannot %s '%s': %s", doing, path, strerror(errno));
}
