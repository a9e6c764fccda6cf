/* add_position_encoding: sines and cosines of the position are added to each step of a sequence. Sequences
 * come by LoD, or as [batch, steps, features]. */
#include <math.h>

#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X };
enum { ALPHA, BETA };

static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("alpha", 1), PD_DEF_FLOAT("beta", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, 3));
    int64_t width = x->dim[x->rank - 1];
    if (width >= 0 && width % 2)
        return pd_fail(PD_SHAPE, "X has shape %s, but the number of features must be even.",
                       pd_meta_dims_text(x));
    if (c->running && (x->rank == 2) != (x->lod != NULL))
        return pd_fail(
            PD_SHAPE,
            "X has shape %s and %s LoD: give [steps, features] with sequences, or [batch, steps, features].",
            pd_meta_dims_text(x), x->lod ? "a" : "no");
    pd_out_like(c, 0, X);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    const struct pd_meta *m = &x_in->meta;
    const struct pd_lod_level *lod = m->lod ? pd_lod_last(m->lod) : NULL;
    int64_t width = m->dim[m->rank - 1], half = width / 2, sequences = lod ? lod->n - 1 : m->dim[0];
    int64_t longest = 0;
    for (int64_t s = 0; s < sequences; s++) {
        int64_t steps = lod ? lod->offset[s + 1] - lod->offset[s] : m->dim[1];
        longest = steps > longest ? steps : longest;
    }
    void *block;
    PD_TRY(pd_scratch(r, (size_t)(longest * width) * sizeof(double), &block));
    double *wave = block;
    for (int64_t t = 0; t < longest; t++)
        for (int64_t k = 0; k < half; k++) {
            double angle = (double)t / (half > 1 ? pow(10000.0, (double)k / (double)(half - 1)) : 10000.0);
            wave[t * width + k] = sin(angle);
            wave[t * width + half + k] = cos(angle);
        }
    PD_SWITCH_FLOAT(m->dtype, T, {
        const T *x = x_in->data;
        T *out = pd_run_out(r, 0)->data;
        T alpha = (T)r->attr[ALPHA].f;
        double beta = (double)r->attr[BETA].f;
        for (int64_t s = 0; s < sequences; s++) {
            int64_t steps = lod ? lod->offset[s + 1] - lod->offset[s] : m->dim[1];
            for (int64_t i = 0; i < steps * width; i++)
                out[i] = x[i] * alpha + (T)(wave[i] * beta);
            x += steps * width;
            out += steps * width;
        }
    })
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *g = pd_run_in(r, 0);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_SWITCH_FLOAT(g->meta.dtype, T, {
        const T *d = g->data;
        T *to = dx->data;
        T alpha = (T)r->attr[ALPHA].f;
        for (int64_t i = 0, n = pd_tensor_numel(g); i < n; i++)
            to[i] = d[i] * alpha;
    })
    return PD_OK;
}

const struct pd_op pd_op_add_position_encoding = {
    .type = "add_position_encoding",
    .doc = "alpha * X + beta * (sines and cosines of the position).",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "add_position_encoding_grad",
    .grad_in = "Out@",
    .grad_like = "X=Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_add_position_encoding_grad = {
    .type = "add_position_encoding_grad",
    .doc = "Gradient of add_position_encoding.",
    .inputs = (const struct pd_slot_def[]){{"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = grad_run,
    .share = (const struct pd_share[]){{0, 0, 0}, {-1, -1, 0}},
};
