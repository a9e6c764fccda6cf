/* pow: X to a constant power, which may come from a tensor. */
#include <math.h>

#include "base/parallel.h"
#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

#define GRAIN 4096

enum { X, FACTOR_TENSOR, DOUT };
enum { OUT };
enum { FACTOR };

static const struct pd_slot_def inputs[] = {
    {"X"}, {"FactorTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {
    {"X"}, {"FactorTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("factor", 1.0f), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};
static const struct pd_share grad_share[] = {{0, DOUT, 0}, {-1, -1, 0}};

struct job {
    const void *x, *dout;
    void *to;
    double factor;
    enum pd_dtype dtype;
};

/* Small whole powers need no logarithm. */
static double power(double x, double factor)
{
    return factor == 2 ? x * x : factor == 1 ? x : factor == 0.5 ? sqrt(x) : pow(x, factor);
}

/* Whole powers of integers are exact, and wrap around. */
static uint64_t whole_power(uint64_t x, uint64_t times)
{
    uint64_t result = 1;
    for (; times; times >>= 1, x *= x)
        if (times & 1) result *= x;
    return result;
}

static void forward(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    PD_SWITCH_NUMBER(j->dtype, T, {
        const T *x = j->x;
        T *out = j->to;
        const int exact =
            (T)0.5 == 0 && j->factor >= 0 && j->factor < 0x1p53 && trunc(j->factor) == j->factor;
        for (int64_t i = begin; i < end; i++)
            out[i] = exact ? (T)whole_power((uint64_t)x[i], (uint64_t)j->factor)
                           : (T)power((double)x[i], j->factor);
    })
}

static void backward(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    PD_SWITCH_NUMBER(j->dtype, T, {
        const T *x = j->x;
        const T *dout = j->dout;
        T *dx = j->to;
        for (int64_t i = begin; i < end; i++)
            dx[i] = (T)((double)dout[i] * j->factor * power((double)x[i], j->factor - 1));
    })
}

static pd_status begin_job(const struct pd_run *r, struct job *j)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    PD_TRY(pd_check_number_data(x, "X"));
    *j = (struct job){.x = x->data, .factor = r->attr[FACTOR].f, .dtype = x->meta.dtype};
    if (!r->in[FACTOR_TENSOR].n) return PD_OK;
    PD_TRY(pd_number_check(pd_run_in(r, FACTOR_TENSOR), "FactorTensor"));
    return pd_number_any(pd_run_in(r, FACTOR_TENSOR), "FactorTensor", &j->factor);
}

static pd_status run(const struct pd_run *r)
{
    struct job j;
    PD_TRY(begin_job(r, &j));
    j.to = pd_run_out(r, OUT)->data;
    pd_parallel(pd_tensor_numel(pd_run_in(r, X)), GRAIN, forward, &j);
    return PD_OK;
}

const struct pd_op pd_op_pow = {
    .type = "pow",
    .doc = "Out = X to the power of factor.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = pd_out_infer_same,
    .run = run,
    .grad_type = "pow_grad",
    .grad_in = "X FactorTensor Out@",
    .grad_out = "X@",
    .share = share,
};

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_same(c, 0, DOUT);
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    struct job j;
    if (!pd_run_out(r, 0)) return PD_OK;
    PD_TRY(begin_job(r, &j));
    j.dout = pd_run_in(r, DOUT)->data;
    j.to = pd_run_out(r, 0)->data;
    pd_parallel(pd_tensor_numel(pd_run_in(r, X)), GRAIN, backward, &j);
    return PD_OK;
}

const struct pd_op pd_op_pow_grad = {
    .type = "pow_grad",
    .doc = "Gradient of pow.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
    .share = grad_share,
};
