/* sequence_pad makes sequences equally long, sequence_unpad takes the padding away again, sequence_slice cuts
 * a piece out of each sequence. */
#include <string.h>

#include "ops/seq.h"

/* Copies rows between sequences of lengths given by offsets and slots of `length` rows each. */
static void copy_rows(char *packed, char *padded, const int64_t *offset, int64_t sequences, int64_t length,
                      size_t row, int pad)
{
    for (int64_t s = 0; row && s < sequences; s++) {
        size_t bytes = (size_t)(offset[s + 1] - offset[s]) * row;
        char *in = packed + (size_t)offset[s] * row, *slot = padded + (size_t)(s * length) * row;
        if (bytes) memcpy(pad ? slot : in, pad ? in : slot, bytes);
    }
}

/* ---- sequence_pad ---- */

enum { X, PAD_VALUE };
enum { OUT, LENGTH };

static pd_status pad_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *value = pd_infer_in(c, PAD_VALUE);
    struct pd_meta *out = pd_infer_out(c, OUT), *length = pd_infer_out(c, LENGTH);
    if (x->rank < 2 || x->rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has shape %s; it needs 2 to %d dimensions", pd_meta_dims_text(x),
                       PD_MAX_RANK - 1);
    int64_t width = pd_meta_span(x, 1, x->rank), given = pd_meta_numel(value), padded = c->attr[0].i,
            sequences = -1;
    if (given >= 0 && width >= 0 && given != 1 && given != width)
        return pd_fail(PD_SHAPE,
                       "PadValue has shape %s; it must be one number or as large as one row of X %s",
                       pd_meta_dims_text(value), pd_meta_dims_text(x));
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, X, &level));
        int64_t longest = 0;
        for (int64_t i = 0; i + 1 < level->n; i++)
            if (level->offset[i + 1] - level->offset[i] > longest)
                longest = level->offset[i + 1] - level->offset[i];
        if (padded == -1) padded = longest;
        if (padded < longest)
            return pd_fail(PD_RANGE,
                           "padded_length is %lld, but the longest sequence has %lld rows; use -1 or more",
                           (long long)padded, (long long)longest);
        sequences = level->n - 1;
    } else if (padded == -1) {
        padded = 1;
    }
    int64_t dim[PD_MAX_RANK] = {sequences, padded};
    memcpy(dim + 2, x->dim + 1, (size_t)(x->rank - 1) * sizeof *dim);
    out->dtype = x->dtype;
    PD_TRY(pd_meta_set_dims(out, x->rank + 1, dim));
    pd_meta_take_lod(out, NULL);
    if (length) {
        length->dtype = PD_DTYPE_INT64;
        pd_meta_set_1d(length, sequences);
    }
    return PD_OK;
}

/* Fills the rows after each sequence. */
static void fill_padding(const struct pd_tensor *x, const struct pd_tensor *value, struct pd_tensor *out)
{
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t width = pd_seq_width(x), length = out->meta.dim[1];
    size_t item = pd_dtype_size(x->meta.dtype), row = (size_t)width * item;
    int single = pd_tensor_numel(value) == 1;
    for (int64_t s = 0; s + 1 < level->n; s++)
        for (int64_t k = level->offset[s + 1] - level->offset[s]; k < length; k++) {
            char *to = (char *)out->data + (size_t)(s * length + k) * row;
            if (!single)
                memcpy(to, value->data, row);
            else
                for (int64_t i = 0; i < width; i++)
                    memcpy(to + (size_t)i * item, value->data, item);
        }
}

static pd_status pad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *value = pd_run_in(r, PAD_VALUE);
    struct pd_tensor *out = pd_run_out(r, OUT), *length = pd_run_out(r, LENGTH);
    const struct pd_lod_level *level = pd_seq_last(x);
    if (value->meta.dtype != x->meta.dtype)
        return pd_fail(PD_TYPE, "X is %s and PadValue is %s; they must be of one type",
                       pd_dtype_name(x->meta.dtype), pd_dtype_name(value->meta.dtype));
    copy_rows(x->data, out->data, level->offset, level->n - 1, out->meta.dim[1],
              (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype), 1);
    fill_padding(x, value, out);
    for (int64_t i = 0; length && i + 1 < level->n; i++)
        ((int64_t *)length->data)[i] = level->offset[i + 1] - level->offset[i];
    return PD_OK;
}

static pd_status grad_like_x(const struct pd_infer *c)
{
    pd_math_out_like(c, 0, 0);
    return PD_OK;
}

static pd_status pad_run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0), *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (!x->meta.lod) return pd_fail(PD_INVALID, "X has no sequences (no LoD)");
    const struct pd_lod_level *level = pd_seq_last(x);
    copy_rows(dx->data, dout->data, level->offset, level->n - 1, dout->meta.dim[1],
              (size_t)pd_seq_width(x) * pd_dtype_size(dout->meta.dtype), 0);
    return PD_OK;
}

static const struct pd_attr_def pad_attrs[] = {PD_DEF_INT("padded_length", -1), {0}};

const struct pd_op pd_op_sequence_pad = {
    .type = "sequence_pad",
    .doc = "Sequences as one tensor [sequences, length, ...], filled up with PadValue.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"PadValue", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Length", 0}, {0}},
    .attrs = pad_attrs,
    .infer = pad_infer,
    .run = pad_run,
    .grad_type = "sequence_pad_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_pad_grad = {
    .type = "sequence_pad_grad",
    .doc = "Gradient of sequence_pad.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = pad_attrs,
    .infer = grad_like_x,
    .run = pad_run_grad,
};

/* ---- numbers in tensors ---- */

static pd_status integers(const struct pd_tensor *t, const char *name, int64_t n, int64_t *to)
{
    if (pd_tensor_numel(t) != n)
        return pd_fail(PD_SHAPE, "%s has shape %s; it must hold one number for each of the %lld sequences",
                       name, pd_meta_dims_text(&t->meta), (long long)n);
    PD_SWITCH_INDEX(t->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const T *)t->data)[i];
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "%s must be int64 or int32, found %s", name, pd_dtype_name(t->meta.dtype));
}

/* ---- sequence_unpad ---- */

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

static pd_status unpad_infer(const struct pd_infer *c)
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
    PD_TRY(pd_math_scratch(r, (size_t)(n + 1) * sizeof(int64_t), &memory));
    int64_t *offset = memory;
    PD_TRY(integers(lengths, "Length", n, offset + 1));
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

static pd_status unpad_run(const struct pd_run *r)
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
    copy_rows(out->data, x->data, offset, n, x->meta.dim[1],
              (size_t)pd_meta_span(&x->meta, 2, x->meta.rank) * pd_dtype_size(x->meta.dtype), 0);
    return PD_OK;
}

enum { U_X, U_LENGTH, U_OUT };

static pd_status unpad_run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, U_X), *length = pd_run_in(r, U_LENGTH),
                           *dout = pd_run_in(r, U_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
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
    memset(dx->data, 0, pd_tensor_bytes(dx));
    copy_rows(dout->data, dx->data, offset, n, x->meta.dim[1],
              (size_t)pd_meta_span(&x->meta, 2, x->meta.rank) * pd_dtype_size(dout->meta.dtype), 1);
    return PD_OK;
}

const struct pd_op pd_op_sequence_unpad = {
    .type = "sequence_unpad",
    .doc = "The first Length[i] rows of each X[i], as sequences.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Length", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = unpad_infer,
    .run = unpad_run,
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
    .infer = grad_like_x,
    .run = unpad_run_grad,
};

/* ---- sequence_slice ---- */

enum { S_X, S_OFFSET, S_LENGTH, S_OUT };

static pd_status slice_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    const struct pd_meta *x = pd_infer_in(c, S_X);
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
    PD_TRY(pd_math_scratch(r, (size_t)(2 * n + 2) * sizeof(int64_t), &memory));
    *from = memory;
    *length = *from + n;
    PD_TRY(integers(pd_run_in(r, S_OFFSET), "Offset", n, *from));
    PD_TRY(integers(pd_run_in(r, S_LENGTH), "Length", n, *length));
    for (int64_t i = 0; i < n; i++) {
        int64_t rows = level->offset[i + 1] - level->offset[i];
        if ((*from)[i] < 0 || (*length)[i] < 0 || (*from)[i] > rows || (*length)[i] > rows - (*from)[i])
            return pd_fail(PD_RANGE, "offset %lld and length %lld of sequence %lld leave its %lld rows",
                           (long long)(*from)[i], (long long)(*length)[i], (long long)i, (long long)rows);
        (*from)[i] += level->offset[i];
    }
    return PD_OK;
}

static pd_status slice_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, S_X);
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

static pd_status slice_run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, S_X), *dout = pd_run_in(r, S_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    int64_t *from = NULL, *length = NULL;
    if (!dx) return PD_OK;
    PD_TRY(pieces(r, x, &from, &length));
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
    .infer = slice_infer,
    .run = slice_run,
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
    .infer = grad_like_x,
    .run = slice_run_grad,
};
