/* The shape of a pooling from an op's input and attributes; shared by the pooling ops. */
#ifndef PD_OPS_POOL_SHAPE_H
#define PD_OPS_POOL_SHAPE_H

#include "kernels/pool.h"
#include "program/op.h"

/* Every pooling op's attribute table starts with these. */
enum {
    PD_POOL_KSIZE,
    PD_POOL_STRIDES,
    PD_POOL_PADDINGS,
    PD_POOL_GLOBAL,
    PD_POOL_ADAPTIVE,
    PD_POOL_OWN_ATTRS
};

/* Fills all but `average` and `exclusive`, and the dimensions of the result (-1 where the input's are not
 * known). */
pd_status pd_pool_shape_read(const struct pd_attr *attr, const struct pd_meta *x, const char *format,
                             const char *algorithm, int ceil_mode, struct pd_pool *pool, int64_t *out_dim);

#endif
