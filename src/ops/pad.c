/* pad and pad_constant_like: a tensor inside a larger one that is filled with one number. */
#include <string.h>

#include "ops/elements.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };
enum { PADDINGS, PAD_VALUE };

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("paddings"), PD_DEF_FLOAT("pad_value", 0), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    const struct pd_attr *pads = &c->attr[PADDINGS];
    int64_t dim[PD_MAX_RANK];
    if (pads->n != 2 * x->rank)
        return pd_fail(PD_INVALID, "paddings has %d numbers, but X has shape %s: give two for each dimension",
                       pads->n, pd_meta_dims_text(x));
    for (int i = 0; i < x->rank; i++) {
        if (pads->ints[2 * i] < 0 || pads->ints[2 * i + 1] < 0)
            return pd_fail(PD_INVALID, "paddings of dimension %d are %d and %d; they may not be negative", i,
                           pads->ints[2 * i], pads->ints[2 * i + 1]);
        dim[i] = x->dim[i] < 0 ? -1 : x->dim[i] + pads->ints[2 * i] + pads->ints[2 * i + 1];
    }
    return pd_out_dims(out, x, x->rank, dim);
}

static void starts_of(const struct pd_attr *pads, int rank, int64_t *start)
{
    for (int i = 0; i < rank; i++)
        start[i] = pads->ints[2 * i];
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t start[PD_MAX_RANK];
    starts_of(&r->attr[PADDINGS], x->meta.rank, start);
    PD_TRY(pd_elements_fill(out->data, out->meta.dtype, pd_tensor_numel(out), r->attr[PAD_VALUE].f));
    pd_elements_copy_box(&out->meta, start, x->meta.dim, 1, out->data, x->data);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *dout = pd_infer_in(c, 0);
    struct pd_meta *dx = pd_infer_out(c, 0);
    const struct pd_attr *pads = &c->attr[PADDINGS];
    if (!dx) return PD_OK;
    if (pads->n != 2 * dout->rank)
        return pd_fail(PD_INVALID, "paddings has %d numbers, but the gradient has shape %s", pads->n,
                       pd_meta_dims_text(dout));
    pd_meta_like(dx, dout);
    for (int i = 0; i < dout->rank; i++)
        if (dout->dim[i] >= 0) dx->dim[i] = dout->dim[i] - pads->ints[2 * i] - pads->ints[2 * i + 1];
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 0);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int64_t start[PD_MAX_RANK];
    if (!dx) return PD_OK;
    starts_of(&r->attr[PADDINGS], dx->meta.rank, start);
    pd_elements_copy_box(&dout->meta, start, dx->meta.dim, 0, dx->data, dout->data);
    return PD_OK;
}

/* ---- pad_constant_like ---- */

enum { LIKE_VALUE };
static const struct pd_attr_def like_attrs[] = {PD_DEF_FLOAT("pad_value", 0), {0}};
static const int64_t corner[PD_MAX_RANK];

static pd_status check_fits(const struct pd_meta *x, const struct pd_meta *y)
{
    int bad = x->rank != y->rank;
    for (int i = 0; !bad && i < x->rank; i++)
        bad = x->dim[i] >= 0 && y->dim[i] > x->dim[i];
    if (!bad) return PD_OK;
    return pd_fail(
        PD_SHAPE,
        "Y of shape %s does not fit into X of shape %s; each of its dimensions may be at most as large",
        pd_meta_dims_text(y), pd_meta_dims_text(x));
}

static pd_status like_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(check_fits(x, y));
    if (!out) return PD_OK;
    pd_meta_like(out, x);
    out->dtype = y->dtype;
    return PD_OK;
}

static pd_status like_run(const struct pd_run *r)
{
    const struct pd_tensor *y = pd_run_in(r, Y);
    struct pd_tensor *out = pd_run_out(r, OUT);
    PD_TRY(pd_elements_fill(out->data, out->meta.dtype, pd_tensor_numel(out), r->attr[LIKE_VALUE].f));
    pd_elements_copy_box(&out->meta, corner, y->meta.dim, 1, out->data, y->data);
    return PD_OK;
}

static pd_status like_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dy = pd_run_out(r, 0);
    if (!dy) return PD_OK;
    PD_TRY(check_fits(&dout->meta, &dy->meta));
    pd_elements_copy_box(&dout->meta, corner, dy->meta.dim, 0, dy->data, dout->data);
    return PD_OK;
}

static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};

const struct pd_op pd_op_pad = {
    .type = "pad",
    .doc = "Puts pad_value around X, paddings[2 i] before and paddings[2 i + 1] after dimension i.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "pad_grad",
    .grad_in = "Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_pad_grad = {
    .type = "pad_grad",
    .doc = "Gradient of pad: the inner part.",
    .inputs = (const struct pd_slot_def[]){{"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};

const struct pd_op pd_op_pad_constant_like = {
    .type = "pad_constant_like",
    .doc = "Y at the start of a tensor shaped like X, the rest filled with pad_value.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META | PD_SLOT_OWN_TYPE}, {"Y", 0}, {0}},
    .outputs = outputs,
    .attrs = like_attrs,
    .infer = like_infer,
    .run = like_run,
    .grad_type = "pad_constant_like_grad",
    .grad_in = "Y Out@",
    .grad_like = "X=Out@",
    .grad_out = "Y@",
};

const struct pd_op pd_op_pad_constant_like_grad = {
    .type = "pad_constant_like_grad",
    .doc = "Gradient of pad_constant_like: the part that was Y.",
    .inputs = (const struct pd_slot_def[]){{"Y", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = like_attrs,
    .infer = pd_out_infer_like,
    .run = like_grad_run,
};
