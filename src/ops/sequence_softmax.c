/* sequence_softmax: softmax over the rows of each sequence; a row is one number. */
#include <math.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/seq.h"

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    int64_t width = pd_meta_span(x, 1, x->rank);
    if (c->running && (x->rank < 1 || width != 1))
        return pd_fail(PD_SHAPE, "X has shape %s; a row must be one number: [rows, 1]", pd_meta_dims_text(x));
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        PD_TRY(pd_seq_level(c, 0, &level));
    }
    pd_out_same(c, 0, 0);
    return PD_OK;
}

struct span {
    const void *x, *y, *dy;
    void *out;
    const int64_t *offset;
};

#define SOFTMAX(suffix, T, exponential)                                                                      \
    PD_CLONES static void forward_##suffix(const struct span *s, int64_t begin, int64_t end)                 \
    {                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const T *x = (const T *)s->x + s->offset[i];                                                     \
            T *y = (T *)s->out + s->offset[i];                                                               \
            int64_t n = s->offset[i + 1] - s->offset[i];                                                     \
            if (n == 0) continue;                                                                            \
            T top = x[0], sum = 0;                                                                           \
            for (int64_t k = 1; k < n; k++)                                                                  \
                top = x[k] > top ? x[k] : top;                                                               \
            for (int64_t k = 0; k < n; k++) {                                                                \
                y[k] = exponential(x[k] - top);                                                              \
                sum += y[k];                                                                                 \
            }                                                                                                \
            for (int64_t k = 0; k < n; k++)                                                                  \
                y[k] /= sum;                                                                                 \
        }                                                                                                    \
    }                                                                                                        \
    PD_CLONES static void back_##suffix(const struct span *s, int64_t begin, int64_t end)                    \
    {                                                                                                        \
        for (int64_t i = begin; i < end; i++) {                                                              \
            const T *y = (const T *)s->y + s->offset[i], *dy = (const T *)s->dy + s->offset[i];              \
            T *dx = (T *)s->out + s->offset[i], dot = 0;                                                     \
            int64_t n = s->offset[i + 1] - s->offset[i];                                                     \
            for (int64_t k = 0; k < n; k++)                                                                  \
                dot += y[k] * dy[k];                                                                         \
            for (int64_t k = 0; k < n; k++)                                                                  \
                dx[k] = (dy[k] - dot) * y[k];                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void forward_part_##suffix(void *arg, int64_t begin, int64_t end)                                 \
    {                                                                                                        \
        forward_##suffix(arg, begin, end);                                                                   \
    }                                                                                                        \
    static void back_part_##suffix(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                                        \
        back_##suffix(arg, begin, end);                                                                      \
    }

SOFTMAX(f32, float, expf)
SOFTMAX(f64, double, exp)

static int64_t grain(const struct pd_lod_level *level)
{
    int64_t sequences = level->n - 1, each = sequences ? level->offset[sequences] / sequences : 0;
    return each > 0 ? 8192 / each + 1 : 8192;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    const struct pd_lod_level *level = pd_seq_last(x);
    struct span s = {.x = x->data, .out = pd_run_out(r, 0)->data, .offset = level->offset};
    PD_TRY(pd_check_float_data(x, "X"));
    pd_parallel(level->n - 1, grain(level),
                x->meta.dtype == PD_DTYPE_FP32 ? forward_part_f32 : forward_part_f64, &s);
    return PD_OK;
}

enum { G_X, G_OUT, G_DOUT };

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, G_X), *y = pd_run_in(r, G_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    PD_TRY(pd_check_float_data(y, "Out"));
    if (!x->meta.lod) return pd_fail(PD_INVALID, "X has no sequences (no LoD)");
    const struct pd_lod_level *level = pd_seq_last(x);
    struct span s = {
        .y = y->data, .dy = pd_run_in(r, G_DOUT)->data, .out = dx->data, .offset = level->offset};
    pd_parallel(level->n - 1, grain(level), y->meta.dtype == PD_DTYPE_FP32 ? back_part_f32 : back_part_f64,
                &s);
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_STRING("data_format", "AnyLayout"), {0}};

const struct pd_op pd_op_sequence_softmax = {
    .type = "sequence_softmax",
    .doc = "Softmax over the rows of each sequence.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "sequence_softmax_grad",
    .grad_in = "X Out Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_sequence_softmax_grad = {
    .type = "sequence_softmax_grad",
    .doc = "Gradient of sequence_softmax.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out", 0}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_same,
    .run = run_grad,
};
