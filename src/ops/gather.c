/* gather by row number and gather_nd by coordinates: picking rows. */
#include "kernels/gather.h"
#include "kernels/copy.h"
#include "ops/out.h"
#include "ops/row_numbers.h"

enum { X, INDEX, DOUT };
enum { OUT };
enum { DX };

static const struct pd_attr_def overwrite[] = {PD_DEF_BOOL("overwrite", 1), {0}};

static pd_status gather_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_row_numbers rows;
    PD_TRY(pd_row_numbers_infer(x, pd_infer_in(c, INDEX), "Index", 0, &rows));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[0] = rows.n;
    return PD_OK;
}

static pd_status gather_nd_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *index = pd_infer_in(c, INDEX);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_row_numbers rows;
    int64_t dim[PD_MAX_RANK];
    int rank;
    PD_TRY(pd_row_numbers_infer(x, index, "Index", 1, &rows));
    PD_TRY(pd_row_numbers_dims(x, index, dim, &rank));
    return pd_out_dims(out, x, rank, dim);
}

static pd_status gather_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct pd_row_numbers rows;
    int64_t *index;
    PD_TRY(pd_row_numbers_read(r, INDEX, "Index", by_coordinates, &x->meta, &rows, &index));
    pd_gather_rows(out->data, x->data, index, rows.n, rows.width * (int64_t)pd_dtype_size(x->meta.dtype));
    return PD_OK;
}

static pd_status gather_grad_any(const struct pd_run *r, int by_coordinates)
{
    const struct pd_tensor *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, DX);
    struct pd_row_numbers rows;
    int64_t *index;
    if (!dx) return PD_OK;
    PD_TRY(pd_row_numbers_read(r, INDEX, "Index", by_coordinates, &dx->meta, &rows, &index));
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    return pd_row_numbers_add(dx->meta.dtype, dx->data, &rows, dout->data, index);
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

static const struct pd_slot_def x_index[] = {{"X", 0}, {"Index", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def gather_grad_in[] = {
    {"X", PD_SLOT_META}, {"Index", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};

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
    .outputs = pd_out_x_grad,
    .attrs = overwrite,
    .infer = pd_out_infer_like,
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
    .outputs = pd_out_x_grad,
    .infer = pd_out_infer_like,
    .run = gather_nd_grad_run,
};
