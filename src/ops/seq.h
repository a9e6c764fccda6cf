/* What the sequence ops share: the finest level of a LoD, checked against the rows that it counts. */
#ifndef PD_OPS_SEQ_H
#define PD_OPS_SEQ_H

#include "program/op.h"

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

/* Has the gradient of packed sequences that many rows of that width? */
pd_status pd_seq_check_rows(const struct pd_tensor *dout, int64_t rows, int64_t width);
/* One int32 or int64 for each of n sequences. `name` is the slot, for messages. */
pd_status pd_seq_numbers(const struct pd_tensor *t, const char *name, int64_t n, int64_t *to);
/* Copies rows between sequences of lengths given by offsets and slots of `length` rows each; `pad`: to the
 * slots. */
void pd_seq_copy_padded(char *packed, char *padded, const int64_t *offset, int64_t sequences, int64_t length,
                        size_t row, int pad);

/* ---- ids that come as a LoD, or as rows of a padded tensor with their lengths ---- */

/* Sequences of input `slot`, -1 while they are not known. `lengths` is the slot of their lengths, -1 for a
 * LoD. */
pd_status pd_seq_count(const struct pd_infer *c, int slot, int lengths, int64_t *n);
/* Where sequence i lies. `lengths` is NULL for a LoD, else `name` is its slot. */
pd_status pd_seq_at(const struct pd_tensor *t, const struct pd_tensor *lengths, const char *name, int64_t i,
                    const int64_t **at, int64_t *n);

#endif
