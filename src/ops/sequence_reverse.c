/* sequence_reverse: turns each sequence around. */
#include <string.h>

#include "ops/out.h"
#include "ops/seq.h"

static pd_status infer(const struct pd_infer *c)
{
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, 0, &level));
    }
    pd_out_same(c, 0, 0);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    const struct pd_lod_level *level = pd_seq_last(x);
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype);
    char *y = pd_run_out(r, 0)->data;
    for (int64_t s = 0; row && s + 1 < level->n; s++)
        for (int64_t from = level->offset[s], to = level->offset[s + 1] - 1; from < level->offset[s + 1];
             from++, to--)
            memcpy(y + (size_t)to * row, (const char *)x->data + (size_t)from * row, row);
    return PD_OK;
}

/* Its gradient is itself. */
const struct pd_op pd_op_sequence_reverse = {
    .type = "sequence_reverse",
    .doc = "Turns each sequence around.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "sequence_reverse",
    .grad_in = "X=Y@",
    .grad_out = "Y=X@",
};
