/* affine_grid: a grid of places from 2 x 3 matrices, for grid_sampler. Places run from -1 to 1 along each
 * axis.
 */
#include <string.h>

#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { THETA, OUTPUT_SHAPE };
enum { SHAPE_ATTR };
enum { GRAD_OUTPUT, GRAD_SHAPE };

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("output_shape"), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *theta = pd_infer_in(c, THETA);
    struct pd_meta *out = pd_infer_out(c, 0);
    const struct pd_attr *shape = &c->attr[SHAPE_ATTR];
    PD_TRY(pd_check_float(theta, "Theta"));
    struct pd_meta want = {.rank = 3, .dim = {theta->dim[0], 2, 3}};
    PD_TRY(pd_check_same_dims(theta, "Theta", &want, "what is needed"));
    if (shape->n && shape->n != 4)
        return pd_fail(PD_INVALID, "output_shape has %d numbers: give four (batch, channels, height, width).",
                       shape->n);
    if (!shape->n && !c->in[OUTPUT_SHAPE].n)
        return pd_fail(PD_INVALID,
                       "There is neither an attribute output_shape nor an input OutputShape: give one.");
    if (!out) return PD_OK;
    int64_t dim[4] = {theta->dim[0], -1, -1, 2};
    if (c->running) {
        const struct pd_tensor *data = shape->n ? NULL : pd_infer_data(c, OUTPUT_SHAPE, 0);
        for (int i = 1; i < 3; i++) {
            dim[i] = shape->n ? shape->ints[i + 1] : 0;
            if (data) PD_TRY(pd_number_at(data, "OutputShape", i + 1, &dim[i]));
        }
    }
    out->dtype = theta->dtype;
    PD_TRY(pd_meta_set_dims(out, 4, dim));
    pd_meta_share_lod(out, theta);
    return PD_OK;
}

/* Place number i of n between -1 and 1. */
static double place(int64_t i, int64_t n)
{
    return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *theta = pd_run_in(r, THETA), *shape = pd_run_in(r, OUTPUT_SHAPE);
    struct pd_tensor *out = pd_run_out(r, 0);
    const struct pd_attr *attr = &r->attr[SHAPE_ATTR];
    int64_t dim[4] = {theta->meta.dim[0], 0, 0, 2};
    for (int i = 1; i < 3; i++) {
        dim[i] = attr->n ? attr->ints[i + 1] : 0;
        if (!attr->n) PD_TRY(pd_number_at(shape, "OutputShape", i + 1, &dim[i]));
        if (dim[i] < 1)
            return pd_fail(PD_INVALID, "The wanted grid is %lld along axis %d.", (long long)dim[i], i);
    }
    PD_TRY(pd_out_fit(out, theta->meta.dtype, 4, dim));
    PD_SWITCH_FLOAT(theta->meta.dtype, T, {
        const T *t = theta->data;
        T *to = out->data;
        for (int64_t n = 0; n < dim[0]; n++, t += 6)
            for (int64_t i = 0; i < dim[1]; i++)
                for (int64_t j = 0; j < dim[2]; j++, to += 2) {
                    T x = (T)place(j, dim[2]);
                    T y = (T)place(i, dim[1]);
                    to[0] = t[0] * x + t[1] * y + t[2];
                    to[1] = t[3] * x + t[4] * y + t[5];
                }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *g = pd_infer_in(c, GRAD_OUTPUT);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (g->rank != 4 || (g->dim[3] >= 0 && g->dim[3] != 2))
        return pd_fail(PD_SHAPE, "Output@GRAD has shape %s; it must be [N, H, W, 2]", pd_meta_dims_text(g));
    if (!out) return PD_OK;
    out->dtype = g->dtype;
    return pd_meta_set_dims(out, 3, (int64_t[]){g->dim[0], 2, 3});
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *g = pd_run_in(r, GRAD_OUTPUT);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (!out) return PD_OK;
    int64_t h = g->meta.dim[1], w = g->meta.dim[2];
    memset(out->data, 0, pd_tensor_bytes(out));
    PD_SWITCH_FLOAT(g->meta.dtype, T, {
        const T *d = g->data;
        T *t = out->data;
        for (int64_t n = 0; n < g->meta.dim[0]; n++, t += 6)
            for (int64_t i = 0; i < h; i++)
                for (int64_t j = 0; j < w; j++, d += 2)
                    for (int k = 0; k < 2; k++) {
                        t[3 * k] += d[k] * (T)place(j, w);
                        t[3 * k + 1] += d[k] * (T)place(i, h);
                        t[3 * k + 2] += d[k];
                    }
    })
    return PD_OK;
}

const struct pd_op pd_op_affine_grid = {
    .type = "affine_grid",
    .doc = "A grid of places from affine matrices.",
    .inputs =
        (const struct pd_slot_def[]){{"Theta", 0}, {"OutputShape", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Output", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "affine_grid_grad",
    .grad_in = "Output@ OutputShape",
    .grad_out = "Theta@",
};

const struct pd_op pd_op_affine_grid_grad = {
    .type = "affine_grid_grad",
    .doc = "Gradient of affine_grid.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Output@GRAD", 0}, {"OutputShape", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Theta@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
