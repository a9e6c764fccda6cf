/* shape: the sizes of a tensor's dimensions, as data. */
#include "program/op.h"

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (!out) return PD_OK;
    out->dtype = PD_DTYPE_INT32;
    pd_meta_set_1d(out, pd_infer_in(c, 0)->rank);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
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
    .inputs = (const struct pd_slot_def[]){{"Input", PD_SLOT_META}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out"}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
};
