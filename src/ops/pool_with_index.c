/* max_pool2d_with_index and max_pool3d_with_index: max pooling that also tells where in its plane each value
 * was found. */
#include "ops/out.h"
#include "ops/pool_shape.h"

enum { X };
enum { OUT, MASK };
enum { GRAD_MASK = 1, GRAD_DOUT };

static const struct pd_attr_def attrs_2d[] = {
    PD_DEF_INTS("ksize"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0),
    PD_DEF_BOOL("global_pooling", 0),
    PD_DEF_BOOL("adaptive", 0),
    {0},
};
static const struct pd_attr_def attrs_3d[] = {
    PD_DEF_INTS("ksize"),
    PD_DEF_INTS_OF("strides", 1, 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0),
    PD_DEF_BOOL("global_pooling", 0),
    PD_DEF_BOOL("adaptive", 0),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT), *mask = pd_infer_out(c, MASK);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(pd_pool_shape_read(c->attr, x, "NCHW", "EXPLICIT", 0, &pool, dim));
    if (out) {
        out->dtype = x->dtype;
        PD_TRY(pd_meta_set_dims(out, x->rank, dim));
    }
    if (mask) {
        mask->dtype = PD_DTYPE_INT32;
        PD_TRY(pd_meta_set_dims(mask, x->rank, dim));
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *mask = pd_run_out(r, MASK);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(pd_pool_shape_read(r->attr, &x->meta, "NCHW", "EXPLICIT", 0, &pool, dim));
    pd_pool_forward(&pool, x->meta.dtype == PD_DTYPE_FP64, x->data, pd_run_out(r, OUT)->data, mask->data);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    PD_TRY(pd_infer_need_type(c, GRAD_MASK, PD_DTYPE_INT32));
    pd_out_like(c, 0, X);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *mask = pd_run_in(r, GRAD_MASK),
                           *dy = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    if (!dx) return PD_OK;
    PD_TRY(pd_pool_shape_read(r->attr, &x->meta, "NCHW", "EXPLICIT", 0, &pool, dim));
    pd_pool_backward_index(&pool, dx->meta.dtype == PD_DTYPE_FP64, mask->data, dy->data, dx->data);
    return PD_OK;
}

#define POOL_OP(name, axes, text)                                                                            \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},                                               \
        .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Mask", 0}, {0}},                               \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "X Mask Out@",                                                                            \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs =                                                                                            \
            (const struct pd_slot_def[]){                                                                    \
                {"X", PD_SLOT_META}, {"Mask", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},                      \
        .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},                          \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = grad_infer,                                                                                 \
        .run = grad_run,                                                                                     \
    };

POOL_OP(max_pool2d_with_index, 2, "Max pooling over two axes, with the places of the values.")
POOL_OP(max_pool3d_with_index, 3, "Max pooling over three axes, with the places of the values.")
