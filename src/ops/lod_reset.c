/* lod_reset: the same data with another LoD: that of Y, the offsets in Y's data, or those of an attribute. */
#include <string.h>

#include "ops/out.h"
#include "ops/scratch.h"
#include "ops/seq.h"

enum { X, Y };
enum { TARGET, APPEND };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, 0);
    int level = 1;
    if (!y && c->attr[TARGET].n == 0)
        return pd_fail(PD_INVALID,
                       "the op needs the input Y or the attribute target_lod to know the new LoD");
    if (y)
        level = y->lod_level > 1 ? y->lod_level : 1;
    else if (c->attr[APPEND].b)
        level = x->lod_level + 1;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->lod_level = level;
    return PD_OK;
}

/* Offsets from the data of Y or from the attribute. */
static pd_status target(const struct pd_run *r, int64_t **out, int64_t *n)
{
    const struct pd_tensor *y = pd_run_in(r, Y);
    void *memory = NULL;
    *n = y ? pd_tensor_numel(y) : r->attr[TARGET].n;
    PD_TRY(pd_scratch(r, (size_t)*n * sizeof(int64_t), &memory));
    int64_t *to = *out = memory;
    if (!y) {
        for (int64_t i = 0; i < *n; i++)
            to[i] = r->attr[TARGET].ints[i];
        return PD_OK;
    }
    PD_SWITCH_INDEX(y->meta.dtype, T, {
        for (int64_t i = 0; i < *n; i++)
            to[i] = ((const T *)y->data)[i];
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "Y has no LoD, so its data must be the offsets, int32 or int64; found %s",
                   pd_dtype_name(y->meta.dtype));
}

static pd_status new_lod(const struct pd_run *r, const struct pd_tensor *x, struct pd_lod **lod)
{
    const struct pd_tensor *y = pd_run_in(r, Y);
    if (y && y->meta.lod) {
        *lod = pd_lod_ref(y->meta.lod);
        return PD_OK;
    }
    int64_t *offset = NULL, n = 0;
    PD_TRY(target(r, &offset, &n));
    if (n < 2)
        return pd_fail(PD_INVALID,
                       "the new LoD has %lld entries; it needs at least 2, from 0 to the number of rows",
                       (long long)n);
    struct pd_lod_level level[16];
    int kept = r->attr[APPEND].b && x->meta.lod ? x->meta.lod->levels : 0;
    if (kept > 15) return pd_fail(PD_INVALID, "X has %d LoD levels already; at most 16 are possible", kept);
    for (int i = 0; i < kept; i++)
        level[i] = x->meta.lod->level[i];
    level[kept] = (struct pd_lod_level){n, offset};
    return pd_lod_new(kept + 1, level, lod);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    struct pd_lod *lod = NULL;
    PD_TRY(new_lod(r, x, &lod));
    int64_t end = pd_lod_last(lod)->offset[pd_lod_sequences(lod)];
    if (x->meta.rank < 1 || end != x->meta.dim[0]) {
        pd_lod_unref(lod);
        return pd_fail(PD_SHAPE, "the new LoD counts %lld rows, but X has shape %s", (long long)end,
                       pd_meta_dims_text(&x->meta));
    }
    pd_status status = pd_tensor_resize(out, x->meta.dtype, x->meta.rank, x->meta.dim);
    if (status != PD_OK) {
        pd_lod_unref(lod);
        return status;
    }
    if (out->data != x->data && pd_tensor_numel(x)) memcpy(out->data, x->data, pd_tensor_bytes(x));
    pd_meta_take_lod(&out->meta, lod);
    return PD_OK;
}

static pd_status infer_grad(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0), *dout = pd_infer_in(c, 1);
    if (!pd_meta_dims_match(x, dout))
        return pd_fail(PD_SHAPE, "X has shape %s, Out@GRAD has shape %s; they must be equal",
                       pd_meta_dims_text(x), pd_meta_dims_text(dout));
    pd_out_same(c, 0, 0);
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (dx && dx->data != dout->data && pd_tensor_numel(dout))
        memcpy(dx->data, dout->data, pd_tensor_bytes(dout));
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("target_lod"), PD_DEF_BOOL("append", 0), {0}};

const struct pd_op pd_op_lod_reset = {
    .type = "lod_reset",
    .doc = "X with another LoD.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
    .grad_type = "lod_reset_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_lod_reset_grad = {
    .type = "lod_reset_grad",
    .doc = "Gradient of lod_reset.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
