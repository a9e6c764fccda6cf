/* Fusion of a sum and its activation: elementwise_add with relu, tanh or sigmoid behind it, and their
 * gradients; a bias with softmax behind it. */
#include "passes/fuse.h"

#include <stdio.h>
#include <string.h>

static const char *const activations[] = {"relu", "tanh", "sigmoid"};

/* The activation whose op (or gradient op) this is; NULL: none of ours. */
static const char *activation(const struct pd_opdesc *op, const char *suffix)
{
    char type[32];
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        snprintf(type, sizeof type, "%s%s", activations[i], suffix);
        if (pd_fuse_is(op, type)) return activations[i];
    }
    return NULL;
}

/* Inputs are taken from both, the attributes that the op knows from the sum. */
static pd_status fuse(struct pd_fuse *f, struct pd_opdesc *op, const char *act,
                      struct pd_opdesc *const *parts, int sum)
{
    pd_status status = pd_opdesc_set_int(op, "axis", pd_opdesc_attr(parts[sum], "axis")->i);
    if (status == PD_OK)
        status = pd_opdesc_set_attr(op, "act", &(struct pd_attr){.type = PD_ATTR_STRING, .s = act}, 1);
    if (status == PD_OK) status = pd_fuse_take_slot(op, 0, "X", parts[sum], "X");
    if (status == PD_OK) status = pd_fuse_take_slot(op, 0, "Y", parts[sum], "Y");
    if (status == PD_OK && sum == 0) {
        status = pd_fuse_take_slot(op, 1, "Out", parts[1], "Out");
    } else if (status == PD_OK) {
        status = pd_fuse_take_slot(op, 0, "Out", parts[0], "Out");
        if (status == PD_OK) status = pd_fuse_take_slot(op, 0, "Out@GRAD", parts[0], "Out@GRAD");
        if (status == PD_OK) status = pd_fuse_take_slot(op, 1, "X@GRAD", parts[1], "X@GRAD");
        if (status == PD_OK) status = pd_fuse_take_slot(op, 1, "Y@GRAD", parts[1], "Y@GRAD");
    }
    if (status == PD_OK) return pd_fuse_replace(f, op, 2, parts, 1);
    pd_opdesc_free(op);
    return status;
}

/* A bias: one dimension, of a size that X is known to have there, so that only Y is repeated. */
static int is_bias(const struct pd_fuse *f, const struct pd_opdesc *add)
{
    const char *x_name = pd_fuse_arg(add, 0, "X"), *y_name = pd_fuse_arg(add, 0, "Y");
    const struct pd_var *x = pd_fuse_sized(f, x_name), *y = pd_fuse_sized(f, y_name);
    if (!x || !y || y->meta.rank != 1 || x->meta.rank < 2) return 0;
    int axis = pd_opdesc_attr(add, "axis")->i;
    if (axis < 0) axis = x->meta.rank - 1;
    return axis < x->meta.rank && y->meta.dim[0] > 0 && x->meta.dim[axis] == y->meta.dim[0];
}

static pd_status with_softmax(struct pd_fuse *f, struct pd_opdesc *add, struct pd_opdesc *softmax)
{
    const struct pd_var *x = pd_block_find(f->block, pd_fuse_arg(add, 0, "X"));
    int last = x->meta.rank - 1, axis = pd_opdesc_attr(add, "axis")->i,
        along = pd_opdesc_attr(softmax, "axis")->i;
    struct pd_opdesc *made;
    if ((axis != -1 && axis != last) || (along != -1 && along != last)) return PD_OK;
    PD_TRY(pd_fuse_new(f, "fused_add_softmax", &made));
    if (!made) return PD_OK;
    pd_status status = pd_fuse_take_slot(made, 0, "X", add, "X");
    if (status == PD_OK) status = pd_fuse_take_slot(made, 0, "Y", add, "Y");
    if (status == PD_OK) status = pd_fuse_take_slot(made, 1, "Out", softmax, "Out");
    if (status == PD_OK) return pd_fuse_replace(f, made, 2, (struct pd_opdesc *[]){add, softmax}, 1);
    pd_opdesc_free(made);
    return status;
}

static pd_status forward(struct pd_fuse *f, int i)
{
    struct pd_opdesc *add = pd_fuse_op(f, i), *made;
    struct pd_fuse_use use;
    const char *out = pd_fuse_arg(add, 1, "Out");
    if (!pd_fuse_float(f, out) || !pd_fuse_float(f, pd_fuse_arg(add, 0, "X")) ||
        !pd_fuse_may_go(f, out, 1, &use))
        return PD_OK;
    struct pd_opdesc *next = pd_fuse_op(f, use.reader);
    const char *act = activation(next, "");
    if (pd_fuse_is(next, "softmax") && pd_fuse_arg(next, 0, "X") == out && is_bias(f, add) &&
        !pd_fuse_inputs_change(f, i, use.reader))
        return with_softmax(f, add, next);
    if (!act || pd_fuse_arg(next, 0, "X") != out || pd_fuse_inputs_change(f, i, use.reader)) return PD_OK;
    PD_TRY(pd_fuse_new(f, "fused_add_act", &made));
    return made ? fuse(f, made, act, (struct pd_opdesc *[]){add, next}, 0) : PD_OK;
}

static pd_status backward(struct pd_fuse *f, int i, const char *act)
{
    struct pd_opdesc *act_grad = pd_fuse_op(f, i), *made;
    struct pd_fuse_use use;
    const char *middle = pd_fuse_arg(act_grad, 1, "X@GRAD");
    if (!pd_fuse_arg(act_grad, 0, "Out") || !pd_fuse_float(f, middle) || !pd_fuse_may_go(f, middle, 1, &use))
        return PD_OK;
    struct pd_opdesc *add_grad = pd_fuse_op(f, use.reader);
    if (!pd_fuse_is(add_grad, "elementwise_add_grad") || pd_fuse_arg(add_grad, 0, "Out@GRAD") != middle ||
        !pd_fuse_arg(add_grad, 1, "X@GRAD") || !is_bias(f, add_grad) ||
        pd_fuse_inputs_change(f, i, use.reader))
        return PD_OK;
    PD_TRY(pd_fuse_new(f, "fused_add_act_grad", &made));
    return made ? fuse(f, made, act, (struct pd_opdesc *[]){act_grad, add_grad}, 1) : PD_OK;
}

pd_status pd_fuse_add_act(struct pd_fuse *f)
{
    for (int i = 0; i < f->places.n; i++) {
        struct pd_opdesc *op = pd_fuse_op(f, i);
        const char *act = activation(op, "_grad");
        if (pd_fuse_is(op, "elementwise_add")) PD_TRY(forward(f, i));
        if (act) PD_TRY(backward(f, i, act));
    }
    return PD_OK;
}
