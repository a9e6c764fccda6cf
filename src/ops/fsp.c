/* fsp: the product of two feature maps over all pixels, divided by their number. */
#include "kernels/gemm.h"
#include "ops/shape_util.h"

enum { X, Y, GRAD_OUT };
enum { OUT };
enum { DX, DY };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (x->rank != 4 || y->rank != 4)
        return pd_fail(PD_SHAPE, "X has shape %s, Y %s; both must be [batch, channels, height, width]",
                       pd_meta_dims_text(x), pd_meta_dims_text(y));
    for (int i = 0; i < 4; i++)
        if (i != 1 && x->dim[i] >= 0 && y->dim[i] >= 0 && x->dim[i] != y->dim[i])
            return pd_fail(PD_SHAPE, "X has shape %s, Y %s; batch, height and width must be the same",
                           pd_meta_dims_text(x), pd_meta_dims_text(y));
    if (x->dtype != PD_DTYPE_NONE &&
        (!pd_dtype_is_float(x->dtype) || (y->dtype != PD_DTYPE_NONE && x->dtype != y->dtype)))
        return pd_fail(PD_TYPE, "X is %s, Y is %s; both must be float32 or both float64",
                       pd_dtype_name(x->dtype), pd_dtype_name(y->dtype));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_share_lod(out, x);
    return pd_meta_set_dims(out, 3, (int64_t[]){x->dim[0], x->dim[1], y->dim[1]});
}

/* c[m, n] = a b / pixels, for one image; strides are the row lengths as stored. */
static void product(enum pd_dtype dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, int64_t pixels,
                    const char *a, int64_t lda, const char *b, int64_t ldb, char *c)
{
    if (dtype == PD_DTYPE_FP32)
        pd_gemm_f32(ta, tb, m, n, k, 1.0f / (float)pixels, (const float *)a, lda, (const float *)b, ldb, 0,
                    (float *)c, n);
    else
        pd_gemm_f64(ta, tb, m, n, k, 1.0 / (double)pixels, (const double *)a, lda, (const double *)b, ldb, 0,
                    (double *)c, n);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t cx = x->meta.dim[1], cy = y->meta.dim[1], s = x->meta.dim[2] * x->meta.dim[3];
    int64_t item = (int64_t)pd_dtype_size(x->meta.dtype);
    for (int64_t i = 0; i < x->meta.dim[0]; i++)
        product(x->meta.dtype, 0, 1, cx, cy, s, s, (const char *)x->data + i * cx * s * item, s,
                (const char *)y->data + i * cy * s * item, s, (char *)out->data + i * cx * cy * item);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_shape_like(c, DX, X);
    pd_shape_like(c, DY, Y);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *dout = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY);
    int64_t cx = x->meta.dim[1], cy = y->meta.dim[1], s = x->meta.dim[2] * x->meta.dim[3];
    int64_t item = (int64_t)pd_dtype_size(x->meta.dtype);
    for (int64_t i = 0; i < x->meta.dim[0]; i++) {
        const char *g = (const char *)dout->data + i * cx * cy * item;
        if (dx)
            product(x->meta.dtype, 0, 0, cx, s, cy, s, g, cy, (const char *)y->data + i * cy * s * item, s,
                    (char *)dx->data + i * cx * s * item);
        if (dy)
            product(x->meta.dtype, 1, 0, cy, s, cx, s, g, cy, (const char *)x->data + i * cx * s * item, s,
                    (char *)dy->data + i * cy * s * item);
    }
    return PD_OK;
}

const struct pd_op pd_op_fsp = {
    .type = "fsp",
    .doc = "Products of the feature maps of X and Y, averaged over the pixels.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "fsp_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_fsp_grad = {
    .type = "fsp_grad",
    .doc = "Gradient of fsp.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = grad_infer,
    .run = grad_run,
};
