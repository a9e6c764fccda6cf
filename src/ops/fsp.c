/* fsp: the product of two feature maps over all pixels, divided by their number. */
#include "kernels/gemm.h"
#include "ops/out.h"

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

/* The factor that an average over the pixels of an image takes. */
static double share_of(enum pd_dtype dtype, int64_t pixels)
{
    return dtype == PD_DTYPE_FP32 ? (double)(1.0f / (float)pixels) : 1.0 / (double)pixels;
}

/* Image i of a batch, each of n elements. */
static void *image(const struct pd_tensor *t, int64_t i, int64_t n)
{
    return (char *)t->data + i * n * (int64_t)pd_dtype_size(t->meta.dtype);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t cx = x->meta.dim[1], cy = y->meta.dim[1], s = x->meta.dim[2] * x->meta.dim[3];
    struct pd_gemm g = {.m = cx, .n = cy, .k = s, .ldc = cy, .alpha = share_of(x->meta.dtype, s)};
    for (int64_t i = 0; i < x->meta.dim[0]; i++) {
        g.a = (struct pd_factor){image(x, i, cx * s), s};
        g.b = (struct pd_factor){image(y, i, cy * s), s, .trans = 1};
        g.c = image(out, i, cx * cy);
        pd_gemm(x->meta.dtype == PD_DTYPE_FP64, &g);
    }
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *dout = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY);
    int64_t cx = x->meta.dim[1], cy = y->meta.dim[1], s = x->meta.dim[2] * x->meta.dim[3];
    struct pd_gemm g = {.n = s, .ldc = s, .alpha = share_of(x->meta.dtype, s)};
    for (int64_t i = 0; i < x->meta.dim[0]; i++) {
        g.a = (struct pd_factor){image(dout, i, cx * cy), cy};
        if (dx) {
            g.m = cx;
            g.k = cy;
            g.b = (struct pd_factor){image(y, i, cy * s), s};
            g.c = image(dx, i, cx * s);
            pd_gemm(x->meta.dtype == PD_DTYPE_FP64, &g);
        }
        if (dy) {
            g.m = cy;
            g.k = cx;
            g.a.trans = 1;
            g.b = (struct pd_factor){image(x, i, cx * s), s};
            g.c = image(dy, i, cy * s);
            pd_gemm(x->meta.dtype == PD_DTYPE_FP64, &g);
        }
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
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
