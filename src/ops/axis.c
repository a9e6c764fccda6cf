/* See axis.h. */
#include "ops/axis.h"

pd_status pd_axis_of(int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return pd_fail(PD_RANGE, "axis is %lld, but the input has %d dimensions: give one of %d to %d",
                       (long long)axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return PD_OK;
}

struct pd_axis_lines pd_axis_lines(const struct pd_meta *x, int axis)
{
    return (struct pd_axis_lines){
        .outer = pd_meta_span(x, 0, axis), .n = x->dim[axis], .inner = pd_meta_span(x, axis + 1, x->rank)};
}
