/* minus: X - Y. Its gradient is made of plain ops. */
#include "ops/check.h"
#include "ops/grad_scale.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };

static const struct pd_slot_def inputs[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X), *y = pd_infer_in(c, Y);
    PD_TRY(pd_check_same_dims(x, "X", y, "Y"));
    PD_TRY(pd_check_same_type(x, "X", y, "Y"));
    return pd_out_infer_same(c);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *y = pd_run_in(r, Y);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t n = pd_tensor_numel(x);
    PD_TRY(pd_check_number_data(x, "X"));
    PD_SWITCH_NUMBER(x->meta.dtype, T, {
        const T *a = x->data;
        const T *b = y->data;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = a[i] - b[i];
    })
    return PD_OK;
}

static pd_status make_grad(struct pd_grad_maker *g)
{
    PD_TRY(pd_grad_scale(g, "X", "Out", 1.0f, NULL));
    return pd_grad_scale(g, "Y", "Out", -1.0f, NULL);
}

const struct pd_op pd_op_minus = {
    .type = "minus",
    .doc = "Out = X - Y, of one shape.",
    .inputs = inputs,
    .outputs = outputs,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
};
