/* scale: Out = scale X + bias. The gradients of sum, minus and sign are such ops too. */
#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/grad_scale.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/rows.h"

#define GRAIN 32768

enum { X, SCALE_TENSOR };
enum { OUT };
enum { SCALE, BIAS, BIAS_AFTER_SCALE };

static const struct pd_slot_def scale_inputs[] = {
    {"X"}, {"ScaleTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def scale_attrs[] = {
    PD_DEF_FLOAT("scale", 1.0f), PD_DEF_FLOAT("bias", 0.0f), PD_DEF_BOOL("bias_after_scale", 1), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

struct job {
    const void *x;
    void *out;
    double scale, bias;
    uint64_t whole_scale, whole_bias; /* of integers, not all of which a double holds */
};

#define SCALE_PART(T, clones)                                                                                \
    clones static void scale_##T(void *arg, int64_t begin, int64_t end)                                      \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *x = j->x, scale = (T)j->scale, bias = (T)j->bias;                                           \
        T *out = j->out;                                                                                     \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++) out[i] = (T)(x[i] * scale + bias);        \
    }

SCALE_PART(float, PD_CLONES)
SCALE_PART(double, PD_CLONES)
/* Integers wrap around. */
#define SCALE_WHOLE(T)                                                                                       \
    static void scale_##T(void *arg, int64_t begin, int64_t end)                                             \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *x = j->x;                                                                                   \
        T *out = j->out;                                                                                     \
        for (int64_t i = begin; i < end; i++)                                                                \
            out[i] = (T)((uint64_t)x[i] * j->whole_scale + j->whole_bias);                                   \
    }

SCALE_WHOLE(int64_t)
SCALE_WHOLE(int32_t)
SCALE_WHOLE(int16_t)
SCALE_WHOLE(int8_t)
SCALE_WHOLE(uint8_t)

static pd_status read_factors(const struct pd_run *r, enum pd_dtype dtype, struct job *j)
{
    const struct pd_tensor *given = r->in[SCALE_TENSOR].n ? pd_run_in(r, SCALE_TENSOR) : NULL;
    int after = r->attr[BIAS_AFTER_SCALE].b;
    j->scale = r->attr[SCALE].f;
    j->bias = r->attr[BIAS].f;
    if (given) PD_TRY(pd_number_any(given, "ScaleTensor", &j->scale));
    if (pd_dtype_is_float(dtype)) {
        if (!after) j->bias *= j->scale;
        return PD_OK;
    }
    int64_t whole = (int64_t)j->scale;
    if (given) PD_TRY(pd_number_whole(given, "ScaleTensor", &whole));
    j->whole_scale = (uint64_t)whole;
    j->whole_bias = (uint64_t)(int64_t)j->bias * (after ? 1 : j->whole_scale);
    return PD_OK;
}

static pd_status scale_run(const struct pd_run *r)
{
    const struct pd_tensor *x;
    struct pd_tensor *out;
    PD_TRY(pd_rows_pair(r, &x, &out));
    struct job j = {x->data, out->data};
    PD_TRY(read_factors(r, x->meta.dtype, &j));
    int64_t n = pd_tensor_numel(x);
    switch ((int)x->meta.dtype) {
    case PD_DTYPE_FP32:
        pd_parallel(n, GRAIN, scale_float, &j);
        return PD_OK;
    case PD_DTYPE_FP64:
        pd_parallel(n, GRAIN, scale_double, &j);
        return PD_OK;
    case PD_DTYPE_INT64:
        pd_parallel(n, GRAIN, scale_int64_t, &j);
        return PD_OK;
    case PD_DTYPE_INT32:
        pd_parallel(n, GRAIN, scale_int32_t, &j);
        return PD_OK;
    case PD_DTYPE_INT16:
        pd_parallel(n, GRAIN, scale_int16_t, &j);
        return PD_OK;
    case PD_DTYPE_INT8:
        pd_parallel(n, GRAIN, scale_int8_t, &j);
        return PD_OK;
    case PD_DTYPE_UINT8:
        pd_parallel(n, GRAIN, scale_uint8_t, &j);
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "X is %s, which cannot be scaled; cast it first", pd_dtype_name(x->meta.dtype));
}

static pd_status scale_grad(struct pd_grad_maker *g)
{
    return pd_grad_scale(g, "X", "Out", pd_opdesc_attr(g->op, "scale")->f,
                         pd_opdesc_arg(g->op, 0, "ScaleTensor"));
}

const struct pd_op pd_op_scale = {
    .type = "scale",
    .doc = "Out = scale X + bias, or scale (X + bias) when bias_after_scale is not set.",
    .inputs = scale_inputs,
    .outputs = outputs,
    .attrs = scale_attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = pd_out_infer_same,
    .run = scale_run,
    .make_grad = scale_grad,
    .share = share,
};
