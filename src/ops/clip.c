/* clip: X held within [min, max]. Selected rows have their repeated rows added up first, so that the bounds
 * hold for the gradient they stand for. */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/rows.h"

#define GRAIN 32768

enum { X, MIN_TENSOR, MAX_TENSOR, DOUT };
enum { OUT };
enum { MIN, MAX };

static const struct pd_slot_def clip_inputs[] = {
    {"X"}, {"Min", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Max", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def clip_attrs[] = {PD_DEF_FLOAT("min", 0.0f), PD_DEF_FLOAT("max", 0.0f), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

struct job {
    const void *x, *dout;
    void *out;
    uint64_t low, high; /* the bytes of an element of X's type */
};

#define CLIP_PARTS(T, clones)                                                                                \
    clones static void clip_##T(void *arg, int64_t begin, int64_t end)                                       \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *x = j->x;                                                                                   \
        T low, high;                                                                                         \
        memcpy(&low, &j->low, sizeof low);                                                                   \
        memcpy(&high, &j->high, sizeof high);                                                                \
        T *out = j->out;                                                                                     \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++) out[i] = x[i] < low    ? low              \
                                                                            : x[i] > high ? high             \
                                                                                          : x[i];            \
    }                                                                                                        \
    clones static void clip_grad_##T(void *arg, int64_t begin, int64_t end)                                  \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *x = j->x, *dout = j->dout;                                                                  \
        T low, high;                                                                                         \
        memcpy(&low, &j->low, sizeof low);                                                                   \
        memcpy(&high, &j->high, sizeof high);                                                                \
        T *dx = j->out;                                                                                      \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++) dx[i] =                                   \
            x[i] > low && x[i] < high ? dout[i] : 0;                                                         \
    }

CLIP_PARTS(float, PD_CLONES)
CLIP_PARTS(double, PD_CLONES)
CLIP_PARTS(int32_t, )
CLIP_PARTS(int64_t, )

/* What is beyond all integers of the type becomes the last of them. */
static pd_status bound(const struct pd_run *r, int slot, const char *what, double given, enum pd_dtype dtype,
                       uint64_t *out)
{
    if (r->in[slot].n) return pd_number_as(pd_run_in(r, slot), what, dtype, out);
    if (dtype == PD_DTYPE_INT32) given = fmin(fmax(given, INT32_MIN), INT32_MAX);
    if (dtype == PD_DTYPE_INT64 && given >= 0x1p63) {
        *out = INT64_MAX;
        return PD_OK;
    }
    if (dtype == PD_DTYPE_INT64) given = fmax(given, -0x1p63);
    return pd_elements_fill(out, dtype, 1, given);
}

static pd_status bounds(const struct pd_run *r, struct job *j)
{
    const enum pd_dtype dtype = pd_run_in(r, X)->meta.dtype;
    PD_TRY(pd_check_number_data(pd_run_in(r, X), "X"));
    PD_TRY(bound(r, MIN_TENSOR, "Min", r->attr[MIN].f, dtype, &j->low));
    PD_TRY(bound(r, MAX_TENSOR, "Max", r->attr[MAX].f, dtype, &j->high));
    PD_SWITCH_NUMBER(dtype, T, {
        T low;
        T high;
        memcpy(&low, &j->low, sizeof low);
        memcpy(&high, &j->high, sizeof high);
        if (low > high)
            return pd_fail(PD_INVALID, "min is %g and max is %g; min may not be larger", (double)low,
                           (double)high);
    })
    return PD_OK;
}

static pd_status clip_run(const struct pd_run *r)
{
    const struct pd_tensor *x;
    struct pd_tensor *out;
    struct job j;
    PD_TRY(bounds(r, &j));
    PD_TRY(pd_rows_source(r, &x, &out));
    int64_t n = pd_tensor_numel(x);
    j.x = x->data;
    j.out = out->data;
    switch ((int)x->meta.dtype) {
    case PD_DTYPE_FP32:
        pd_parallel(n, GRAIN, clip_float, &j);
        return PD_OK;
    case PD_DTYPE_FP64:
        pd_parallel(n, GRAIN, clip_double, &j);
        return PD_OK;
    case PD_DTYPE_INT32:
        pd_parallel(n, GRAIN, clip_int32_t, &j);
        return PD_OK;
    case PD_DTYPE_INT64:
        pd_parallel(n, GRAIN, clip_int64_t, &j);
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "X is %s, which cannot be clipped; cast it first", pd_dtype_name(x->meta.dtype));
}

const struct pd_op pd_op_clip = {
    .type = "clip",
    .doc = "X held within [min, max].",
    .inputs = clip_inputs,
    .outputs = outputs,
    .attrs = clip_attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = pd_out_infer_same,
    .run = clip_run,
    .grad_type = "clip_grad",
    .grad_in = "X Min Max Out@",
    .grad_out = "X@",
    .share = share,
};

static const struct pd_slot_def clip_grad_inputs[] = {{"X"},
                                                      {"Min", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                                      {"Max", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
                                                      {"Out@GRAD"},
                                                      {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_share grad_share[] = {{0, DOUT, 0}, {-1, -1, 0}};

static pd_status clip_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct job j;
    if (!dx) return PD_OK;
    PD_TRY(bounds(r, &j));
    int64_t n = pd_tensor_numel(x);
    j.x = x->data;
    j.dout = pd_run_in(r, DOUT)->data;
    j.out = dx->data;
    switch ((int)x->meta.dtype) {
    case PD_DTYPE_FP32:
        pd_parallel(n, GRAIN, clip_grad_float, &j);
        return PD_OK;
    case PD_DTYPE_FP64:
        pd_parallel(n, GRAIN, clip_grad_double, &j);
        return PD_OK;
    case PD_DTYPE_INT32:
        pd_parallel(n, GRAIN, clip_grad_int32_t, &j);
        return PD_OK;
    case PD_DTYPE_INT64:
        pd_parallel(n, GRAIN, clip_grad_int64_t, &j);
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "there are no gradients of type %s", pd_dtype_name(x->meta.dtype));
}

const struct pd_op pd_op_clip_grad = {
    .type = "clip_grad",
    .doc = "Gradient of clip.",
    .inputs = clip_grad_inputs,
    .outputs = grad_outputs,
    .attrs = clip_attrs,
    .infer = pd_out_infer_same,
    .run = clip_grad_run,
    .share = grad_share,
};
