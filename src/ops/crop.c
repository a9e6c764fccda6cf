/* crop and crop_tensor: a box of a tensor at given offsets; -1 in the shape takes all that is left. */
#include <string.h>

#include "kernels/copy.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { X, Y, OFFSETS_T };                                      /* crop */
enum { T_SHAPE = 1, T_OFFSETS, T_SHAPE_LIST, T_OFFSETS_LIST }; /* crop_tensor */
enum { OUT };
enum { OFFSETS, SHAPE };

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("offsets"), PD_DEF_INTS("shape"), {0}};
static const struct pd_numbers_source crop_offsets = {"offsets", OFFSETS_T, -1, OFFSETS, 0};
static const struct pd_numbers_source crop_shape = {"shape", -1, -1, SHAPE, 0};
static const struct pd_numbers_source tensor_offsets = {"offsets", T_OFFSETS, T_OFFSETS_LIST, OFFSETS, 1};
static const struct pd_numbers_source tensor_shape = {"shape", T_SHAPE, T_SHAPE_LIST, SHAPE, 1};

struct box {
    int64_t start[PD_MAX_RANK], size[PD_MAX_RANK];
};

/* Sizes that are not known while a Program is built stay -1. */
static pd_status resolve(const struct pd_meta *x, const struct pd_numbers *offsets,
                         const struct pd_numbers *shape, struct box *box)
{
    if (shape->n != x->rank)
        return pd_fail(PD_INVALID, "shape has %d numbers, but X has shape %s: give one for each dimension",
                       shape->n, pd_meta_dims_text(x));
    if (offsets->known && offsets->n && offsets->n != x->rank)
        return pd_fail(PD_INVALID, "offsets has %d numbers, but X has shape %s: give one for each dimension",
                       offsets->n, pd_meta_dims_text(x));
    for (int i = 0; i < x->rank; i++) {
        int64_t start = offsets->n ? (i < offsets->n ? offsets->at[i] : -1) : 0, size = shape->at[i];
        int known = offsets->known && x->dim[i] >= 0;
        /* A size that a tensor gives: the attribute holds 0 or -1 in its place. */
        if (!shape->known && size <= 0) {
            box->start[i] = start;
            box->size[i] = -1;
            continue;
        }
        if (shape->known && size < -1)
            return pd_fail(PD_INVALID, "shape[%d] is %lld; give a size, or -1 for all that is left", i,
                           (long long)size);
        if (size < 0 && start >= 0 && x->dim[i] >= 0) size = x->dim[i] - start;
        if (known && size >= 0 && (start < 0 || start + size > x->dim[i]))
            return pd_fail(
                PD_RANGE,
                "dimension %d of X (shape %s) has no %lld elements from %lld on; change offsets or shape", i,
                pd_meta_dims_text(x), (long long)size, (long long)start);
        box->start[i] = start;
        box->size[i] = size;
    }
    return PD_OK;
}

static pd_status infer_any(const struct pd_infer *c, const struct pd_numbers_source *offset_source,
                           const struct pd_numbers_source *shape_source)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_numbers offsets, shape;
    struct box box;
    PD_TRY(pd_numbers_infer(c, offset_source, &offsets));
    if (shape_source) {
        PD_TRY(pd_numbers_infer(c, shape_source, &shape));
    } else {
        const struct pd_meta *y = pd_infer_in(c, Y);
        shape.n = y->rank;
        shape.known = 1;
        memcpy(shape.at, y->dim, (size_t)y->rank * sizeof *y->dim);
    }
    PD_TRY(resolve(x, &offsets, &shape, &box));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    return pd_meta_set_dims(out, x->rank, box.size);
}

static pd_status crop_infer(const struct pd_infer *c)
{
    return infer_any(c, &crop_offsets, c->in[Y].n ? NULL : &crop_shape);
}

static pd_status tensor_infer(const struct pd_infer *c)
{
    return infer_any(c, &tensor_offsets, &tensor_shape);
}

static pd_status cut(const struct pd_run *r, const struct box *box)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    PD_TRY(pd_out_fit(out, x->meta.dtype, x->meta.rank, box->size));
    pd_elements_copy_box(&x->meta, box->start, box->size, 0, out->data, x->data);
    return PD_OK;
}

static pd_status crop_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct pd_numbers offsets, shape;
    struct box box;
    PD_TRY(pd_numbers_run(r, &crop_offsets, &offsets));
    PD_TRY(pd_numbers_run(r, &crop_shape, &shape));
    if (y) {
        shape.n = y->meta.rank;
        memcpy(shape.at, y->meta.dim, (size_t)y->meta.rank * sizeof *y->meta.dim);
    }
    PD_TRY(resolve(&x->meta, &offsets, &shape, &box));
    return cut(r, &box);
}

static pd_status tensor_run(const struct pd_run *r)
{
    struct pd_numbers offsets, shape;
    struct box box;
    PD_TRY(pd_numbers_run(r, &tensor_offsets, &offsets));
    PD_TRY(pd_numbers_run(r, &tensor_shape, &shape));
    PD_TRY(resolve(&pd_run_in(r, X)->meta, &offsets, &shape, &box));
    return cut(r, &box);
}

/* Slots of both gradient ops: X, Offsets, OffsetsTensor, Out@GRAD. */
enum { G_X, G_OFFSETS, G_OFFSETS_LIST, G_DOUT };
static const struct pd_numbers_source grad_offsets = {"offsets", G_OFFSETS, G_OFFSETS_LIST, OFFSETS, 1};

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct pd_numbers offsets, shape = {.n = dout->meta.rank, .known = 1};
    struct box box;
    if (!dx) return PD_OK;
    memcpy(shape.at, dout->meta.dim, (size_t)dout->meta.rank * sizeof *dout->meta.dim);
    PD_TRY(pd_numbers_run(r, &grad_offsets, &offsets));
    PD_TRY(resolve(&dx->meta, &offsets, &shape, &box));
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    pd_elements_copy_box(&dx->meta, box.start, box.size, 1, dx->data, dout->data);
    return PD_OK;
}

static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"X", PD_SLOT_META},
    {"Offsets", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"OffsetsTensor", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
    {"Out@GRAD", 0},
    {0}};

const struct pd_op pd_op_crop = {
    .type = "crop",
    .doc = "The box of X at offsets, with the shape of Y or as given.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Y", PD_SLOT_OPTIONAL | PD_SLOT_META | PD_SLOT_OWN_TYPE},
                                           {"Offsets", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                           {0}},
    .outputs = outputs,
    .attrs = attrs,
    .infer = crop_infer,
    .run = crop_run,
    .grad_type = "crop_grad",
    .grad_in = "X Offsets Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_crop_grad = {
    .type = "crop_grad",
    .doc = "Gradient of crop: zeros around the gradient of the box.",
    .inputs = grad_inputs,
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};

const struct pd_op pd_op_crop_tensor = {
    .type = "crop_tensor",
    .doc = "The box of X at offsets; shape and offsets may be tensors.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Shape", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                           {"Offsets", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                           {"ShapeTensor", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_SIZES},
                                           {"OffsetsTensor", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_SIZES},
                                           {0}},
    .outputs = outputs,
    .attrs = attrs,
    .infer = tensor_infer,
    .run = tensor_run,
    .grad_type = "crop_tensor_grad",
    .grad_in = "X Offsets OffsetsTensor Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_crop_tensor_grad = {
    .type = "crop_tensor_grad",
    .doc = "Gradient of crop_tensor: zeros around the gradient of the box.",
    .inputs = grad_inputs,
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
