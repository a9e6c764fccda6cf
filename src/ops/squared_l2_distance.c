/* squared_l2_distance: how far rows lie apart. */
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"

enum { DIST_X, DIST_Y };
enum { DIST_SUB, DIST_OUT };
enum { GRAD_SUB, GRAD_X, GRAD_Y, GRAD_DOUT };
enum { GRAD_DX, GRAD_DY };

static const struct pd_slot_def dist_inputs[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def dist_outputs[] = {{"sub_result", PD_SLOT_HIDDEN}, {"Out"}, {0}};
static const struct pd_slot_def dist_grad_inputs[] = {
    {"sub_result"}, {"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def dist_grad_outputs[] = {
    {"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}};

static pd_status dist_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, DIST_X), *y = pd_infer_in(c, DIST_Y);
    struct pd_meta *sub = pd_infer_out(c, DIST_SUB), *out = pd_infer_out(c, DIST_OUT);
    if (x->rank < 2 || x->rank != y->rank)
        return pd_fail(PD_SHAPE, "X has shape %s and Y %s; both need the same rank, at least 2",
                       pd_meta_dims_text(x), pd_meta_dims_text(y));
    int64_t wx = pd_meta_span(x, 1, x->rank), wy = pd_meta_span(y, 1, y->rank);
    if ((wx >= 0 && wy >= 0 && wx != wy) ||
        (x->dim[0] >= 0 && y->dim[0] >= 0 && y->dim[0] != 1 && y->dim[0] != x->dim[0]))
        return pd_fail(PD_SHAPE,
                       "X has shape %s and Y %s; rows must be of one size, and Y has one row or as many as X",
                       pd_meta_dims_text(x), pd_meta_dims_text(y));
    if (sub) {
        sub->dtype = x->dtype;
        pd_meta_set_2d(sub, x->dim[0], wx);
    }
    if (out) {
        out->dtype = x->dtype;
        pd_meta_set_2d(out, x->dim[0], 1);
        pd_meta_share_lod(out, x);
    }
    return PD_OK;
}

static pd_status dist_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, DIST_X), *y = pd_run_in(r, DIST_Y);
    struct pd_tensor *sub = pd_run_out(r, DIST_SUB), *out = pd_run_out(r, DIST_OUT);
    int64_t rows = x->meta.dim[0], width = pd_meta_span(&x->meta, 1, x->meta.rank),
            shared = y->meta.dim[0] == 1;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        for (int64_t i = 0; i < rows; i++) {
            const T *a = (const T *)x->data + i * width;
            const T *b = (const T *)y->data + (shared ? 0 : i * width);
            T *s = sub ? (T *)sub->data + i * width : NULL;
            double total = 0;
            for (int64_t k = 0; k < width; k++) {
                const T d = a[k] - b[k];
                if (s) s[k] = d;
                total += (double)d * (double)d;
            }
            ((T *)out->data)[i] = (T)total;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_squared_l2_distance = {
    .type = "squared_l2_distance",
    .doc = "The squared distance of each row of X to a row of Y.",
    .inputs = dist_inputs,
    .outputs = dist_outputs,
    .infer = dist_infer,
    .run = dist_run,
    .grad_type = "squared_l2_distance_grad",
    .grad_in = "sub_result X Y Out@",
    .grad_out = "X@ Y@",
};

static pd_status dist_grad_infer(const struct pd_infer *c)
{
    pd_out_same(c, GRAD_DX, GRAD_X);
    pd_out_same(c, GRAD_DY, GRAD_Y);
    return PD_OK;
}

static pd_status dist_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *sub = pd_run_in(r, GRAD_SUB), *dout = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, GRAD_DX), *dy = pd_run_out(r, GRAD_DY);
    int64_t rows = sub->meta.dim[0], width = sub->meta.dim[1],
            shared = dy && dy->meta.dim[0] == 1 && rows != 1;
    PD_TRY(pd_check_float_data(sub, "sub_result"));
    if (shared) PD_TRY(pd_elements_fill(dy->data, dy->meta.dtype, width, 0));
    PD_SWITCH_FLOAT(sub->meta.dtype, T, {
        for (int64_t i = 0; i < rows; i++) {
            const T *s = (const T *)sub->data + i * width;
            const T d = 2 * ((const T *)dout->data)[i];
            T *x = dx ? (T *)dx->data + i * width : NULL;
            T *y = dy ? (T *)dy->data + (shared ? 0 : i * width) : NULL;
            for (int64_t k = 0; x && k < width; k++)
                x[k] = d * s[k];
            for (int64_t k = 0; y && k < width; k++)
                y[k] = (shared ? y[k] : 0) - d * s[k];
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_squared_l2_distance_grad = {
    .type = "squared_l2_distance_grad",
    .doc = "Gradient of squared_l2_distance.",
    .inputs = dist_grad_inputs,
    .outputs = dist_grad_outputs,
    .infer = dist_grad_infer,
    .run = dist_grad_run,
};
