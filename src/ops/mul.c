/* mul: the product of two tensors seen as matrices. Dimensions before x_num_col_dims (y_num_col_dims) are the
 * rows, the others the columns. The fully connected layer is built on it. */
#include "ops/mul.h"

#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };
enum { X_COLS, Y_COLS };
enum { GRAD_OUT = 2 }; /* third input of the gradient op */
enum { DX, DY };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("x_num_col_dims", 1),
    PD_DEF_INT("y_num_col_dims", 1),
    PD_DEF_FLOAT("scale_x", 1),
    PD_DEF_FLOATS_OF("scale_y", 1),
    PD_DEF_FLOAT("scale_out", 1),
    PD_DEF_BOOL("force_fp32_output", 0),
    {0},
};

static pd_status check_split(const char *name, int cols, const struct pd_meta *meta, const char *slot)
{
    if (cols >= 1 && cols < meta->rank) return PD_OK;
    if (meta->rank < 2)
        return pd_fail(PD_INVALID, "%s must have 2 dimensions or more, but its shape is %s", slot,
                       pd_meta_dims_text(meta));
    return pd_fail(PD_INVALID, "%s is %d, but %s has shape %s: give 1 to %d.", name, cols, slot,
                   pd_meta_dims_text(meta), meta->rank - 1);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int x_cols = c->attr[X_COLS].i, y_cols = c->attr[Y_COLS].i;
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(check_split("x_num_col_dims", x_cols, x, "X"));
    PD_TRY(check_split("y_num_col_dims", y_cols, y, "Y"));
    int64_t width = pd_meta_span(x, x_cols, x->rank), height = pd_meta_span(y, 0, y_cols);
    if (width >= 0 && height >= 0 && width != height)
        return pd_fail(PD_SHAPE,
                       "X %s has %lld columns (x_num_col_dims %d), Y %s has %lld rows (y_num_col_dims %d). "
                       "They must be equal.",
                       pd_meta_dims_text(x), (long long)width, x_cols, pd_meta_dims_text(y),
                       (long long)height, y_cols);
    if (!out) return PD_OK;
    int64_t dim[2 * PD_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x_cols; i++)
        dim[rank++] = x->dim[i];
    for (int i = y_cols; i < y->rank; i++)
        dim[rank++] = y->dim[i];
    out->dtype = x->dtype;
    PD_TRY(pd_meta_set_dims(out, rank, dim));
    pd_meta_share_lod(out, x);
    return PD_OK;
}

/* The matrices of a product: X is m x k, Y is k x n. */
struct sizes {
    int64_t m, n, k;
};

static struct sizes sizes_of(const struct pd_run *r)
{
    const struct pd_meta *x = &pd_run_in(r, X)->meta, *y = &pd_run_in(r, Y)->meta;
    return (struct sizes){.m = pd_meta_span(x, 0, r->attr[X_COLS].i),
                          .n = pd_meta_span(y, r->attr[Y_COLS].i, y->rank),
                          .k = pd_meta_span(x, r->attr[X_COLS].i, x->rank)};
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct sizes s = sizes_of(r);
    pd_gemm(x->meta.dtype == PD_DTYPE_FP64,
            &(struct pd_gemm){s.m, s.n, s.k, {x->data, s.k}, {y->data, s.n}, out->data, s.n, .alpha = 1});
    return PD_OK;
}

void pd_mul_grad_x(const struct pd_run *r, struct pd_tensor *dx)
{
    const struct pd_tensor *y = pd_run_in(r, Y), *g = pd_run_in(r, GRAD_OUT);
    const struct sizes s = sizes_of(r);
    if (!dx) return;
    pd_gemm(y->meta.dtype == PD_DTYPE_FP64,
            &(struct pd_gemm){
                s.m, s.k, s.n, {g->data, s.n}, {y->data, s.n, .trans = 1}, dx->data, s.k, .alpha = 1});
}

void pd_mul_grad_y(const struct pd_run *r, double alpha, double beta, struct pd_tensor *dy)
{
    const struct pd_tensor *x = pd_run_in(r, X), *g = pd_run_in(r, GRAD_OUT);
    const struct sizes s = sizes_of(r);
    pd_gemm(x->meta.dtype == PD_DTYPE_FP64,
            &(struct pd_gemm){
                s.k, s.n, s.m, {x->data, s.k, .trans = 1}, {g->data, s.n}, dy->data, s.n, alpha, beta});
}

static pd_status grad_run(const struct pd_run *r)
{
    struct pd_tensor *dy = pd_run_out(r, DY);
    pd_mul_grad_x(r, pd_run_out(r, DX));
    if (dy) pd_mul_grad_y(r, 1, 0, dy);
    return PD_OK;
}

const struct pd_op pd_op_mul = {
    .type = "mul",
    .doc = "Matrix product of X and Y, each flattened to a matrix.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "mul_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_mul_grad = {
    .type = "mul_grad",
    .doc = "Gradient of mul.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
