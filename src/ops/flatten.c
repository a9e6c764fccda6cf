/* flatten and flatten2: dimensions merge into two. The elements stay where they are. */
#include "ops/view.h"

enum { X };
enum { AXIS };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int axis = c->attr[AXIS].i;
    if (axis < 0 || axis > x->rank)
        return pd_fail(PD_RANGE, "axis is %d, but X has shape %s: give one of 0 to %d", axis,
                       pd_meta_dims_text(x), x->rank);
    int64_t dim[2] = {pd_meta_span(x, 0, axis), pd_meta_span(x, axis, x->rank)};
    return pd_view_set_out(c, 2, dim);
}

PD_VIEW_OPS(flatten, "Merges the dimensions before and from axis on into two.", pd_view_inputs, attrs, infer,
            pd_view_run);
