/* sequence_slice: cuts a piece out of each sequence. */
#include <string.h>

#include "ops/out.h"
#include "ops/scratch.h"
#include "ops/seq.h"

enum { X, OFFSET, LENGTH, DOUT };

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    const struct pd_meta *x = pd_infer_in(c, X);
    if (x->rank < 1) return pd_fail(PD_SHAPE, "X must have rows, found shape %s", pd_meta_dims_text(x));
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    return PD_OK;
}

/* First row and length of the piece of each sequence. */
static pd_status pieces(const struct pd_run *r, const struct pd_tensor *x, int64_t **from, int64_t **length)
{
    if (!x->meta.lod || x->meta.lod->levels != 1)
        return pd_fail(PD_INVALID, "X has %d LoD levels; it must have one",
                       x->meta.lod ? x->meta.lod->levels : 0);
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t n = level->n - 1;
    void *memory = NULL;
    PD_TRY(pd_scratch(r, (size_t)(2 * n + 2) * sizeof(int64_t), &memory));
    *from = memory;
    *length = *from + n;
    PD_TRY(pd_seq_numbers(pd_run_in(r, OFFSET), "Offset", n, *from));
    PD_TRY(pd_seq_numbers(pd_run_in(r, LENGTH), "Length", n, *length));
    for (int64_t i = 0; i < n; i++) {
        int64_t rows = level->offset[i + 1] - level->offset[i];
        if ((*from)[i] < 0 || (*length)[i] < 0 || (*from)[i] > rows || (*length)[i] > rows - (*from)[i])
            return pd_fail(PD_RANGE, "offset %lld and length %lld of sequence %lld leave its %lld rows",
                           (long long)(*from)[i], (long long)(*length)[i], (long long)i, (long long)rows);
        (*from)[i] += level->offset[i];
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t *from = NULL, *length = NULL, dim[PD_MAX_RANK], rows = 0;
    PD_TRY(pieces(r, x, &from, &length));
    int64_t n = pd_seq_last(x)->n - 1;
    struct pd_lod *lod = NULL;
    PD_TRY(pd_lod_from_lengths(length, n, &lod));
    rows = lod->level[0].offset[n];
    memcpy(dim, x->meta.dim, sizeof dim);
    dim[0] = rows;
    pd_meta_take_lod(&out->meta, lod);
    PD_TRY(pd_tensor_resize(out, x->meta.dtype, x->meta.rank, dim));
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype);
    char *to = out->data;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = (size_t)length[i] * row;
        if (bytes) memcpy(to, (const char *)x->data + (size_t)from[i] * row, bytes);
        to += bytes;
    }
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int64_t *from = NULL, *length = NULL;
    if (!dx) return PD_OK;
    PD_TRY(pieces(r, x, &from, &length));
    int64_t rows = 0;
    for (int64_t i = 0; i + 1 < pd_seq_last(x)->n; i++)
        rows += length[i];
    PD_TRY(pd_seq_check_rows(dout, rows, pd_seq_width(x)));
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(dout->meta.dtype);
    const char *at = dout->data;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    for (int64_t i = 0; i + 1 < pd_seq_last(x)->n; i++) {
        size_t bytes = (size_t)length[i] * row;
        if (bytes) memcpy((char *)dx->data + (size_t)from[i] * row, at, bytes);
        at += bytes;
    }
    return PD_OK;
}

const struct pd_op pd_op_sequence_slice = {
    .type = "sequence_slice",
    .doc = "Length[i] rows of each sequence, from row Offset[i] on.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", 0}, {"Offset", PD_SLOT_OWN_TYPE}, {"Length", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
    .grad_type = "sequence_slice_grad",
    .grad_in = "X Offset Length Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_slice_grad = {
    .type = "sequence_slice_grad",
    .doc = "Gradient of sequence_slice.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META},
                                           {"Offset", PD_SLOT_OWN_TYPE},
                                           {"Length", PD_SLOT_OWN_TYPE},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_same,
    .run = grad_run,
};
