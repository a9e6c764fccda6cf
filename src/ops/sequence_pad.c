/* sequence_pad: makes sequences equally long. */
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"
#include "ops/seq.h"

enum { X, PAD_VALUE };
enum { OUT, LENGTH };

static pd_status infer(const struct pd_infer *c)
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

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *value = pd_run_in(r, PAD_VALUE);
    struct pd_tensor *out = pd_run_out(r, OUT), *length = pd_run_out(r, LENGTH);
    const struct pd_lod_level *level = pd_seq_last(x);
    PD_TRY(pd_check_same_type(&x->meta, "X", &value->meta, "PadValue"));
    pd_seq_copy_padded(x->data, out->data, level->offset, level->n - 1, out->meta.dim[1],
                       (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype), 1);
    fill_padding(x, value, out);
    for (int64_t i = 0; length && i + 1 < level->n; i++)
        ((int64_t *)length->data)[i] = level->offset[i + 1] - level->offset[i];
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0), *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (!x->meta.lod) return pd_fail(PD_INVALID, "X has no sequences (no LoD)");
    const struct pd_lod_level *level = pd_seq_last(x);
    pd_seq_copy_padded(dx->data, dout->data, level->offset, level->n - 1, dout->meta.dim[1],
                       (size_t)pd_seq_width(x) * pd_dtype_size(dout->meta.dtype), 0);
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_INT("padded_length", -1), {0}};

const struct pd_op pd_op_sequence_pad = {
    .type = "sequence_pad",
    .doc = "Sequences as one tensor [sequences, length, ...], filled up with PadValue.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"PadValue", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Length", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "sequence_pad_grad",
    .grad_in = "X Out@",
    .grad_like = "PadValue=1",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_pad_grad = {
    .type = "sequence_pad_grad",
    .doc = "Gradient of sequence_pad.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = grad_run,
};
