/* See batch.h. */
#include "data/batch.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/record.h"

pd_status pd_batch_init(struct pd_batch *batch, const struct pd_schema *schema)
{
    size_t n = (size_t)schema->n_used;
    *batch = (struct pd_batch){.schema = schema,
                               .value = pd_calloc(n, sizeof *batch->value),
                               .to = pd_calloc(n, sizeof *batch->to),
                               .total = pd_calloc(n, sizeof *batch->total)};
    if (!batch->value || !batch->to || !batch->total) return pd_no_memory();
    for (size_t i = 0; i < n; i++)
        PD_TRY(pd_value_new(PD_KIND_TENSOR, &batch->value[i]));
    return PD_OK;
}

void pd_batch_clear(struct pd_batch *batch)
{
    for (int i = 0; batch->value && i < batch->schema->n_used; i++)
        pd_value_unref(batch->value[i]);
    pd_free(batch->value);
    pd_free(batch->to);
    pd_free(batch->total);
    *batch = (struct pd_batch){0};
}

/* The shape of a dense slot, or [numbers, 1] with a sequence for each sample. */
static pd_status size(struct pd_batch *b, const struct pd_slot *slot, int column, const char *const *records,
                      int64_t n)
{
    struct pd_tensor *t = &b->value[column]->tensor;
    enum pd_dtype dtype = slot->is_float ? PD_DTYPE_FP32 : PD_DTYPE_INT64;
    int64_t total = b->total[column];
    if (slot->is_dense) {
        int64_t dim[PD_MAX_RANK];
        int is_free = 0;
        for (int i = 0; i < slot->shape.rank; i++) {
            is_free |= slot->shape.dim[i] < 0;
            dim[i] = slot->shape.dim[i] < 0 ? total / slot->unit : slot->shape.dim[i];
        }
        if (!is_free && pd_meta_numel(&slot->shape) != total)
            return pd_fail(
                PD_SHAPE,
                "slot '%s': a batch of %lld samples has %lld numbers, which do not fill its shape %s",
                slot->name, (long long)n, (long long)total, pd_meta_dims_text(&slot->shape));
        PD_TRY(pd_tensor_resize(t, dtype, slot->shape.rank, dim));
    } else {
        struct pd_lod *lod;
        int64_t entries = n + 1;
        PD_TRY(pd_tensor_resize(t, dtype, 2, (int64_t[]){total, 1}));
        PD_TRY(pd_lod_alloc(1, &entries, &lod));
        int64_t *offset = lod->level[0].offset;
        offset[0] = 0;
        for (int64_t i = 0; i < n; i++)
            offset[i + 1] = offset[i] + pd_record_count(records[i], column);
        pd_meta_take_lod(&t->meta, lod);
    }
    b->to[column] = t->data;
    return PD_OK;
}

/* Whole words where there is one number, as in most slots. */
static inline void copy(char *to, const char *from, size_t bytes)
{
    if (bytes == 8)
        memcpy(to, from, 8);
    else if (bytes == 4)
        memcpy(to, from, 4);
    else
        memcpy(to, from, bytes);
}

pd_status pd_batch_fill(struct pd_batch *batch, const char *const *records, int64_t n)
{
    const struct pd_schema *s = batch->schema;
    memset(batch->total, 0, (size_t)s->n_used * sizeof *batch->total);
    for (int64_t i = 0; i < n; i++) {
        if (i + 4 < n) __builtin_prefetch(records[i + 4]);
        for (int column = 0; column < s->n_used; column++)
            batch->total[column] += pd_record_count(records[i], column);
    }
    for (int i = 0, column = 0; i < s->n; i++)
        if (s->slot[i].is_used) PD_TRY(size(batch, &s->slot[i], column++, records, n));
    for (int64_t i = 0; i < n; i++) {
        const char *at = records[i] + pd_record_head(s);
        if (i + 2 < n) __builtin_prefetch(records[i + 2] + pd_record_head(s));
        for (int k = 0, column = 0; k < s->n; k++) {
            if (!s->slot[k].is_used) continue;
            size_t bytes = pd_record_count(records[i], column) * pd_slot_bytes(&s->slot[k]);
            copy(batch->to[column], at, bytes);
            batch->to[column++] += bytes;
            at += bytes;
        }
    }
    batch->samples = n;
    return PD_OK;
}
