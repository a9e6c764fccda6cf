/* Embeddings: rows of a table picked by ids. lookup_table wants ids of shape [..., 1] and drops that 1,
 * lookup_table_v2 takes ids of any shape. With is_sparse the table's gradient is selected rows: one row per
 * id. */
#include <string.h>

#include "kernels/rows.h"
#include "ops/check.h"
#include "ops/lookup_table.h"
#include "ops/rows.h"
#include "ops/scratch.h"

enum { W, IDS };
enum { OUT };
enum { IS_SPARSE, IS_DISTRIBUTED, PADDING, HEIGHTS = 6, EPMAP };

static pd_status infer(const struct pd_infer *c, int drop)
{
    const struct pd_meta *w = pd_infer_in(c, W), *ids = pd_infer_in(c, IDS);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (w->rank != 2)
        return pd_fail(PD_SHAPE, "the table W must have 2 dimensions [rows, width], found %s",
                       pd_meta_dims_text(w));
    PD_TRY(pd_check_index(ids, "Ids"));
    if (drop && (ids->rank < 1 || (ids->dim[ids->rank - 1] != 1 && ids->dim[ids->rank - 1] != -1)))
        return pd_fail(
            PD_SHAPE,
            "the last dimension of Ids must be 1, found shape %s; use lookup_table_v2 for other shapes",
            pd_meta_dims_text(ids));
    int64_t dim[PD_MAX_RANK];
    int rank = ids->rank - drop;
    if (rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "Ids have shape %s; at most %d dimensions are possible",
                       pd_meta_dims_text(ids), PD_MAX_RANK - 1);
    memcpy(dim, ids->dim, (size_t)rank * sizeof *dim);
    dim[rank] = w->dim[1];
    out->dtype = w->dtype;
    pd_meta_share_lod(out, ids);
    return pd_meta_set_dims(out, rank + 1, dim);
}

static pd_status infer_v1(const struct pd_infer *c)
{
    return infer(c, 1);
}

static pd_status infer_v2(const struct pd_infer *c)
{
    return infer(c, 0);
}

pd_status pd_lookup_is_here(const struct pd_attr *epmap)
{
    if (!epmap->n) return PD_OK;
    return pd_fail(
        PD_UNSUPPORTED,
        "the table lies on servers (epmap names %s), but this form of the op reads it here. Transpile "
        "the Program with this package's DistributeTranspiler, which puts distributed_lookup_table "
        "there.",
        epmap->strings[0]);
}

pd_status pd_lookup_ids(const struct pd_tensor *t, int64_t height, int64_t padding, int64_t *room,
                        const int64_t **out)
{
    int64_t n = pd_tensor_numel(t), bad;
    if (t->meta.dtype == PD_DTYPE_INT64) {
        *out = t->data;
        bad = pd_rows_bad_i64(t->data, n, height, padding);
    } else if (t->meta.dtype == PD_DTYPE_INT32) {
        const int32_t *from = t->data;
        bad = pd_rows_bad_i32(from, n, height, padding);
        for (int64_t i = 0; i < n; i++)
            room[i] = from[i];
        *out = room;
    } else {
        return pd_check_index_data(t, "Ids");
    }
    if (bad < 0) return PD_OK;
    return pd_fail(
        PD_RANGE,
        "id %lld (number %lld of Ids) is outside the table, which has %lld rows: ids go from 0 to %lld",
        (long long)(*out)[bad], (long long)bad, (long long)height, (long long)height - 1);
}

/* The ids as int64, checked; `extra` bytes of scratch memory come with them. */
static pd_status checked_ids(const struct pd_run *r, int slot, int64_t height, size_t extra,
                             const int64_t **out, void **memory)
{
    const struct pd_tensor *t = pd_run_in(r, slot);
    size_t room = pd_lookup_ids_room(t);
    *memory = NULL;
    if (room || extra) PD_TRY(pd_scratch(r, extra + room, memory));
    return pd_lookup_ids(t, height, r->attr[PADDING].l, room ? (int64_t *)((char *)*memory + extra) : NULL,
                         out);
}

/* A table kept as selected rows: ids are looked up among its row numbers. */
static pd_status run_rows_table(const struct pd_run *r, const struct pd_value *w, struct pd_tensor *out)
{
    const int64_t *ids;
    void *memory;
    size_t head = pd_scratch_round(pd_rows_group_bytes(w->rows.n));
    int64_t n = pd_tensor_numel(pd_run_in(r, IDS)), padding = r->attr[PADDING].l;
    size_t bytes = (size_t)w->tensor.meta.dim[1] * pd_dtype_size(w->tensor.meta.dtype);
    PD_TRY(checked_ids(r, IDS, INT64_MAX, head, &ids, &memory));
    struct pd_rows_groups g;
    pd_rows_group(w->rows.at, w->rows.n, memory, &g);
    for (int64_t i = 0; i < n; i++) {
        char *to = (char *)out->data + (size_t)i * bytes;
        if (padding >= 0 && ids[i] == padding) {
            memset(to, 0, bytes);
            continue;
        }
        int64_t low = 0, high = g.n;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (g.row[middle] < ids[i])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == g.n || g.row[low] != ids[i])
            return pd_fail(PD_RANGE, "id %lld is not among the %d rows that the table holds",
                           (long long)ids[i], w->rows.n);
        memcpy(to, (const char *)w->tensor.data + (size_t)g.at[g.start[low]] * bytes, bytes);
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_value *w = pd_run_in_value(r, W);
    struct pd_tensor *out = pd_run_out(r, OUT);
    PD_TRY(pd_lookup_is_here(&r->attr[EPMAP]));
    if (pd_value_is_rows(w)) return run_rows_table(r, w, out);
    const int64_t *ids;
    void *memory;
    int64_t n = pd_tensor_numel(pd_run_in(r, IDS));
    PD_TRY(checked_ids(r, IDS, w->tensor.meta.dim[0], 0, &ids, &memory));
    pd_rows_copy(out->data, w->tensor.data,
                 (size_t)w->tensor.meta.dim[1] * pd_dtype_size(w->tensor.meta.dtype), ids, n,
                 r->attr[PADDING].l);
    return PD_OK;
}

/* ---- gradient ---- */

enum { G_W, G_IDS, G_OUT };

static pd_status infer_grad(const struct pd_infer *c)
{
    pd_rows_infer_grad(c, G_W, c->attr[IS_SPARSE].b);
    return PD_OK;
}

/* Ids of the gradient are below it. A table that lies on servers may have more rows there than it is declared
 * with. */
static int64_t height_of(const struct pd_run *r, const struct pd_value *w)
{
    const struct pd_attr *there = &r->attr[HEIGHTS];
    if (r->attr[IS_SPARSE].b && there->n == 1) return there->longs[0];
    return pd_value_is_rows(w) ? w->height : w->tensor.meta.dim[0];
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_value *w = pd_run_in_value(r, G_W);
    const struct pd_tensor *from = pd_run_in(r, G_OUT);
    struct pd_value *to = pd_run_out_value(r, 0);
    if (!to) return PD_OK;
    const struct pd_meta *table = &w->tensor.meta;
    int64_t height = height_of(r, w), width = table->dim[1];
    int64_t n = pd_tensor_numel(pd_run_in(r, G_IDS)), padding = r->attr[PADDING].l;
    const int64_t *ids;
    void *memory;
    PD_TRY(checked_ids(r, G_IDS, pd_value_is_rows(w) ? INT64_MAX : height, 0, &ids, &memory));
    if (pd_tensor_numel(from) != n * width)
        return pd_fail(PD_SHAPE, "the gradient has shape %s, but there are %lld ids of width %lld",
                       pd_meta_dims_text(&from->meta), (long long)n, (long long)width);
    size_t bytes = (size_t)width * pd_dtype_size(from->meta.dtype);
    if (r->attr[IS_SPARSE].b) {
        PD_TRY(pd_rows_resize(to, n, height, from->meta.dtype, 2, (int64_t[]){n, width}));
        if (n) memcpy(to->rows.at, ids, (size_t)n * sizeof *ids);
        if (n && bytes) memcpy(to->tensor.data, from->data, (size_t)n * bytes);
        for (int64_t i = 0; padding >= 0 && i < n; i++)
            if (ids[i] == padding) memset((char *)to->tensor.data + (size_t)i * bytes, 0, bytes);
        return PD_OK;
    }
    memset(to->tensor.data, 0, (size_t)height * bytes);
    if (from->meta.dtype == PD_DTYPE_FP32)
        pd_rows_add_f32(to->tensor.data, width, ids, n, from->data, 1, padding);
    else if (from->meta.dtype == PD_DTYPE_FP64)
        pd_rows_add_f64(to->tensor.data, width, ids, n, from->data, 1, padding);
    else
        return pd_fail(PD_TYPE, "the gradient of a table is float32 or float64, found %s",
                       pd_dtype_name(from->meta.dtype));
    return PD_OK;
}

/* The last ones say where a table that is spread over servers lies; they matter to the passes that spread it.
 */
#define ATTRS                                                                                                \
    PD_DEF_BOOL("is_sparse", 0), PD_DEF_BOOL("is_distributed", 0), PD_DEF_LONG("padding_idx", -1),           \
        PD_DEF_BOOL("grad_inplace", 0), PD_DEF_BOOL("remote_prefetch", 0), PD_DEF_INT("trainer_id", 0),      \
        PD_DEF_LONGS("height_sections"), PD_DEF_STRINGS("epmap"), PD_DEF_STRINGS("table_names")

static const struct pd_slot_def inputs[] = {{"W", 0}, {"Ids", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"W", PD_SLOT_META}, {"Ids", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"W@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {ATTRS, {0}};

const struct pd_op pd_op_lookup_table = {
    .type = "lookup_table",
    .doc = "Rows of the table W picked by Ids [..., 1]; a padding id gives a row of zeros.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer_v1,
    .run = run,
    .grad_type = "lookup_table_grad",
    .grad_in = "W Ids Out@",
    .grad_out = "W@",
};

const struct pd_op pd_op_lookup_table_grad = {
    .type = "lookup_table_grad",
    .doc = "Gradient of lookup_table: dense, or selected rows with is_sparse.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};

const struct pd_op pd_op_lookup_table_v2 = {
    .type = "lookup_table_v2",
    .doc = "Rows of the table W picked by Ids of any shape; a padding id gives a row of zeros.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer_v2,
    .run = run,
    .grad_type = "lookup_table_v2_grad",
    .grad_in = "W Ids Out@",
    .grad_out = "W@",
};

const struct pd_op pd_op_lookup_table_v2_grad = {
    .type = "lookup_table_v2_grad",
    .doc = "Gradient of lookup_table_v2: dense, or selected rows with is_sparse.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
