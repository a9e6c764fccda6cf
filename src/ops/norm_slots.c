/* See norm_slots.h. */
#include "ops/norm_slots.h"

#include "ops/check.h"
#include "ops/layout.h"
#include "ops/out.h"

const struct pd_slot_def pd_norm_slots_inputs[] = {
    {"X", 0}, {"Scale", PD_SLOT_OPTIONAL}, {"Bias", PD_SLOT_OPTIONAL}, {0}};
const struct pd_slot_def pd_norm_slots_grad_outputs[] = {
    {"X@GRAD", PD_SLOT_OPTIONAL}, {"Scale@GRAD", PD_SLOT_OPTIONAL}, {"Bias@GRAD", PD_SLOT_OPTIONAL}, {0}};

pd_status pd_norm_slots_check(const struct pd_infer *c, int x, int last, int64_t n, const char *what)
{
    const struct pd_meta *meta = pd_infer_in(c, x);
    for (int slot = 0; slot <= last; slot++) {
        const struct pd_meta *each = pd_infer_in(c, slot);
        const char *name = c->op->inputs[slot].name;
        if (slot == x || !each) continue;
        PD_TRY(pd_check_same_type(meta, "X", each, name));
        int64_t found = pd_meta_numel(each);
        if (found >= 0 && n >= 0 && found != n)
            return pd_fail(PD_SHAPE, "%s has shape %s, but X %s has %lld %s.", name, pd_meta_dims_text(each),
                           pd_meta_dims_text(meta), (long long)n, what);
    }
    return PD_OK;
}

pd_status pd_norm_slots_infer(const struct pd_infer *c, int x, int last, int rank, const int64_t *dim)
{
    enum pd_dtype dtype = pd_infer_in(c, x)->dtype;
    pd_out_like(c, 0, x);
    for (int slot = 1; slot <= last; slot++) {
        struct pd_meta *out = pd_infer_out(c, slot);
        if (!out) continue;
        out->dtype = dtype;
        PD_TRY(pd_meta_set_dims(out, rank, dim));
    }
    return PD_OK;
}

pd_status pd_norm_slots_grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, 0, PD_NORM_GRAD_DY);
    pd_out_like(c, 1, PD_NORM_GRAD_SCALE);
    pd_out_like(c, 2, PD_NORM_GRAD_BIAS);
    return PD_OK;
}

struct pd_norm pd_norm_slots_norm(const struct pd_meta *x, const char *layout)
{
    int last = pd_layout_channels_last(layout);
    return (struct pd_norm){.is_double = x->dtype == PD_DTYPE_FP64,
                            .channels = x->dim[last ? x->rank - 1 : 1],
                            .outer = last ? pd_meta_span(x, 0, x->rank - 1) : x->dim[0],
                            .inner = last ? 1 : pd_meta_span(x, 2, x->rank)};
}
