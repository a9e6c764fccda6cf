/* layer_norm: the dimensions from begin_norm_axis on are brought to mean 0 and variance 1, then scaled and
 * shifted. */
#include "kernels/layer_norm.h"

#include "ops/check.h"
#include "ops/norm_slots.h"
#include "ops/scratch.h"

enum { X, SCALE, BIAS };
enum { Y, MEAN, VARIANCE };
enum { EPSILON, BEGIN_AXIS };
enum { DX, D_SCALE, D_BIAS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_FLOAT("epsilon", 1e-5f), PD_DEF_INT("begin_norm_axis", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int axis = c->attr[BEGIN_AXIS].i;
    PD_TRY(pd_check_float(x, "X"));
    if (axis < 1 || axis >= x->rank)
        return pd_fail(PD_RANGE, "begin_norm_axis is %d, but X has shape %s: give 1 to %d.", axis,
                       pd_meta_dims_text(x), x->rank - 1);
    int64_t rows = pd_meta_span(x, 0, axis), cols = pd_meta_span(x, axis, x->rank);
    PD_TRY(pd_norm_slots_check(c, X, BIAS, cols, "numbers from begin_norm_axis on"));
    return pd_norm_slots_infer(c, X, VARIANCE, 1, &rows);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *scale = pd_run_in(r, SCALE), *bias = pd_run_in(r, BIAS);
    struct pd_tensor *mean = pd_run_out(r, MEAN), *variance = pd_run_out(r, VARIANCE);
    int axis = r->attr[BEGIN_AXIS].i;
    int64_t rows = pd_meta_span(&x->meta, 0, axis), cols = pd_meta_span(&x->meta, axis, x->meta.rank);
    size_t bytes = (size_t)rows * pd_dtype_size(x->meta.dtype);
    void *spare = NULL;
    if (!mean || !variance) PD_TRY(pd_scratch(r, 2 * bytes, &spare));
    pd_layer_norm(&(struct pd_layer_norm){.is_double = x->meta.dtype == PD_DTYPE_FP64,
                                          .rows = rows,
                                          .cols = cols,
                                          .epsilon = r->attr[EPSILON].f,
                                          .x = x->data,
                                          .scale = scale ? scale->data : NULL,
                                          .bias = bias ? bias->data : NULL,
                                          .y = pd_run_out(r, Y)->data,
                                          .mean = mean ? mean->data : spare,
                                          .variance = variance ? variance->data : (char *)spare + bytes});
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, PD_NORM_GRAD_X), *scale = pd_run_in(r, PD_NORM_GRAD_SCALE);
    struct pd_tensor *dx = pd_run_out(r, DX), *d_scale = pd_run_out(r, D_SCALE),
                     *d_bias = pd_run_out(r, D_BIAS);
    int axis = r->attr[BEGIN_AXIS].i;
    if (!scale) d_scale = NULL;
    if (!pd_run_in(r, PD_NORM_GRAD_BIAS)) d_bias = NULL;
    pd_layer_norm_grad(&(struct pd_layer_norm_grad){.is_double = x->meta.dtype == PD_DTYPE_FP64,
                                                    .rows = pd_meta_span(&x->meta, 0, axis),
                                                    .cols = pd_meta_span(&x->meta, axis, x->meta.rank),
                                                    .epsilon = r->attr[EPSILON].f,
                                                    .x = x->data,
                                                    .scale = scale ? scale->data : NULL,
                                                    .mean = pd_run_in(r, PD_NORM_GRAD_MEAN)->data,
                                                    .variance = pd_run_in(r, PD_NORM_GRAD_VARIANCE)->data,
                                                    .dy = pd_run_in(r, PD_NORM_GRAD_DY)->data,
                                                    .dx = dx ? dx->data : NULL,
                                                    .d_scale = d_scale ? d_scale->data : NULL,
                                                    .d_bias = d_bias ? d_bias->data : NULL});
    return PD_OK;
}

const struct pd_op pd_op_layer_norm = {
    .type = "layer_norm",
    .doc = "Normalises each row.",
    .inputs = pd_norm_slots_inputs,
    .outputs = (const struct pd_slot_def[]){{"Y", 0},
                                            {"Mean", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {"Variance", PD_SLOT_HIDDEN | PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "layer_norm_grad",
    .grad_in = "X Mean Variance Scale Bias Y@",
    .grad_out = "X@ Scale@ Bias@",
};

const struct pd_op pd_op_layer_norm_grad = {
    .type = "layer_norm_grad",
    .doc = "Gradient of layer_norm.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Mean", 0},
                                           {"Variance", 0},
                                           {"Scale", PD_SLOT_OPTIONAL},
                                           {"Bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {"Y@GRAD", 0},
                                           {0}},
    .outputs = pd_norm_slots_grad_outputs,
    .attrs = attrs,
    .infer = pd_norm_slots_grad_infer,
    .run = grad_run,
};
