/* See schema.h. */
#include "data/schema.h"

#include "base/alloc.h"
#include "base/error.h"

/* The product of all dimensions but the one that is free; a shape without a free one is filled by the whole
 * batch. */
static pd_status unit_of(const char *name, const struct pd_meta *shape, int64_t *unit)
{
    int free_ones = 0;
    *unit = 1;
    for (int i = 0; i < shape->rank; i++) {
        int64_t d = shape->dim[i];
        if (d < 0)
            free_ones++;
        else if (__builtin_mul_overflow(*unit, d, unit) || *unit > INT32_MAX)
            return pd_fail(PD_SHAPE, "slot '%s': its shape %s is too large for a sample", name,
                           pd_meta_dims_text(shape));
    }
    if (free_ones > 1)
        return pd_fail(PD_SHAPE, "slot '%s': its shape %s has more than one -1; only the batch may be free",
                       name, pd_meta_dims_text(shape));
    if (*unit == 0)
        return pd_fail(PD_SHAPE, "slot '%s': its shape %s holds no number", name, pd_meta_dims_text(shape));
    if (!free_ones) *unit = 1;
    return PD_OK;
}

pd_status pd_schema_add(struct pd_schema *schema, const char *name, int is_float, int is_used,
                        const struct pd_meta *shape)
{
    struct pd_slot slot = {.is_float = is_float, .is_dense = shape != NULL, .is_used = is_used, .unit = 1};
    if (shape) {
        PD_TRY(unit_of(name, shape, &slot.unit));
        slot.shape = (struct pd_meta){.dtype = is_float ? PD_DTYPE_FP32 : PD_DTYPE_INT64};
        PD_TRY(pd_meta_set_dims(&slot.shape, shape->rank, shape->dim));
    }
    struct pd_slot *grown = pd_realloc_array(schema->slot, (size_t)schema->n + 1, sizeof *grown);
    if (!grown) return pd_no_memory();
    schema->slot = grown;
    slot.name = pd_strdup(name);
    if (!slot.name) return pd_no_memory();
    grown[schema->n++] = slot;
    schema->n_used += is_used;
    return PD_OK;
}

void pd_schema_clear(struct pd_schema *schema)
{
    for (int i = 0; i < schema->n; i++)
        pd_free(schema->slot[i].name);
    pd_free(schema->slot);
    *schema = (struct pd_schema){0};
}
