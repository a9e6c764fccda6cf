/* Fusion of the gradient of mul with the sgd that changes its Y: the parameter is updated where its gradient
 * would have been computed, ahead of the sgd ops at the Program's end. So nothing in between may use the
 * parameter or change the learning rate. */
#include "passes/fuse.h"

static pd_status fill(struct pd_opdesc *op, const struct pd_opdesc *mul, const struct pd_opdesc *sgd)
{
    static const char *const cols[] = {"x_num_col_dims", "y_num_col_dims"};
    static const char *const in[] = {"X", "Y", "Out@GRAD"};
    for (int i = 0; i < 2; i++)
        PD_TRY(pd_opdesc_set_int(op, cols[i], pd_opdesc_attr(mul, cols[i])->i));
    for (int i = 0; i < 3; i++)
        PD_TRY(pd_fuse_take_slot(op, 0, in[i], mul, in[i]));
    PD_TRY(pd_fuse_take_slot(op, 0, "LearningRate", sgd, "LearningRate"));
    PD_TRY(pd_fuse_take_slot(op, 1, "X@GRAD", mul, "X@GRAD"));
    return pd_fuse_take_slot(op, 1, "ParamOut", sgd, "ParamOut");
}

static pd_status fuse(struct pd_fuse *f, int i)
{
    struct pd_opdesc *mul = pd_fuse_op(f, i), *made;
    struct pd_fuse_use use;
    const char *gradient = pd_fuse_arg(mul, 1, "Y@GRAD"), *param = pd_fuse_arg(mul, 0, "Y");
    if (!pd_fuse_float(f, gradient) || !pd_fuse_may_go(f, gradient, 1, &use)) return PD_OK;
    struct pd_opdesc *sgd = pd_fuse_op(f, use.reader);
    if (!pd_fuse_is(sgd, "sgd") || pd_fuse_arg(sgd, 0, "Grad") != gradient ||
        pd_fuse_arg(sgd, 0, "Param") != param || pd_fuse_arg(sgd, 1, "ParamOut") != param ||
        !pd_fuse_float(f, param) || pd_fuse_arg(mul, 0, "X") == param || pd_map_has(&f->kept, param))
        return PD_OK;
    const char *lr = pd_fuse_arg(sgd, 0, "LearningRate");
    if (!lr || pd_fuse_written_between(f, lr, i, use.reader) || pd_fuse_used_between(f, param, i, use.reader))
        return PD_OK;
    PD_TRY(pd_fuse_new(f, "fused_mul_grad_sgd", &made));
    if (!made) return PD_OK;
    pd_status status = fill(made, mul, sgd);
    if (status == PD_OK) return pd_fuse_replace(f, made, 2, (struct pd_opdesc *[]){mul, sgd}, 0);
    pd_opdesc_free(made);
    return status;
}

pd_status pd_fuse_mul_sgd(struct pd_fuse *f)
{
    for (int i = 0; i < f->places.n; i++)
        if (pd_fuse_is(pd_fuse_op(f, i), "mul_grad")) PD_TRY(fuse(f, i));
    return PD_OK;
}
