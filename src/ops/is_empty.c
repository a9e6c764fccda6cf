/* is_empty: whether a tensor has no elements, as data. */
#include "ops/out.h"

static pd_status infer(const struct pd_infer *c)
{
    pd_out_number(c, 0, PD_DTYPE_BOOL);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    *(uint8_t *)pd_run_out(r, 0)->data = pd_tensor_numel(pd_run_in(r, 0)) == 0;
    return PD_OK;
}

const struct pd_op pd_op_is_empty = {
    .type = "is_empty",
    .doc = "Whether X has no elements.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out"}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
};
