/* sequence_scatter adds Updates to places of X: row s of X gets those of sequence s, at the columns named in
 * Ids. */
#include <string.h>

#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/seq.h"

enum { X, IDS, UPDATES };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *ids = pd_infer_in(c, IDS),
                         *updates = pd_infer_in(c, UPDATES);
    if (x->rank < 1) return pd_fail(PD_SHAPE, "X must have rows, found shape %s", pd_meta_dims_text(x));
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, IDS, &level));
        if (pd_meta_numel(ids) != pd_meta_numel(updates) || pd_meta_numel(ids) != ids->dim[0])
            return pd_fail(PD_SHAPE,
                           "Ids has shape %s and Updates has shape %s; there must be one update for each id",
                           pd_meta_dims_text(ids), pd_meta_dims_text(updates));
        if (level->n - 1 > x->dim[0])
            return pd_fail(PD_SHAPE, "Ids has %lld sequences, but X has %lld rows", (long long)level->n - 1,
                           (long long)x->dim[0]);
    }
    pd_out_same(c, 0, X);
    return PD_OK;
}

/* Place in X of each id. */
static pd_status place(const struct pd_tensor *ids, int64_t i, int64_t row, int64_t width, int64_t *at)
{
    int64_t id;
    PD_TRY(pd_number_within(ids, "Ids", "id", i, width - 1, &id));
    *at = row * width + id;
    return PD_OK;
}

static pd_status need_ids(const struct pd_tensor *ids)
{
    PD_TRY(pd_check_index_data(ids, "Ids"));
    return ids->meta.lod ? PD_OK : pd_fail(PD_INVALID, "Ids has no sequences (no LoD)");
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *ids = pd_run_in(r, IDS), *updates = pd_run_in(r, UPDATES);
    struct pd_tensor *out = pd_run_out(r, 0);
    PD_TRY(need_ids(ids));
    PD_TRY(pd_check_same_type(&x->meta, "X", &updates->meta, "Updates"));
    const struct pd_lod_level *level = pd_seq_last(ids);
    int64_t width = pd_seq_width(x), at = 0;
    if (out->data != x->data && pd_tensor_numel(x)) memcpy(out->data, x->data, pd_tensor_bytes(x));
    PD_TRY(pd_check_number_data(x, "X"));
    PD_SWITCH_NUMBER(x->meta.dtype, T, {
        for (int64_t s = 0; s + 1 < level->n; s++)
            for (int64_t i = level->offset[s]; i < level->offset[s + 1]; i++) {
                PD_TRY(place(ids, i, s, width, &at));
                ((T *)out->data)[at] += ((const T *)updates->data)[i];
            }
    })
    return PD_OK;
}

enum { G_IDS, G_UPDATES, G_OUT };
enum { DX, DUPDATES };

static pd_status infer_grad(const struct pd_infer *c)
{
    pd_out_same(c, DX, G_OUT);
    pd_out_same(c, DUPDATES, G_UPDATES);
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *ids = pd_run_in(r, G_IDS), *dout = pd_run_in(r, G_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dupdates = pd_run_out(r, DUPDATES);
    PD_TRY(need_ids(ids));
    if (dx && dx->data != dout->data && pd_tensor_numel(dout))
        memcpy(dx->data, dout->data, pd_tensor_bytes(dout));
    if (!dupdates) return PD_OK;
    const struct pd_lod_level *level = pd_seq_last(ids);
    int64_t width = pd_seq_width(dout), at = 0;
    PD_TRY(pd_check_number_data(dout, "Out@GRAD"));
    PD_SWITCH_NUMBER(dout->meta.dtype, T, {
        for (int64_t s = 0; s + 1 < level->n; s++)
            for (int64_t i = level->offset[s]; i < level->offset[s + 1]; i++) {
                PD_TRY(place(ids, i, s, width, &at));
                ((T *)dupdates->data)[i] = ((const T *)dout->data)[at];
            }
    })
    return PD_OK;
}

const struct pd_op pd_op_sequence_scatter = {
    .type = "sequence_scatter",
    .doc = "X with the updates of sequence s added to row s, at the columns that Ids names.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Ids", PD_SLOT_OWN_TYPE}, {"Updates", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "sequence_scatter_grad",
    .grad_in = "Ids Updates Out@",
    .grad_like = "X=Out@",
    .grad_out = "X@ Updates@",
};

const struct pd_op pd_op_sequence_scatter_grad = {
    .type = "sequence_scatter_grad",
    .doc = "Gradient of sequence_scatter.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Ids", PD_SLOT_OWN_TYPE}, {"Updates", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Updates@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = infer_grad,
    .run = run_grad,
};
