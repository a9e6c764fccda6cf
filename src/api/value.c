/* Values in the public API: tensors, selected rows, arrays. */
#include <string.h>

#include "api/api.h"
#include "tensor/file.h"
#include "tensor/held.h"

pd_status pd_value_create(int kind, pd_value **out)
{
    if (kind < PD_KIND_TENSOR || kind > PD_KIND_TUPLE)
        return pd_fail(PD_TYPE, "there is no kind number %d", kind);
    return pd_value_new((enum pd_kind)kind, out);
}

pd_value *pd_value_retain(pd_value *value)
{
    return pd_value_ref(value);
}
void pd_value_release(pd_value *value)
{
    pd_value_unref(value);
}
int pd_value_kind(const pd_value *value)
{
    return (int)value->tensor.meta.kind;
}

pd_status pd_value_will_change(pd_value *value, const char *name)
{
    if (value->on_servers)
        return pd_fail(
            PD_INVALID,
            "the values of %s%s%s lie on the servers of this job: what is set in a trainer would not be "
            "used. "
            "Load it in the servers, after their startup Program and before they serve (fluid.io.load_params "
            "or load_persistables with the server's Program), or let an initializer give it its first values "
            "(fluid.initializer.NumpyArrayInitializer)",
            name ? "'" : "", name ? name : "the variable", name ? "'" : "");
    if (pd_held_exist()) pd_held_write(value, PD_HELD_GIVEN, NULL, 0);
    return PD_OK;
}

pd_status pd_value_become(pd_value *value, int kind)
{
    if (kind < PD_KIND_TENSOR || kind > PD_KIND_TUPLE)
        return pd_fail(PD_TYPE, "there is no kind number %d", kind);
    PD_TRY(pd_value_will_change(value, NULL));
    pd_value_reset(value, (enum pd_kind)kind);
    return PD_OK;
}

static pd_status has_tensor(const pd_value *value)
{
    enum pd_kind kind = value->tensor.meta.kind;
    if (kind == PD_KIND_TENSOR || kind == PD_KIND_SELECTED_ROWS) return PD_OK;
    return pd_fail(PD_TYPE, "the variable is of kind %s and holds no tensor", pd_kind_name(kind));
}

pd_status pd_value_tensor(const pd_value *value, pd_tensor_desc *out)
{
    PD_TRY(has_tensor(value));
    const struct pd_tensor *t = &value->tensor;
    *out = (pd_tensor_desc){(int)t->meta.dtype, t->meta.rank, t->meta.dim, t->data};
    return PD_OK;
}

pd_status pd_value_set_tensor(pd_value *value, int dtype, int rank, const int64_t *dims, const void *data)
{
    PD_TRY(has_tensor(value));
    PD_TRY(pd_value_will_change(value, NULL));
    PD_TRY(pd_tensor_resize(&value->tensor, (enum pd_dtype)dtype, rank, dims));
    size_t bytes = pd_tensor_bytes(&value->tensor);
    if (data && bytes) memcpy(value->tensor.data, data, bytes);
    return PD_OK;
}

pd_status pd_value_set_dims(pd_value *value, int rank, const int64_t *dims)
{
    PD_TRY(has_tensor(value));
    struct pd_tensor *t = &value->tensor;
    size_t had = t->buffer ? t->buffer->size : 0;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return pd_fail(PD_SHAPE, "dimension %d of a tensor cannot be %lld", i, (long long)dims[i]);
    PD_TRY(pd_meta_set_dims(&t->meta, rank, dims));
    if (t->data && pd_tensor_bytes(t) > had) {
        pd_buffer_unref(t->buffer);
        t->buffer = NULL;
        t->data = NULL;
    }
    return PD_OK;
}

/* ---- LoD ---- */

int pd_value_lod_levels(const pd_value *value)
{
    return value->tensor.meta.lod ? value->tensor.meta.lod->levels : 0;
}

const int64_t *pd_value_lod(const pd_value *value, int level, int64_t *n)
{
    const struct pd_lod *lod = value->tensor.meta.lod;
    if (!lod || level < 0 || level >= lod->levels) {
        *n = 0;
        return NULL;
    }
    *n = lod->level[level].n;
    return lod->level[level].offset;
}

pd_status pd_value_set_lod(pd_value *value, int levels, const int64_t *const *offsets, const int64_t *counts)
{
    struct pd_lod_level level[16];
    struct pd_lod *lod = NULL;
    PD_TRY(has_tensor(value));
    if (levels < 0 || levels > 16)
        return pd_fail(PD_INVALID, "a LoD has at most 16 levels, found %d", levels);
    for (int i = 0; i < levels; i++)
        level[i] = (struct pd_lod_level){counts[i], (int64_t *)offsets[i]};
    if (levels) PD_TRY(pd_lod_new(levels, level, &lod));
    pd_meta_take_lod(&value->tensor.meta, lod);
    return PD_OK;
}

int pd_value_lod_fits(const pd_value *value)
{
    const struct pd_meta *m = &value->tensor.meta;
    if (!m->lod) return 1;
    const struct pd_lod_level *last = pd_lod_last(m->lod);
    return m->rank > 0 && last->offset[last->n - 1] == m->dim[0];
}

/* ---- selected rows ---- */

static pd_status is_rows(const pd_value *value)
{
    return pd_value_is_rows(value) ? PD_OK
                                   : pd_fail(PD_TYPE, "the variable is of kind %s, not selected rows",
                                             pd_kind_name(value->tensor.meta.kind));
}

const int64_t *pd_value_rows(const pd_value *value, int64_t *n)
{
    *n = value->rows.n;
    return value->rows.at;
}

pd_status pd_value_set_rows(pd_value *value, int64_t n, const int64_t *rows)
{
    PD_TRY(is_rows(value));
    if (n < 0 || n > INT32_MAX / 2)
        return pd_fail(PD_RANGE, "selected rows cannot hold %lld rows", (long long)n);
    if (!pd_vec_reserve(&value->rows, (int)n)) return pd_no_memory();
    if (n) memcpy(value->rows.at, rows, (size_t)n * sizeof *rows);
    value->rows.n = (int)n;
    return PD_OK;
}

int64_t pd_value_height(const pd_value *value)
{
    return value->height;
}

pd_status pd_value_set_height(pd_value *value, int64_t height)
{
    PD_TRY(is_rows(value));
    value->height = height;
    return PD_OK;
}

/* ---- arrays, copies, bytes ---- */

int pd_value_items(const pd_value *value)
{
    return value->items.n;
}
pd_value *pd_value_item(const pd_value *value, int i)
{
    return i >= 0 && i < value->items.n ? value->items.at[i] : NULL;
}

pd_status pd_value_append(pd_value *value, const pd_value *item)
{
    struct pd_value *copy = NULL;
    if (value->tensor.meta.kind != PD_KIND_TENSOR_ARRAY)
        return pd_fail(PD_TYPE, "only a tensor array can be appended to");
    PD_TRY(pd_value_new(PD_KIND_TENSOR, &copy));
    pd_status status = pd_value_copy(copy, item);
    if (status == PD_OK && !pd_vec_push(&value->items, copy)) status = pd_no_memory();
    if (status != PD_OK) pd_value_unref(copy);
    return status;
}

pd_status pd_value_assign(pd_value *to, const pd_value *from)
{
    PD_TRY(pd_value_will_change(to, NULL));
    return pd_value_copy(to, from);
}

pd_status pd_value_share(pd_value *to, const pd_value *from)
{
    PD_TRY(has_tensor(to));
    PD_TRY(has_tensor(from));
    PD_TRY(pd_value_will_change(to, NULL));
    pd_tensor_share(&to->tensor, &from->tensor);
    return PD_OK;
}

pd_status pd_value_serialize(const pd_value *value, pd_bytes *out)
{
    struct pd_buf bytes = {0};
    pd_status status = pd_value_write(value, &bytes);
    if (status != PD_OK) {
        pd_buf_free(&bytes);
        return status;
    }
    return pd_api_bytes(&bytes, out);
}

pd_status pd_value_parse(pd_value *value, const void *bytes, size_t n, size_t *used)
{
    PD_TRY(pd_value_will_change(value, NULL));
    return pd_value_read(value, bytes, n, used);
}
