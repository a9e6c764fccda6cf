/* bilinear_tensor_product: Out[n, i] = X[n] Weight[i] Y[n] + Bias[i]. */
#include "kernels/gemm.h"
#include "ops/nn_util.h"

enum { X, Y, WEIGHT, BIAS };
enum { GRAD_OUT = 3 };
enum { DX, DY, D_WEIGHT, D_BIAS };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y), *w = pd_infer_in(c, WEIGHT),
                         *b = pd_infer_in(c, BIAS);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_nn_need_float(x, "X"));
    PD_TRY(pd_nn_same_type(x, "X", y, "Y"));
    PD_TRY(pd_nn_same_type(x, "X", w, "Weight"));
    PD_TRY(pd_nn_need_rank(x, "X", 2, 2));
    PD_TRY(pd_nn_need_rank(y, "Y", 2, 2));
    PD_TRY(pd_nn_need_rank(w, "Weight", 3, 3));
    struct pd_meta want = {.rank = 3, .dim = {w->dim[0], x->dim[1], y->dim[1]}};
    PD_TRY(pd_nn_same_dims(w, "Weight", &want, "the shape that X and Y call for"));
    if (x->dim[0] >= 0 && y->dim[0] >= 0 && x->dim[0] != y->dim[0])
        return pd_fail(PD_SHAPE, "X %s and Y %s must have equally many rows.", pd_meta_dims_text(x),
                       pd_meta_dims_text(y));
    if (b && pd_meta_numel(b) >= 0 && w->dim[0] >= 0 && pd_meta_numel(b) != w->dim[0])
        return pd_fail(PD_SHAPE, "Bias has shape %s, but Weight %s gives %lld outputs.", pd_meta_dims_text(b),
                       pd_meta_dims_text(w), (long long)w->dim[0]);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_set_2d(out, x->dim[0], w->dim[0]);
    pd_meta_share_lod(out, x);
    return PD_OK;
}

#define LOOPS(T, S)                                                                                          \
    static void forward_##S(int64_t n, int64_t outs, int64_t xs, int64_t ys, const T *x, const T *y,         \
                            const T *w, const T *bias, T *out, T *left)                                      \
    {                                                                                                        \
        for (int64_t i = 0; i < outs; i++) {                                                                 \
            pd_gemm_##S(0, 0, n, ys, xs, 1, x, xs, w + i * xs * ys, ys, 0, left, ys);                        \
            for (int64_t row = 0; row < n; row++) {                                                          \
                T sum = bias ? bias[i] : 0;                                                                  \
                for (int64_t j = 0; j < ys; j++)                                                             \
                    sum += left[row * ys + j] * y[row * ys + j];                                             \
                out[row * outs + i] = sum;                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void scale_rows_##S(int64_t n, int64_t cols, const T *from, const T *by, int64_t step, T *to)     \
    {                                                                                                        \
        for (int64_t row = 0; row < n; row++)                                                                \
            for (int64_t j = 0; j < cols; j++)                                                               \
                to[row * cols + j] = from[row * cols + j] * by[row * step];                                  \
    }                                                                                                        \
    static void backward_##S(int64_t n, int64_t outs, int64_t xs, int64_t ys, const T *x, const T *y,        \
                             const T *w, const T *g, T *dx, T *dy, T *dw, T *scaled)                         \
    {                                                                                                        \
        for (int64_t i = 0; i < outs; i++) {                                                                 \
            if (dx) {                                                                                        \
                scale_rows_##S(n, ys, y, g + i, outs, scaled);                                               \
                pd_gemm_##S(0, 1, n, xs, ys, 1, scaled, ys, w + i * xs * ys, ys, i > 0, dx, xs);             \
            }                                                                                                \
            if (!dy && !dw) continue;                                                                        \
            scale_rows_##S(n, xs, x, g + i, outs, scaled);                                                   \
            if (dy) pd_gemm_##S(0, 0, n, ys, xs, 1, scaled, xs, w + i * xs * ys, ys, i > 0, dy, ys);         \
            if (dw) pd_gemm_##S(1, 0, xs, ys, n, 1, scaled, xs, y, ys, 0, dw + i * xs * ys, ys);             \
        }                                                                                                    \
    }
LOOPS(float, f32)
LOOPS(double, f64)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *w = pd_run_in(r, WEIGHT),
                           *b = pd_run_in(r, BIAS);
    int64_t n = x->meta.dim[0], outs = w->meta.dim[0], xs = w->meta.dim[1], ys = w->meta.dim[2];
    void *left, *bias = b ? b->data : NULL, *out = pd_run_out(r, 0)->data;
    PD_TRY(pd_nn_scratch(r, (size_t)(n * ys) * pd_dtype_size(x->meta.dtype), &left));
    if (x->meta.dtype == PD_DTYPE_FP64)
        forward_f64(n, outs, xs, ys, x->data, y->data, w->data, bias, out, left);
    else
        forward_f32(n, outs, xs, ys, x->data, y->data, w->data, bias, out, left);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_nn_grad_like(c, DX, X);
    pd_nn_grad_like(c, DY, Y);
    pd_nn_grad_like(c, D_WEIGHT, WEIGHT);
    struct pd_meta *bias = pd_infer_out(c, D_BIAS);
    if (!bias) return PD_OK;
    bias->dtype = pd_infer_in(c, X)->dtype;
    pd_meta_set_2d(bias, 1, pd_infer_in(c, WEIGHT)->dim[0]);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y), *w = pd_run_in(r, WEIGHT),
                           *g = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY), *dw = pd_run_out(r, D_WEIGHT),
                     *db = pd_run_out(r, D_BIAS);
    int64_t n = x->meta.dim[0], outs = w->meta.dim[0], xs = w->meta.dim[1], ys = w->meta.dim[2];
    void *scaled;
    PD_TRY(pd_nn_scratch(r, (size_t)(n * (xs > ys ? xs : ys)) * pd_dtype_size(x->meta.dtype), &scaled));
    void *to_x = dx ? dx->data : NULL, *to_y = dy ? dy->data : NULL, *to_w = dw ? dw->data : NULL;
    if (x->meta.dtype == PD_DTYPE_FP64)
        backward_f64(n, outs, xs, ys, x->data, y->data, w->data, g->data, to_x, to_y, to_w, scaled);
    else
        backward_f32(n, outs, xs, ys, x->data, y->data, w->data, g->data, to_x, to_y, to_w, scaled);
    if (!db) return PD_OK;
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = g->data;
        T *to = db->data;
        memset(to, 0, (size_t)outs * sizeof(T));
        for (int64_t i = 0; i < n * outs; i++)
            to[i % outs] += from[i];
    })
    return PD_OK;
}

const struct pd_op pd_op_bilinear_tensor_product = {
    .type = "bilinear_tensor_product",
    .doc = "A bilinear form of X and Y for each output.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Weight", 0}, {"Bias", PD_SLOT_OPTIONAL}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "bilinear_tensor_product_grad",
    .grad_in = "X Y Weight Out@",
    .grad_out = "X@ Y@ Weight@ Bias@",
};

const struct pd_op pd_op_bilinear_tensor_product_grad = {
    .type = "bilinear_tensor_product_grad",
    .doc = "Gradient of bilinear_tensor_product.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Weight", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL},
                                            {"Y@GRAD", PD_SLOT_OPTIONAL},
                                            {"Weight@GRAD", PD_SLOT_OPTIONAL},
                                            {"Bias@GRAD", PD_SLOT_OPTIONAL},
                                            {0}},
    .infer = grad_infer,
    .run = grad_run,
};
