/* sequence_enumerate: windows of ids. */
#include "ops/check.h"
#include "ops/seq.h"

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (c->attr[0].i < 2) return pd_fail(PD_INVALID, "win_size is %d; it must be at least 2", c->attr[0].i);
    if (x->rank < 1 || (c->running && (x->rank != 2 || x->dim[1] != 1)))
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [rows, 1]", pd_meta_dims_text(x));
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, 0, &level));
    }
    out->dtype = x->dtype;
    pd_meta_set_2d(out, x->dim[0], c->attr[0].i);
    pd_meta_share_lod(out, x);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t window = r->attr[0].i;
    PD_TRY(pd_check_index_data(x, "X"));
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        const T *from = x->data;
        T *to = pd_run_out(r, 0)->data;
        for (int64_t s = 0; s + 1 < level->n; s++)
            for (int64_t i = level->offset[s]; i < level->offset[s + 1]; i++)
                for (int64_t k = 0; k < window; k++)
                    *to++ = i + k < level->offset[s + 1] ? from[i + k] : (T)r->attr[1].i;
    })
    return PD_OK;
}

const struct pd_op pd_op_sequence_enumerate = {
    .type = "sequence_enumerate",
    .doc = "For each id the window of ids that starts with it, padded at the end of its sequence.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("win_size", 2),
                                          PD_DEF_INT("pad_value", 0),
                                          PD_DEF_BOOL("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", 1),
                                          {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
