/* sequence_conv: a convolution along each sequence, as a product of context windows with the filter. */
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/seq_conv.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"
#include "ops/seq.h"
#include "program/grad.h"

enum { X, PADDING, FILTER };
enum { TRAINABLE, LENGTH, START, STRIDE };

static struct pd_seq_window window_of(const struct pd_attr *attr, int64_t width)
{
    return (struct pd_seq_window){.start = attr[START].i, .length = attr[LENGTH].i, .width = width};
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *filter = pd_infer_in(c, FILTER),
                         *padding = pd_infer_in(c, PADDING);
    struct pd_meta *out = pd_infer_out(c, 0);
    int64_t length = c->attr[LENGTH].i;
    if (length < 1)
        return pd_fail(PD_INVALID, "contextLength is %lld; it must be at least 1", (long long)length);
    if (c->attr[STRIDE].i != 1)
        return pd_fail(PD_INVALID, "contextStride is %d; only 1 is possible", c->attr[STRIDE].i);
    if (x->rank != 2 || filter->rank != 2)
        return pd_fail(PD_SHAPE, "X and Filter must have 2 dimensions, found %s and %s", pd_meta_dims_text(x),
                       pd_meta_dims_text(filter));
    if (x->dim[1] >= 0 && filter->dim[0] >= 0 && filter->dim[0] != length * x->dim[1])
        return pd_fail(PD_SHAPE,
                       "Filter has %lld rows; contextLength %lld times the width %lld of X makes %lld",
                       (long long)filter->dim[0], (long long)length, (long long)x->dim[1],
                       (long long)(length * x->dim[1]));
    if (c->attr[TRAINABLE].b) {
        struct pd_seq_window w = window_of(c->attr, x->dim[1]);
        int64_t rows = pd_seq_window_before(&w) + pd_seq_window_after(&w);
        if (!padding) return pd_fail(PD_INVALID, "with paddingTrainable the op needs PaddingData");
        if (padding->rank != 2 || (padding->dim[0] >= 0 && padding->dim[0] != rows) ||
            (padding->dim[1] >= 0 && x->dim[1] >= 0 && padding->dim[1] != x->dim[1]))
            return pd_fail(PD_SHAPE,
                           "PaddingData has shape %s; contextStart and contextLength ask for [%lld, %lld]",
                           pd_meta_dims_text(padding), (long long)rows, (long long)x->dim[1]);
    }
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, X, &level));
    }
    out->dtype = x->dtype;
    pd_meta_set_2d(out, x->dim[0], filter->dim[1]);
    pd_meta_share_lod(out, x);
    return PD_OK;
}

/* Windows of x in `col`, or x itself where a window is one row. */
static const void *windows(const struct pd_seq_window *w, const struct pd_tensor *x,
                           const struct pd_tensor *padding, void *col)
{
    if (w->length == 1 && w->start == 0) return x->data;
    if (x->meta.dtype == PD_DTYPE_FP32)
        pd_seq_window_f32(w, x->data, padding ? padding->data : NULL, col);
    else
        pd_seq_window_f64(w, x->data, padding ? padding->data : NULL, col);
    return col;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *filter = pd_run_in(r, FILTER);
    const struct pd_tensor *padding = r->attr[TRAINABLE].b ? pd_run_in(r, PADDING) : NULL;
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t rows = x->meta.dim[0], n = filter->meta.dim[1];
    struct pd_seq_window w = window_of(r->attr, x->meta.dim[1]);
    void *col;
    PD_TRY(pd_check_float_data(x, "X"));
    if (rows == 0 || n == 0) return PD_OK;
    w.offset = level->offset;
    w.sequences = level->n - 1;
    int64_t k = w.length * w.width;
    PD_TRY(pd_scratch(r, (size_t)(rows * k) * pd_dtype_size(x->meta.dtype), &col));
    const void *from = windows(&w, x, padding, col);
    pd_gemm(
        x->meta.dtype == PD_DTYPE_FP64,
        &(struct pd_gemm){rows, n, k, {from, k}, {filter->data, n}, pd_run_out(r, 0)->data, n, .alpha = 1});
    return PD_OK;
}

/* ---- gradient ---- */

enum { G_X, G_PADDING, G_FILTER, G_OUT };
enum { DX, DPADDING, DFILTER };

static pd_status make_grad(struct pd_grad_maker *g)
{
    const struct pd_attr *trainable = pd_opdesc_attr(g->op, "paddingTrainable");
    int padding = trainable && trainable->b && pd_opdesc_arg(g->op, 0, "PaddingData");
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "sequence_conv_grad",
                              padding ? "X PaddingData Filter Out@" : "X Filter Out@",
                              padding ? "X@ PaddingData@ Filter@" : "X@ Filter@", &op));
    return g->emit(g, op);
}

static pd_status infer_grad(const struct pd_infer *c)
{
    pd_out_same(c, DX, G_X);
    pd_out_same(c, DPADDING, G_PADDING);
    pd_out_same(c, DFILTER, G_FILTER);
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, G_X), *filter = pd_run_in(r, G_FILTER),
                           *dout = pd_run_in(r, G_OUT);
    const struct pd_tensor *padding = r->attr[TRAINABLE].b ? pd_run_in(r, G_PADDING) : NULL;
    struct pd_tensor *dx = pd_run_out(r, DX), *dfilter = pd_run_out(r, DFILTER);
    struct pd_tensor *dpadding = r->attr[TRAINABLE].b ? pd_run_out(r, DPADDING) : NULL;
    enum pd_dtype dtype = x->meta.dtype;
    PD_TRY(pd_check_float_data(x, "X"));
    if (!x->meta.lod) return pd_fail(PD_INVALID, "X has no sequences (no LoD)");
    int64_t rows = x->meta.dim[0], n = filter->meta.dim[1];
    struct pd_seq_window w = window_of(r->attr, x->meta.dim[1]);
    w.offset = pd_seq_last(x)->offset;
    w.sequences = pd_seq_last(x)->n - 1;
    int64_t k = w.length * w.width;
    void *col;
    PD_TRY(pd_scratch(r, (size_t)(rows * k) * pd_dtype_size(dtype), &col));
    if (dpadding) memset(dpadding->data, 0, pd_tensor_bytes(dpadding));
    if (rows == 0 || n == 0) {
        if (dfilter) memset(dfilter->data, 0, pd_tensor_bytes(dfilter));
        if (dx) memset(dx->data, 0, pd_tensor_bytes(dx));
        return PD_OK;
    }
    if (dx || dpadding) {
        pd_gemm(dtype == PD_DTYPE_FP64,
                &(struct pd_gemm){
                    rows, k, n, {dout->data, n}, {filter->data, n, .trans = 1}, col, k, .alpha = 1});
        void *to = dx ? dx->data : NULL, *pad = dpadding ? dpadding->data : NULL;
        if (dtype == PD_DTYPE_FP32)
            pd_seq_window_grad_f32(&w, col, to, pad);
        else
            pd_seq_window_grad_f64(&w, col, to, pad);
    }
    if (dfilter)
        pd_gemm(dtype == PD_DTYPE_FP64, &(struct pd_gemm){k,
                                                          n,
                                                          rows,
                                                          {windows(&w, x, padding, col), k, .trans = 1},
                                                          {dout->data, n},
                                                          dfilter->data,
                                                          n,
                                                          .alpha = 1});
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_BOOL("paddingTrainable", 0),
                                           PD_DEF_INT("contextLength", 1),
                                           PD_DEF_INT("contextStart", 0),
                                           PD_DEF_INT("contextStride", 1),
                                           {0}};

const struct pd_op pd_op_sequence_conv = {
    .type = "sequence_conv",
    .doc = "Each row becomes the product of its context window in the sequence with the filter.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"PaddingData", PD_SLOT_OPTIONAL}, {"Filter", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
};

const struct pd_op pd_op_sequence_conv_grad = {
    .type = "sequence_conv_grad",
    .doc = "Gradient of sequence_conv.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", 0}, {"PaddingData", PD_SLOT_OPTIONAL}, {"Filter", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL},
                                            {"PaddingData@GRAD", PD_SLOT_OPTIONAL},
                                            {"Filter@GRAD", PD_SLOT_OPTIONAL},
                                            {0}},
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
