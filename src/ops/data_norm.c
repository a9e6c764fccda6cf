/* data_norm: columns are normalised by statistics that are parameters: counts, sums and sums of squares.
 * Their "gradients" are what this batch adds to them. With slot_dim, a slot whose first number (how often it
 * was shown) is 0 stays out. */
#include <math.h>
#include <string.h>

#include "ops/check.h"
#include "ops/norm_slots.h"
#include "ops/out.h"

enum { SCALE_W, BIAS, X, BATCH_SIZE, BATCH_SUM, BATCH_SQUARE };
enum { Y, MEANS, SCALES };
enum { EPSILON, SLOT_DIM, DECAY, SCALE_AND_SHIFT, LAYOUT, SYNC };
enum { GRAD_X, GRAD_DY, GRAD_SCALES, GRAD_MEANS, GRAD_SCALE_W, GRAD_BIAS };
enum { DX, D_SIZE, D_SUM, D_SQUARE, D_SCALE_W, D_BIAS };

static const struct pd_attr_def attrs[] = {
    PD_DEF_FLOAT("epsilon", 1e-4f),
    PD_DEF_INT("slot_dim", -1),
    PD_DEF_FLOAT("summary_decay_rate", 0.9999999f),
    PD_DEF_BOOL("enable_scale_and_shift", 0),
    PD_DEF_STRING("data_layout", "NCHW"),
    PD_DEF_BOOL("sync_stats", 0),
    PD_DEF_BOOL("is_test", 0),
    {0},
};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    PD_TRY(pd_check_float(x, "X"));
    PD_TRY(pd_check_rank(x, "X", 2, 2));
    int64_t cols = x->dim[1];
    PD_TRY(pd_norm_slots_check(c, X, BATCH_SQUARE, cols, "columns"));
    if (c->attr[SCALE_AND_SHIFT].b && (!pd_infer_in(c, SCALE_W) || !pd_infer_in(c, BIAS)))
        return pd_fail(PD_INVALID,
                       "enable_scale_and_shift is set, so the inputs scale_w and bias are needed.");
    if (c->attr[SLOT_DIM].i > 0 && cols >= 0 && cols % c->attr[SLOT_DIM].i)
        return pd_fail(PD_INVALID, "slot_dim is %d, which does not divide the %lld columns of X.",
                       c->attr[SLOT_DIM].i, (long long)cols);
    return pd_norm_slots_infer(c, X, SCALES, 1, &cols);
}

/* Not shown: the slot's first number is 0. */
#define HIDDEN(x, i, j)                                                                                      \
    (slot > 0 && (x)[(i)*cols + (j) / slot * slot] > (T)-1e-7 && (x)[(i)*cols + (j) / slot * slot] < (T)1e-7)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, X);
    int64_t rows = x_in->meta.dim[0], cols = x_in->meta.dim[1], slot = r->attr[SLOT_DIM].i;
    int shift = r->attr[SCALE_AND_SHIFT].b;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *size = pd_run_in(r, BATCH_SIZE)->data;
        const T *sum = pd_run_in(r, BATCH_SUM)->data;
        const T *square = pd_run_in(r, BATCH_SQUARE)->data;
        const T *w = shift ? pd_run_in(r, SCALE_W)->data : NULL;
        const T *b = shift ? pd_run_in(r, BIAS)->data : NULL;
        T *y = pd_run_out(r, Y)->data;
        T *means = pd_run_out(r, MEANS)->data;
        T *scales = pd_run_out(r, SCALES)->data;
        for (int64_t j = 0; j < cols; j++) {
            means[j] = sum[j] / size[j];
            scales[j] = (T)sqrt((double)(size[j] / square[j]));
        }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                T v = (x[i * cols + j] - means[j]) * scales[j];
                if (shift) v = v * w[j] + b[j];
                y[i * cols + j] = HIDDEN(x, i, j) ? 0 : v;
            }
    })
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, DX, GRAD_X);
    for (int slot = D_SIZE; slot <= D_BIAS; slot++)
        pd_out_like(c, slot, GRAD_MEANS);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x_in = pd_run_in(r, GRAD_X), *w_in = pd_run_in(r, GRAD_SCALE_W);
    int64_t rows = x_in->meta.dim[0], cols = x_in->meta.dim[1], slot = r->attr[SLOT_DIM].i;
    int shift = r->attr[SCALE_AND_SHIFT].b && w_in;
    PD_SWITCH_FLOAT(x_in->meta.dtype, T, {
        const T *x = x_in->data;
        const T *dy = pd_run_in(r, GRAD_DY)->data;
        const T *means = pd_run_in(r, GRAD_MEANS)->data;
        const T *scales = pd_run_in(r, GRAD_SCALES)->data;
        T *to[D_BIAS + 1];
        for (int k = DX; k <= D_BIAS; k++) {
            struct pd_tensor *out = pd_run_out(r, k);
            to[k] = out ? out->data : NULL;
            if (out && k != DX) memset(out->data, 0, pd_tensor_bytes(out));
        }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                int64_t at = i * cols + j;
                int hidden = HIDDEN(x, i, j);
                T d = x[at] - means[j];
                /* Where there is no own scale, the slope stays also for what is not shown. */
                if (to[DX])
                    to[DX][at] = shift ? hidden ? 0 : dy[at] * scales[j] * ((const T *)w_in->data)[j]
                                       : dy[at] * scales[j];
                if (hidden) continue;
                if (to[D_SIZE]) to[D_SIZE][j] += 1;
                if (to[D_SUM]) to[D_SUM][j] += x[at];
                if (to[D_SQUARE]) to[D_SQUARE][j] += d * d;
                if (to[D_SCALE_W]) to[D_SCALE_W][j] += d * scales[j] * dy[at];
                if (to[D_BIAS]) to[D_BIAS][j] += dy[at];
            }
        for (int64_t j = 0; j < cols; j++) {
            /* Shown counts: all rows, or what the slots said. */
            T n = 0;
            for (int64_t i = 0; i < rows; i++)
                n += !HIDDEN(x, i, j);
            T epsilon = (T)r->attr[EPSILON].f;
            int by_slot = slot > 0 && rows > 0;
            if (by_slot && n < 1) continue;
            if (to[D_SUM] && by_slot) to[D_SUM][j] /= n;
            if (to[D_SQUARE])
                to[D_SQUARE][j] = (by_slot ? to[D_SQUARE][j] / n : to[D_SQUARE][j]) + n * epsilon;
            if (to[D_SIZE] && by_slot) to[D_SIZE][j] = 1;
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_data_norm = {
    .type = "data_norm",
    .doc = "Normalises columns by running counts, sums and sums of squares.",
    .inputs = (const struct pd_slot_def[]){{"scale_w", PD_SLOT_OPTIONAL},
                                           {"bias", PD_SLOT_OPTIONAL},
                                           {"X", 0},
                                           {"BatchSize", 0},
                                           {"BatchSum", 0},
                                           {"BatchSquareSum", 0},
                                           {0}},
    .outputs =
        (const struct pd_slot_def[]){{"Y", 0}, {"Means", PD_SLOT_HIDDEN}, {"Scales", PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "data_norm_grad",
    .grad_in = "X Y@ Scales Means scale_w bias",
    .grad_like = "BatchSize=Means BatchSum=Means BatchSquareSum=Means",
    .grad_out = "X@ BatchSize@ BatchSum@ BatchSquareSum@ scale_w@ bias@",
};

const struct pd_op pd_op_data_norm_grad = {
    .type = "data_norm_grad",
    .doc = "Gradient of data_norm, and what the batch adds to the statistics.",
    .inputs = (const struct pd_slot_def[]){{"X", 0},
                                           {"Y@GRAD", 0},
                                           {"Scales", 0},
                                           {"Means", 0},
                                           {"scale_w", PD_SLOT_OPTIONAL},
                                           {"bias", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL},
                                            {"BatchSize@GRAD", PD_SLOT_OPTIONAL},
                                            {"BatchSum@GRAD", PD_SLOT_OPTIONAL},
                                            {"BatchSquareSum@GRAD", PD_SLOT_OPTIONAL},
                                            {"scale_w@GRAD", PD_SLOT_OPTIONAL},
                                            {"bias@GRAD", PD_SLOT_OPTIONAL},
                                            {"BatchSize", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED},
                                            {"BatchSum", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED},
                                            {"BatchSquareSum", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED},
                                            {0}},
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
