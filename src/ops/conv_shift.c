/* conv_shift: circular convolution of each row with another row. */
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"

enum { X, Y, D_OUT };
enum { DX, DY };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    PD_TRY(pd_check_rank(y, "Y", 2, 2));
    if (x->dim[0] >= 0 && y->dim[0] >= 0 && x->dim[0] != y->dim[0])
        return pd_fail(PD_SHAPE, "X %s and Y %s must have equally many rows.", pd_meta_dims_text(x),
                       pd_meta_dims_text(y));
    if (y->dim[1] >= 0 && (y->dim[1] % 2 == 0 || (x->dim[1] >= 0 && y->dim[1] > x->dim[1])))
        return pd_fail(PD_SHAPE, "Y has shape %s: its width must be odd and at most that of X %s.",
                       pd_meta_dims_text(y), pd_meta_dims_text(x));
    pd_out_like(c, 0, X);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *y_in = pd_run_in(r, Y);
    int64_t rows = x_in->meta.dim[0], n = x_in->meta.dim[1], m = y_in->meta.dim[1], half = (m - 1) / 2;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *y = y_in->data;
        T *out = pd_run_out(r, 0)->data;
        for (int64_t k = 0; k < rows; k++, x += n, y += m, out += n)
            for (int64_t i = 0; i < n; i++) {
                T sum = 0;
                for (int64_t j = 0; j < m; j++)
                    sum += x[(i + j - half + n) % n] * y[j];
                out[i] = sum;
            }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *y_in = pd_run_in(r, Y), *g = pd_run_in(r, D_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dy = pd_run_out(r, DY);
    int64_t rows = x_in->meta.dim[0], n = x_in->meta.dim[1], m = y_in->meta.dim[1], half = (m - 1) / 2;
    if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
    if (dy) memset(dy->data, 0, pd_tensor_bytes(dy));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *y = y_in->data;
        const T *d = g->data;
        for (int64_t k = 0; k < rows; k++)
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < m; j++) {
                    int64_t at = k * n + (i + j - half + n) % n;
                    if (dx) ((T *)dx->data)[at] += d[k * n + i] * y[k * m + j];
                    if (dy) ((T *)dy->data)[k * m + j] += d[k * n + i] * x[at];
                }
    })
    return PD_OK;
}

const struct pd_op pd_op_conv_shift = {
    .type = "conv_shift",
    .doc = "Circular convolution of each row of X with the row of Y.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "conv_shift_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_conv_shift_grad = {
    .type = "conv_shift_grad",
    .doc = "Gradient of conv_shift.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
