/* pool2d and pool3d: the largest value or the average under each window. */
#include <string.h>

#include "kernels/pool.h"

#include "ops/out.h"
#include "ops/pool_shape.h"

enum { X };
enum { OUT };
enum { TYPE = PD_POOL_OWN_ATTRS, EXCLUSIVE, CEIL_MODE, ALGORITHM, FORMAT };
enum { GRAD_OUT = 1, GRAD_DOUT };

#define POOL_ATTRS(format)                                                                                   \
    PD_DEF_STRING("pooling_type", ""), PD_DEF_BOOL("exclusive", 1), PD_DEF_BOOL("ceil_mode", 0),             \
        PD_DEF_STRING("padding_algorithm", "EXPLICIT"), PD_DEF_STRING("data_format", format),                \
        PD_DEF_BOOL("is_test", 0)

static const struct pd_attr_def attrs_2d[] = {
    PD_DEF_INTS("ksize"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0),
    PD_DEF_BOOL("global_pooling", 0),
    PD_DEF_BOOL("adaptive", 0),
    POOL_ATTRS("NCHW"),
    {0},
};
static const struct pd_attr_def attrs_3d[] = {
    PD_DEF_INTS("ksize"),
    PD_DEF_INTS_OF("strides", 1, 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0),
    PD_DEF_BOOL("global_pooling", 0),
    PD_DEF_BOOL("adaptive", 0),
    POOL_ATTRS("NCDHW"),
    {0},
};

static pd_status shape_of(const struct pd_attr *attr, const struct pd_meta *x, struct pd_pool *p,
                          int64_t *out)
{
    const char *type = attr[TYPE].s;
    if (strcmp(type, "max") && strcmp(type, "avg"))
        return pd_fail(PD_INVALID, "pooling_type is '%s': give max or avg.", type);
    PD_TRY(pd_pool_shape_read(attr, x, attr[FORMAT].s, attr[ALGORITHM].s, attr[CEIL_MODE].b, p, out));
    p->average = !strcmp(type, "avg");
    p->exclusive = attr[EXCLUSIVE].b;
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(shape_of(c->attr, x, &pool, dim));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    PD_TRY(pd_meta_set_dims(out, x->rank, dim));
    pd_meta_share_lod(out, x);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(shape_of(r->attr, &x->meta, &pool, dim));
    pd_pool_forward(&pool, x->meta.dtype == PD_DTYPE_FP64, x->data, pd_run_out(r, OUT)->data, NULL);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, GRAD_OUT), *dy = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct pd_pool pool;
    int64_t dim[PD_MAX_RANK];
    if (!dx) return PD_OK;
    PD_TRY(shape_of(r->attr, &x->meta, &pool, dim));
    pd_pool_backward(&pool, dx->meta.dtype == PD_DTYPE_FP64, x->data, y->data, dy->data, dx->data, 0);
    return PD_OK;
}

#define POOL_OP(name, axes, text)                                                                            \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},                                               \
        .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},                                            \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "X Out Out@",                                                                             \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Out", 0}, {"Out@GRAD", 0}, {0}},                  \
        .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},                          \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = pd_out_infer_like,                                                                          \
        .run = grad_run,                                                                                     \
    };

POOL_OP(pool2d, 2, "Pooling over two axes.")
POOL_OP(pool3d, 3, "Pooling over three axes.")
