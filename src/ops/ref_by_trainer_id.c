/* ref_by_trainer_id: the one of several tensors that belongs to a trainer. */
#include "ops/numbers.h"
#include "ops/out.h"

static pd_status run(const struct pd_run *r)
{
    int64_t number = -1;
    PD_TRY(pd_number_whole(pd_run_in(r, 1), "TrainerId", &number));
    if (number < 0 || number >= r->in[0].n)
        return pd_fail(PD_RANGE, "TrainerId is %lld, but there are %d inputs X", (long long)number,
                       r->in[0].n);
    return pd_tensor_copy(pd_run_out(r, 0), pd_run_in_at(r, 0, (int)number));
}

const struct pd_op pd_op_ref_by_trainer_id = {
    .type = "ref_by_trainer_id",
    .doc = "The X that belongs to a trainer.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"TrainerId", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = pd_out_infer_same,
    .run = run,
};
