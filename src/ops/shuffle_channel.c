/* shuffle_channel: interleaves groups of channels. */
#include "ops/out.h"
#include "ops/rearrange.h"

enum { OUT };
enum { GROUP };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("group", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, PD_REARRANGE_X);
    int g = c->attr[GROUP].i;
    PD_TRY(pd_rearrange_need_image(x));
    if (g < 1 || (x->dim[1] >= 0 && x->dim[1] % g))
        return pd_fail(PD_SHAPE, "group is %d; it must be at least 1 and divide the channels of X, shape %s",
                       g, pd_meta_dims_text(x));
    pd_out_like(c, OUT, PD_REARRANGE_X);
    return PD_OK;
}

static pd_status rearrange(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 2, 1, 3};
    const struct pd_tensor *x = pd_rearrange_x(r, back);
    if (!x) return PD_OK;
    int64_t g = r->attr[GROUP].i;
    const int64_t *d = x->meta.dim;
    return pd_rearrange_run(r, 4, (int64_t[]){d[0], g, d[1] / g, d[2] * d[3]}, axis, back);
}

static pd_status run(const struct pd_run *r)
{
    return rearrange(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return rearrange(r, 1);
}

PD_REARRANGE_OPS(shuffle_channel, "Interleaves groups of channels.", attrs, infer, run, "Out@",
                 pd_rearrange_grad_alone, infer, grad_run);
