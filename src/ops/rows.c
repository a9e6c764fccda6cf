/* See rows.h. */
#include "ops/rows.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "ops/scratch.h"

/* `to` becomes selected rows with the rows, height, dtype and width of `from`, without the values. */
static pd_status become_like(struct pd_value *to, const struct pd_value *from)
{
    const struct pd_meta *m = &from->tensor.meta;
    if (to == from) return PD_OK;
    PD_TRY(pd_rows_resize(to, from->rows.n, from->height, m->dtype, m->rank, m->dim));
    if (from->rows.n) memcpy(to->rows.at, from->rows.at, (size_t)from->rows.n * sizeof *from->rows.at);
    return PD_OK;
}

pd_status pd_rows_pair(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out)
{
    struct pd_value *from = pd_run_in_value(r, 0), *to = pd_run_out_value(r, 0);
    if (pd_value_is_rows(from)) PD_TRY(become_like(to, from));
    *x = &from->tensor;
    *out = &to->tensor;
    return PD_OK;
}

/* No rows at all: the type and the widths that are known, which a gradient that was never written does not
 * have. */
static pd_status become_empty(struct pd_value *to, const struct pd_value *like)
{
    const struct pd_meta m = like->tensor.meta;
    enum pd_dtype dtype = m.dtype == PD_DTYPE_NONE ? PD_DTYPE_FP32 : m.dtype;
    return pd_rows_resize(to, 0, like->height, dtype, m.rank ? m.rank : 1,
                          m.rank ? m.dim : &(const int64_t){0});
}

/* The rows of all that have some, as one list; *first is the first of these, NULL when there is none. *like
 * is any of them. */
static pd_status count_rows(int n, struct pd_value *const *from, const struct pd_value **first,
                            const struct pd_value **like, int64_t *total)
{
    *first = *like = NULL;
    *total = 0;
    for (int i = 0; i < n; i++) {
        if (!from[i]) continue;
        const struct pd_meta *m = &from[i]->tensor.meta;
        if (!*like) *like = from[i];
        if (!from[i]->rows.n) continue;
        if (!*first) *first = from[i];
        const struct pd_meta *f = &(*first)->tensor.meta;
        if (m->dtype != f->dtype || pd_meta_span(m, 1, m->rank) != pd_meta_span(f, 1, f->rank))
            return pd_fail(
                PD_SHAPE, "rows of %s %s cannot be added to rows of %s %s; type and width must be the same",
                pd_dtype_name(m->dtype), pd_meta_dims_text(m), pd_dtype_name(f->dtype), pd_meta_dims_text(f));
        int64_t bad = pd_rows_bad_i64(from[i]->rows.at, from[i]->rows.n, INT64_MAX, -1);
        if (bad >= 0)
            return pd_fail(PD_RANGE, "selected rows name row %lld; rows count from 0",
                           (long long)from[i]->rows.at[bad]);
        *total += from[i]->rows.n;
    }
    return PD_OK;
}

pd_status pd_rows_merge(const struct pd_run *r, struct pd_value *to, int n, struct pd_value *const *from)
{
    const struct pd_value *first, *like;
    int64_t total, at = 0;
    PD_TRY(count_rows(n, from, &first, &like, &total));
    if (!first) return become_empty(to, like);
    const struct pd_meta m = first->tensor.meta;
    int64_t height = first->height, width = pd_meta_span(&m, 1, m.rank);
    size_t bytes = (size_t)width * pd_dtype_size(m.dtype);

    /* The groups, the number of each row and its place, and a copy of the input that the result overwrites.
     */
    size_t group = pd_scratch_round(pd_rows_group_bytes(total)), list = pd_scratch_round((size_t)total * 8),
           held = 0;
    for (int i = 0; i < n; i++)
        if (from[i] == to) held = bytes * (size_t)to->rows.n;
    char *memory;
    PD_TRY(pd_scratch(r, group + 2 * list + held, (void **)&memory));
    int64_t *ids = (int64_t *)(memory + group);
    const void **rows = (const void **)(memory + group + list);
    char *copy = memory + group + 2 * list;
    if (held) memcpy(copy, to->tensor.data, held);
    for (int i = 0; i < n; i++) {
        if (!from[i]) continue;
        const char *values = from[i] == to ? copy : from[i]->tensor.data;
        for (int k = 0; k < from[i]->rows.n; k++, at++) {
            ids[at] = from[i]->rows.at[k];
            rows[at] = values + (size_t)k * bytes;
        }
    }

    struct pd_rows_groups g;
    pd_rows_group(ids, total, memory, &g);
    PD_TRY(pd_rows_resize(to, g.n, height, m.dtype, m.rank, m.dim));
    memcpy(to->rows.at, g.row, (size_t)g.n * sizeof *g.row);
    switch ((int)m.dtype) {
    case PD_DTYPE_FP32:
        pd_rows_sum_f32(to->tensor.data, width, &g, rows);
        return PD_OK;
    case PD_DTYPE_FP64:
        pd_rows_sum_f64(to->tensor.data, width, &g, rows);
        return PD_OK;
    case PD_DTYPE_INT32:
        pd_rows_sum_i32(to->tensor.data, width, &g, rows);
        return PD_OK;
    case PD_DTYPE_INT64:
        pd_rows_sum_i64(to->tensor.data, width, &g, rows);
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "rows of %s cannot be added up; cast them first", pd_dtype_name(m.dtype));
}

pd_status pd_rows_source(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out)
{
    struct pd_value *from = pd_run_in_value(r, 0), *to = pd_run_out_value(r, 0);
    *x = &from->tensor;
    *out = &to->tensor;
    if (!pd_value_is_rows(from)) return PD_OK;
    *x = *out;
    return pd_rows_merge(r, to, 1, &from);
}

struct entry {
    int64_t id, at;
};

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct entry *)a)->id, y = ((const struct entry *)b)->id;
    return (x > y) - (x < y);
}

pd_status pd_rows_make(struct pd_value *value, const int64_t *ids, int64_t n, int64_t height, int64_t width,
                       enum pd_dtype dtype, int64_t *place)
{
    struct entry *sorted = (struct entry *)(place + n);
    int64_t distinct = 0;
    for (int64_t i = 0; i < n; i++)
        sorted[i] = (struct entry){ids[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, by_id);
    for (int64_t i = 0; i < n; i++) {
        distinct += i == 0 || sorted[i].id != sorted[i - 1].id;
        place[sorted[i].at] = distinct - 1;
    }
    PD_TRY(pd_rows_resize(value, distinct, height, dtype, 2, (int64_t[]){distinct, width}));
    for (int64_t i = 0; i < n; i++)
        value->rows.at[place[i]] = ids[i];
    memset(value->tensor.data, 0, (size_t)(distinct * width) * pd_dtype_size(dtype));
    return PD_OK;
}

void pd_rows_infer_grad(const struct pd_infer *c, int w, int is_sparse)
{
    const struct pd_meta *table = pd_infer_in(c, w);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (!out) return;
    out->kind = is_sparse ? PD_KIND_SELECTED_ROWS : PD_KIND_TENSOR;
    out->dtype = table->dtype;
    pd_meta_copy_dims(out, table);
}
