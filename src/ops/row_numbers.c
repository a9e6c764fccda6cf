/* See row_numbers.h. */
#include "ops/row_numbers.h"

#include "kernels/gather.h"
#include "ops/numbers.h"
#include "ops/scratch.h"

pd_status pd_row_numbers_count(const struct pd_meta *index, const char *slot, int64_t *n)
{
    if (index->dtype != PD_DTYPE_NONE && !pd_dtype_is_index(index->dtype))
        return pd_fail(PD_TYPE, "%s is %s; row numbers must be int32 or int64", slot,
                       pd_dtype_name(index->dtype));
    if (index->rank != 1 && !(index->rank == 2 && (index->dim[1] == 1 || index->dim[0] == 1)))
        return pd_fail(PD_SHAPE, "%s has shape %s; give one row number each, as [n] or [n, 1]", slot,
                       pd_meta_dims_text(index));
    *n = pd_meta_numel(index);
    return PD_OK;
}

pd_status pd_row_numbers_copy(const struct pd_tensor *index, const char *slot, int64_t limit, int64_t *to)
{
    int64_t n = pd_tensor_numel(index);
    PD_SWITCH_INDEX(index->meta.dtype, T, {
        const T *from = index->data;
        for (int64_t i = 0; i < n; i++) {
            if ((uint64_t)(int64_t)from[i] >= (uint64_t)limit)
                return pd_fail(PD_RANGE, "%s has %lld at position %lld; it must be in 0 to %lld", slot,
                               (long long)from[i], (long long)i, (long long)limit - 1);
            to[i] = from[i];
        }
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "%s is %s; row numbers must be int32 or int64", slot,
                   pd_dtype_name(index->meta.dtype));
}

pd_status pd_row_numbers_infer(const struct pd_meta *x, const struct pd_meta *index, const char *slot,
                               int by_coordinates, struct pd_row_numbers *rows)
{
    int depth = 1;
    *rows = (struct pd_row_numbers){.slot = slot, .by_coordinates = by_coordinates};
    if (by_coordinates) {
        if (index->dtype != PD_DTYPE_NONE && !pd_dtype_is_index(index->dtype))
            return pd_fail(PD_TYPE, "%s is %s; coordinates must be int32 or int64", slot,
                           pd_dtype_name(index->dtype));
        if (index->rank < 1 || index->dim[index->rank - 1] < 0 || index->dim[index->rank - 1] > x->rank)
            return pd_fail(
                PD_SHAPE,
                "%s has shape %s; its last dimension must be the number of coordinates, at most %d for X "
                "of shape %s",
                slot, pd_meta_dims_text(index), x->rank, pd_meta_dims_text(x));
        depth = (int)index->dim[index->rank - 1];
        rows->n = pd_meta_span(index, 0, index->rank - 1);
    } else {
        if (x->rank < 1) return pd_fail(PD_SHAPE, "X has no rows to pick: it needs at least one dimension");
        PD_TRY(pd_row_numbers_count(index, slot, &rows->n));
    }
    rows->count = pd_meta_span(x, 0, depth);
    rows->width = pd_meta_span(x, depth, x->rank);
    return PD_OK;
}

pd_status pd_row_numbers_dims(const struct pd_meta *x, const struct pd_meta *index, int64_t *dim, int *rank)
{
    int n = 0, depth = (int)index->dim[index->rank - 1];
    if (index->rank - 1 + x->rank - depth > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "Index of shape %s and X of shape %s make more than %d dimensions",
                       pd_meta_dims_text(index), pd_meta_dims_text(x), PD_MAX_RANK);
    for (int i = 0; i < index->rank - 1; i++)
        dim[n++] = index->dim[i];
    for (int i = depth; i < x->rank; i++)
        dim[n++] = x->dim[i];
    if (n == 0) dim[n++] = 1; /* one number is [1] */
    *rank = n;
    return PD_OK;
}

static pd_status read_coordinates(const struct pd_tensor *index, const struct pd_meta *x,
                                  const struct pd_row_numbers *rows, int64_t *to)
{
    int depth = (int)index->meta.dim[index->meta.rank - 1];
    for (int64_t i = 0; i < rows->n; i++) {
        to[i] = 0;
        for (int k = 0; k < depth; k++) {
            int64_t v;
            PD_TRY(pd_number_at(index, rows->slot, i * depth + k, &v));
            if ((uint64_t)v >= (uint64_t)x->dim[k])
                return pd_fail(
                    PD_RANGE,
                    "%s has %lld as coordinate %d of entry %lld; X has shape %s, so it must be in 0 to %lld",
                    rows->slot, (long long)v, k, (long long)i, pd_meta_dims_text(x),
                    (long long)x->dim[k] - 1);
            to[i] = to[i] * x->dim[k] + v;
        }
    }
    return PD_OK;
}

/* The row numbers as int64, in memory of this run. */
pd_status pd_row_numbers_read(const struct pd_run *r, int slot, const char *name, int by_coordinates,
                              const struct pd_meta *x, struct pd_row_numbers *rows, int64_t **index)
{
    const struct pd_tensor *t = pd_run_in(r, slot);
    PD_TRY(pd_row_numbers_infer(x, &t->meta, name, by_coordinates, rows));
    if (!by_coordinates && t->meta.dtype == PD_DTYPE_INT64) {
        /* Used as they are, once checked. */
        *index = t->data;
        for (int64_t i = 0; i < rows->n; i++)
            if ((uint64_t)(*index)[i] >= (uint64_t)rows->count)
                return pd_fail(PD_RANGE, "%s has %lld at position %lld; it must be in 0 to %lld", name,
                               (long long)(*index)[i], (long long)i, (long long)rows->count - 1);
        return PD_OK;
    }
    PD_TRY(pd_scratch(r, (size_t)rows->n * sizeof **index, (void **)index));
    return by_coordinates ? read_coordinates(t, x, rows, *index)
                          : pd_row_numbers_copy(t, name, rows->count, *index);
}

pd_status pd_row_numbers_add(enum pd_dtype dtype, void *to, const struct pd_row_numbers *rows,
                             const void *from, const int64_t *index)
{
    switch ((int)dtype) {
    case PD_DTYPE_FP32:
        pd_gather_add_f32(to, rows->count, from, index, rows->n, rows->width);
        return PD_OK;
    case PD_DTYPE_FP64:
        pd_gather_add_f64(to, rows->count, from, index, rows->n, rows->width);
        return PD_OK;
    case PD_DTYPE_INT32:
        pd_gather_add_i32(to, rows->count, from, index, rows->n, rows->width);
        return PD_OK;
    case PD_DTYPE_INT64:
        pd_gather_add_i64(to, rows->count, from, index, rows->n, rows->width);
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "rows of %s cannot be added; use float32, float64, int32 or int64",
                   pd_dtype_name(dtype));
}
