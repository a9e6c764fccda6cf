/* spp: spatial pyramid pooling. Level p cuts the image into 2^p by 2^p bins; the pooled bins of all levels
 * lie one after the other in a row of fixed length, whatever the size of the image. */
#include <string.h>

#include "kernels/pool.h"

#include "ops/check.h"
#include "ops/out.h"

enum { X };
enum { HEIGHT, TYPE };
enum { GRAD_X, GRAD_OUT, GRAD_DOUT };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("pyramid_height", 1), PD_DEF_STRING("pooling_type", "max"), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, 0);
    int height = c->attr[HEIGHT].i;
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    if (height < 1 || height > 15) return pd_fail(PD_INVALID, "pyramid_height is %d: give 1 to 15.", height);
    if (strcmp(c->attr[TYPE].s, "max") && strcmp(c->attr[TYPE].s, "avg"))
        return pd_fail(PD_INVALID, "pooling_type is '%s': give max or avg.", c->attr[TYPE].s);
    if (!out) return PD_OK;
    int64_t bins = (((int64_t)1 << (2 * height)) - 1) / 3;
    out->dtype = x->dtype;
    pd_meta_set_2d(out, x->dim[0], x->dim[1] < 0 ? -1 : bins * x->dim[1]);
    return PD_OK;
}

/* The pooling of one level of one image, and where its results start in the row. */
static struct pd_pool level_of(const struct pd_meta *x, const struct pd_attr *attr, int level, int64_t *at)
{
    int64_t bins = (int64_t)1 << level;
    struct pd_pool p = {.average = !strcmp(attr[TYPE].s, "avg"),
                        .exclusive = 1,
                        .batch = 1,
                        .channels = x->dim[1],
                        .in = {1, x->dim[2], x->dim[3]},
                        .out = {1, bins, bins},
                        .kernel = {1},
                        .stride = {1}};
    for (int i = 1; i < 3; i++) {
        p.kernel[i] = p.stride[i] = (p.in[i] + bins - 1) / bins;
        p.before[i] = (p.kernel[i] * bins - p.in[i] + 1) / 2;
    }
    *at = x->dim[1] * (((int64_t)1 << (2 * level)) - 1) / 3;
    return p;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    size_t item = pd_dtype_size(x->meta.dtype);
    int64_t image = pd_meta_span(&x->meta, 1, 4), row = out->meta.dim[1], at;
    for (int level = 0; level < r->attr[HEIGHT].i; level++) {
        struct pd_pool p = level_of(&x->meta, r->attr, level, &at);
        for (int64_t n = 0; n < x->meta.dim[0]; n++)
            pd_pool_forward(&p, item == 8, (const char *)x->data + (size_t)(n * image) * item,
                            (char *)out->data + (size_t)(n * row + at) * item, NULL);
    }
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, GRAD_X), *out = pd_run_in(r, GRAD_OUT),
                           *g = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    size_t item = pd_dtype_size(x->meta.dtype);
    int64_t image = pd_meta_span(&x->meta, 1, 4), row = g->meta.dim[1], at;
    for (int level = 0; level < r->attr[HEIGHT].i; level++) {
        struct pd_pool p = level_of(&x->meta, r->attr, level, &at);
        for (int64_t n = 0; n < x->meta.dim[0]; n++) {
            size_t x_at = (size_t)(n * image) * item, y_at = (size_t)(n * row + at) * item;
            pd_pool_backward(&p, item == 8, (const char *)x->data + x_at, (const char *)out->data + y_at,
                             (const char *)g->data + y_at, (char *)dx->data + x_at, level > 0);
        }
    }
    return PD_OK;
}

const struct pd_op pd_op_spp = {
    .type = "spp",
    .doc = "Spatial pyramid pooling to rows of fixed length.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "spp_grad",
    .grad_in = "X Out Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_spp_grad = {
    .type = "spp_grad",
    .doc = "Gradient of spp.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Out", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
