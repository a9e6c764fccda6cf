/* See rank_table.h. */
#include "ops/rank_table.h"

#include <string.h>

#include "base/alloc.h"

/* ---- picking ---- */

void pd_picker_free(struct pd_picker *p)
{
    pd_free(p->at);
    for (int i = 0; i < PD_PICK_LEVELS; i++)
        pd_vec_free(&p->lengths[i]);
}

pd_status pd_picker_add(struct pd_picker *p, const struct pd_tensor *from, int level, int64_t unit)
{
    const struct pd_lod *lod = from->meta.lod;
    int levels = lod ? lod->levels : 0;
    int64_t begin = unit, end = unit + 1;
    if (levels - level > PD_PICK_LEVELS)
        return pd_fail(PD_SHAPE, "the tensor has %d levels of sequences; at most %d can be picked from",
                       levels, PD_PICK_LEVELS);
    if (p->levels < 0) p->levels = levels - level;
    if (p->levels != levels - level)
        return pd_fail(PD_SHAPE, "the tensors have %d and %d levels of sequences; they must have as many",
                       p->levels, levels - level);
    for (int l = level; l < levels; l++) {
        const struct pd_lod_level *at = &lod->level[l];
        if (begin < 0 || end >= at->n)
            return pd_fail(PD_RANGE, "sequence %lld was asked for, but level %d has %lld", (long long)unit, l,
                           (long long)at->n - 1);
        for (int64_t i = begin; i < end; i++)
            if (!pd_vec_push(&p->lengths[l - level], at->offset[i + 1] - at->offset[i]))
                return pd_no_memory();
        begin = at->offset[begin], end = at->offset[end];
    }
    if (begin < 0 || end > from->meta.dim[0])
        return pd_fail(PD_RANGE, "row %lld was asked for, but the tensor has shape %s", (long long)begin,
                       pd_meta_dims_text(&from->meta));
    struct pd_picked part = {from, begin, end};
    return pd_vec_push(p, part) ? PD_OK : pd_no_memory();
}

static pd_status make_lod(const struct pd_picker *p, struct pd_lod *above, struct pd_lod **out)
{
    int over = above ? above->levels : 0, inside = p->levels > 0 ? p->levels : 0;
    int64_t entries[2 * PD_PICK_LEVELS];
    *out = NULL;
    if (over + inside == 0) return PD_OK;
    if (over > PD_PICK_LEVELS) return pd_fail(PD_SHAPE, "%d levels of sequences are too many", over);
    for (int l = 0; l < over; l++)
        entries[l] = above->level[l].n;
    for (int l = 0; l < inside; l++)
        entries[over + l] = p->lengths[l].n + 1;
    PD_TRY(pd_lod_alloc(over + inside, entries, out));
    for (int l = 0; l < over; l++)
        memcpy((*out)->level[l].offset, above->level[l].offset, (size_t)entries[l] * sizeof(int64_t));
    for (int l = 0; l < inside; l++) {
        int64_t *to = (*out)->level[over + l].offset;
        to[0] = 0;
        for (int i = 0; i < p->lengths[l].n; i++)
            to[i + 1] = to[i] + p->lengths[l].at[i];
    }
    return PD_OK;
}

pd_status pd_picker_finish(struct pd_picker *p, const struct pd_tensor *like, struct pd_lod *above,
                           struct pd_tensor *out)
{
    struct pd_lod *lod = NULL;
    struct pd_meta m = (p->n ? p->at[0].from : like)->meta;
    pd_status status = make_lod(p, above, &lod);
    pd_lod_unref(above);
    PD_TRY(status);
    m.dim[0] = 0;
    int64_t width = pd_meta_span(&m, 1, m.rank) * (int64_t)pd_dtype_size(m.dtype), at = 0;
    for (int i = 0; i < p->n; i++) {
        const struct pd_meta *f = &p->at[i].from->meta;
        if (f->dtype != m.dtype || f->rank != m.rank ||
            pd_meta_span(f, 1, f->rank) != pd_meta_span(&m, 1, m.rank))
            status = pd_fail(PD_SHAPE, "tensors of shapes %s and %s cannot be put together",
                             pd_meta_dims_text(&p->at[0].from->meta), pd_meta_dims_text(f));
        m.dim[0] += p->at[i].end - p->at[i].begin;
    }
    if (status == PD_OK) status = pd_tensor_resize(out, m.dtype, m.rank, m.dim);
    if (status != PD_OK) {
        pd_lod_unref(lod);
        return status;
    }
    for (int i = 0; i < p->n; i++) {
        int64_t rows = p->at[i].end - p->at[i].begin;
        if (rows)
            memcpy((char *)out->data + at, (const char *)p->at[i].from->data + p->at[i].begin * width,
                   (size_t)(rows * width));
        at += rows * width;
    }
    pd_meta_take_lod(&out->meta, lod);
    return PD_OK;
}

/* ---- the table ---- */

pd_status pd_rank_table_get(const struct pd_run *r, int slot, const struct pd_rank_table **out)
{
    const struct pd_value *v = pd_run_in_value(r, slot);
    if (!v || v->tensor.meta.kind != PD_KIND_RANK_TABLE || !v->raw)
        return pd_fail(PD_INVALID, "%s holds no rank table; lod_rank_table must make it first",
                       r->op->inputs[slot].name);
    *out = v->raw;
    return PD_OK;
}
