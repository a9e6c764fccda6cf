/* scatter by row number and scatter_nd_add by coordinates: writing rows. */
#include "kernels/copy.h"
#include "kernels/gather.h"
#include "ops/out.h"
#include "ops/row_numbers.h"
#include "ops/scratch.h"

enum { X, INDEX, UPDATES };
enum { G_IDS, G_UPDATES, G_DOUT };
enum { OUT };
enum { DX, DUPDATES };
enum { OVERWRITE };

static const struct pd_attr_def overwrite[] = {PD_DEF_BOOL("overwrite", 1), {0}};

static pd_status scatter_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *updates = pd_infer_in(c, UPDATES);
    struct pd_row_numbers rows;
    PD_TRY(pd_row_numbers_infer(x, pd_infer_in(c, INDEX), "Ids", 0, &rows));
    struct pd_meta wanted = *x;
    wanted.dim[0] = rows.n;
    if (!pd_meta_dims_match(&wanted, updates))
        return pd_fail(PD_SHAPE, "Updates has shape %s; for these Ids and X it must be %s",
                       pd_meta_dims_text(updates), pd_meta_dims_text(&wanted));
    pd_out_like(c, OUT, X);
    return PD_OK;
}

static pd_status scatter_nd_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *index = pd_infer_in(c, INDEX),
                         *updates = pd_infer_in(c, UPDATES);
    struct pd_meta wanted = {.dtype = x->dtype};
    struct pd_row_numbers rows;
    PD_TRY(pd_row_numbers_infer(x, index, "Index", 1, &rows));
    PD_TRY(pd_row_numbers_dims(x, index, wanted.dim, &wanted.rank));
    if (!pd_meta_dims_match(&wanted, updates))
        return pd_fail(PD_SHAPE, "Updates has shape %s; for this Index and X it must be %s",
                       pd_meta_dims_text(updates), pd_meta_dims_text(&wanted));
    pd_out_like(c, OUT, X);
    return PD_OK;
}

static pd_status scatter_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *updates = pd_run_in(r, UPDATES);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct pd_row_numbers rows;
    int64_t *index;
    PD_TRY(pd_row_numbers_read(r, INDEX, "Ids", 0, &x->meta, &rows, &index));
    if (out->data != x->data) pd_copy_bytes(out->data, x->data, pd_tensor_bytes(x));
    int64_t bytes = rows.width * (int64_t)pd_dtype_size(x->meta.dtype);
    if (r->attr[OVERWRITE].b) {
        pd_gather_scatter(out->data, updates->data, index, rows.n, bytes);
        return PD_OK;
    }
    /* Rows that are named start from 0: X does not add to them. */
    pd_gather_zero(out->data, index, rows.n, bytes);
    return pd_row_numbers_add(x->meta.dtype, out->data, &rows, updates->data, index);
}

static pd_status scatter_nd_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *updates = pd_run_in(r, UPDATES);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct pd_row_numbers rows;
    int64_t *index;
    PD_TRY(pd_row_numbers_read(r, INDEX, "Index", 1, &x->meta, &rows, &index));
    if (out->data != x->data) pd_copy_bytes(out->data, x->data, pd_tensor_bytes(x));
    return pd_row_numbers_add(x->meta.dtype, out->data, &rows, updates->data, index);
}

static pd_status scatter_grad_infer(const struct pd_infer *c)
{
    struct pd_meta *dx = pd_infer_out(c, DX);
    if (dx) pd_meta_like(dx, pd_infer_in(c, G_DOUT));
    pd_out_like(c, DUPDATES, G_UPDATES);
    return PD_OK;
}

/* Where numbers repeat and rows are overwritten, only the last update counts. */
static void drop_repeats(char *dupdates, const int64_t *index, const struct pd_row_numbers *rows,
                         int64_t bytes, int64_t *last)
{
    for (int64_t i = 0; i < rows->n; i++)
        last[index[i]] = i;
    for (int64_t i = 0; i < rows->n; i++)
        if (last[index[i]] != i) pd_gather_zero(dupdates, &i, 1, bytes);
}

static pd_status scatter_grad_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dupdates = pd_run_out(r, DUPDATES);
    struct pd_row_numbers rows;
    int64_t *index;
    int drop = !by_coordinates && r->attr[OVERWRITE].b;
    PD_TRY(pd_row_numbers_read(r, G_IDS, by_coordinates ? "Index" : "Ids", by_coordinates, &dout->meta, &rows,
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
        const struct pd_tensor *ids = pd_run_in(r, G_IDS);
        PD_TRY(pd_scratch(r, (size_t)(rows.n + rows.count) * sizeof *memory, (void **)&memory));
        PD_TRY(pd_row_numbers_copy(ids, "Ids", rows.count, memory));
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

static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def scatter_grad_out[] = {
    {"X@GRAD", PD_SLOT_OPTIONAL}, {"Updates@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_share scatter_share[] = {{OUT, X, 0}, {-1, -1, 0}};

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
    .grad_like = "X=Out@",
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
    .grad_like = "X=Out@",
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
