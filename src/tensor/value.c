/* Values of all kinds. */
#include "tensor/value.h"

#include <string.h>

#include "base/error.h"

pd_status pd_value_new(enum pd_kind kind, struct pd_value **out)
{
    struct pd_value *v = pd_calloc(1, sizeof *v);
    if (!v) return pd_no_memory();
    v->refs = 1;
    v->tensor.meta.kind = kind;
    v->tensor.meta.dtype = PD_DTYPE_NONE;
    *out = v;
    return PD_OK;
}

struct pd_value *pd_value_ref(struct pd_value *value)
{
    if (value) __atomic_add_fetch(&value->refs, 1, __ATOMIC_RELAXED);
    return value;
}

static void empty(struct pd_value *v)
{
    pd_tensor_reset(&v->tensor);
    pd_vec_free(&v->rows);
    for (int i = 0; i < v->items.n; i++)
        pd_value_unref(v->items.at[i]);
    pd_vec_free(&v->items);
    if (v->raw_free) v->raw_free(v->raw);
    v->raw = NULL;
    v->raw_free = NULL;
    v->height = 0;
    v->on_servers = 0;
}

void pd_value_unref(struct pd_value *value)
{
    if (!value || __atomic_sub_fetch(&value->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    empty(value);
    pd_free(value);
}

void pd_value_reset(struct pd_value *value, enum pd_kind kind)
{
    empty(value);
    value->tensor.meta.kind = kind;
}

void pd_value_move(struct pd_value *to, struct pd_value *from)
{
    if (to == from) return;
    empty(to);
    int refs = to->refs;
    struct pd_held held = to->held;
    *to = *from;
    to->refs = refs;
    to->held = held;
    refs = from->refs;
    held = from->held;
    *from = (struct pd_value){
        .refs = refs, .held = held, .tensor.meta = {.kind = to->tensor.meta.kind, .dtype = PD_DTYPE_NONE}};
}

int pd_value_ready(const struct pd_value *value)
{
    enum pd_kind kind = value->tensor.meta.kind;
    if (kind == PD_KIND_TENSOR) return value->tensor.data != NULL;
    return kind != PD_KIND_FEED && kind != PD_KIND_FETCH;
}

pd_status pd_value_copy(struct pd_value *to, const struct pd_value *from)
{
    enum pd_kind kind = from->tensor.meta.kind;
    if (to == from) return PD_OK;
    if (to->tensor.meta.kind != kind) pd_value_reset(to, kind);
    switch (kind) {
    case PD_KIND_TENSOR:
        return pd_tensor_copy(&to->tensor, &from->tensor);
    case PD_KIND_SELECTED_ROWS:
        if (from->tensor.meta.dtype == PD_DTYPE_NONE) { /* never sized */
            pd_value_reset(to, kind);
            return PD_OK;
        }
        PD_TRY(pd_rows_check(from));
        PD_TRY(pd_rows_resize(to, from->rows.n, from->height, from->tensor.meta.dtype, from->tensor.meta.rank,
                              from->tensor.meta.dim));
        if (!from->rows.n) return PD_OK;
        memcpy(to->rows.at, from->rows.at, (size_t)from->rows.n * sizeof(int64_t));
        memcpy(to->tensor.data, from->tensor.data,
               pd_tensor_bytes(&to->tensor)); /* there may be room for more */
        return PD_OK;
    case PD_KIND_TENSOR_ARRAY:
        for (int i = 0; i < to->items.n; i++)
            pd_value_unref(to->items.at[i]);
        to->items.n = 0;
        for (int i = 0; i < from->items.n; i++) {
            struct pd_value *item = NULL;
            PD_TRY(pd_value_new(PD_KIND_TENSOR, &item));
            item->handed_on = from->items.at[i]->handed_on;
            /* An item that nothing was written to stays one. */
            pd_status status =
                from->items.at[i]->tensor.data ? pd_value_copy(item, from->items.at[i]) : PD_OK;
            if (status == PD_OK && !pd_vec_push(&to->items, item)) status = pd_no_memory();
            if (status != PD_OK) {
                pd_value_unref(item);
                return status;
            }
        }
        return PD_OK;
    default:
        return pd_fail(PD_UNSUPPORTED, "a variable of kind %s cannot be copied", pd_kind_name(kind));
    }
}

pd_status pd_rows_check(const struct pd_value *value)
{
    const struct pd_meta *m = &value->tensor.meta;
    int64_t held = m->rank && value->tensor.data ? m->dim[0] : 0;
    if (value->rows.n <= held) return PD_OK;
    return pd_fail(PD_SHAPE, "the selected rows name %d rows, but there are values for %lld", value->rows.n,
                   (long long)held);
}

pd_status pd_rows_resize(struct pd_value *value, int64_t n, int64_t height, enum pd_dtype dtype, int rank,
                         const int64_t *dim)
{
    int64_t shape[PD_MAX_RANK];
    if (rank < 1 || rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "selected rows need 1 to %d dimensions, found %d", PD_MAX_RANK, rank);
    if (n < 0 || n > INT32_MAX / 2)
        return pd_fail(PD_SHAPE, "selected rows hold at most %d rows, asked for %lld", INT32_MAX / 2,
                       (long long)n);
    memcpy(shape, dim, (size_t)rank * sizeof *dim);
    shape[0] = n;
    if (!pd_vec_reserve(&value->rows, (int)n)) return pd_no_memory();
    PD_TRY(pd_tensor_resize(&value->tensor, dtype, rank, shape));
    value->tensor.meta.kind = PD_KIND_SELECTED_ROWS;
    value->rows.n = (int)n;
    value->height = height;
    return PD_OK;
}
