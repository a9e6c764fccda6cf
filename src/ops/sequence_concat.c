/* sequence_concat: joins the i-th sequences of its inputs. */
#include <string.h>

#include "ops/seq.h"

static pd_status concat_lod(const struct pd_infer *c, struct pd_lod **out)
{
    const struct pd_lod *first = c->in[0].at[0]->lod;
    int64_t entries = first ? first->level[0].n : 0;
    for (int i = 0; i < c->in[0].n; i++) {
        const struct pd_meta *x = c->in[0].at[i];
        if (!x->lod || x->lod->levels != 1)
            return pd_fail(PD_INVALID, "input %d of X has %d LoD levels; each must have one", i,
                           x->lod ? x->lod->levels : 0);
        if (x->lod->level[0].n != entries)
            return pd_fail(PD_SHAPE,
                           "input %d of X has %lld sequences, input 0 has %lld; they must be as many", i,
                           (long long)x->lod->level[0].n - 1, (long long)entries - 1);
        if (x->lod->level[0].offset[entries - 1] != x->dim[0])
            return pd_fail(PD_SHAPE,
                           "the sequences of input %d of X add up to %lld rows, but its shape is %s", i,
                           (long long)x->lod->level[0].offset[entries - 1], pd_meta_dims_text(x));
    }
    PD_TRY(pd_lod_alloc(1, &entries, out));
    for (int64_t k = 0; k < entries; k++) {
        int64_t sum = 0;
        for (int i = 0; i < c->in[0].n; i++)
            sum += c->in[0].at[i]->lod->level[0].offset[k];
        (*out)->level[0].offset[k] = sum;
    }
    return PD_OK;
}

static pd_status concat_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    const struct pd_meta *first = pd_infer_in(c, 0);
    if (!first || first->rank < 1) return pd_fail(PD_SHAPE, "the op needs inputs X that have rows");
    int64_t rows = 0;
    for (int i = 0; i < c->in[0].n; i++) {
        const struct pd_meta *x = c->in[0].at[i];
        if (x->rank < 1 || (pd_meta_span(x, 1, x->rank) >= 0 && pd_meta_span(first, 1, first->rank) >= 0 &&
                            pd_meta_span(x, 1, x->rank) != pd_meta_span(first, 1, first->rank)))
            return pd_fail(PD_SHAPE,
                           "input %d of X has shape %s, input 0 has %s; their rows must be equally wide", i,
                           pd_meta_dims_text(x), pd_meta_dims_text(first));
        rows = rows < 0 || x->dim[0] < 0 ? -1 : rows + x->dim[0];
    }
    out->dtype = first->dtype;
    pd_meta_copy_dims(out, first);
    out->dim[0] = rows;
    if (!c->running) {
        pd_meta_share_lod(out, first);
        return PD_OK;
    }
    struct pd_lod *lod = NULL;
    PD_TRY(concat_lod(c, &lod));
    pd_meta_take_lod(out, lod);
    return PD_OK;
}

/* Walks through the joined rows: calls for each stretch of input i, its first row and the place in the joined
 * rows. */
static void walk(const struct pd_run *r,
                 void (*each)(const struct pd_run *r, int i, int64_t from, int64_t n, int64_t at))
{
    int64_t at = 0, sequences = pd_run_in_at(r, 0, 0)->meta.lod->level[0].n - 1;
    for (int64_t s = 0; s < sequences; s++)
        for (int i = 0; i < r->in[0].n; i++) {
            const int64_t *offset = pd_run_in_at(r, 0, i)->meta.lod->level[0].offset;
            each(r, i, offset[s], offset[s + 1] - offset[s], at);
            at += offset[s + 1] - offset[s];
        }
}

static void copy_in(const struct pd_run *r, int i, int64_t from, int64_t n, int64_t at)
{
    const struct pd_tensor *x = pd_run_in_at(r, 0, i);
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype);
    if (n * (int64_t)row > 0)
        memcpy((char *)pd_run_out(r, 0)->data + (size_t)at * row, (const char *)x->data + (size_t)from * row,
               (size_t)n * row);
}

static pd_status concat_run(const struct pd_run *r)
{
    walk(r, copy_in);
    return PD_OK;
}

static pd_status concat_infer_grad(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[0].n; i++)
        if (c->out[0].at[i]) pd_meta_like(c->out[0].at[i], c->in[0].at[i]);
    return PD_OK;
}

static void copy_back(const struct pd_run *r, int i, int64_t from, int64_t n, int64_t at)
{
    struct pd_tensor *dx = i < r->out[0].n ? pd_run_out_at(r, 0, i) : NULL;
    if (!dx) return;
    size_t row = (size_t)pd_seq_width(dx) * pd_dtype_size(dx->meta.dtype);
    if (n * (int64_t)row > 0)
        memcpy((char *)dx->data + (size_t)from * row, (const char *)pd_run_in(r, 1)->data + (size_t)at * row,
               (size_t)n * row);
}

static pd_status concat_run_grad(const struct pd_run *r)
{
    for (int i = 0; i < r->in[0].n; i++)
        if (!pd_run_in_at(r, 0, i)->meta.lod)
            return pd_fail(PD_INVALID, "input %d of X has no sequences (no LoD)", i);
    walk(r, copy_back);
    return PD_OK;
}

const struct pd_op pd_op_sequence_concat = {
    .type = "sequence_concat",
    .doc = "Joins the i-th sequences of all inputs to the i-th sequence of the output.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = concat_infer,
    .run = concat_run,
    .grad_type = "sequence_concat_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_concat_grad = {
    .type = "sequence_concat_grad",
    .doc = "Gradient of sequence_concat.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .infer = concat_infer_grad,
    .run = concat_run_grad,
};
