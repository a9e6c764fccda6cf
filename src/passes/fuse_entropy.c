/* Fusion of the gradients of cross_entropy (or cross_entropy2) with class numbers and of the softmax before
 * it. */
#include "passes/fuse.h"

#include <string.h>

static int along_last(const struct pd_fuse *f, const struct pd_opdesc *softmax_grad)
{
    const struct pd_var *out = pd_fuse_float(f, pd_fuse_arg(softmax_grad, 0, "Out"));
    int axis = pd_opdesc_attr(softmax_grad, "axis")->i;
    return out && out->meta.rank >= 1 && (axis == -1 || axis == out->meta.rank - 1);
}

static pd_status fill(struct pd_opdesc *op, const struct pd_opdesc *entropy, const struct pd_opdesc *softmax)
{
    PD_TRY(pd_opdesc_set_int(op, "ignore_index", pd_opdesc_attr(entropy, "ignore_index")->i));
    PD_TRY(pd_fuse_take_slot(op, 0, "Softmax", softmax, "Out"));
    PD_TRY(pd_fuse_take_slot(op, 0, "Label", entropy, "Label"));
    PD_TRY(pd_fuse_take_slot(op, 0, "MatchX", entropy, "MatchX"));
    PD_TRY(pd_fuse_take_slot(op, 0, "Y@GRAD", entropy, "Y@GRAD"));
    return pd_fuse_take_slot(op, 1, "X@GRAD", softmax, "X@GRAD");
}

static pd_status fuse(struct pd_fuse *f, int i)
{
    struct pd_opdesc *entropy = pd_fuse_op(f, i), *made;
    int second = pd_fuse_is(entropy, "cross_entropy_grad2");
    struct pd_fuse_use use;
    const char *middle = pd_fuse_arg(entropy, 1, "X@GRAD");
    if (!second && pd_opdesc_attr(entropy, "soft_label")->b) return PD_OK;
    if (!pd_fuse_float(f, middle) || !pd_fuse_may_go(f, middle, 1, &use)) return PD_OK;
    struct pd_opdesc *softmax = pd_fuse_op(f, use.reader);
    if (!pd_fuse_is(softmax, "softmax_grad") || pd_fuse_arg(softmax, 0, "Out@GRAD") != middle ||
        !pd_fuse_arg(softmax, 1, "X@GRAD") || !along_last(f, softmax) ||
        pd_fuse_inputs_change(f, i, use.reader))
        return PD_OK;
    /* The second form keeps the probabilities of the labels; the first reads them from what must be the
     * softmax. */
    if (second ? !pd_fuse_arg(entropy, 0, "MatchX")
               : pd_fuse_arg(entropy, 0, "X") != pd_fuse_arg(softmax, 0, "Out"))
        return PD_OK;
    PD_TRY(pd_fuse_new(f, "fused_entropy_softmax_grad", &made));
    if (!made) return PD_OK;
    pd_status status = fill(made, entropy, softmax);
    if (status == PD_OK) return pd_fuse_replace(f, made, 2, (struct pd_opdesc *[]){entropy, softmax}, 1);
    pd_opdesc_free(made);
    return status;
}

pd_status pd_fuse_entropy(struct pd_fuse *f)
{
    for (int i = 0; i < f->places.n; i++) {
        struct pd_opdesc *op = pd_fuse_op(f, i);
        if (pd_fuse_is(op, "cross_entropy_grad") || pd_fuse_is(op, "cross_entropy_grad2")) PD_TRY(fuse(f, i));
    }
    return PD_OK;
}
