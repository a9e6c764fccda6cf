/* See view.h. */
#include "ops/view.h"

#include <string.h>

#include "kernels/copy.h"
#include "ops/out.h"

static pd_status copy_same(const struct pd_tensor *from, struct pd_tensor *to)
{
    if (to && to->data != from->data) pd_copy_bytes(to->data, from->data, pd_tensor_bytes(from));
    return PD_OK;
}

pd_status pd_view_run(const struct pd_run *r)
{
    return copy_same(pd_run_in(r, 0), pd_run_out(r, 0));
}

pd_status pd_view_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (dx && pd_tensor_numel(dx) != pd_tensor_numel(dout))
        return pd_fail(PD_SHAPE, "the gradient of the output has shape %s, which does not fit X of shape %s",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&dx->meta));
    return copy_same(dout, dx);
}

pd_status pd_view_set_xshape(const struct pd_infer *c, int x, int xshape)
{
    const struct pd_meta *from = pd_infer_in(c, x);
    /* The form of the op without the 2 has no such slot. */
    struct pd_meta *to = c->op->outputs[xshape].name ? pd_infer_out(c, xshape) : NULL;
    if (!to) return PD_OK;
    int64_t dim[PD_MAX_RANK + 1] = {0};
    memcpy(dim + 1, from->dim, (size_t)from->rank * sizeof *dim);
    to->dtype = from->dtype;
    PD_TRY(pd_meta_set_dims(to, from->rank + 1, dim));
    pd_meta_share_lod(to, from);
    return PD_OK;
}

const struct pd_slot_def pd_view_inputs[] = {{"X", 0}, {0}};
const struct pd_slot_def pd_view_outputs[] = {{"Out", 0}, {0}};
const struct pd_slot_def pd_view_outputs2[] = {{"Out", 0}, {"XShape", PD_SLOT_HIDDEN}, {0}};

pd_status pd_view_set_out(const struct pd_infer *c, int rank, const int64_t *dim)
{
    PD_TRY(pd_view_set_xshape(c, 0, 1));
    return pd_out_dims(pd_infer_out(c, 0), pd_infer_in(c, 0), rank, dim);
}

pd_status pd_view_infer_from_xshape(const struct pd_infer *c)
{
    const struct pd_meta *xshape = pd_infer_in(c, 0), *dout = pd_infer_in(c, 1);
    struct pd_meta *dx = pd_infer_out(c, 0);
    if (!dx) return PD_OK;
    dx->dtype = dout->dtype;
    PD_TRY(pd_meta_set_dims(dx, xshape->rank - 1, xshape->dim + 1));
    pd_meta_share_lod(dx, xshape);
    return PD_OK;
}

const struct pd_share pd_view_share[] = {{0, 0, 1}, {-1, -1, 0}};
const struct pd_share pd_view_grad_share[] = {{0, 1, 1}, {-1, -1, 0}};

/* ShapeTensor and AxesTensor come along in Programs that upstream wrote. */
const struct pd_slot_def pd_view_grad_inputs[] = {
    {"X", PD_SLOT_META},
    {"Out@GRAD", 0},
    {"ShapeTensor", PD_SLOT_META | PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"AxesTensor", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {0},
};
const struct pd_slot_def pd_view_grad2_inputs[] = {
    {"XShape", PD_SLOT_META},
    {"Out@GRAD", 0},
    {"ShapeTensor", PD_SLOT_META | PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"AxesTensor", PD_SLOT_META | PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {0},
};
