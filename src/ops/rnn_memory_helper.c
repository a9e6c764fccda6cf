/* rnn_memory_helper: passes the memory of a recurrent net on to the next step. */
#include <string.h>

#include "ops/out.h"
#include "ops/view.h"

enum { G_DOUT, G_X };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_FP32), {0}};

static pd_status grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, 0, G_X);
    return PD_OK;
}

/* Without a gradient of the output the gradient is 0. */
static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    if (!dout || !dout->data)
        memset(dx->data, 0, pd_tensor_bytes(dx));
    else if (dx->data != dout->data)
        memcpy(dx->data, dout->data, pd_tensor_bytes(dx));
    return PD_OK;
}

const struct pd_op pd_op_rnn_memory_helper = {
    .type = "rnn_memory_helper",
    .doc = "Passes the memory of a recurrent net on to the next step.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .infer = pd_out_infer_like,
    .run = pd_view_run,
    .grad_type = "rnn_memory_helper_grad",
    .grad_in = "Out@ X",
    .grad_out = "X@",
    .share = pd_view_share,
};

const struct pd_op pd_op_rnn_memory_helper_grad = {
    .type = "rnn_memory_helper_grad",
    .doc = "Gradient of rnn_memory_helper; 0 at the last step.",
    .inputs = (const struct pd_slot_def[]){{"Out@GRAD", PD_SLOT_OPTIONAL | PD_SLOT_UNSET},
                                           {"X", PD_SLOT_META},
                                           {"Out", PD_SLOT_META | PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = pd_out_x_grad,
    .attrs = attrs,
    .infer = grad_infer,
    .run = grad_run,
};
