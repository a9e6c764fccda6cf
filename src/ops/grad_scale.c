/* See grad_scale.h. */
#include "ops/grad_scale.h"

#include <string.h>

static pd_status scale_op(struct pd_grad_maker *g, const char *from, const char *to, float scale,
                          const char *scale_tensor)
{
    struct pd_opdesc *op;
    PD_TRY(pd_opdesc_new(g->program, "scale", &op));
    pd_status status = pd_opdesc_add_arg(op, 0, "X", from);
    if (status == PD_OK && scale_tensor) status = pd_opdesc_add_arg(op, 0, "ScaleTensor", scale_tensor);
    if (status == PD_OK) status = pd_opdesc_add_arg(op, 1, "Out", to);
    if (status == PD_OK)
        status = pd_opdesc_set_attr(op, "scale", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = scale}, 1);
    if (status == PD_OK)
        status = pd_opdesc_set_attr(op, "bias", &(struct pd_attr){.type = PD_ATTR_FLOAT, .f = 0}, 1);
    if (status == PD_OK)
        status =
            pd_opdesc_set_attr(op, "bias_after_scale", &(struct pd_attr){.type = PD_ATTR_BOOL, .b = 1}, 1);
    if (status != PD_OK) {
        pd_opdesc_free(op);
        return status;
    }
    return g->emit(g, op);
}

pd_status pd_grad_scale(struct pd_grad_maker *g, const char *in, const char *out, float scale,
                        const char *scale_tensor)
{
    const struct pd_io *io = pd_opdesc_slot(g->op, 0, in);
    const char *var = pd_opdesc_arg(g->op, 1, out), *from;
    if (!io || !var) return PD_OK;
    PD_TRY(g->grad_of_output(g, var, &from));
    for (int i = 0; i < io->args.n; i++) {
        const char *to;
        PD_TRY(g->grad_of_input(g, io->args.at[i], &to));
        if (strcmp(to, PD_EMPTY_VAR) != 0) PD_TRY(scale_op(g, from, to, scale, scale_tensor));
    }
    return PD_OK;
}
