/* im2sequence: what a window sees while it moves over an image, as rows of a sequence. The gradient adds up
 * what the windows saw of each pixel. */
#include <string.h>

#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/windows.h"

enum { X, Y, DOUT };
enum { OUT };
enum { KERNELS, STRIDES, PADDINGS, OUT_STRIDE };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS("kernels"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0, 0),
    PD_DEF_INTS_OF("out_stride", 1, 1),
    {0},
};

static void sequence_steps(struct pd_windows *w)
{
    w->by_j = 1;
    w->by_i = w->kernel[1];
    w->by_c = w->kernel[0] * w->kernel[1];
    w->by_w = w->channels * w->by_c;
    w->by_h = w->out[1] * w->by_w;
}

/* Windows of image i: all of X, or what the real size of the image leaves. */
static pd_status real_size(const struct pd_tensor *real, int64_t i, const struct pd_attr *attr,
                           struct pd_windows *w)
{
    for (int k = 0; k < 2; k++) {
        double value = 0;
        int step = attr[OUT_STRIDE].ints[k];
        PD_SWITCH_ANY(real->meta.dtype, T, value = (double)((const T *)real->data)[2 * i + k])
        int64_t size = value >= 1 && value <= INT32_MAX ? ((int64_t)value + step - 1) / step : 0;
        w->out[k] = pd_windows_count(size, w->kernel[k], 1, attr[PADDINGS].ints[k],
                                     attr[PADDINGS].ints[2 + k], w->stride[k]);
        if (size < 1 || w->out[k] < 1)
            return pd_fail(PD_RANGE,
                           "Y gives image %lld a size of %g, which leaves no room for a window of %lld",
                           (long long)i, value, (long long)w->kernel[k]);
    }
    sequence_steps(w);
    return PD_OK;
}

static pd_status check_real(const struct pd_meta *x, const struct pd_meta *real, const struct pd_attr *attr)
{
    if (pd_meta_numel(real) != 2 * x->dim[0])
        return pd_fail(PD_SHAPE, "Y has shape %s; it must hold height and width of %lld images: [%lld, 2]",
                       pd_meta_dims_text(real), (long long)x->dim[0], (long long)x->dim[0]);
    if (attr[OUT_STRIDE].n != 2 || attr[OUT_STRIDE].ints[0] < 1 || attr[OUT_STRIDE].ints[1] < 1)
        return pd_fail(PD_INVALID, "out_stride must be 2 numbers of at least 1");
    return PD_OK;
}

/* One sequence per image. */
static pd_status sequence_lod(const struct pd_meta *x, const struct pd_tensor *real,
                              const struct pd_attr *attr, struct pd_lod **lod)
{
    struct pd_windows w;
    int64_t n = x->dim[0], entries = n + 1;
    pd_windows_make(x, &attr[KERNELS], &attr[STRIDES], &attr[PADDINGS], NULL, &w);
    if (real) PD_TRY(check_real(x, &real->meta, attr));
    PD_TRY(pd_lod_alloc(1, &entries, lod));
    int64_t *offset = (*lod)->level[0].offset;
    offset[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        pd_status status = real ? real_size(real, i, attr, &w) : PD_OK;
        if (status != PD_OK) {
            pd_lod_unref(*lod);
            return status;
        }
        offset[i + 1] = offset[i] + w.out[0] * w.out[1];
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(pd_windows_check(x, &c->attr[KERNELS], &c->attr[STRIDES], &c->attr[PADDINGS], NULL));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    if (!c->running) {
        pd_meta_set_2d(out, -1, pd_windows_width(x, &c->attr[KERNELS]));
        out->lod_level = 1;
        return PD_OK;
    }
    struct pd_lod *lod;
    const struct pd_tensor *real = c->in[Y].n && x->dim[0] > 1 ? pd_infer_data(c, Y, 0) : NULL;
    PD_TRY(sequence_lod(x, real, c->attr, &lod));
    int64_t rows = lod->level[0].offset[x->dim[0]], width = pd_windows_width(x, &c->attr[KERNELS]);
    pd_meta_take_lod(out, lod);
    pd_meta_set_2d(out, rows, width);
    return PD_OK;
}

static pd_status seq_walk(const struct pd_run *r, const struct pd_meta *x, int back, char *image, char *out)
{
    const struct pd_tensor *real = r->in[Y].n && x->dim[0] > 1 ? pd_run_in(r, Y) : NULL;
    struct pd_windows w;
    int64_t item = (int64_t)pd_dtype_size(x->dtype);
    pd_windows_make(x, &r->attr[KERNELS], &r->attr[STRIDES], &r->attr[PADDINGS], NULL, &w);
    sequence_steps(&w);
    for (int64_t i = 0; i < x->dim[0]; i++) {
        if (real) PD_TRY(real_size(real, i, r->attr, &w));
        pd_windows_walk(&w, x->dtype, back, image, out);
        image += w.channels * w.height * w.width * item;
        out += w.out[0] * w.out[1] * w.by_w * item;
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    if (r->in[Y].n) {
        struct pd_lod *lod;
        PD_TRY(sequence_lod(&x->meta, x->meta.dim[0] > 1 ? pd_run_in(r, Y) : NULL, r->attr, &lod));
        int64_t dim[2] = {lod->level[0].offset[x->meta.dim[0]],
                          pd_windows_width(&x->meta, &r->attr[KERNELS])};
        pd_meta_take_lod(&out->meta, lod);
        PD_TRY(pd_out_fit(out, x->meta.dtype, 2, dim));
    }
    return seq_walk(r, &x->meta, 0, x->data, out->data);
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    return seq_walk(r, &dx->meta, 1, dx->data, dout->data);
}

const struct pd_op pd_op_im2sequence = {
    .type = "im2sequence",
    .doc = "Each image as a sequence of what a window sees; Y gives real image sizes.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "im2sequence_grad",
    .grad_in = "X Y Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_im2sequence_grad = {
    .type = "im2sequence_grad",
    .doc = "Gradient of im2sequence.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Y", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
