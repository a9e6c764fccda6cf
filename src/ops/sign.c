/* sign: -1, 0 or 1. */
#include "base/parallel.h"
#include "ops/check.h"
#include "ops/grad_scale.h"
#include "ops/out.h"
#include "ops/rows.h"

#define GRAIN 32768

enum { X };
enum { OUT };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

struct job {
    const void *x;
    void *out;
};

#define SIGN_PART(T)                                                                                         \
    static void sign_##T(void *arg, int64_t begin, int64_t end)                                              \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        const T *x = j->x;                                                                                   \
        T *out = j->out;                                                                                     \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++) out[i] = (T)((x[i] > 0) - (x[i] < 0));    \
    }
SIGN_PART(float)
SIGN_PART(double)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x;
    struct pd_tensor *out;
    PD_TRY(pd_rows_pair(r, &x, &out));
    struct job j = {.x = x->data, .out = out->data};
    PD_TRY(pd_check_float_data(x, "X"));
    pd_parallel(pd_tensor_numel(x), GRAIN, x->meta.dtype == PD_DTYPE_FP32 ? sign_float : sign_double, &j);
    return PD_OK;
}

static pd_status make_grad(struct pd_grad_maker *g)
{
    return pd_grad_scale(g, "X", "Out", 0.0f, NULL);
}

const struct pd_op pd_op_sign = {
    .type = "sign",
    .doc = "Out is -1, 0 or 1 as X is below, at or above 0.",
    .inputs = inputs,
    .outputs = outputs,
    .flags = PD_OP_ON_SERVER,
    .infer = pd_out_infer_same,
    .run = run,
    .make_grad = make_grad,
    .share = share,
};
