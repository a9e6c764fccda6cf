/* See rearrange.h. */
#include "ops/rearrange.h"

#include "kernels/copy.h"

const struct pd_slot_def pd_rearrange_inputs[] = {{"X", 0}, {0}};
const struct pd_slot_def pd_rearrange_outputs[] = {{"Out", 0}, {0}};
const struct pd_slot_def pd_rearrange_grad_inputs[] = {{"Out@GRAD", 0}, {"X", PD_SLOT_META}, {0}};
const struct pd_slot_def pd_rearrange_grad_alone[] = {
    {"Out@GRAD", 0}, {"X", PD_SLOT_OPTIONAL | PD_SLOT_UNUSED}, {0}};

pd_status pd_rearrange_need_image(const struct pd_meta *x)
{
    if (x->rank == 4) return PD_OK;
    return pd_fail(PD_SHAPE, "X has shape %s; it must have 4 dimensions: [batch, channels, height, width]",
                   pd_meta_dims_text(x));
}

static void rearrange(size_t item, int rank, const int64_t *dim, const int *axis, int back, void *to,
                      const void *from)
{
    int64_t x_step[8], out_dim[8], out_step[8], walk[8];
    struct pd_copy copy;
    pd_copy_steps(rank, dim, x_step);
    for (int i = 0; i < rank; i++) {
        out_dim[i] = dim[axis[i]];
        walk[i] = x_step[axis[i]];
    }
    pd_copy_steps(rank, out_dim, out_step);
    pd_copy_make(&copy, item, rank, out_dim, back ? walk : out_step, back ? out_step : walk);
    pd_copy_run(&copy, to, from);
}

pd_status pd_rearrange_run(const struct pd_run *r, int rank, const int64_t *dim, const int *axis, int back)
{
    const struct pd_tensor *from = pd_run_in(r, back ? PD_REARRANGE_DOUT : PD_REARRANGE_X);
    struct pd_tensor *to = pd_run_out(r, 0);
    if (to) rearrange(pd_dtype_size(from->meta.dtype), rank, dim, axis, back, to->data, from->data);
    return PD_OK;
}

const struct pd_tensor *pd_rearrange_x(const struct pd_run *r, int back)
{
    return back ? pd_run_out(r, 0) : pd_run_in(r, PD_REARRANGE_X);
}
