/* unfold: what a window sees while it moves over an image, as columns of a matrix. The gradient adds up what
 * the windows saw of each pixel. */
#include <string.h>

#include "base/parallel.h"
#include "ops/out.h"
#include "ops/windows.h"

enum { X, DY };
enum { OUT };
enum { KERNEL, STRIDES, PADDINGS, DILATIONS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS("kernel_sizes"),
    PD_DEF_INTS_OF("strides", 1, 1),
    PD_DEF_INTS_OF("paddings", 0, 0, 0, 0),
    PD_DEF_INTS_OF("dilations", 1, 1),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *y = pd_infer_out(c, OUT);
    const struct pd_attr *a = c->attr;
    PD_TRY(pd_windows_check(x, &a[KERNEL], &a[STRIDES], &a[PADDINGS], &a[DILATIONS]));
    if (!y) return PD_OK;
    struct pd_windows w;
    pd_windows_make(x, &a[KERNEL], &a[STRIDES], &a[PADDINGS], &a[DILATIONS], &w);
    y->dtype = x->dtype;
    int64_t dim[3] = {x->dim[0], pd_windows_width(x, &a[KERNEL]),
                      x->dim[2] < 0 || x->dim[3] < 0 ? -1 : w.out[0] * w.out[1]};
    return pd_meta_set_dims(y, 3, dim);
}

struct unfold {
    struct pd_windows w;
    enum pd_dtype dtype;
    int back;
    char *x, *y;
};

static void unfold_images(void *arg, int64_t begin, int64_t end)
{
    const struct unfold *u = arg;
    const struct pd_windows *w = &u->w;
    int64_t item = (int64_t)pd_dtype_size(u->dtype), image = w->channels * w->height * w->width * item;
    int64_t columns = w->channels * w->by_c * item;
    for (int64_t i = begin; i < end; i++)
        pd_windows_walk(w, u->dtype, u->back, u->x + i * image, u->y + i * columns);
}

static pd_status unfold_any(const struct pd_run *r, const struct pd_meta *x, int back, void *image, void *y)
{
    struct unfold u = {.dtype = x->dtype, .back = back, .x = image, .y = y};
    const struct pd_attr *a = r->attr;
    pd_windows_make(x, &a[KERNEL], &a[STRIDES], &a[PADDINGS], &a[DILATIONS], &u.w);
    u.w.by_w = 1;
    u.w.by_h = u.w.out[1];
    u.w.by_j = u.w.out[0] * u.w.by_h;
    u.w.by_i = u.w.kernel[1] * u.w.by_j;
    u.w.by_c = u.w.kernel[0] * u.w.by_i;
    pd_parallel(x->dim[0], 32768 / (u.w.channels * u.w.by_c + 1) + 1, unfold_images, &u);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    return unfold_any(r, &x->meta, 0, x->data, pd_run_out(r, OUT)->data);
}

static pd_status grad_run(const struct pd_run *r)
{
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    return unfold_any(r, &dx->meta, 1, dx->data, pd_run_in(r, DY)->data);
}

const struct pd_op pd_op_unfold = {
    .type = "unfold",
    .doc = "Each image as a matrix whose columns are what a window sees.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "unfold_grad",
    .grad_in = "X Y@",
    .grad_out = "X@",
};

const struct pd_op pd_op_unfold_grad = {
    .type = "unfold_grad",
    .doc = "Gradient of unfold.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Y@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
