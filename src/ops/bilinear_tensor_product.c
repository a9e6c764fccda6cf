/* bilinear_tensor_product: Out[n, i] = X[n] Weight[i] Y[n] + Bias[i]. */
#include <string.h>

#include "kernels/gemm.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, Y, WEIGHT, BIAS };
enum { GRAD_OUT = 3 };
enum { DX, DY, D_WEIGHT, D_BIAS };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y), *w = pd_infer_in(c, WEIGHT),
                         *b = pd_infer_in(c, BIAS);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(pd_check_same_type(x, "X", w, "Weight"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    PD_TRY(pd_check_rank(y, "Y", 2, 2));
    PD_TRY(pd_check_rank(w, "Weight", 3, 3));
    struct pd_meta want = {.rank = 3, .dim = {w->dim[0], x->dim[1], y->dim[1]}};
    PD_TRY(pd_check_same_dims(w, "Weight", &want, "the shape that X and Y call for"));
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

/* Out[n, outs] of X[n, xs], Weight[outs, xs, ys] and Y[n, ys]. */
struct form {
    int is_double;
    int64_t n, outs, xs, ys;
    const void *x, *y, *w;
};

static struct form form_of(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *w = pd_run_in(r, WEIGHT);
    return (struct form){.is_double = x->meta.dtype == PD_DTYPE_FP64,
                         .n = x->meta.dim[0],
                         .outs = w->meta.dim[0],
                         .xs = w->meta.dim[1],
                         .ys = w->meta.dim[2],
                         .x = x->data,
                         .y = pd_run_in(r, Y)->data,
                         .w = w->data};
}

static size_t size_of(const struct form *f)
{
    return f->is_double ? sizeof(double) : sizeof(float);
}

/* The matrix of output i, in Weight or in its gradient. */
static void *matrix(const struct form *f, const void *weight, int64_t i)
{
    return (char *)weight + (size_t)(i * f->xs * f->ys) * size_of(f);
}

#define LOOPS(T, S)                                                                                          \
    /* Column i of Out, from X times its matrix. */                                                          \
    static void finish_##S(const struct form *f, int64_t i, const T *left, const T *bias, T *out)            \
    {                                                                                                        \
        const T *y = f->y;                                                                                   \
        for (int64_t row = 0; row < f->n; row++) {                                                           \
            T sum = bias ? bias[i] : 0;                                                                      \
            for (int64_t j = 0; j < f->ys; j++)                                                              \
                sum += left[row * f->ys + j] * y[row * f->ys + j];                                           \
            out[row * f->outs + i] = sum;                                                                    \
        }                                                                                                    \
    }                                                                                                        \
    /* Rows of X or Y, each times the gradient of its output i. */                                           \
    static void scale_##S(const struct form *f, int64_t i, const T *g, const T *from, int64_t cols, T *to)   \
    {                                                                                                        \
        for (int64_t row = 0; row < f->n; row++)                                                             \
            for (int64_t j = 0; j < cols; j++)                                                               \
                to[row * cols + j] = from[row * cols + j] * g[row * f->outs + i];                            \
    }
LOOPS(float, f32)
LOOPS(double, f64)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *b = pd_run_in(r, BIAS);
    const struct form f = form_of(r);
    void *left, *bias = b ? b->data : NULL, *out = pd_run_out(r, 0)->data;
    PD_TRY(pd_scratch(r, (size_t)(f.n * f.ys) * size_of(&f), &left));
    for (int64_t i = 0; i < f.outs; i++) {
        pd_gemm(f.is_double,
                &(struct pd_gemm){
                    f.n, f.ys, f.xs, {f.x, f.xs}, {matrix(&f, f.w, i), f.ys}, left, f.ys, .alpha = 1});
        if (f.is_double)
            finish_f64(&f, i, left, bias, out);
        else
            finish_f32(&f, i, left, bias, out);
    }
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, DX, X);
    pd_out_like(c, DY, Y);
    pd_out_like(c, D_WEIGHT, WEIGHT);
    struct pd_meta *bias = pd_infer_out(c, D_BIAS);
    if (!bias) return PD_OK;
    bias->dtype = pd_infer_in(c, X)->dtype;
    pd_meta_set_2d(bias, 1, pd_infer_in(c, WEIGHT)->dim[0]);
    return PD_OK;
}

static void scale(const struct form *f, int64_t i, const void *g, const void *from, int64_t cols, void *to)
{
    if (f->is_double)
        scale_f64(f, i, g, from, cols, to);
    else
        scale_f32(f, i, g, from, cols, to);
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *g = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY), *dw = pd_run_out(r, D_WEIGHT),
                     *db = pd_run_out(r, D_BIAS);
    const struct form f = form_of(r);
    void *scaled;
    PD_TRY(pd_scratch(r, (size_t)(f.n * (f.xs > f.ys ? f.xs : f.ys)) * size_of(&f), &scaled));
    for (int64_t i = 0; i < f.outs; i++) {
        const void *w = matrix(&f, f.w, i);
        if (dx) {
            scale(&f, i, g->data, f.y, f.ys, scaled);
            pd_gemm(f.is_double, &(struct pd_gemm){f.n,
                                                   f.xs,
                                                   f.ys,
                                                   {scaled, f.ys},
                                                   {w, f.ys, .trans = 1},
                                                   dx->data,
                                                   f.xs,
                                                   .alpha = 1,
                                                   .beta = i > 0});
        }
        if (dy || dw) scale(&f, i, g->data, f.x, f.xs, scaled);
        if (dy)
            pd_gemm(
                f.is_double,
                &(struct pd_gemm){
                    f.n, f.ys, f.xs, {scaled, f.xs}, {w, f.ys}, dy->data, f.ys, .alpha = 1, .beta = i > 0});
        if (dw)
            pd_gemm(f.is_double, &(struct pd_gemm){f.xs,
                                                   f.ys,
                                                   f.n,
                                                   {scaled, f.xs, .trans = 1},
                                                   {f.y, f.ys},
                                                   matrix(&f, dw->data, i),
                                                   f.ys,
                                                   .alpha = 1});
    }
    if (!db) return PD_OK;
    PD_SWITCH_FLOAT(g->meta.dtype, T, {
        const T *from = g->data;
        T *to = db->data;
        memset(to, 0, (size_t)f.outs * sizeof(T));
        for (int64_t i = 0; i < f.n * f.outs; i++)
            to[i % f.outs] += from[i];
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
