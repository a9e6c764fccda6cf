/* row_conv: each step of a sequence as a weighted sum of itself and the steps after it, each feature with its
 * own filter. Sequences come by LoD, or as [batch, steps, features]. */
#include <string.h>

#include "ops/check.h"
#include "ops/out.h"

enum { X, FILTER, D_OUT };
enum { DX, D_FILTER };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *filter = pd_infer_in(c, FILTER);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_same_type(x, "X", filter, "Filter"));
    PD_TRY(pd_check_rank(x, "X", 2, 3));
    PD_TRY(pd_check_rank(filter, "Filter", 2, 2));
    int64_t width = x->dim[x->rank - 1];
    if (width >= 0 && filter->dim[1] >= 0 && width != filter->dim[1])
        return pd_fail(PD_SHAPE, "X %s and Filter %s must have equally many columns.", pd_meta_dims_text(x),
                       pd_meta_dims_text(filter));
    if (c->running && x->rank == 2 && !x->lod)
        return pd_fail(PD_SHAPE, "X %s has no sequences: give it a LoD, or three dimensions.",
                       pd_meta_dims_text(x));
    pd_out_like(c, 0, X);
    return PD_OK;
}

/* First step of sequence i, counted over all; i may be the number of sequences. */
static int64_t sequence_start(const struct pd_meta *x, int64_t i)
{
    return x->lod ? pd_lod_last(x->lod)->offset[i] : i * x->dim[1];
}

static int64_t sequence_count(const struct pd_meta *x)
{
    return x->lod ? pd_lod_sequences(x->lod) : x->dim[0];
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *filter = pd_run_in(r, FILTER);
    int64_t ahead = filter->meta.dim[0], n = filter->meta.dim[1];
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = filter->data;
        T *out = pd_run_out(r, 0)->data;
        memset(out, 0, pd_tensor_bytes(pd_run_out(r, 0)));
        for (int64_t s = 0, count = sequence_count(&x_in->meta); s < count; s++) {
            int64_t end = sequence_start(&x_in->meta, s + 1);
            for (int64_t t = sequence_start(&x_in->meta, s); t < end; t++)
                for (int64_t k = 0; k < ahead && t + k < end; k++)
                    for (int64_t j = 0; j < n; j++)
                        out[t * n + j] += w[k * n + j] * x[(t + k) * n + j];
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X), *filter = pd_run_in(r, FILTER), *g = pd_run_in(r, D_OUT);
    struct pd_tensor *dx = pd_run_out(r, DX), *dw = pd_run_out(r, D_FILTER);
    int64_t ahead = filter->meta.dim[0], n = filter->meta.dim[1];
    if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
    if (dw) memset(dw->data, 0, pd_tensor_bytes(dw));
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *w = filter->data;
        const T *d = g->data;
        T *to_x = dx ? dx->data : NULL;
        T *to_w = dw ? dw->data : NULL;
        for (int64_t s = 0, count = sequence_count(&x_in->meta); s < count; s++) {
            int64_t end = sequence_start(&x_in->meta, s + 1);
            for (int64_t t = sequence_start(&x_in->meta, s); t < end; t++)
                for (int64_t k = 0; k < ahead && t + k < end; k++)
                    for (int64_t j = 0; j < n; j++) {
                        if (to_x) to_x[(t + k) * n + j] += d[t * n + j] * w[k * n + j];
                        if (to_w) to_w[k * n + j] += d[t * n + j] * x[(t + k) * n + j];
                    }
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_row_conv = {
    .type = "row_conv",
    .doc = "Each step of a sequence becomes a weighted sum of itself and the steps after it.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Filter", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "row_conv_grad",
    .grad_in = "X Filter Out@",
    .grad_out = "X@ Filter@",
};

const struct pd_op pd_op_row_conv_grad = {
    .type = "row_conv_grad",
    .doc = "Gradient of row_conv.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Filter", 0}, {"Out@GRAD", 0}, {0}},
    .outputs =
        (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Filter@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = pd_out_infer_like_both,
    .run = grad_run,
};
