/* mean: the mean of all elements, as a tensor of shape [1]. */
#include "kernels/reduce.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X, DOUT };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"X", PD_SLOT_META}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    pd_out_number(c, 0, pd_infer_in(c, X)->dtype);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t n = pd_tensor_numel(x);
    int type;
    void *memory;
    struct pd_reduce reduce;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(pd_elements_type(x->meta.dtype, &type));
    pd_reduce_make(&reduce, 1, &n, &(const uint8_t){1});
    PD_TRY(pd_scratch(r, pd_reduce_scratch(&reduce, &pd_reduce_sum[type]), &memory));
    pd_reduce_run(&reduce, &pd_reduce_sum[type], x->data, out->data, memory);
    PD_SWITCH_FLOAT(x->meta.dtype, T, *(T *)out->data /= (T)n)
    return PD_OK;
}

const struct pd_op pd_op_mean = {
    .type = "mean",
    .doc = "The mean of all elements of X; of none it is NaN.",
    .inputs = inputs,
    .outputs = outputs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "mean_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

static pd_status grad_run(const struct pd_run *r)
{
    struct pd_tensor *dx = pd_run_out(r, 0);
    double dout;
    if (!dx) return PD_OK;
    int64_t n = pd_tensor_numel(dx);
    PD_TRY(pd_number_any(pd_run_in(r, DOUT), "Out@GRAD", &dout));
    return pd_elements_fill(dx->data, dx->meta.dtype, n, n ? dout / (double)n : 0);
}

const struct pd_op pd_op_mean_grad = {
    .type = "mean_grad",
    .doc = "Gradient of mean.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .infer = pd_out_infer_same,
    .run = grad_run,
};
