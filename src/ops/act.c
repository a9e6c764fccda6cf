/* See act.h. */
#include "ops/act.h"

#include "base/parallel.h"
#include "kernels/ew_binary.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "ops/rows.h"

#define GRAIN 16384

const struct pd_slot_def pd_act_inputs[] = {{"X"}, {0}};
const struct pd_slot_def pd_act_outputs[] = {{"Out"}, {0}};
const struct pd_slot_def pd_act_grad_inputs[] = {
    {"X", PD_SLOT_OPTIONAL}, {"Out", PD_SLOT_OPTIONAL}, {"Out@GRAD"}, {0}};
const struct pd_slot_def pd_act_grad_outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};
const struct pd_share pd_act_share[] = {{0, 0, 0}, {-1, -1, 0}};
const struct pd_share pd_act_grad_share[] = {{0, PD_ACT_SLOT_DOUT, 0}, {-1, -1, 0}};

pd_status pd_act_infer_grad(const struct pd_infer *c)
{
    pd_out_same(c, 0, PD_ACT_SLOT_DOUT);
    return PD_OK;
}

struct job {
    pd_act_kernel kernel;
    struct pd_act_call call;
};

static void part(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    j->kernel(&j->call, begin, end);
}

static pd_status go(const struct pd_run *r, struct job *j, enum pd_dtype dtype, int64_t n,
                    const pd_act_kernel kernels[4])
{
    int type;
    int count = 0;
    for (int i = 0; r->op->attrs[i].name && count < 3; i++)
        if (r->op->attrs[i].value.type == PD_ATTR_FLOAT) j->call.p[count++] = r->attr[i].f;
    PD_TRY(pd_elements_type(dtype, &type));
    if (type > PD_EW_I64 || !kernels[type])
        return pd_fail(PD_TYPE, "this op needs float32 or float64, found %s; cast the input first",
                       pd_dtype_name(dtype));
    j->kernel = kernels[type];
    pd_parallel(n, GRAIN, part, j);
    return PD_OK;
}

pd_status pd_act_forward(const struct pd_run *r, const pd_act_kernel kernels[4])
{
    const struct pd_tensor *x;
    struct pd_tensor *out;
    PD_TRY(pd_rows_pair(r, &x, &out));
    struct job j = {.call = {.to = out->data, .from = x->data}};
    return go(r, &j, x->meta.dtype, pd_tensor_numel(x), kernels);
}

pd_status pd_act_backward(const struct pd_run *r, int slot, const pd_act_kernel kernels[4])
{
    if (slot == PD_ACT_SLOT_ANY) slot = pd_run_in(r, PD_ACT_SLOT_X) ? PD_ACT_SLOT_X : PD_ACT_SLOT_OUT;
    const struct pd_tensor *dout = pd_run_in(r, PD_ACT_SLOT_DOUT), *from = pd_run_in(r, slot);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (!from)
        return pd_fail(PD_INVALID, "the gradient needs the forward variable %s, which was left out",
                       r->op->inputs[slot].name);
    if (pd_tensor_numel(from) != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "%s has shape %s, Out@GRAD has shape %s; they must be equal",
                       r->op->inputs[slot].name, pd_meta_dims_text(&from->meta),
                       pd_meta_dims_text(&dout->meta));
    struct job j = {.call = {.to = dx->data, .from = from->data, .dout = dout->data}};
    return go(r, &j, dout->meta.dtype, pd_tensor_numel(dout), kernels);
}
