/* An op of plans: the gradient of mul, and sgd on its Y. The step is added to the parameter by the product
 * itself, so that the gradient, as large as the parameter, is neither written nor read again. */
#include <string.h>

#include "ops/fused.h"
#include "ops/mul.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { X, Y, GRAD_OUT, LR };
enum { DX, PARAM_OUT };
enum { PART_MUL, PART_SGD };

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *y = pd_run_in(r, Y);
    struct pd_tensor *param = pd_run_out(r, PARAM_OUT);
    double lr;
    PD_TRY(pd_fused_part(PART_SGD, pd_number_any(pd_run_in(r, LR), "LearningRate", &lr)));
    pd_mul_grad_x(r, pd_run_out(r, DX)); /* wants the parameter as it was */
    if (param->data != y->data) memcpy(param->data, y->data, pd_tensor_bytes(y));
    pd_mul_grad_y(r, -lr, 1, param);
    return PD_OK;
}

const struct pd_op pd_op_fused_mul_grad_sgd = {
    .type = "fused_mul_grad_sgd",
    .doc = "Only in plans: the gradient of mul, and sgd on its Y.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", 0}, {"Y", 0}, {"Out@GRAD", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"ParamOut", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){PD_DEF_INT("x_num_col_dims", 1), PD_DEF_INT("y_num_col_dims", 1), {0}},
    .flags = PD_OP_NO_GRAD,
    .grad_of = "mul",
    .infer = pd_out_infer_like_both,
    .run = run,
    .share = (const struct pd_share[]){{PARAM_OUT, Y, 0}, {-1, -1, 0}},
};
