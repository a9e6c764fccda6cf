/* cos_sim: the cosine of the angle between rows of X and of Y; one row of Y serves all rows of X. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/check.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT, X_NORM, Y_NORM };

/* Squared norms below this count as this, so that rows of zeros do not divide by zero. */
#define TINY 1e-8

static void set_column(const struct pd_infer *c, int slot, int64_t rows, enum pd_dtype dtype)
{
    struct pd_meta *m = pd_infer_out(c, slot);
    if (!m) return;
    m->dtype = dtype;
    pd_meta_set_2d(m, rows, 1);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    int fits = x->rank == y->rank && x->rank >= 2;
    for (int i = 1; fits && i < x->rank; i++)
        fits = x->dim[i] == y->dim[i] || x->dim[i] < 0 || y->dim[i] < 0;
    if (!fits || (x->dim[0] >= 0 && y->dim[0] >= 0 && y->dim[0] != x->dim[0] && y->dim[0] != 1))
        return pd_fail(
            PD_SHAPE,
            "X has shape %s and Y has shape %s; they need 2 or more dimensions, equal ones after the "
            "first, and Y one row or as many rows as X",
            pd_meta_dims_text(x), pd_meta_dims_text(y));
    set_column(c, OUT, x->dim[0], x->dtype);
    set_column(c, X_NORM, x->dim[0], x->dtype);
    set_column(c, Y_NORM, y->dim[0], x->dtype);
    pd_meta_share_lod(pd_infer_out(c, OUT), x);
    return PD_OK;
}

struct rows {
    const void *x, *y, *out, *x_norm, *y_norm, *dout;
    void *to[3];
    int64_t width;
    int one; /* Y has one row */
};

#define COSINE(suffix, T, root)                                                                              \
    PD_CLONES static void forward_##suffix(const struct rows *a, int64_t begin, int64_t end)                 \
    {                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const T *x = (const T *)a->x + i * a->width, *y = (const T *)a->y + (a->one ? 0 : i * a->width); \
            T part[3][8] = {{0}};                                                                            \
            int64_t k = 0;                                                                                   \
            for (; k + 8 <= a->width; k += 8)                                                                \
                for (int j = 0; j < 8; j++) {                                                                \
                    part[0][j] += x[k + j] * x[k + j];                                                       \
                    part[1][j] += y[k + j] * y[k + j];                                                       \
                    part[2][j] += x[k + j] * y[k + j];                                                       \
                }                                                                                            \
            for (; k < a->width; k++) {                                                                      \
                part[0][0] += x[k] * x[k];                                                                   \
                part[1][0] += y[k] * y[k];                                                                   \
                part[2][0] += x[k] * y[k];                                                                   \
            }                                                                                                \
            T xx = 0, yy = 0, xy = 0;                                                                        \
            for (int j = 0; j < 8; j++) {                                                                    \
                xx += part[0][j];                                                                            \
                yy += part[1][j];                                                                            \
                xy += part[2][j];                                                                            \
            }                                                                                                \
            xx = root(xx > (T)TINY ? xx : (T)TINY);                                                          \
            yy = root(yy > (T)TINY ? yy : (T)TINY);                                                          \
            ((T *)a->to[OUT])[i] = xy / (xx * yy);                                                           \
            if (a->to[X_NORM]) ((T *)a->to[X_NORM])[i] = xx;                                                 \
            if (a->to[Y_NORM] && (!a->one || i == 0)) ((T *)a->to[Y_NORM])[i] = yy;                          \
        }                                                                                                    \
    }                                                                                                        \
    /* The gradient of x, row by row; that of y is the same with the roles changed. */                       \
    PD_CLONES static void back_##suffix(const struct rows *a, int64_t begin, int64_t end)                    \
    {                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const int64_t at = a->one ? 0 : i;                                                               \
            const T *x = (const T *)a->x + i * a->width, *y = (const T *)a->y + at * a->width;               \
            const T xn = ((const T *)a->x_norm)[i], yn = ((const T *)a->y_norm)[at];                         \
            const T dz = ((const T *)a->dout)[i], z = ((const T *)a->out)[i];                                \
            const T p = dz / (xn * yn), q = dz * z / (xn * xn);                                              \
            T *dx = (T *)a->to[0] + i * a->width;                                                            \
            for (int64_t k = 0; k < a->width; k++)                                                           \
                dx[k] = p * y[k] - q * x[k];                                                                 \
        }                                                                                                    \
    }                                                                                                        \
    /* The gradient of a single row of y: the sum over all rows of x. */                                     \
    PD_CLONES static void back_one_##suffix(const struct rows *a, int64_t rows)                              \
    {                                                                                                        \
        const T *y = a->y;                                                                                   \
        const T yn = ((const T *)a->y_norm)[0];                                                              \
        T *dy = a->to[0];                                                                                    \
        memset(dy, 0, (size_t)a->width * sizeof(T));                                                         \
        for (int64_t i = 0; i < rows; i++) {                                                                 \
            const T *x = (const T *)a->x + i * a->width;                                                     \
            const T dz = ((const T *)a->dout)[i], z = ((const T *)a->out)[i];                                \
            const T p = dz / (((const T *)a->x_norm)[i] * yn), q = dz * z / (yn * yn);                       \
            for (int64_t k = 0; k < a->width; k++)                                                           \
                dy[k] += p * x[k] - q * y[k];                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void forward_part_##suffix(void *arg, int64_t begin, int64_t end)                                 \
    {                                                                                                        \
        forward_##suffix(arg, begin, end);                                                                   \
    }                                                                                                        \
    static void back_part_##suffix(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        back_##suffix(arg, begin, end);                                                                      \
    }

COSINE(f32, float, sqrtf)
COSINE(f64, double, sqrt)

static int64_t grain(int64_t width)
{
    return width > 0 ? 16384 / width + 1 : 16384;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    PD_TRY(pd_check_float_data(x, "X"));
    struct rows a = {.x = x->data,
                     .y = y->data,
                     .width = pd_meta_span(&x->meta, 1, x->meta.rank),
                     .one = y->meta.dim[0] == 1};
    for (int i = 0; i < 3; i++)
        a.to[i] = pd_run_out(r, i) ? pd_run_out(r, i)->data : NULL;
    pd_parallel(x->meta.dim[0], grain(a.width),
                x->meta.dtype == PD_DTYPE_FP32 ? forward_part_f32 : forward_part_f64, &a);
    return PD_OK;
}

enum { G_X, G_Y, G_X_NORM, G_Y_NORM, G_OUT, G_DOUT };

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, G_X), *y = pd_run_in(r, G_Y);
    struct pd_tensor *dx = pd_run_out(r, 0), *dy = pd_run_out(r, 1);
    PD_TRY(pd_check_float_data(x, "X"));
    int wide = x->meta.dtype == PD_DTYPE_FP64;
    int64_t rows = x->meta.dim[0];
    struct rows a = {.x = x->data,
                     .y = y->data,
                     .width = pd_meta_span(&x->meta, 1, x->meta.rank),
                     .one = y->meta.dim[0] == 1 && rows != 1,
                     .out = pd_run_in(r, G_OUT)->data,
                     .x_norm = pd_run_in(r, G_X_NORM)->data,
                     .y_norm = pd_run_in(r, G_Y_NORM)->data,
                     .dout = pd_run_in(r, G_DOUT)->data};
    if (dx) {
        a.to[0] = dx->data;
        pd_parallel(rows, grain(a.width), wide ? back_part_f64 : back_part_f32, &a);
    }
    if (dy && a.one) {
        a.to[0] = dy->data;
        if (wide)
            back_one_f64(&a, rows);
        else
            back_one_f32(&a, rows);
    } else if (dy) {
        struct rows b = a;
        b.x = a.y, b.y = a.x;
        b.x_norm = a.y_norm, b.y_norm = a.x_norm;
        b.to[0] = dy->data;
        pd_parallel(rows, grain(b.width), wide ? back_part_f64 : back_part_f32, &b);
    }
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_BOOL("@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", 1), {0}};

const struct pd_op pd_op_cos_sim = {
    .type = "cos_sim",
    .doc = "Cosine similarity of the rows of X and Y.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"Out", 0}, {"XNorm", PD_SLOT_HIDDEN}, {"YNorm", PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "cos_sim_grad",
    .grad_in = "X Y XNorm YNorm Out Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_cos_sim_grad = {
    .type = "cos_sim_grad",
    .doc = "Gradient of cos_sim.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", 0}, {"Y", 0}, {"XNorm", 0}, {"YNorm", 0}, {"Out", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_same_both,
    .run = run_grad,
};
