/* sequence_expand repeats the sequences (or rows) of X as often as the sequences of a level of Y are long;
 * sequence_expand_as repeats rows of X and takes over the LoD of Y. */
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"
#include "ops/seq.h"

enum { X, Y };

/* The level of Y that counts the repeats. */
static pd_status repeats_of(const struct pd_meta *y, int ref_level, const struct pd_lod_level **level)
{
    if (!y->lod)
        return pd_fail(PD_INVALID,
                       "Y has no sequences (no LoD); feed it as a LoDTensor with sequence lengths");
    if (ref_level < -1 || ref_level >= y->lod->levels)
        return pd_fail(PD_RANGE, "ref_level is %d; Y has %d LoD levels: give -1 or 0 to %d", ref_level,
                       y->lod->levels, y->lod->levels - 1);
    *level = &y->lod->level[ref_level < 0 ? y->lod->levels - 1 : ref_level];
    return PD_OK;
}

/* Rows [*from, *to) of X that belong to part i: a sequence, or a row where X has no sequences. */
static void part_of(const struct pd_meta *x, int64_t i, int64_t *from, int64_t *to)
{
    *from = x->lod ? x->lod->level[0].offset[i] : i;
    *to = x->lod ? x->lod->level[0].offset[i + 1] : i + 1;
}

static pd_status expand_lod(const struct pd_meta *x, const struct pd_lod_level *y, struct pd_lod **out)
{
    int64_t entries = y->offset[y->n - 1] + 1, at = 0, from, to;
    PD_TRY(pd_lod_alloc(1, &entries, out));
    int64_t *offset = (*out)->level[0].offset;
    offset[0] = 0;
    for (int64_t i = 0; i + 1 < y->n; i++) {
        part_of(x, i, &from, &to);
        for (int64_t k = y->offset[i]; k < y->offset[i + 1]; k++, at++)
            offset[at + 1] = offset[at] + (to - from);
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (x->rank < 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it needs 2 dimensions or more", pd_meta_dims_text(x));
    pd_meta_like(out, x);
    out->dim[0] = -1;
    if (!c->running) return PD_OK;
    const struct pd_lod_level *level = NULL;
    PD_TRY(repeats_of(y, c->attr[0].i, &level));
    if (x->lod && x->lod->levels > 1)
        return pd_fail(PD_INVALID, "X has %d LoD levels; it may have one or none", x->lod->levels);
    int64_t parts = x->lod ? x->lod->level[0].n - 1 : x->dim[0];
    if (parts != level->n - 1)
        return pd_fail(PD_SHAPE, "X has %lld %s, but the level of Y has %lld sequences; they must be as many",
                       (long long)parts, x->lod ? "sequences" : "rows", (long long)level->n - 1);
    int64_t rows = 0, from, to;
    for (int64_t i = 0; i < parts; i++) {
        part_of(x, i, &from, &to);
        rows += (level->offset[i + 1] - level->offset[i]) * (to - from);
    }
    out->dim[0] = rows;
    if (x->lod) {
        struct pd_lod *lod = NULL;
        PD_TRY(expand_lod(x, level, &lod));
        pd_meta_take_lod(out, lod);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    const struct pd_lod_level *level = NULL;
    PD_TRY(repeats_of(&pd_run_in(r, Y)->meta, r->attr[0].i, &level));
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype);
    char *out = pd_run_out(r, 0)->data;
    int64_t from, to;
    for (int64_t i = 0; i + 1 < level->n; i++) {
        part_of(&x->meta, i, &from, &to);
        size_t bytes = (size_t)(to - from) * row;
        for (int64_t k = level->offset[i]; bytes && k < level->offset[i + 1]; k++, out += bytes)
            memcpy(out, (const char *)x->data + (size_t)from * row, bytes);
    }
    return PD_OK;
}

enum { G_X, G_Y, G_OUT };

/* Adds up what was repeated. */
static pd_status fold(const struct pd_meta *x, const struct pd_lod_level *level, const struct pd_tensor *dout,
                      struct pd_tensor *dx)
{
    int64_t width = pd_meta_span(x, 1, x->rank), from, to;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    PD_TRY(pd_check_number_data(dout, "Out@GRAD"));
    PD_SWITCH_NUMBER(dout->meta.dtype, T, {
        const T *g = dout->data;
        for (int64_t i = 0; i + 1 < level->n; i++) {
            part_of(x, i, &from, &to);
            T *d = (T *)dx->data + from * width;
            int64_t n = (to - from) * width;
            for (int64_t k = level->offset[i]; k < level->offset[i + 1]; k++, g += n)
                for (int64_t j = 0; j < n; j++)
                    d[j] += g[j];
        }
    })
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_lod_level *level = NULL;
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_TRY(repeats_of(&pd_run_in(r, G_Y)->meta, r->attr[0].i, &level));
    return fold(&pd_run_in(r, G_X)->meta, level, pd_run_in(r, G_OUT), dx);
}

static const struct pd_attr_def attrs[] = {PD_DEF_INT("ref_level", -1), {0}};
static const struct pd_slot_def inputs[] = {{"X", 0}, {"Y", PD_SLOT_META | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"X", PD_SLOT_META}, {"Y", PD_SLOT_META | PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};

const struct pd_op pd_op_sequence_expand = {
    .type = "sequence_expand",
    .doc = "Repeats each sequence of X as often as the matching sequence of a level of Y is long.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "sequence_expand_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_expand_grad = {
    .type = "sequence_expand_grad",
    .doc = "Gradient of sequence_expand.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = run_grad,
};

/* ---- sequence_expand_as ---- */

static pd_status as_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (x->rank < 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it needs 2 dimensions or more", pd_meta_dims_text(x));
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[0] = -1;
    pd_meta_share_lod(out, y);
    if (!c->running) return PD_OK;
    if (!y->lod || y->lod->levels != 1)
        return pd_fail(PD_INVALID, "Y has %d LoD levels; it must have one", y->lod ? y->lod->levels : 0);
    const struct pd_lod_level *level = &y->lod->level[0];
    if (x->dim[0] != level->n - 1)
        return pd_fail(PD_SHAPE, "X has %lld rows, but Y has %lld sequences; they must be as many",
                       (long long)x->dim[0], (long long)level->n - 1);
    out->dim[0] = level->offset[level->n - 1];
    return PD_OK;
}

static pd_status as_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    const struct pd_lod_level *level = &pd_run_in(r, Y)->meta.lod->level[0];
    size_t row = (size_t)pd_seq_width(x) * pd_dtype_size(x->meta.dtype);
    char *out = pd_run_out(r, 0)->data;
    for (int64_t i = 0; row && i + 1 < level->n; i++)
        for (int64_t k = level->offset[i]; k < level->offset[i + 1]; k++, out += row)
            memcpy(out, (const char *)x->data + (size_t)i * row, row);
    return PD_OK;
}

static pd_status as_run_grad(const struct pd_run *r)
{
    struct pd_tensor *dx = pd_run_out(r, 0);
    const struct pd_meta *y = &pd_run_in(r, G_Y)->meta;
    if (!dx) return PD_OK;
    if (!y->lod) return pd_fail(PD_INVALID, "Y has no sequences (no LoD)");
    /* Rows of X are repeated whatever its LoD is. */
    struct pd_meta x = pd_run_in(r, G_X)->meta;
    x.lod = NULL;
    return fold(&x, &y->lod->level[0], pd_run_in(r, G_OUT), dx);
}

const struct pd_op pd_op_sequence_expand_as = {
    .type = "sequence_expand_as",
    .doc = "Repeats each row of X to the length of the matching sequence of Y.",
    .inputs = inputs,
    .outputs = outputs,
    .infer = as_infer,
    .run = as_run,
    .grad_type = "sequence_expand_as_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_expand_as_grad = {
    .type = "sequence_expand_as_grad",
    .doc = "Gradient of sequence_expand_as.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .infer = pd_out_infer_same,
    .run = as_run_grad,
};
