/* im2sequence and unfold: what a window sees while it moves over an image, as rows of a sequence or as
 * columns of a matrix. The gradient adds up what the windows saw of each pixel. */
#include <string.h>

#include "base/parallel.h"
#include "ops/shape_util.h"

/* Windows over one image [channels, height, width]; steps are those of the result. */
struct windows {
    int64_t channels, height, width;
    int64_t kernel[2], stride[2], dilation[2], up, left;
    int64_t out[2]; /* windows down and across */
    int64_t by_h, by_w, by_c, by_i, by_j;
};

#define WALK(name, T, body)                                                                                  \
    static void name(const struct windows *w, T *x, T *out)                                                  \
    {                                                                                                        \
        for (int64_t c = 0; c < w->channels; c++)                                                            \
            for (int64_t i = 0; i < w->kernel[0]; i++)                                                       \
                for (int64_t j = 0; j < w->kernel[1]; j++)                                                   \
                    for (int64_t h = 0; h < w->out[0]; h++) {                                                \
                        int64_t y = h * w->stride[0] - w->up + i * w->dilation[0];                           \
                        int inside = y >= 0 && y < w->height;                                                \
                        T *line = x + (c * w->height + (inside ? y : 0)) * w->width;                         \
                        T *to = out + c * w->by_c + i * w->by_i + j * w->by_j + h * w->by_h;                 \
                        for (int64_t k = 0; k < w->out[1]; k++) {                                            \
                            int64_t at = k * w->stride[1] - w->left + j * w->dilation[1];                    \
                            body                                                                             \
                        }                                                                                    \
                    }                                                                                        \
    }
#define LOOK to[k * w->by_w] = inside && at >= 0 && at < w->width ? line[at] : 0;
#define ADD                                                                                                  \
    if (inside && at >= 0 && at < w->width) line[at] += to[k * w->by_w];
WALK(look_f32, float, LOOK)
WALK(look_f64, double, LOOK)
WALK(add_f32, float, ADD)
WALK(add_f64, double, ADD)

/* One image; `back` adds to x. */
static void walk(const struct windows *w, enum pd_dtype dtype, int back, char *x, char *out)
{
    if (dtype == PD_DTYPE_FP32)
        back ? add_f32(w, (float *)x, (float *)out) : look_f32(w, (float *)x, (float *)out);
    else
        back ? add_f64(w, (double *)x, (double *)out) : look_f64(w, (double *)x, (double *)out);
}

static int64_t count_windows(int64_t size, int64_t kernel, int64_t dilation, int64_t before, int64_t after,
                             int64_t stride)
{
    return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}

static pd_status check(const struct pd_meta *x, const struct pd_attr *kernel, const struct pd_attr *stride,
                       const struct pd_attr *pads, const struct pd_attr *dilation)
{
    if (x->rank != 4)
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [batch, channels, height, width]",
                       pd_meta_dims_text(x));
    if (x->dtype != PD_DTYPE_NONE && !pd_dtype_is_float(x->dtype))
        return pd_fail(PD_TYPE, "X is %s; float32 or float64 is needed", pd_dtype_name(x->dtype));
    if (kernel->n != 2 || stride->n != 2 || pads->n != 4 || (dilation && dilation->n != 2))
        return pd_fail(
            PD_INVALID,
            "window size and strides take 2 numbers, paddings 4 (up, left, down, right); found %d, %d, %d",
            kernel->n, stride->n, pads->n);
    for (int i = 0; i < 2; i++) {
        int64_t size = x->dim[2 + i], d = dilation ? dilation->ints[i] : 1;
        if (kernel->ints[i] < 1 || stride->ints[i] < 1 || d < 1 || pads->ints[i] < 0 || pads->ints[2 + i] < 0)
            return pd_fail(PD_INVALID,
                           "window %d, stride %d and dilation %lld must be at least 1, paddings at least 0",
                           kernel->ints[i], stride->ints[i], (long long)d);
        if (size >= 0 && size + pads->ints[i] + pads->ints[2 + i] < d * (kernel->ints[i] - 1) + 1)
            return pd_fail(PD_SHAPE,
                           "a window of %d (dilation %lld) does not fit into X of shape %s with its paddings",
                           kernel->ints[i], (long long)d, pd_meta_dims_text(x));
    }
    return PD_OK;
}

static void describe(const struct pd_meta *x, const struct pd_attr *kernel, const struct pd_attr *stride,
                     const struct pd_attr *pads, const struct pd_attr *dilation, struct windows *w)
{
    *w = (struct windows){.channels = x->dim[1],
                          .height = x->dim[2],
                          .width = x->dim[3],
                          .up = pads->ints[0],
                          .left = pads->ints[1]};
    for (int i = 0; i < 2; i++) {
        w->kernel[i] = kernel->ints[i];
        w->stride[i] = stride->ints[i];
        w->dilation[i] = dilation ? dilation->ints[i] : 1;
        w->out[i] = count_windows(x->dim[2 + i], w->kernel[i], w->dilation[i], pads->ints[i],
                                  pads->ints[2 + i], w->stride[i]);
    }
}

/* ---- im2sequence ---- */

enum { X, Y, SEQ_DOUT };
enum { OUT };
enum { KERNELS, STRIDES, PADDINGS, OUT_STRIDE };

static const struct pd_attr_def seq_attrs[] = {
    PD_DEF_INTS("kernels"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0, 0),
    PD_DEF_INTS_OF("out_stride", 1, 1),
    {0},
};

static void sequence_steps(struct windows *w)
{
    w->by_j = 1;
    w->by_i = w->kernel[1];
    w->by_c = w->kernel[0] * w->kernel[1];
    w->by_w = w->channels * w->by_c;
    w->by_h = w->out[1] * w->by_w;
}

/* Windows of image i: all of X, or what the real size of the image leaves. */
static pd_status real_size(const struct pd_tensor *real, int64_t i, const struct pd_attr *attr,
                           struct windows *w)
{
    for (int k = 0; k < 2; k++) {
        double value = 0;
        int step = attr[OUT_STRIDE].ints[k];
        PD_SWITCH_ANY(real->meta.dtype, T, value = (double)((const T *)real->data)[2 * i + k])
        int64_t size = value >= 1 && value <= INT32_MAX ? ((int64_t)value + step - 1) / step : 0;
        w->out[k] = count_windows(size, w->kernel[k], 1, attr[PADDINGS].ints[k], attr[PADDINGS].ints[2 + k],
                                  w->stride[k]);
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
    struct windows w;
    int64_t n = x->dim[0], entries = n + 1;
    describe(x, &attr[KERNELS], &attr[STRIDES], &attr[PADDINGS], NULL, &w);
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

static int64_t row_width(const struct pd_meta *x, const struct pd_attr *kernel)
{
    return x->dim[1] < 0 ? -1 : x->dim[1] * kernel->ints[0] * kernel->ints[1];
}

static pd_status seq_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    PD_TRY(check(x, &c->attr[KERNELS], &c->attr[STRIDES], &c->attr[PADDINGS], NULL));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    if (!c->running) {
        pd_meta_set_2d(out, -1, row_width(x, &c->attr[KERNELS]));
        out->lod_level = 1;
        return PD_OK;
    }
    struct pd_lod *lod;
    const struct pd_tensor *real = c->in[Y].n && x->dim[0] > 1 ? pd_infer_data(c, Y, 0) : NULL;
    PD_TRY(sequence_lod(x, real, c->attr, &lod));
    int64_t rows = lod->level[0].offset[x->dim[0]], width = row_width(x, &c->attr[KERNELS]);
    pd_meta_take_lod(out, lod);
    pd_meta_set_2d(out, rows, width);
    return PD_OK;
}

static pd_status seq_walk(const struct pd_run *r, const struct pd_meta *x, int back, char *image, char *out)
{
    const struct pd_tensor *real = r->in[Y].n && x->dim[0] > 1 ? pd_run_in(r, Y) : NULL;
    struct windows w;
    int64_t item = (int64_t)pd_dtype_size(x->dtype);
    describe(x, &r->attr[KERNELS], &r->attr[STRIDES], &r->attr[PADDINGS], NULL, &w);
    sequence_steps(&w);
    for (int64_t i = 0; i < x->dim[0]; i++) {
        if (real) PD_TRY(real_size(real, i, r->attr, &w));
        walk(&w, x->dtype, back, image, out);
        image += w.channels * w.height * w.width * item;
        out += w.out[0] * w.out[1] * w.by_w * item;
    }
    return PD_OK;
}

static pd_status seq_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    if (r->in[Y].n) {
        struct pd_lod *lod;
        PD_TRY(sequence_lod(&x->meta, x->meta.dim[0] > 1 ? pd_run_in(r, Y) : NULL, r->attr, &lod));
        int64_t dim[2] = {lod->level[0].offset[x->meta.dim[0]], row_width(&x->meta, &r->attr[KERNELS])};
        pd_meta_take_lod(&out->meta, lod);
        PD_TRY(pd_shape_fit(out, x->meta.dtype, 2, dim));
    }
    return seq_walk(r, &x->meta, 0, x->data, out->data);
}

static pd_status seq_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, SEQ_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    return seq_walk(r, &dx->meta, 1, dx->data, dout->data);
}

/* ---- unfold ---- */

enum { UNFOLD_DY = 1 };
enum { U_KERNEL, U_STRIDES, U_PADDINGS, U_DILATIONS };

static const struct pd_attr_def unfold_attrs[] = {
    PD_DEF_INTS("kernel_sizes"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0, 0),
    PD_DEF_INTS_OF("dilations", 1, 1),
    {0},
};

static pd_status unfold_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *y = pd_infer_out(c, OUT);
    const struct pd_attr *a = c->attr;
    PD_TRY(check(x, &a[U_KERNEL], &a[U_STRIDES], &a[U_PADDINGS], &a[U_DILATIONS]));
    if (!y) return PD_OK;
    struct windows w;
    describe(x, &a[U_KERNEL], &a[U_STRIDES], &a[U_PADDINGS], &a[U_DILATIONS], &w);
    y->dtype = x->dtype;
    int64_t dim[3] = {x->dim[0], row_width(x, &a[U_KERNEL]),
                      x->dim[2] < 0 || x->dim[3] < 0 ? -1 : w.out[0] * w.out[1]};
    return pd_meta_set_dims(y, 3, dim);
}

struct unfold {
    struct windows w;
    enum pd_dtype dtype;
    int back;
    char *x, *y;
};

static void unfold_images(void *arg, int64_t begin, int64_t end)
{
    const struct unfold *u = arg;
    const struct windows *w = &u->w;
    int64_t item = (int64_t)pd_dtype_size(u->dtype), image = w->channels * w->height * w->width * item;
    int64_t columns = w->channels * w->by_c * item;
    for (int64_t i = begin; i < end; i++)
        walk(w, u->dtype, u->back, u->x + i * image, u->y + i * columns);
}

static pd_status unfold_any(const struct pd_run *r, const struct pd_meta *x, int back, void *image, void *y)
{
    struct unfold u = {.dtype = x->dtype, .back = back, .x = image, .y = y};
    const struct pd_attr *a = r->attr;
    describe(x, &a[U_KERNEL], &a[U_STRIDES], &a[U_PADDINGS], &a[U_DILATIONS], &u.w);
    u.w.by_w = 1;
    u.w.by_h = u.w.out[1];
    u.w.by_j = u.w.out[0] * u.w.by_h;
    u.w.by_i = u.w.kernel[1] * u.w.by_j;
    u.w.by_c = u.w.kernel[0] * u.w.by_i;
    pd_parallel(x->dim[0], 32768 / (u.w.channels * u.w.by_c + 1) + 1, unfold_images, &u);
    return PD_OK;
}

static pd_status unfold_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    return unfold_any(r, &x->meta, 0, x->data, pd_run_out(r, OUT)->data);
}

static pd_status unfold_grad_run(const struct pd_run *r)
{
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    return unfold_any(r, &dx->meta, 1, dx->data, pd_run_in(r, UNFOLD_DY)->data);
}

const struct pd_op pd_op_im2sequence = {
    .type = "im2sequence",
    .doc = "Each image as a sequence of what a window sees; Y gives real image sizes.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Y", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = seq_attrs,
    .infer = seq_infer,
    .run = seq_run,
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
    .outputs = pd_view_grad_outputs,
    .attrs = seq_attrs,
    .infer = pd_shape_infer_like_first,
    .run = seq_grad_run,
};

const struct pd_op pd_op_unfold = {
    .type = "unfold",
    .doc = "Each image as a matrix whose columns are what a window sees.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = unfold_attrs,
    .infer = unfold_infer,
    .run = unfold_run,
    .grad_type = "unfold_grad",
    .grad_in = "X Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_unfold_grad = {
    .type = "unfold_grad",
    .doc = "Gradient of unfold.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Y@GRAD", 0}, {0}},
    .outputs = pd_view_grad_outputs,
    .attrs = unfold_attrs,
    .infer = pd_shape_infer_like_first,
    .run = unfold_grad_run,
};
