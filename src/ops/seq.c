/* See seq.h. */
#include "ops/seq.h"

#include <string.h>

#include "ops/check.h"
#include "ops/numbers.h"

pd_status pd_seq_numbers(const struct pd_tensor *t, const char *name, int64_t n, int64_t *to)
{
    if (pd_tensor_numel(t) != n)
        return pd_fail(PD_SHAPE, "%s has shape %s; it must hold one number for each of the %lld sequences",
                       name, pd_meta_dims_text(&t->meta), (long long)n);
    PD_TRY(pd_check_index_data(t, name));
    PD_SWITCH_INDEX(t->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            to[i] = ((const T *)t->data)[i];
    })
    return PD_OK;
}

void pd_seq_copy_padded(char *packed, char *padded, const int64_t *offset, int64_t sequences, int64_t length,
                        size_t row, int pad)
{
    for (int64_t s = 0; row && s < sequences; s++) {
        size_t bytes = (size_t)(offset[s + 1] - offset[s]) * row;
        char *in = packed + (size_t)offset[s] * row, *slot = padded + (size_t)(s * length) * row;
        if (bytes) memcpy(pad ? slot : in, pad ? in : slot, bytes);
    }
}

pd_status pd_seq_count(const struct pd_infer *c, int slot, int lengths, int64_t *n)
{
    const struct pd_meta *m = pd_infer_in(c, slot);
    const char *name = c->op->inputs[slot].name;
    *n = -1;
    if (m->dtype != PD_DTYPE_NONE && m->dtype != PD_DTYPE_INT64)
        return pd_fail(PD_TYPE, "%s must be int64, found %s", name, pd_dtype_name(m->dtype));
    if (!c->running) return PD_OK;
    if (lengths >= 0) {
        *n = pd_meta_numel(pd_infer_in(c, lengths));
        if (m->rank < 2 || m->dim[0] != *n)
            return pd_fail(PD_SHAPE, "%s has shape %s, but there are %lld lengths", name,
                           pd_meta_dims_text(m), (long long)*n);
        return PD_OK;
    }
    if (!m->lod || m->lod->levels != 1)
        return pd_fail(PD_INVALID, "%s has %d LoD levels; it must have one, or lengths must be given", name,
                       m->lod ? m->lod->levels : 0);
    const struct pd_lod_level *level = &m->lod->level[0];
    *n = level->n - 1;
    if (level->offset[*n] != pd_meta_numel(m))
        return pd_fail(PD_SHAPE, "the sequences of %s add up to %lld, but its shape is %s", name,
                       (long long)level->offset[*n], pd_meta_dims_text(m));
    return PD_OK;
}

pd_status pd_seq_at(const struct pd_tensor *t, const struct pd_tensor *lengths, const char *name, int64_t i,
                    const int64_t **at, int64_t *n)
{
    const int64_t *data = t->data;
    if (!lengths) {
        const int64_t *offset = t->meta.lod->level[0].offset;
        *at = data + offset[i];
        *n = offset[i + 1] - offset[i];
        return PD_OK;
    }
    int64_t width = pd_meta_span(&t->meta, 1, t->meta.rank);
    *at = data + i * width;
    return pd_number_within(lengths, name, "length", i, width, n);
}

pd_status pd_seq_check_rows(const struct pd_tensor *dout, int64_t rows, int64_t width)
{
    const struct pd_meta *m = &dout->meta;
    if (m->rank && m->dim[0] == rows && pd_meta_span(m, 1, m->rank) == width) return PD_OK;
    return pd_fail(PD_SHAPE, "Out@GRAD has shape %s; the sequences have %lld rows of %lld numbers",
                   pd_meta_dims_text(m), (long long)rows, (long long)width);
}
