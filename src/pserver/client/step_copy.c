/* See step_copy.h. */
#include "pserver/client/step_copy.h"

#include <string.h>

#include "base/error.h"

pd_status pd_step_copy_new(struct pd_step_copy **out)
{
    *out = pd_calloc(1, sizeof **out);
    return *out ? PD_OK : pd_no_memory();
}

static void drop_endpoints(struct pd_step_copy *copy)
{
    while (copy->endpoints.n)
        pd_free(copy->endpoints.at[--copy->endpoints.n]);
}

void pd_step_copy_clear(struct pd_step_copy *copy)
{
    copy->n = 0;
    drop_endpoints(copy);
}

void pd_step_copy_free(struct pd_step_copy *copy)
{
    if (!copy) return;
    for (int i = 0; i < copy->items.n; i++) {
        pd_vec_free(&copy->items.at[i]->rows);
        pd_free_aligned(copy->items.at[i]->data);
        pd_free_aligned(copy->items.at[i]->answer);
        pd_free(copy->items.at[i]);
    }
    drop_endpoints(copy);
    pd_vec_free(&copy->endpoints);
    pd_vec_free(&copy->items);
    pd_free(copy);
}

/* ---- taking in ---- */

/* The next item, with the memory of one of an earlier step. Steps of one Program give the same gradients in
 * the same order, so that memory has the right size. */
static pd_status next_item(struct pd_step_copy *copy, int number, enum pd_dtype dtype, size_t row,
                           struct pd_copied **out)
{
    if (copy->n == copy->items.n) {
        struct pd_copied *item = pd_calloc(1, sizeof *item);
        if (!item) return pd_no_memory();
        if (!pd_vec_push(&copy->items, item)) {
            pd_free(item);
            return pd_no_memory();
        }
    }
    struct pd_copied *item = copy->items.at[copy->n++];
    item->number = number;
    item->dtype = dtype;
    item->row = row;
    item->is_rows = item->is_slice = 0;
    item->rows.n = 0;
    item->bytes = 0;
    item->brings = -1;
    item->times = 1;
    *out = item;
    return PD_OK;
}

static pd_status append(struct pd_copied *item, const void *data, size_t bytes)
{
    size_t need = item->bytes + bytes;
    if (item->room < need || !item->data) {
        size_t room = need + need / 4;
        void *more = pd_malloc_aligned(room);
        if (!more) return pd_no_memory();
        if (item->bytes) memcpy(more, item->data, item->bytes);
        pd_free_aligned(item->data);
        item->data = more;
        item->room = room;
    }
    if (data && bytes) memcpy((char *)item->data + item->bytes, data, bytes);
    item->bytes = need;
    return PD_OK;
}

pd_status pd_step_copy_dense(struct pd_step_copy *copy, int number, enum pd_dtype dtype, const void *data,
                             size_t bytes, size_t row)
{
    struct pd_copied *item;
    PD_TRY(next_item(copy, number, dtype, row, &item));
    return append(item, data, bytes);
}

static pd_status append_rows(struct pd_copied *item, int64_t n, const int64_t *rows, const void *data)
{
    if (n > INT32_MAX - item->rows.n)
        return pd_fail(PD_RANGE, "a sparse gradient has more than %d rows in one step", INT32_MAX);
    if (!pd_vec_reserve(&item->rows, item->rows.n + (int)n)) return pd_no_memory();
    if (n) memcpy(item->rows.at + item->rows.n, rows, (size_t)n * sizeof *rows);
    item->rows.n += (int)n;
    return append(item, data, (size_t)n * item->row);
}

pd_status pd_step_copy_rows(struct pd_step_copy *copy, int number, enum pd_dtype dtype, int64_t n,
                            const int64_t *rows, const void *data, size_t row, int is_slice)
{
    struct pd_copied *item;
    PD_TRY(next_item(copy, number, dtype, row, &item));
    item->is_rows = 1;
    item->is_slice = is_slice;
    return append_rows(item, n, rows, data);
}

static int ends_on(const struct pd_step_copy *copy, const char *endpoint)
{
    for (int i = 0; i < copy->endpoints.n; i++)
        if (strcmp(copy->endpoints.at[i], endpoint) == 0) return 1;
    return 0;
}

pd_status pd_step_copy_ends(struct pd_step_copy *copy, int n, const char *const *endpoints)
{
    for (int i = 0; i < n; i++) {
        if (ends_on(copy, endpoints[i])) continue;
        char *endpoint = pd_strdup(endpoints[i]);
        if (!endpoint || !pd_vec_push(&copy->endpoints, endpoint)) {
            pd_free(endpoint);
            return pd_no_memory();
        }
    }
    return PD_OK;
}

int pd_step_copy_ends_as(const struct pd_step_copy *copy, const struct pd_step_copy *other)
{
    if (copy->endpoints.n != other->endpoints.n) return 0;
    for (int i = 0; i < other->endpoints.n; i++)
        if (!ends_on(copy, other->endpoints.at[i])) return 0;
    return 1;
}

/* ---- merging ---- */

int pd_step_copy_takes(enum pd_dtype dtype)
{
    return dtype == PD_DTYPE_FP32 || dtype == PD_DTYPE_FP64;
}

#define SUM_AND_SCALE(name, T)                                                                               \
    static void add_##name(T *to, const T *from, size_t n)                                                   \
    {                                                                                                        \
        for (size_t i = 0; i < n; i++)                                                                       \
            to[i] += from[i];                                                                                \
    }                                                                                                        \
    static void scale_##name(T *to, double by, size_t n)                                                     \
    {                                                                                                        \
        for (size_t i = 0; i < n; i++)                                                                       \
            to[i] *= (T)by;                                                                                  \
    }
SUM_AND_SCALE(f32, float)
SUM_AND_SCALE(f64, double)

static struct pd_copied *find(const struct pd_step_copy *copy, const struct pd_copied *like, int hint)
{
    if (hint < copy->n && copy->items.at[hint]->number == like->number) return copy->items.at[hint];
    for (int i = 0; i < copy->n; i++)
        if (copy->items.at[i]->number == like->number) return copy->items.at[i];
    return NULL;
}

static pd_status add_dense(struct pd_copied *to, const struct pd_copied *from)
{
    if (to->bytes != from->bytes || to->dtype != from->dtype)
        return pd_fail(PD_SHAPE,
                       "two steps give %zu and %zu bytes of the same gradient: they cannot be "
                       "merged; set communicator_max_merge_var_num to 1",
                       to->bytes, from->bytes);
    if (to->dtype == PD_DTYPE_FP32)
        add_f32(to->data, from->data, to->bytes / sizeof(float));
    else
        add_f64(to->data, from->data, to->bytes / sizeof(double));
    return PD_OK;
}

pd_status pd_step_copy_add(struct pd_step_copy *copy, const struct pd_step_copy *other)
{
    for (int i = 0; i < other->n; i++) {
        const struct pd_copied *from = other->items.at[i];
        struct pd_copied *to = find(copy, from, i);
        if (!pd_step_copy_takes(from->dtype))
            return pd_fail(PD_TYPE,
                           "a gradient is %s: only those of float32 and float64 can be merged; set "
                           "communicator_max_merge_var_num to 1",
                           pd_dtype_name(from->dtype));
        if (to) to->times += from->times;
        if (!to && from->is_rows)
            PD_TRY(pd_step_copy_rows(copy, from->number, from->dtype, from->rows.n, from->rows.at, from->data,
                                     from->row, from->is_slice));
        else if (!to)
            PD_TRY(pd_step_copy_dense(copy, from->number, from->dtype, from->data, from->bytes, from->row));
        else if (to->is_rows != from->is_rows || to->row != from->row)
            return pd_fail(PD_SHAPE, "two steps give the same gradient in different forms: they cannot be "
                                     "merged; set communicator_max_merge_var_num to 1");
        else if (!from->is_rows)
            PD_TRY(add_dense(to, from));
        else {
            to->is_slice |= from->is_slice;
            PD_TRY(append_rows(to, from->rows.n, from->rows.at, from->data));
        }
    }
    return pd_step_copy_ends(copy, other->endpoints.n, (const char *const *)other->endpoints.at);
}

void pd_step_copy_average(struct pd_step_copy *copy)
{
    for (int i = 0; i < copy->n; i++) {
        struct pd_copied *item = copy->items.at[i];
        double by = 1.0 / item->times;
        if (item->times == 1) continue;
        if (item->dtype == PD_DTYPE_FP32)
            scale_f32(item->data, by, item->bytes / sizeof(float));
        else if (item->dtype == PD_DTYPE_FP64)
            scale_f64(item->data, by, item->bytes / sizeof(double));
    }
}

/* ---- giving ---- */

pd_status pd_step_copy_brings(struct pd_step_copy *copy, int number)
{
    struct pd_copied *item = copy->items.at[copy->n - 1];
    if (!pd_room_aligned(&item->answer, &item->answer_room, item->bytes)) return pd_no_memory();
    item->brings = number;
    return PD_OK;
}

static pd_status ask_rows(const struct pd_copied *item, struct pd_client *client, struct pd_ask *ask)
{
    int64_t most = pd_client_rows_most(item->row), n = item->rows.n;
    for (int64_t at = 0; at < n; at += most)
        PD_TRY(pd_ask_rows(client, ask, item->brings, n - at < most ? n - at : most, item->rows.at + at,
                           item->row, (char *)item->answer + (size_t)at * item->row));
    return PD_OK;
}

pd_status pd_step_copy_ask(const struct pd_step_copy *copy, struct pd_client *client, struct pd_ask *ask)
{
    for (int i = 0; i < copy->n; i++) {
        const struct pd_copied *item = copy->items.at[i];
        if (item->brings < 0) continue;
        PD_TRY(item->is_rows ? ask_rows(item, client, ask)
                             : pd_ask_value(client, ask, item->brings, item->answer, item->bytes));
    }
    return PD_OK;
}

pd_status pd_step_copy_push(const struct pd_step_copy *copy, struct pd_client *client)
{
    for (int i = 0; i < copy->n; i++) {
        const struct pd_copied *item = copy->items.at[i];
        if (item->is_rows)
            PD_TRY(pd_client_push_rows(client, item->number, item->rows.n, item->rows.at, item->data,
                                       item->row, item->is_slice));
        else
            PD_TRY(pd_client_push_dense(client, item->number, item->data, item->bytes, item->row));
    }
    return PD_OK;
}
