/* unpool: puts each value back to the place that max_pool2d_with_index found it at; all other places are 0.
 */
#include <string.h>

#include "ops/check.h"
#include "ops/label.h"
#include "ops/out.h"

enum { X, INDICES };
enum { OUT };
enum { KSIZE, STRIDES, PADDINGS, TYPE };
enum { GRAD_X, GRAD_INDICES, GRAD_OUT, GRAD_DOUT };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS("ksize"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0),
    PD_DEF_STRING("unpooling_type", "max"),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *indices = pd_infer_in(c, INDICES);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    PD_TRY(pd_check_same_dims(x, "X", indices, "Indices"));
    PD_TRY(pd_label_check_index(indices, "Indices"));
    if (strcmp(c->attr[TYPE].s, "max"))
        return pd_fail(PD_INVALID, "unpooling_type is '%s': give max.", c->attr[TYPE].s);
    for (int i = KSIZE; i <= PADDINGS; i++)
        if (c->attr[i].n != 2)
            return pd_fail(PD_INVALID, "%s has %d numbers: give two.", attrs[i].name, c->attr[i].n);
    if (!out) return PD_OK;
    int64_t dim[4] = {x->dim[0], x->dim[1]};
    for (int i = 0; i < 2; i++) {
        int64_t size = x->dim[2 + i];
        dim[2 + i] = size < 0 ? -1
                              : (size - 1) * c->attr[STRIDES].ints[i] -
                                    (int64_t)2 * c->attr[PADDINGS].ints[i] + c->attr[KSIZE].ints[i];
        if (size >= 0 && dim[2 + i] < 1)
            return pd_fail(PD_SHAPE, "X %s gives no output along axis %d with this padding.",
                           pd_meta_dims_text(x), i);
    }
    out->dtype = x->dtype;
    return pd_meta_set_dims(out, 4, dim);
}

static pd_status check_indices(const struct pd_tensor *indices, int64_t points)
{
    for (int64_t i = 0, n = pd_tensor_numel(indices); i < n; i++) {
        int64_t at = pd_label_at(indices, i);
        if (at < 0 || at >= points)
            return pd_fail(
                PD_RANGE, "Indices has %lld at element %lld, but an output plane has %lld places, 0 to %lld.",
                (long long)at, (long long)i, (long long)points, (long long)points - 1);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *indices = pd_run_in(r, INDICES);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t planes = pd_meta_span(&x_in->meta, 0, 2), points = pd_meta_span(&x_in->meta, 2, 4);
    int64_t out_points = pd_meta_span(&out->meta, 2, 4);
    PD_TRY(check_indices(indices, out_points));
    memset(out->data, 0, pd_tensor_bytes(out));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        T *to = out->data;
        for (int64_t i = 0; i < planes * points; i++)
            to[i / points * out_points + pd_label_at(indices, i)] = x[i];
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *indices = pd_run_in(r, GRAD_INDICES), *g = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t points = pd_meta_span(&dx->meta, 2, 4), out_points = pd_meta_span(&g->meta, 2, 4);
    PD_TRY(check_indices(indices, out_points));
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *from = g->data;
        T *to = dx->data;
        for (int64_t i = 0, n = pd_tensor_numel(dx); i < n; i++)
            to[i] = from[i / points * out_points + pd_label_at(indices, i)];
    })
    return PD_OK;
}

const struct pd_op pd_op_unpool = {
    .type = "unpool",
    .doc = "The inverse of max pooling, by the indices it gave.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Indices", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "unpool_grad",
    .grad_in = "X Indices Out Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_unpool_grad = {
    .type = "unpool_grad",
    .doc = "Gradient of unpool.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META},
                                           {"Indices", PD_SLOT_OWN_TYPE},
                                           {"Out", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
