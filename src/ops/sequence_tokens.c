/* Sequences of ids: sequence_enumerate makes windows of ids, sequence_erase drops ids, sequence_mask turns
 * lengths into ones and zeros. None of them has a gradient. */
#include <string.h>

#include "ops/seq.h"

/* ---- sequence_enumerate ---- */

static pd_status enumerate_infer(const struct pd_infer *c)
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

static pd_status enumerate_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t window = r->attr[0].i;
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        const T *from = x->data;
        T *to = pd_run_out(r, 0)->data;
        for (int64_t s = 0; s + 1 < level->n; s++)
            for (int64_t i = level->offset[s]; i < level->offset[s + 1]; i++)
                for (int64_t k = 0; k < window; k++)
                    *to++ = i + k < level->offset[s + 1] ? from[i + k] : (T)r->attr[1].i;
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "X must be int64 or int32, found %s", pd_dtype_name(x->meta.dtype));
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
    .infer = enumerate_infer,
    .run = enumerate_run,
};

/* ---- sequence_erase ---- */

static pd_status erase_infer(const struct pd_infer *c)
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

static pd_status erase_run(const struct pd_run *r)
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
    if (!pd_dtype_is_index(x->meta.dtype))
        return pd_fail(PD_TYPE, "X must be int64 or int32, found %s", pd_dtype_name(x->meta.dtype));
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
    .infer = erase_infer,
    .run = erase_run,
};

/* ---- sequence_mask ---- */

enum { M_X, M_MAXLEN };
enum { MAXLEN, OUT_DTYPE };

static pd_status mask_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, M_X);
    struct pd_meta *y = pd_infer_out(c, 0);
    int64_t dim[PD_MAX_RANK];
    if (x->rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has shape %s; it has too many dimensions", pd_meta_dims_text(x));
    memcpy(dim, x->dim, (size_t)x->rank * sizeof *dim);
    dim[x->rank] = c->in[M_MAXLEN].n || c->attr[MAXLEN].i <= 0 ? -1 : c->attr[MAXLEN].i;
    PD_TRY(pd_math_dtype(c->attr[OUT_DTYPE].i, "out_dtype", &y->dtype));
    return pd_meta_set_dims(y, x->rank + 1, dim);
}

static double length_at(const struct pd_tensor *x, int64_t i)
{
    PD_SWITCH_NUMBER(x->meta.dtype, T, return (double)((const T *)x->data)[i])
    return 0;
}

static pd_status mask_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, M_X), *limit = pd_run_in(r, M_MAXLEN);
    struct pd_tensor *y = pd_run_out(r, 0);
    int64_t n = pd_tensor_numel(x), maxlen = r->attr[MAXLEN].i, dim[PD_MAX_RANK];
    enum pd_dtype dtype = PD_DTYPE_NONE;
    PD_TRY(pd_math_dtype(r->attr[OUT_DTYPE].i, "out_dtype", &dtype));
    if (!pd_dtype_is_float(x->meta.dtype) && !pd_dtype_is_index(x->meta.dtype))
        return pd_fail(PD_TYPE, "X must be int64, int32, float32 or float64, found %s",
                       pd_dtype_name(x->meta.dtype));
    if (limit) {
        double number = 0;
        PD_TRY(pd_math_number(limit, "MaxLenTensor", &number));
        maxlen = (int64_t)number;
        if (maxlen < 1)
            return pd_fail(PD_RANGE, "MaxLenTensor is %lld; it must be at least 1", (long long)maxlen);
    } else if (maxlen <= 0) {
        maxlen = 0;
        for (int64_t i = 0; i < n; i++)
            if (length_at(x, i) > (double)maxlen) maxlen = (int64_t)length_at(x, i);
    }
    if (x->meta.rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has too many dimensions: %s", pd_meta_dims_text(&x->meta));
    memcpy(dim, x->meta.dim, sizeof dim);
    dim[x->meta.rank] = maxlen;
    PD_TRY(pd_tensor_resize(y, dtype, x->meta.rank + 1, dim));
    PD_SWITCH_ANY(dtype, T, {
        T *to = y->data;
        for (int64_t i = 0; i < n; i++) {
            double length = length_at(x, i);
            for (int64_t k = 0; k < maxlen; k++)
                *to++ = (double)k < length;
        }
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "out_dtype %s cannot be made by this op", pd_dtype_name(dtype));
}

const struct pd_op pd_op_sequence_mask = {
    .type = "sequence_mask",
    .doc = "Ones for the first X[i] places of maxlen, zeros for the others.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0}, {"MaxLenTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){PD_DEF_INT("maxlen", -1), PD_DEF_INT("out_dtype", PD_DTYPE_INT64), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = mask_infer,
    .run = mask_run,
};
