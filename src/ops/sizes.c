/* shape, size, is_empty: what a tensor's meta data tell, as data. */
#include "ops/math_util.h"

static const struct pd_slot_def input[] = {{"Input", PD_SLOT_META}, {0}};
static const struct pd_slot_def x_input[] = {{"X", PD_SLOT_META}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status shape_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (!out) return PD_OK;
    out->dtype = PD_DTYPE_INT32;
    pd_meta_set_1d(out, pd_infer_in(c, 0)->rank);
    return PD_OK;
}

static pd_status shape_run(const struct pd_run *r)
{
    const struct pd_value *in = pd_run_in_value(r, 0);
    int32_t *to = pd_run_out(r, 0)->data;
    for (int i = 0; i < in->tensor.meta.rank; i++)
        to[i] = (int32_t)in->tensor.meta.dim[i];
    return PD_OK;
}

const struct pd_op pd_op_shape = {
    .type = "shape",
    .doc = "The sizes of the input's dimensions.",
    .inputs = input,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = shape_infer,
    .run = shape_run,
};

static pd_status size_infer(const struct pd_infer *c)
{
    pd_math_out_scalar(c, 0, PD_DTYPE_INT64);
    return PD_OK;
}

static pd_status size_run(const struct pd_run *r)
{
    *(int64_t *)pd_run_out(r, 0)->data = pd_tensor_numel(pd_run_in(r, 0));
    return PD_OK;
}

const struct pd_op pd_op_size = {
    .type = "size",
    .doc = "How many elements the input has.",
    .inputs = input,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = size_infer,
    .run = size_run,
};

static pd_status empty_infer(const struct pd_infer *c)
{
    pd_math_out_scalar(c, 0, PD_DTYPE_BOOL);
    return PD_OK;
}

static pd_status empty_run(const struct pd_run *r)
{
    *(uint8_t *)pd_run_out(r, 0)->data = pd_tensor_numel(pd_run_in(r, 0)) == 0;
    return PD_OK;
}

const struct pd_op pd_op_is_empty = {
    .type = "is_empty",
    .doc = "Whether X has no elements.",
    .inputs = x_input,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = empty_infer,
    .run = empty_run,
};
