/* One axis of a tensor. */
#ifndef PD_OPS_AXIS_H
#define PD_OPS_AXIS_H

#include "program/op.h"

/* An axis that may count from the end, in [-rank, rank). */
pd_status pd_axis_of(int64_t axis, int rank, int *out);

/* A tensor as outer x n x inner, n along the axis. */
struct pd_axis_lines {
    int64_t outer, n, inner;
};
struct pd_axis_lines pd_axis_lines(const struct pd_meta *x, int axis);

#endif
