/* sequence_reshape: changes the width of the rows of sequences. */
#include <string.h>

#include "ops/out.h"
#include "ops/seq.h"

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    struct pd_meta *out = pd_infer_out(c, 0);
    int64_t width = c->attr[0].i;
    if (width < 1) return pd_fail(PD_INVALID, "new_dim is %lld; it must be at least 1", (long long)width);
    if (x->rank != 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have 2 dimensions", pd_meta_dims_text(x));
    out->dtype = x->dtype;
    if (!c->running) {
        pd_meta_set_2d(out, -1, width);
        out->lod_level = 1;
        return PD_OK;
    }
    const struct pd_lod_level *level = NULL;
    PD_TRY(pd_seq_level(c, 0, &level));
    if (x->lod->levels != 1)
        return pd_fail(PD_INVALID, "X has %d LoD levels; it must have one", x->lod->levels);
    struct pd_lod *lod = NULL;
    PD_TRY(pd_lod_alloc(1, &level->n, &lod));
    for (int64_t i = 0; i < level->n; i++) {
        int64_t elements = level->offset[i] * x->dim[1];
        if (elements % width) {
            pd_lod_unref(lod);
            return pd_fail(PD_SHAPE,
                           "sequence %lld has %lld rows of width %lld, which new_dim %lld does not divide",
                           (long long)i - 1, (long long)(level->offset[i] - level->offset[i - 1]),
                           (long long)x->dim[1], (long long)width);
        }
        lod->level[0].offset[i] = elements / width;
    }
    pd_meta_set_2d(out, x->dim[0] * x->dim[1] / width, width);
    pd_meta_take_lod(out, lod);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *from = pd_run_in(r, r->op->inputs[1].name ? 1 : 0);
    struct pd_tensor *to = pd_run_out(r, 0);
    if (to && to->data != from->data && pd_tensor_numel(from) > 0)
        memcpy(to->data, from->data, pd_tensor_bytes(from));
    return PD_OK;
}

const struct pd_op pd_op_sequence_reshape = {
    .type = "sequence_reshape",
    .doc = "Gives rows another width; each sequence keeps its elements.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("new_dim", 0), {0}},
    .infer = infer,
    .run = run,
    .grad_type = "sequence_reshape_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
    .share = (const struct pd_share[]){{0, 0, 1}, {-1, -1, 0}},
};

const struct pd_op pd_op_sequence_reshape_grad = {
    .type = "sequence_reshape_grad",
    .doc = "Gradient of sequence_reshape.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("new_dim", 0), {0}},
    .infer = pd_out_infer_same,
    .run = run,
    .share = (const struct pd_share[]){{0, 1, 1}, {-1, -1, 0}},
};
