/* bilinear_interp and nearest_interp: images brought to another size. The size comes from SizeTensor,
 * OutSize, Scale (an input, then the attribute) or out_h and out_w, whichever is there first. */
#include <string.h>

#include "ops/check.h"
#include "ops/layout.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, OUT_SIZE, SIZE_TENSOR, SCALE_TENSOR };
enum { OUT };
enum { LAYOUT, OUT_D, OUT_H, OUT_W, SCALE, METHOD, ALIGN_CORNERS, ALIGN_MODE };
enum { GRAD_DOUT = 4 };

#define ATTRS(method)                                                                                        \
    {                                                                                                        \
        PD_DEF_STRING("data_layout", "NCHW"), PD_DEF_INT("out_d", 0), PD_DEF_INT("out_h", 0),                \
            PD_DEF_INT("out_w", 0), PD_DEF_FLOAT("scale", 0), PD_DEF_STRING("interp_method", method),        \
            PD_DEF_BOOL("align_corners", 1), PD_DEF_INT("align_mode", 1), {0},                               \
    }
static const struct pd_attr_def bilinear_attrs[] = ATTRS("bilinear");
static const struct pd_attr_def nearest_attrs[] = ATTRS("nearest");

/* The inputs that ask for a size: which are there, and their data, NULL where they cannot be read yet. */
struct wish {
    int n_sizes, has_scale;
    const struct pd_tensor *sizes[2], *out_size, *scale;
};

/* Wanted height and width; -1 where only running can tell. */
static pd_status wanted_size(const struct pd_attr *attr, const struct pd_meta *x, const struct wish *wish,
                             int64_t *size)
{
    int first = pd_layout_channels_last(attr[LAYOUT].s) ? 1 : 2;
    size[0] = attr[OUT_H].i;
    size[1] = attr[OUT_W].i;
    if (wish->n_sizes) {
        if (wish->n_sizes != 2)
            return pd_fail(PD_INVALID, "SizeTensor holds %d tensors: give two, height and width.",
                           wish->n_sizes);
        for (int i = 0; i < 2; i++)
            if (wish->sizes[i]) PD_TRY(pd_number_one(wish->sizes[i], "SizeTensor", i, &size[i]));
        return PD_OK;
    }
    double scale = attr[SCALE].f;
    if (wish->has_scale) {
        const struct pd_tensor *t = wish->scale;
        scale = 0;
        size[0] = size[1] = -1;
        if (t)
            scale =
                t->meta.dtype == PD_DTYPE_FP64 ? *(const double *)t->data : (double)*(const float *)t->data;
    }
    for (int i = 0; scale > 0 && i < 2; i++)
        size[i] = x->dim[first + i] < 0 ? -1 : (int64_t)((float)x->dim[first + i] * (float)scale);
    for (int i = 0; wish->out_size && i < 2; i++)
        PD_TRY(pd_number_at(wish->out_size, "OutSize", i, &size[i]));
    return PD_OK;
}

static void out_dims(const struct pd_attr *attr, const struct pd_meta *x, const int64_t *size, int64_t *dim)
{
    int first = pd_layout_channels_last(attr[LAYOUT].s) ? 1 : 2;
    memcpy(dim, x->dim, 4 * sizeof *dim);
    dim[first] = size[0];
    dim[first + 1] = size[1];
}

static pd_status check_size(const int64_t *size)
{
    if (size[0] > 0 && size[1] > 0) return PD_OK;
    return pd_fail(PD_INVALID, "The wanted size is %lld x %lld: give out_h and out_w, or a scale, above 0.",
                   (long long)size[0], (long long)size[1]);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    const char *method = c->attr[METHOD].s;
    if (x->dtype != PD_DTYPE_UINT8) PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    if (strcmp(method, "bilinear") && strcmp(method, "nearest"))
        return pd_fail(PD_INVALID, "interp_method is '%s': give bilinear or nearest.", method);
    struct wish wish = {.n_sizes = c->in[SIZE_TENSOR].n, .has_scale = c->in[SCALE_TENSOR].n};
    int64_t size[2], dim[4];
    for (int i = 0; i < wish.n_sizes && i < 2; i++)
        wish.sizes[i] = pd_infer_data(c, SIZE_TENSOR, i);
    if (c->in[OUT_SIZE].n) wish.out_size = pd_infer_data(c, OUT_SIZE, 0);
    if (wish.has_scale) wish.scale = pd_infer_data(c, SCALE_TENSOR, 0);
    PD_TRY(wanted_size(c->attr, x, &wish, size));
    int by_data = wish.n_sizes || c->in[OUT_SIZE].n || wish.has_scale;
    if (!by_data && c->running) PD_TRY(check_size(size));
    out_dims(c->attr, x, size, dim);
    for (int i = 0; c->running && i < 4; i++)
        if (dim[i] < 1) dim[i] = x->dim[i]; /* the run will say */
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    PD_TRY(pd_meta_set_dims(out, 4, dim));
    pd_meta_share_lod(out, x);
    return PD_OK;
}

/* Where an output row (or column) comes from: two inputs and the share of the second. */
struct spot {
    int64_t low, high;
    float share;
};

static void spots(const struct pd_attr *attr, int64_t in, int64_t out, struct spot *to)
{
    int corners = attr[ALIGN_CORNERS].b, nearest = !strcmp(attr[METHOD].s, "nearest");
    int centred = attr[ALIGN_MODE].i == 0 && !corners && !nearest;
    float ratio = out > 1 ? corners ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out : 0;
    for (int64_t i = 0; i < out; i++) {
        float at = centred ? ratio * ((float)i + 0.5f) - 0.5f : ratio * (float)i;
        if (nearest && corners) at += 0.5f;
        if (at < 0) at = 0;
        int64_t low = (int64_t)at;
        if (low > in - 1) low = in - 1;
        to[i].low = low;
        to[i].high = nearest || low + 1 > in - 1 ? low : low + 1;
        to[i].share = nearest ? 0 : at - (float)low;
    }
}

struct grid {
    int64_t batch, channels, in[2], out[2], channel_step_in, channel_step_out, point_step;
    struct spot *row, *col;
};

static pd_status grid_make(const struct pd_run *r, const struct pd_meta *in, const struct pd_meta *out,
                           struct grid *g)
{
    int last = pd_layout_channels_last(r->attr[LAYOUT].s), first = last ? 1 : 2;
    *g = (struct grid){.batch = in->dim[0],
                       .channels = in->dim[last ? 3 : 1],
                       .in = {in->dim[first], in->dim[first + 1]},
                       .out = {out->dim[first], out->dim[first + 1]}};
    if (g->batch && g->channels && (!g->in[0] || !g->in[1]))
        return pd_fail(PD_SHAPE, "X has shape %s: an image without points cannot be brought to another size.",
                       pd_meta_dims_text(in));
    g->channel_step_in = last ? 1 : g->in[0] * g->in[1];
    g->channel_step_out = last ? 1 : g->out[0] * g->out[1];
    g->point_step = last ? g->channels : 1;
    void *block;
    PD_TRY(pd_scratch(r, (size_t)(g->out[0] + g->out[1]) * sizeof(struct spot), &block));
    g->row = block;
    g->col = g->row + g->out[0];
    spots(r->attr, g->in[0], g->out[0], g->row);
    spots(r->attr, g->in[1], g->out[1], g->col);
    return PD_OK;
}

/* Calls BODY for each output point of each plane with the four corners (nw, ne, sw, se) and the output's
 * place. */
#define EACH_POINT(BODY)                                                                                     \
    for (int64_t plane = 0; plane < g.batch * g.channels; plane++) {                                         \
        int64_t n = plane / g.channels, c = plane % g.channels;                                              \
        int64_t in_at = n * g.channels * g.in[0] * g.in[1] + c * g.channel_step_in;                          \
        int64_t out_at = n * g.channels * g.out[0] * g.out[1] + c * g.channel_step_out;                      \
        for (int64_t i = 0; i < g.out[0]; i++)                                                               \
            for (int64_t j = 0; j < g.out[1]; j++) {                                                         \
                const struct spot *row = &g.row[i], *col = &g.col[j];                                        \
                float s = row->share, e = col->share;                                                        \
                int64_t nw = in_at + (row->low * g.in[1] + col->low) * g.point_step;                         \
                int64_t ne = in_at + (row->low * g.in[1] + col->high) * g.point_step;                        \
                int64_t sw = in_at + (row->high * g.in[1] + col->low) * g.point_step;                        \
                int64_t se = in_at + (row->high * g.in[1] + col->high) * g.point_step;                       \
                int64_t to = out_at + (i * g.out[1] + j) * g.point_step;                                     \
                BODY;                                                                                        \
            }                                                                                                \
    }

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct wish wish = {.n_sizes = r->in[SIZE_TENSOR].n,
                        .out_size = pd_run_in(r, OUT_SIZE),
                        .scale = pd_run_in(r, SCALE_TENSOR)};
    int64_t size[2], dim[4];
    wish.has_scale = wish.scale != NULL;
    for (int i = 0; i < wish.n_sizes && i < 2; i++)
        wish.sizes[i] = pd_run_in_at(r, SIZE_TENSOR, i);
    PD_TRY(wanted_size(r->attr, &x->meta, &wish, size));
    PD_TRY(check_size(size));
    out_dims(r->attr, &x->meta, size, dim);
    PD_TRY(pd_out_fit(out, x->meta.dtype, 4, dim));
    struct grid g;
    PD_TRY(grid_make(r, &x->meta, &out->meta, &g));
    if (x->meta.dtype == PD_DTYPE_UINT8) {
        const uint8_t *from = x->data;
        uint8_t *y = out->data;
        EACH_POINT(y[to] = (uint8_t)((float)from[nw] * (1 - s) * (1 - e) + (float)from[sw] * s * (1 - e) +
                                     (float)from[ne] * (1 - s) * e + (float)from[se] * s * e))
        return PD_OK;
    }
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T *from = x->data;
        T *y = out->data;
        EACH_POINT(y[to] = from[nw] * (1 - s) * (1 - e) + from[sw] * s * (1 - e) + from[ne] * (1 - s) * e +
                           from[se] * s * e)
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *d = pd_infer_in(c, GRAD_DOUT);
    int channels = pd_layout_channels_last(c->attr[LAYOUT].s) ? 3 : 1;
    PD_TRY(pd_check_rank(x, "X", 4, 4));
    PD_TRY(pd_check_rank(d, "Out@GRAD", 4, 4));
    for (int i = 0; i <= channels; i += channels)
        if (x->dim[i] != d->dim[i] && x->dim[i] >= 0 && d->dim[i] >= 0)
            return pd_fail(PD_SHAPE,
                           "X has shape %s, Out@GRAD has shape %s; they must be equal in dimension %d",
                           pd_meta_dims_text(x), pd_meta_dims_text(d), i);
    pd_out_like(c, 0, X);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *d = pd_run_in(r, GRAD_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    struct grid g;
    PD_TRY(grid_make(r, &dx->meta, &d->meta, &g));
    memset(dx->data, 0, pd_tensor_bytes(dx));
    PD_SWITCH_FLOAT(dx->meta.dtype, T, {
        const T *dy = d->data;
        T *x = dx->data;
        EACH_POINT({
            T each = dy[to];
            x[nw] += each * (1 - s) * (1 - e);
            x[sw] += each * s * (1 - e);
            x[ne] += each * (1 - s) * e;
            x[se] += each * s * e;
        })
    })
    return PD_OK;
}

static const struct pd_slot_def inputs[] = {{"X", 0},
                                            {"OutSize", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                            {"SizeTensor", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                            {"Scale", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                            {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"X", PD_SLOT_META},
    {"OutSize", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"SizeTensor", PD_SLOT_META | PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"Scale", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"Out@GRAD", 0},
    {0}};

#define INTERP_OP(name, attrs_, text)                                                                        \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},                                            \
        .attrs = attrs_,                                                                                     \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "X OutSize SizeTensor Scale Out@",                                                        \
        .grad_out = "X@",                                                                                    \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = grad_inputs,                                                                               \
        .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},                          \
        .attrs = attrs_,                                                                                     \
        .infer = grad_infer,                                                                                 \
        .run = grad_run,                                                                                     \
    };

INTERP_OP(bilinear_interp, bilinear_attrs, "Images resized by bilinear interpolation.")
INTERP_OP(nearest_interp, nearest_attrs, "Images resized by taking the nearest point.")
