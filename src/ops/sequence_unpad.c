/* sequence_unpad: takes the padding of sequences away again. */
#include <string.h>

#include "ops/out.h"
#include "ops/scratch.h"
#include "ops/seq.h"

enum { X, LENGTH, DOUT };

static pd_status unpad_dims(const struct pd_meta *x, int64_t rows, int64_t *dim, int *rank)
{
    if (x->rank < 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it needs 2 dimensions or more", pd_meta_dims_text(x));
    dim[0] = rows;
    dim[1] = 1;
    memcpy(dim + 1, x->dim + 2, (size_t)(x->rank - 2) * sizeof *dim);
    *rank = x->rank == 2 ? 2 : x->rank - 1;
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    int64_t dim[PD_MAX_RANK];
    int rank = 0;
    PD_TRY(unpad_dims(pd_infer_in(c, 0), -1, dim, &rank));
    out->dtype = pd_infer_in(c, 0)->dtype;
    out->lod_level = 1;
    return pd_meta_set_dims(out, rank, dim);
}

/* Offsets from lengths; each length fits into `length` rows. */
static pd_status offsets_of(const struct pd_run *r, const struct pd_tensor *lengths, int64_t n,
                            int64_t length, int64_t **out)
{
    void *memory = NULL;
    PD_TRY(pd_scratch(r, (size_t)(n + 1) * sizeof(int64_t), &memory));
    int64_t *offset = memory;
    PD_TRY(pd_seq_numbers(lengths, "Length", n, offset + 1));
    offset[0] = 0;
    for (int64_t i = 1; i <= n; i++) {
        if (offset[i] < 0 || offset[i] > length)
            return pd_fail(PD_RANGE, "length %lld of sequence %lld is not within 0 and %lld",
                           (long long)offset[i], (long long)i - 1, (long long)length);
        offset[i] += offset[i - 1];
    }
    *out = offset;
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t dim[PD_MAX_RANK], *offset = NULL, n = x->meta.dim[0];
    int rank = 0;
    if (x->meta.rank < 2) return unpad_dims(&x->meta, 0, dim, &rank);
    PD_TRY(offsets_of(r, pd_run_in(r, 1), n, x->meta.dim[1], &offset));
    PD_TRY(unpad_dims(&x->meta, offset[n], dim, &rank));
    PD_TRY(pd_tensor_resize(out, x->meta.dtype, rank, dim));
    PD_TRY(pd_seq_set_level(&out->meta, offset, n + 1));
    pd_seq_copy_padded(out->data, x->data, offset, n, x->meta.dim[1],
                       (size_t)pd_meta_span(&x->meta, 2, x->meta.rank) * pd_dtype_size(x->meta.dtype), 0);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *length = pd_run_in(r, LENGTH), *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (x->meta.rank < 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have two dimensions or more",
                       pd_meta_dims_text(&x->meta));
    int64_t n = x->meta.dim[0], *own = NULL;
    const int64_t *offset;
    if (length) {
        PD_TRY(offsets_of(r, length, n, x->meta.dim[1], &own));
        offset = own;
    } else if (dout->meta.lod && pd_lod_sequences(dout->meta.lod) == n) {
        offset = pd_seq_last(dout)->offset;
    } else {
        return pd_fail(PD_INVALID, "Out@GRAD has no sequences (no LoD)");
    }
    PD_TRY(pd_seq_check_rows(dout, offset[n], pd_meta_span(&x->meta, 2, x->meta.rank)));
    memset(dx->data, 0, pd_tensor_bytes(dx));
    pd_seq_copy_padded(dout->data, dx->data, offset, n, x->meta.dim[1],
                       (size_t)pd_meta_span(&x->meta, 2, x->meta.rank) * pd_dtype_size(dout->meta.dtype), 1);
    return PD_OK;
}

const struct pd_op pd_op_sequence_unpad = {
    .type = "sequence_unpad",
    .doc = "The first Length[i] rows of each X[i], as sequences.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Length", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
    .grad_type = "sequence_unpad_grad",
    .grad_in = "X Length Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_unpad_grad = {
    .type = "sequence_unpad_grad",
    .doc = "Gradient of sequence_unpad.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Length", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_same,
    .run = grad_run,
};
