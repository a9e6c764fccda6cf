/* What the sequence ops share: the finest level of a LoD, checked against the rows that it counts. */
#ifndef PD_OPS_SEQ_H
#define PD_OPS_SEQ_H

#include "ops/math_util.h"

/* While running: the finest level of input `slot`; an error when there is no LoD or it does not fit the rows.
 */
static inline pd_status pd_seq_level(const struct pd_infer *c, int slot, const struct pd_lod_level **level)
{
    const struct pd_meta *m = pd_infer_in(c, slot);
    const char *name = c->op->inputs[slot].name;
    if (!m->lod)
        return pd_fail(PD_INVALID,
                       "%s has no sequences (no LoD); feed it as a LoDTensor with sequence lengths", name);
    const struct pd_lod_level *last = pd_lod_last(m->lod);
    int64_t rows = m->rank ? m->dim[0] : 0;
    if (last->offset[last->n - 1] != rows)
        return pd_fail(PD_SHAPE, "the sequences of %s add up to %lld rows, but its shape is %s", name,
                       (long long)last->offset[last->n - 1], pd_meta_dims_text(m));
    *level = last;
    return PD_OK;
}

/* The finest level of an input that infer has checked. */
static inline const struct pd_lod_level *pd_seq_last(const struct pd_tensor *t)
{
    return pd_lod_last(t->meta.lod);
}

/* Elements of one row. */
static inline int64_t pd_seq_width(const struct pd_tensor *t)
{
    return pd_meta_span(&t->meta, 1, t->meta.rank);
}

/* Output `out` gets the LoD made of one level of these offsets (copied). */
static inline pd_status pd_seq_set_level(struct pd_meta *out, const int64_t *offset, int64_t entries)
{
    struct pd_lod *lod;
    PD_TRY(pd_lod_new(1, &(struct pd_lod_level){entries, (int64_t *)offset}, &lod));
    pd_meta_take_lod(out, lod);
    return PD_OK;
}

static inline pd_status pd_seq_need_float(const struct pd_tensor *t, const char *name)
{
    if (pd_dtype_is_float(t->meta.dtype)) return PD_OK;
    return pd_fail(PD_TYPE, "%s must be float32 or float64, found %s; cast it first", name,
                   pd_dtype_name(t->meta.dtype));
}

#endif
