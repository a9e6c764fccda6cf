/* space_to_depth, pixel_shuffle, shuffle_channel, reverse and temporal_shift: images whose elements change
 * places. Each is a copy between two orders of the same dimensions. */
#include <string.h>

#include "kernels/copy.h"
#include "ops/shape_util.h"

enum { X };
enum { GRAD_OUT, GRAD_X };
enum { OUT };

static pd_status need_image(const struct pd_meta *x)
{
    if (x->rank == 4) return PD_OK;
    return pd_fail(PD_SHAPE, "X has shape %s; it must have 4 dimensions: [batch, channels, height, width]",
                   pd_meta_dims_text(x));
}

static int64_t times(int64_t a, int64_t b)
{
    return a < 0 ? -1 : a * b;
}
static int64_t over(int64_t a, int64_t b)
{
    return a < 0 ? -1 : a / b;
}

/* X seen with `rank` dimensions goes to the order `axis`, or back. */
static void rearrange(size_t item, int rank, const int64_t *dim, const int *axis, int back, void *to,
                      const void *from)
{
    int64_t x_step[8], out_dim[8], out_step[8], walk[8];
    struct pd_copy copy;
    pd_copy_steps(rank, dim, x_step);
    for (int i = 0; i < rank; i++) {
        out_dim[i] = dim[axis[i]];
        walk[i] = x_step[axis[i]];
    }
    pd_copy_steps(rank, out_dim, out_step);
    pd_copy_make(&copy, item, rank, out_dim, back ? walk : out_step, back ? out_step : walk);
    pd_copy_run(&copy, to, from);
}

/* Runs a rearrangement forward, or back in a gradient op (inputs Out@GRAD, X). */
static pd_status run_order(const struct pd_run *r, int rank, const int64_t *dim, const int *axis, int back)
{
    const struct pd_tensor *from = pd_run_in(r, back ? GRAD_OUT : X);
    struct pd_tensor *to = pd_run_out(r, 0);
    if (to) rearrange(pd_dtype_size(from->meta.dtype), rank, dim, axis, back, to->data, from->data);
    return PD_OK;
}

static const struct pd_tensor *x_shape(const struct pd_run *r, int back)
{
    return back ? pd_run_out(r, 0) : pd_run_in(r, X);
}

/* ---- space_to_depth ---- */

enum { BLOCK };
enum { BLOCK_MOST = 1 << 20 }; /* its square is a number of channels */
static const struct pd_attr_def block_attrs[] = {PD_DEF_LONG("blocksize", 2), {0}};

/* The type and shape that X gets. */
static pd_status depth_shape(const struct pd_infer *c, const struct pd_meta *x, struct pd_meta *out)
{
    int64_t b = c->attr[BLOCK].l;
    PD_TRY(need_image(x));
    if (b < 2 || b > BLOCK_MOST)
        return pd_fail(PD_INVALID, "blocksize is %lld; it must be at least 2 and at most %d", (long long)b,
                       BLOCK_MOST);
    if ((x->dim[1] >= 0 && x->dim[1] % (b * b)) || (x->dim[2] >= 0 && x->dim[2] % b) ||
        (x->dim[3] >= 0 && x->dim[3] % b))
        return pd_fail(
            PD_SHAPE,
            "X has shape %s; with blocksize %lld its channels must be a multiple of %lld, height and width "
            "of %lld",
            pd_meta_dims_text(x), (long long)b, (long long)(b * b), (long long)b);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[1] = times(x->dim[1], b * b);
    out->dim[2] = over(x->dim[2], b);
    out->dim[3] = over(x->dim[3], b);
    return PD_OK;
}

static pd_status depth_infer(const struct pd_infer *c)
{
    struct pd_meta *x = pd_infer_in(c, X), *out = pd_infer_out(c, OUT);
    PD_TRY(depth_shape(c, x, out));
    if (out) pd_meta_share_lod(out, x);
    return PD_OK;
}

static pd_status depth_grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *dout = pd_infer_in(c, GRAD_OUT);
    struct pd_meta want = {0};
    PD_TRY(depth_shape(c, pd_infer_in(c, GRAD_X), &want));
    if (!pd_meta_dims_match(dout, &want))
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s; with this X and blocksize it must be %s",
                       pd_meta_dims_text(dout), pd_meta_dims_text(&want));
    pd_shape_like(c, 0, GRAD_X);
    return PD_OK;
}

static pd_status depth_any(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 3, 4, 1, 5, 2};
    const struct pd_tensor *x = x_shape(r, back);
    if (!x) return PD_OK;
    int64_t b = r->attr[BLOCK].l;
    const int64_t *d = x->meta.dim;
    return run_order(r, 6, (int64_t[]){d[0], b, b, d[1] / (b * b), d[2], d[3]}, axis, back);
}

static pd_status depth_run(const struct pd_run *r)
{
    return depth_any(r, 0);
}
static pd_status depth_grad_run(const struct pd_run *r)
{
    return depth_any(r, 1);
}

/* ---- pixel_shuffle ---- */

enum { FACTOR };
static const struct pd_attr_def factor_attrs[] = {PD_DEF_INT("upscale_factor", 1), {0}};

static pd_status pixel_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t f = c->attr[FACTOR].i;
    PD_TRY(need_image(x));
    if (f < 1) return pd_fail(PD_INVALID, "upscale_factor is %lld; it must be at least 1", (long long)f);
    if (x->dim[1] >= 0 && x->dim[1] % (f * f))
        return pd_fail(PD_SHAPE,
                       "X has shape %s; its channels must be a multiple of upscale_factor squared, %lld",
                       pd_meta_dims_text(x), (long long)(f * f));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[1] = over(x->dim[1], f * f);
    out->dim[2] = times(x->dim[2], f);
    out->dim[3] = times(x->dim[3], f);
    return PD_OK;
}

static pd_status pixel_grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *dout = pd_infer_in(c, GRAD_OUT);
    struct pd_meta *dx = pd_infer_out(c, 0);
    int64_t f = c->attr[FACTOR].i;
    PD_TRY(need_image(dout));
    if (f < 1) return pd_fail(PD_INVALID, "upscale_factor is %lld; it must be at least 1", (long long)f);
    if ((dout->dim[2] >= 0 && dout->dim[2] % f) || (dout->dim[3] >= 0 && dout->dim[3] % f))
        return pd_fail(PD_SHAPE,
                       "Out@GRAD has shape %s; height and width must be multiples of upscale_factor, %lld",
                       pd_meta_dims_text(dout), (long long)f);
    if (!dx) return PD_OK;
    dx->dtype = dout->dtype;
    pd_meta_copy_dims(dx, dout);
    dx->dim[1] = times(dout->dim[1], f * f);
    dx->dim[2] = over(dout->dim[2], f);
    dx->dim[3] = over(dout->dim[3], f);
    return PD_OK;
}

static pd_status pixel_any(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 1, 4, 2, 5, 3};
    const struct pd_tensor *x = x_shape(r, back);
    if (!x) return PD_OK;
    int64_t f = r->attr[FACTOR].i;
    const int64_t *d = x->meta.dim;
    return run_order(r, 6, (int64_t[]){d[0], d[1] / (f * f), f, f, d[2], d[3]}, axis, back);
}

static pd_status pixel_run(const struct pd_run *r)
{
    return pixel_any(r, 0);
}
static pd_status pixel_grad_run(const struct pd_run *r)
{
    return pixel_any(r, 1);
}

/* ---- shuffle_channel ---- */

enum { GROUP };
static const struct pd_attr_def group_attrs[] = {PD_DEF_INT("group", 1), {0}};

static pd_status channel_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int g = c->attr[GROUP].i;
    PD_TRY(need_image(x));
    if (g < 1 || (x->dim[1] >= 0 && x->dim[1] % g))
        return pd_fail(PD_SHAPE, "group is %d; it must be at least 1 and divide the channels of X, shape %s",
                       g, pd_meta_dims_text(x));
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

static pd_status channel_any(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 2, 1, 3};
    const struct pd_tensor *x = x_shape(r, back);
    if (!x) return PD_OK;
    int64_t g = r->attr[GROUP].i;
    const int64_t *d = x->meta.dim;
    return run_order(r, 4, (int64_t[]){d[0], g, d[1] / g, d[2] * d[3]}, axis, back);
}

static pd_status channel_run(const struct pd_run *r)
{
    return channel_any(r, 0);
}
static pd_status channel_grad_run(const struct pd_run *r)
{
    return channel_any(r, 1);
}

/* ---- reverse ---- */

enum { AXIS };

static pd_status reverse_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int at;
    if (c->attr[AXIS].n == 0) return pd_fail(PD_INVALID, "axis is empty; name the axes to reverse");
    for (int i = 0; i < c->attr[AXIS].n; i++)
        PD_TRY(pd_shape_axis(c->attr[AXIS].ints[i], x->rank, &at));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    return PD_OK;
}

static pd_status reverse_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_meta *m = &x->meta;
    int64_t to[PD_MAX_RANK], from[PD_MAX_RANK], start = 0;
    struct pd_copy copy;
    if (pd_tensor_numel(x) == 0) return PD_OK;
    pd_copy_steps(m->rank, m->dim, to);
    memcpy(from, to, sizeof from);
    for (int i = 0; i < r->attr[AXIS].n; i++) {
        int at;
        PD_TRY(pd_shape_axis(r->attr[AXIS].ints[i], m->rank, &at));
        if (from[at] < 0) continue; /* named twice */
        start += (m->dim[at] - 1) * from[at];
        from[at] = -from[at];
    }
    size_t item = pd_dtype_size(m->dtype);
    pd_copy_make(&copy, item, m->rank, m->dim, to, from);
    pd_copy_run(&copy, out->data, (const char *)x->data + start * (int64_t)item);
    return PD_OK;
}

/* ---- temporal_shift ---- */

enum { SEG_NUM, RATIO };
static const struct pd_attr_def shift_attrs[] = {
    PD_DEF_INT("seg_num", 1), PD_DEF_FLOAT("shift_ratio", 0.25f), {0}};

static pd_status shift_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int t = c->attr[SEG_NUM].i;
    PD_TRY(need_image(x));
    if (t < 1 || (x->dim[0] >= 0 && x->dim[0] % t))
        return pd_fail(PD_SHAPE,
                       "seg_num is %d; it must be at least 1 and divide the first dimension of X, shape %s",
                       t, pd_meta_dims_text(x));
    if (!(c->attr[RATIO].f > 0 && c->attr[RATIO].f < 0.5f))
        return pd_fail(PD_INVALID, "shift_ratio is %g; it must lie between 0 and 0.5",
                       (double)c->attr[RATIO].f);
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

/* Channels [first, end): moment t of `to` is moment t - by of `from`, 0 where there is none. `d` is [n, t, c,
 * size]. */
static void shift(const int64_t *d, int64_t first, int64_t end, int by, size_t item, char *to,
                  const char *from)
{
    int64_t step[4], dim[4] = {d[0], d[1] - (by ? 1 : 0), end - first, d[3]};
    struct pd_copy copy;
    pd_copy_steps(4, d, step);
    int64_t at = first * step[2], moment = step[1];
    if (by && d[1] > 0) {
        int64_t edge_dim[4] = {d[0], 1, end - first, d[3]}, none[4] = {0};
        static const uint64_t zero;
        pd_copy_make(&copy, item, 4, edge_dim, step, none);
        pd_copy_run(&copy, to + (at + (by > 0 ? 0 : (d[1] - 1) * moment)) * (int64_t)item, &zero);
    }
    pd_copy_make(&copy, item, 4, dim, step, step);
    pd_copy_run(&copy, to + (at + (by > 0 ? moment : 0)) * (int64_t)item,
                from + (at + (by < 0 ? moment : 0)) * (int64_t)item);
}

static pd_status shift_any(const struct pd_run *r, int back)
{
    const struct pd_tensor *from = pd_run_in(r, back ? GRAD_OUT : X);
    struct pd_tensor *to = pd_run_out(r, 0);
    if (!to) return PD_OK;
    const int64_t *m = to->meta.dim, c = m[1], t = r->attr[SEG_NUM].i;
    int64_t d[4] = {m[0] / t, t, c, m[2] * m[3]};
    int64_t one = (int64_t)((float)c * r->attr[RATIO].f), two = (int64_t)((float)c * 2 * r->attr[RATIO].f);
    size_t item = pd_dtype_size(to->meta.dtype);
    shift(d, 0, one, back ? -1 : 1, item, to->data, from->data);
    shift(d, one, two, back ? 1 : -1, item, to->data, from->data);
    shift(d, two, c, 0, item, to->data, from->data);
    return PD_OK;
}

static pd_status shift_run(const struct pd_run *r)
{
    return shift_any(r, 0);
}
static pd_status shift_grad_run(const struct pd_run *r)
{
    return shift_any(r, 1);
}

/* ---- the ops ---- */

static const struct pd_slot_def inputs[] = {{"X", 0}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"Out@GRAD", 0}, {"X", PD_SLOT_META}, {0}};
/* Their gradients need no X; older Programs name it. */
static const struct pd_slot_def grad_alone[] = {
    {"Out@GRAD", 0}, {"X", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED}, {0}};

#define IMAGE_OP(name, doc_, attrs_, infer_, run_, words_, grad_inputs_, grad_infer_, grad_run_)             \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = doc_,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs_,                                                                                     \
        .infer = infer_,                                                                                     \
        .run = run_,                                                                                         \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = words_,                                                                                   \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ": the elements back in their places.",                                  \
        .inputs = grad_inputs_,                                                                              \
        .outputs = pd_view_grad_outputs,                                                                     \
        .attrs = attrs_,                                                                                     \
        .infer = grad_infer_,                                                                                \
        .run = grad_run_,                                                                                    \
    }

IMAGE_OP(space_to_depth, "Moves blocks of pixels into channels.", block_attrs, depth_infer, depth_run,
         "X Out@", grad_inputs, depth_grad_infer, depth_grad_run);
IMAGE_OP(pixel_shuffle, "Moves channels into blocks of pixels.", factor_attrs, pixel_infer, pixel_run, "Out@",
         grad_alone, pixel_grad_infer, pixel_grad_run);
IMAGE_OP(shuffle_channel, "Interleaves groups of channels.", group_attrs, channel_infer, channel_run, "Out@",
         grad_alone, channel_infer, channel_grad_run);
IMAGE_OP(temporal_shift, "Moves some channels one moment on and some one moment back.", shift_attrs,
         shift_infer, shift_run, "Out@", grad_alone, shift_infer, shift_grad_run);

const struct pd_op pd_op_reverse = {
    .type = "reverse",
    .doc = "Turns the order of the elements along axis around.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_INTS("axis"), {0}},
    .infer = reverse_infer,
    .run = reverse_run,
    .grad_type = "reverse",
    .grad_in = "X=Out@",
    .grad_out = "Out=X@",
};
