/* max_sequence_len: the length of the longest sequence of a rank table. */
#include "ops/out.h"
#include "ops/rank_table.h"

static pd_status run(const struct pd_run *r)
{
    const struct pd_rank_table *t = NULL;
    PD_TRY(pd_rank_table_get(r, 0, &t));
    *(int64_t *)pd_run_out(r, 0)->data = t->n ? t->item[0].length : 0;
    return PD_OK;
}

const struct pd_op pd_op_max_sequence_len = {
    .type = "max_sequence_len",
    .doc = "Length of the longest sequence of a rank table.",
    .inputs = (const struct pd_slot_def[]){{"RankTable", PD_SLOT_OTHERS}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = pd_out_infer_int64,
    .run = run,
};
