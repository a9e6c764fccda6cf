/* sampling_id: a random class of each row. With a seed it draws as upstream does. */
#include "ops/draw.h"
#include "ops/scratch.h"

enum { X };
enum { OUT };
enum { MIN, MAX, SEED };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (x->rank != 2)
        return pd_fail(PD_SHAPE, "X has shape %s; it must be [rows, classes]", pd_meta_dims_text(x));
    if (!(c->attr[MIN].f < c->attr[MAX].f))
        return pd_fail(PD_INVALID, "min is %g and max is %g; min must be smaller", (double)c->attr[MIN].f,
                       (double)c->attr[MAX].f);
    if (!out) return PD_OK;
    out->dtype = PD_DTYPE_INT64;
    pd_meta_set_1d(out, x->dim[0]);
    pd_meta_share_lod(out, x);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t rows = x->meta.dim[0], width = x->meta.dim[1], *ids = out->data;
    int seed = r->attr[SEED].i;
    if (rows && !width)
        return pd_fail(PD_SHAPE, "X has shape %s: there are no classes to draw from",
                       pd_meta_dims_text(&x->meta));
    if (!pd_dtype_is_float(x->meta.dtype))
        return pd_fail(PD_TYPE, "X is %s; probabilities must be float32 or float64",
                       pd_dtype_name(x->meta.dtype));
    struct pd_draw d = {
        .law = PD_LAW_UNIFORM, .a = r->attr[MIN].f, .b = r->attr[MAX].f, .dtype = x->meta.dtype, .n = rows};
    PD_TRY(pd_scratch(r, (size_t)rows * pd_dtype_size(d.dtype), &d.out));
    if (seed) {
        pd_draw_seeded(&d, (uint32_t)seed);
    } else {
        struct pd_rng rng = pd_draw_rng(r);
        pd_draw_counted(&d, &rng);
    }
    PD_SWITCH_FLOAT(d.dtype, T, {
        const T *p = x->data;
        for (int64_t i = 0; i < rows; i++) {
            T left = ((const T *)d.out)[i];
            int64_t k = 0;
            for (; k < width - 1; k++)
                if ((left -= p[i * width + k]) < 0) break;
            ids[i] = k;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_sampling_id = {
    .type = "sampling_id",
    .doc = "A class for each row, drawn with the row's probabilities.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){
            PD_DEF_FLOAT("min", 0), PD_DEF_FLOAT("max", 1), PD_DEF_INT("seed", 0), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
    .state_size = sizeof(struct pd_draw_count),
};
