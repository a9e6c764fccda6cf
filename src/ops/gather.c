/* gather and scatter by row number, gather_nd and scatter_nd_add by coordinates: picking rows and writing
 * rows. Numbers are checked against the tensor before use. */
#include "kernels/gather.h"

#include "kernels/copy.h"
#include "ops/shape_util.h"

enum { X, INDEX, UPDATES };
enum { GATHER_DOUT = 2, SCATTER_IDS = 0, SCATTER_UPDATES, SCATTER_DOUT };
enum { OUT };
enum { DX, DUPDATES };
enum { OVERWRITE };

static const struct pd_attr_def overwrite[] = {PD_DEF_BOOL("overwrite", 1), {0}};

/* Rows that numbers pick: how many there are, and how wide in elements. */
struct rows {
    const char *slot;
    int by_coordinates;
    int64_t n;            /* numbers */
    int64_t count, width; /* rows of the tensor */
};

static pd_status rows_of(const struct pd_meta *x, const struct pd_meta *index, const char *slot,
                         int by_coordinates, struct rows *rows)
{
    int depth = 1;
    *rows = (struct rows){.slot = slot, .by_coordinates = by_coordinates};
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
        PD_TRY(pd_shape_index_count(index, slot, &rows->n));
    }
    rows->count = pd_meta_span(x, 0, depth);
    rows->width = pd_meta_span(x, depth, x->rank);
    return PD_OK;
}

static pd_status read_coordinates(const struct pd_tensor *index, const struct pd_meta *x,
                                  const struct rows *rows, int64_t *to)
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
static pd_status numbers(const struct pd_run *r, int slot, const char *name, int by_coordinates,
                         const struct pd_meta *x, struct rows *rows, int64_t **index)
{
    const struct pd_tensor *t = pd_run_in(r, slot);
    PD_TRY(rows_of(x, &t->meta, name, by_coordinates, rows));
    if (!by_coordinates && t->meta.dtype == PD_DTYPE_INT64) {
        /* Used as they are, once checked. */
        *index = t->data;
        for (int64_t i = 0; i < rows->n; i++)
            if ((uint64_t)(*index)[i] >= (uint64_t)rows->count)
                return pd_fail(PD_RANGE, "%s has %lld at position %lld; it must be in 0 to %lld", name,
                               (long long)(*index)[i], (long long)i, (long long)rows->count - 1);
        return PD_OK;
    }
    PD_TRY(pd_shape_scratch(r, (size_t)rows->n * sizeof **index, (void **)index));
    return by_coordinates ? read_coordinates(t, x, rows, *index)
                          : pd_shape_read_index(t, name, rows->count, *index);
}

static pd_status add_rows(enum pd_dtype dtype, void *to, const struct rows *rows, const void *from,
                          const int64_t *index)
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

/* ---- gather, gather_nd ---- */

static pd_status gather_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct rows rows;
    PD_TRY(rows_of(x, pd_infer_in(c, INDEX), "Index", 0, &rows));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[0] = rows.n;
    return PD_OK;
}

/* Dims of what coordinates pick: those of the index without the last, then what is left of X. */
static pd_status picked(const struct pd_meta *x, const struct pd_meta *index, int64_t *dim, int *rank)
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

static pd_status gather_nd_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *index = pd_infer_in(c, INDEX);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct rows rows;
    int64_t dim[PD_MAX_RANK];
    int rank;
    PD_TRY(rows_of(x, index, "Index", 1, &rows));
    PD_TRY(picked(x, index, dim, &rank));
    return pd_shape_set_out(out, x, rank, dim);
}

static pd_status gather_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct rows rows;
    int64_t *index;
    PD_TRY(numbers(r, INDEX, "Index", by_coordinates, &x->meta, &rows, &index));
    pd_gather_rows(out->data, x->data, index, rows.n, rows.width * (int64_t)pd_dtype_size(x->meta.dtype));
    return PD_OK;
}

static pd_status gather_grad_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *dout = pd_run_in(r, GATHER_DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX);
    struct rows rows;
    int64_t *index;
    if (!dx) return PD_OK;
    PD_TRY(numbers(r, INDEX, "Index", by_coordinates, &dx->meta, &rows, &index));
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    return add_rows(dx->meta.dtype, dx->data, &rows, dout->data, index);
}

static pd_status gather_run(const struct pd_run *r)
{
    return gather_any(r, 0);
}
static pd_status gather_nd_run(const struct pd_run *r)
{
    return gather_any(r, 1);
}
static pd_status gather_grad_run(const struct pd_run *r)
{
    return gather_grad_any(r, 0);
}
static pd_status gather_nd_grad_run(const struct pd_run *r)
{
    return gather_grad_any(r, 1);
}

/* ---- scatter, scatter_nd_add ---- */

static pd_status scatter_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *updates = pd_infer_in(c, UPDATES);
    struct rows rows;
    PD_TRY(rows_of(x, pd_infer_in(c, INDEX), "Ids", 0, &rows));
    struct pd_meta wanted = *x;
    wanted.dim[0] = rows.n;
    if (!pd_meta_dims_match(&wanted, updates))
        return pd_fail(PD_SHAPE, "Updates has shape %s; for these Ids and X it must be %s",
                       pd_meta_dims_text(updates), pd_meta_dims_text(&wanted));
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

static pd_status scatter_nd_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *index = pd_infer_in(c, INDEX),
                         *updates = pd_infer_in(c, UPDATES);
    struct pd_meta wanted = {.dtype = x->dtype};
    struct rows rows;
    PD_TRY(rows_of(x, index, "Index", 1, &rows));
    PD_TRY(picked(x, index, wanted.dim, &wanted.rank));
    if (!pd_meta_dims_match(&wanted, updates))
        return pd_fail(PD_SHAPE, "Updates has shape %s; for this Index and X it must be %s",
                       pd_meta_dims_text(updates), pd_meta_dims_text(&wanted));
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

static pd_status scatter_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *updates = pd_run_in(r, UPDATES);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct rows rows;
    int64_t *index;
    PD_TRY(numbers(r, INDEX, "Ids", 0, &x->meta, &rows, &index));
    if (out->data != x->data) pd_copy_bytes(out->data, x->data, pd_tensor_bytes(x));
    int64_t bytes = rows.width * (int64_t)pd_dtype_size(x->meta.dtype);
    if (r->attr[OVERWRITE].b) {
        pd_gather_scatter(out->data, updates->data, index, rows.n, bytes);
        return PD_OK;
    }
    /* Rows that are named start from 0: X does not add to them. */
    pd_gather_zero(out->data, index, rows.n, bytes);
    return add_rows(x->meta.dtype, out->data, &rows, updates->data, index);
}

static pd_status scatter_nd_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *updates = pd_run_in(r, UPDATES);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct rows rows;
    int64_t *index;
    PD_TRY(numbers(r, INDEX, "Index", 1, &x->meta, &rows, &index));
    if (out->data != x->data) pd_copy_bytes(out->data, x->data, pd_tensor_bytes(x));
    return add_rows(x->meta.dtype, out->data, &rows, updates->data, index);
}

static pd_status scatter_grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dx = pd_infer_out(c, DX);
    if (dx) pd_meta_like(dx, pd_infer_in(c, SCATTER_DOUT));
    pd_shape_like(c, DUPDATES, SCATTER_UPDATES);
    return PD_OK;
}

/* Where numbers repeat and rows are overwritten, only the last update counts. */
static void drop_repeats(char *dupdates, const int64_t *index, const struct rows *rows, int64_t bytes,
                         int64_t *last)
{
    for (int64_t i = 0; i < rows->n; i++)
        last[index[i]] = i;
    for (int64_t i = 0; i < rows->n; i++)
        if (last[index[i]] != i) pd_gather_zero(dupdates, &i, 1, bytes);
}

static pd_status scatter_grad_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *dout = pd_run_in(r, SCATTER_DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dupdates = pd_run_out(r, DUPDATES);
    struct rows rows;
    int64_t *index;
    int drop = !by_coordinates && r->attr[OVERWRITE].b;
    PD_TRY(numbers(r, SCATTER_IDS, by_coordinates ? "Index" : "Ids", by_coordinates, &dout->meta, &rows,
                   &index));
    int64_t bytes = rows.width * (int64_t)pd_dtype_size(dout->meta.dtype);
    if (dx) {
        if (dx->data != dout->data) pd_copy_bytes(dx->data, dout->data, pd_tensor_bytes(dout));
        if (!by_coordinates) pd_gather_zero(dx->data, index, rows.n, bytes);
    }
    if (!dupdates) return PD_OK;
    pd_gather_rows(dupdates->data, dout->data, index, rows.n, bytes);
    if (drop) {
        /* The numbers may lie in scratch memory themselves: one block holds both. */
        int64_t *memory;
        const struct pd_tensor *ids = pd_run_in(r, SCATTER_IDS);
        PD_TRY(pd_shape_scratch(r, (size_t)(rows.n + rows.count) * sizeof *memory, (void **)&memory));
        PD_TRY(pd_shape_read_index(ids, "Ids", rows.count, memory));
        drop_repeats(dupdates->data, memory, &rows, bytes, memory + rows.n);
    }
    return PD_OK;
}

static pd_status scatter_grad_run(const struct pd_run *r)
{
    return scatter_grad_any(r, 0);
}
static pd_status scatter_nd_grad_run(const struct pd_run *r)
{
    return scatter_grad_any(r, 1);
}

/* ---- the ops ---- */

static const struct pd_slot_def x_index[] = {{"X", 0}, {"Index", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def gather_grad_in[] = {
    {"X", PD_SLOT_META}, {"Index", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def scatter_grad_out[] = {
    {"X@GRAD", PD_SLOT_OPTIONAL}, {"Updates@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_share scatter_share[] = {{OUT, X, 0}, {-1, -1, 0}};

const struct pd_op pd_op_gather = {
    .type = "gather",
    .doc = "Rows of X by number.",
    .inputs = x_index,
    .outputs = outputs,
    .attrs = overwrite,
    .infer = gather_infer,
    .run = gather_run,
    .grad_type = "gather_grad",
    .grad_in = "X Index Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_gather_grad = {
    .type = "gather_grad",
    .doc = "Gradient of gather: each row's gradients added up.",
    .inputs = gather_grad_in,
    .outputs = pd_view_grad_outputs,
    .attrs = overwrite,
    .infer = pd_shape_infer_like_first,
    .run = gather_grad_run,
};

const struct pd_op pd_op_gather_nd = {
    .type = "gather_nd",
    .doc = "Parts of X by coordinates.",
    .inputs = x_index,
    .outputs = outputs,
    .infer = gather_nd_infer,
    .run = gather_nd_run,
    .grad_type = "gather_nd_grad",
    .grad_in = "X Index Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_gather_nd_grad = {
    .type = "gather_nd_grad",
    .doc = "Gradient of gather_nd: each part's gradients added up.",
    .inputs = gather_grad_in,
    .outputs = pd_view_grad_outputs,
    .infer = pd_shape_infer_like_first,
    .run = gather_nd_grad_run,
};

const struct pd_op pd_op_scatter = {
    .type = "scatter",
    .doc = "X with the rows Ids overwritten by Updates, or by the sums of Updates.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Ids", PD_SLOT_OWN_TYPE}, {"Updates", 0}, {0}},
    .outputs = outputs,
    .attrs = overwrite,
    .infer = scatter_infer,
    .run = scatter_run,
    .grad_type = "scatter_grad",
    .grad_in = "Ids Updates Out@",
    .grad_out = "X@ Updates@",
    .share = scatter_share,
};

const struct pd_op pd_op_scatter_grad = {
    .type = "scatter_grad",
    .doc = "Gradient of scatter.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Ids", PD_SLOT_OWN_TYPE}, {"Updates", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = scatter_grad_out,
    .attrs = overwrite,
    .infer = scatter_grad_infer,
    .run = scatter_grad_run,
};

const struct pd_op pd_op_scatter_nd_add = {
    .type = "scatter_nd_add",
    .doc = "X with Updates added at the coordinates Index.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Index", PD_SLOT_OWN_TYPE}, {"Updates", 0}, {0}},
    .outputs = outputs,
    .infer = scatter_nd_infer,
    .run = scatter_nd_run,
    .grad_type = "scatter_nd_add_grad",
    .grad_in = "Index Updates Out@",
    .grad_out = "X@ Updates@",
    .share = scatter_share,
};

const struct pd_op pd_op_scatter_nd_add_grad = {
    .type = "scatter_nd_add_grad",
    .doc = "Gradient of scatter_nd_add.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Index", PD_SLOT_OWN_TYPE}, {"Updates", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = scatter_grad_out,
    .infer = scatter_grad_infer,
    .run = scatter_nd_grad_run,
};
