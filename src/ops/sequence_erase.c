/* sequence_erase: sequences without some ids. */
#include <string.h>

#include "ops/check.h"
#include "ops/seq.h"

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    if (x->rank != 2 || (x->dim[1] != 1 && x->dim[1] != -1))
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [rows, 1]", pd_meta_dims_text(x));
    pd_meta_like(pd_infer_out(c, 0), x);
    return PD_OK;
}

static int is_token(const struct pd_attr *tokens, int64_t id)
{
    for (int i = 0; i < tokens->n; i++)
        if (tokens->ints[i] == id) return 1;
    return 0;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_tensor *out = pd_run_out(r, 0);
    const struct pd_lod *was = x->meta.lod;
    int64_t entries[16], n = pd_tensor_numel(x);
    if (!was)
        return pd_fail(PD_INVALID,
                       "X has no sequences (no LoD); feed it as a LoDTensor with sequence lengths");
    const struct pd_lod_level *level = pd_lod_last(was);
    if (level->offset[level->n - 1] != n)
        return pd_fail(PD_SHAPE, "the sequences of X add up to %lld rows, but its shape is %s",
                       (long long)level->offset[level->n - 1], pd_meta_dims_text(&x->meta));
    PD_TRY(pd_check_index_data(x, "X"));
    PD_TRY(pd_tensor_resize(out, x->meta.dtype, 2, (int64_t[]){n, 1}));
    struct pd_lod *lod = NULL;
    for (int i = 0; i < was->levels; i++)
        entries[i] = was->level[i].n;
    PD_TRY(pd_lod_alloc(was->levels, entries, &lod));
    for (int i = 0; i < was->levels; i++)
        memcpy(lod->level[i].offset, was->level[i].offset, (size_t)entries[i] * sizeof(int64_t));
    int64_t kept = 0, *offset = lod->level[was->levels - 1].offset;
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        const T *from = x->data;
        T *to = out->data;
        for (int64_t s = 0; s + 1 < level->n; s++) {
            for (int64_t i = level->offset[s]; i < level->offset[s + 1]; i++)
                if (!is_token(&r->attr[0], from[i])) to[kept++] = from[i];
            offset[s + 1] = kept;
        }
    })
    pd_meta_take_lod(&out->meta, lod);
    pd_meta_set_2d(&out->meta, kept, 1);
    return PD_OK;
}

const struct pd_op pd_op_sequence_erase = {
    .type = "sequence_erase",
    .doc = "Sequences without the ids named in tokens.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("tokens"), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
};
