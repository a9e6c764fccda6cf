/* pad2d: images with a border of one number, of their edge, or mirrored at it. */
#include <string.h>

#include "base/parallel.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, PADS_TENSOR, GRAD_OUT };
enum { OUT };
enum { PADDINGS, PAD_VALUE, MODE, FORMAT };

static const struct pd_attr_def attrs[] = {
    PD_DEF_INTS_OF("paddings", 0, 0, 0, 0),
    PD_DEF_FLOAT("pad_value", 0),
    PD_DEF_STRING("mode", "constant"),
    PD_DEF_STRING("data_format", "NCHW"),
    {0},
};
static const struct pd_numbers_source source = {"paddings", PADS_TENSOR, -1, PADDINGS, 0};

/* The image as `images` planes of height x width pixels of `depth` elements. */
struct planes {
    int h_axis, w_axis;
    int64_t images, height, width, depth; /* of X */
    int64_t out_height, out_width, top, left;
};

static int channels_last(const struct pd_attr *attr)
{
    return strcmp(attr[FORMAT].s, "NHWC") == 0;
}

static pd_status plan(const struct pd_meta *x, const struct pd_attr *attr, const struct pd_numbers *pads,
                      struct planes *p)
{
    const char *mode = attr[MODE].s;
    int last = channels_last(attr);
    if (x->rank != 4)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have 4 dimensions", pd_meta_dims_text(x));
    if (pads->n != 4)
        return pd_fail(PD_INVALID, "paddings has %d numbers; give top, bottom, left, right", pads->n);
    if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge"))
        return pd_fail(PD_INVALID, "mode is '%s'; it must be constant, reflect or edge", mode);
    *p = (struct planes){
        .h_axis = last ? 1 : 2, .w_axis = last ? 2 : 3, .top = pads->at[0], .left = pads->at[2]};
    p->images = pd_meta_span(x, 0, p->h_axis);
    p->depth = pd_meta_span(x, p->w_axis + 1, 4);
    p->height = x->dim[p->h_axis], p->width = x->dim[p->w_axis];
    p->out_height = p->height < 0 ? -1 : p->height + pads->at[0] + pads->at[1];
    p->out_width = p->width < 0 ? -1 : p->width + pads->at[2] + pads->at[3];
    for (int i = 0; i < 4; i++) {
        int64_t side = i < 2 ? p->height : p->width;
        if (pads->at[i] < 0)
            return pd_fail(PD_INVALID, "paddings[%d] is %lld; it may not be negative", i,
                           (long long)pads->at[i]);
        if (strcmp(mode, "reflect") == 0 && side >= 0 && pads->at[i] >= side)
            return pd_fail(PD_SHAPE,
                           "paddings[%d] is %lld, but X of shape %s can be mirrored by at most %lld there", i,
                           (long long)pads->at[i], pd_meta_dims_text(x), (long long)side - 1);
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_numbers pads;
    struct planes p;
    PD_TRY(pd_numbers_infer(c, &source, &pads));
    if (pads.known) PD_TRY(plan(x, c->attr, &pads, &p));
    if (!out) return PD_OK;
    pd_meta_like(out, x);
    if (!pads.known) return PD_OK;
    out->dim[p.h_axis] = p.out_height;
    out->dim[p.w_axis] = p.out_width;
    return PD_OK;
}

/* Which row or column of X each one of the output shows. */
static void make_map(int64_t *map, int64_t n, int64_t before, int64_t size, int reflect)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i - before;
        if (reflect) {
            if (at < 0) at = -at;
            if (at >= size) at = 2 * size - 2 - at;
        } else {
            at = at < 0 ? 0 : at >= size ? size - 1 : at;
        }
        map[i] = at;
    }
}

struct spread {
    const struct planes *p;
    const int64_t *rows, *columns;
    char *to;
    const char *from;
    size_t item;
    enum pd_dtype dtype;
};

static void show(void *arg, int64_t begin, int64_t end)
{
    const struct spread *s = arg;
    const struct planes *p = s->p;
    const int64_t pixel = p->depth * (int64_t)s->item;
    for (int64_t i = begin; i < end; i++)
        for (int64_t h = 0; h < p->out_height; h++) {
            char *to = s->to + (i * p->out_height + h) * p->out_width * pixel;
            const char *from = s->from + (i * p->height + s->rows[h]) * p->width * pixel;
            for (int64_t w = 0; w < p->out_width; w++)
                memcpy(to + w * pixel, from + s->columns[w] * pixel, (size_t)pixel);
        }
}

#define GATHER_BACK(name, T)                                                                                 \
    static void name(const struct spread *s, int64_t image)                                                  \
    {                                                                                                        \
        const struct planes *p = s->p;                                                                       \
        T *dx = (T *)s->to + image * p->height * p->width * p->depth;                                        \
        const T *dout = (const T *)s->from + image * p->out_height * p->out_width * p->depth;                \
        memset(dx, 0, (size_t)(p->height * p->width * p->depth) * sizeof(T));                                \
        for (int64_t h = 0; h < p->out_height; h++)                                                          \
            for (int64_t w = 0; w < p->out_width; w++) {                                                     \
                T *to = dx + (s->rows[h] * p->width + s->columns[w]) * p->depth;                             \
                const T *from = dout + (h * p->out_width + w) * p->depth;                                    \
                for (int64_t k = 0; k < p->depth; k++)                                                       \
                    to[k] += from[k];                                                                        \
            }                                                                                                \
    }
GATHER_BACK(back_f32, float)
GATHER_BACK(back_f64, double)

static void add_back(void *arg, int64_t begin, int64_t end)
{
    const struct spread *s = arg;
    for (int64_t i = begin; i < end; i++)
        s->dtype == PD_DTYPE_FP32 ? back_f32(s, i) : back_f64(s, i);
}

static pd_status maps(const struct pd_run *r, const struct planes *p, struct spread *s)
{
    int64_t *memory;
    int reflect = strcmp(r->attr[MODE].s, "reflect") == 0;
    PD_TRY(pd_scratch(r, (size_t)(p->out_height + p->out_width) * sizeof *memory, (void **)&memory));
    make_map(memory, p->out_height, p->top, p->height, reflect);
    make_map(memory + p->out_height, p->out_width, p->left, p->width, reflect);
    s->p = p;
    s->rows = memory;
    s->columns = memory + p->out_height;
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct pd_numbers pads;
    struct planes p;
    PD_TRY(pd_numbers_run(r, &source, &pads));
    PD_TRY(plan(&x->meta, r->attr, &pads, &p));
    struct pd_meta m = x->meta;
    m.dim[p.h_axis] = p.out_height, m.dim[p.w_axis] = p.out_width;
    PD_TRY(pd_out_fit(out, m.dtype, 4, m.dim));
    if (strcmp(r->attr[MODE].s, "constant") == 0) {
        int64_t start[4] = {0};
        start[p.h_axis] = p.top, start[p.w_axis] = p.left;
        PD_TRY(pd_elements_fill(out->data, out->meta.dtype, pd_tensor_numel(out), r->attr[PAD_VALUE].f));
        pd_elements_copy_box(&out->meta, start, x->meta.dim, 1, out->data, x->data);
        return PD_OK;
    }
    if (pd_tensor_numel(x) == 0) {
        if (pd_tensor_numel(out))
            return pd_fail(PD_SHAPE, "X has shape %s: there is no edge to repeat",
                           pd_meta_dims_text(&x->meta));
        return PD_OK;
    }
    struct spread s = {.to = out->data, .from = x->data, .item = pd_dtype_size(m.dtype), .dtype = m.dtype};
    PD_TRY(maps(r, &p, &s));
    pd_parallel(p.images, 32768 / (p.out_height * p.out_width * p.depth + 1) + 1, show, &s);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, GRAD_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct pd_numbers pads;
    struct planes p;
    if (!dx) return PD_OK;
    PD_TRY(pd_numbers_run(r, &source, &pads));
    PD_TRY(plan(&dx->meta, r->attr, &pads, &p));
    if (strcmp(r->attr[MODE].s, "constant") == 0) {
        int64_t start[4] = {0};
        start[p.h_axis] = p.top, start[p.w_axis] = p.left;
        pd_elements_copy_box(&dout->meta, start, dx->meta.dim, 0, dx->data, dout->data);
        return PD_OK;
    }
    PD_TRY(pd_check_float_data(dx, "X@GRAD"));
    struct spread s = {
        .to = dx->data, .from = dout->data, .item = pd_dtype_size(dx->meta.dtype), .dtype = dx->meta.dtype};
    if (pd_tensor_numel(dx) == 0) return PD_OK;
    PD_TRY(maps(r, &p, &s));
    pd_parallel(p.images, 32768 / (p.out_height * p.out_width * p.depth + 1) + 1, add_back, &s);
    return PD_OK;
}

const struct pd_op pd_op_pad2d = {
    .type = "pad2d",
    .doc = "Puts a border around images: a constant, the edge, or the mirrored image.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"Paddings", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "pad2d_grad",
    .grad_in = "X Paddings Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_pad2d_grad = {
    .type = "pad2d_grad",
    .doc = "Gradient of pad2d.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Paddings", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
};
