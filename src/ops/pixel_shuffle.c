/* pixel_shuffle: moves channels into blocks of pixels. */
#include "ops/rearrange.h"

enum { OUT };
enum { FACTOR };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("upscale_factor", 1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, PD_REARRANGE_X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t f = c->attr[FACTOR].i;
    PD_TRY(pd_rearrange_need_image(x));
    if (f < 1) return pd_fail(PD_INVALID, "upscale_factor is %lld; it must be at least 1", (long long)f);
    if (x->dim[1] >= 0 && x->dim[1] % (f * f))
        return pd_fail(PD_SHAPE,
                       "X has shape %s; its channels must be a multiple of upscale_factor squared, %lld",
                       pd_meta_dims_text(x), (long long)(f * f));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[1] = pd_rearrange_over(x->dim[1], f * f);
    out->dim[2] = pd_rearrange_times(x->dim[2], f);
    out->dim[3] = pd_rearrange_times(x->dim[3], f);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *dout = pd_infer_in(c, PD_REARRANGE_DOUT);
    struct pd_meta *dx = pd_infer_out(c, 0);
    int64_t f = c->attr[FACTOR].i;
    PD_TRY(pd_rearrange_need_image(dout));
    if (f < 1) return pd_fail(PD_INVALID, "upscale_factor is %lld; it must be at least 1", (long long)f);
    if ((dout->dim[2] >= 0 && dout->dim[2] % f) || (dout->dim[3] >= 0 && dout->dim[3] % f))
        return pd_fail(PD_SHAPE,
                       "Out@GRAD has shape %s; height and width must be multiples of upscale_factor, %lld",
                       pd_meta_dims_text(dout), (long long)f);
    if (!dx) return PD_OK;
    dx->dtype = dout->dtype;
    pd_meta_copy_dims(dx, dout);
    dx->dim[1] = pd_rearrange_times(dout->dim[1], f * f);
    dx->dim[2] = pd_rearrange_over(dout->dim[2], f);
    dx->dim[3] = pd_rearrange_over(dout->dim[3], f);
    return PD_OK;
}

static pd_status rearrange(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 1, 4, 2, 5, 3};
    const struct pd_tensor *x = pd_rearrange_x(r, back);
    if (!x) return PD_OK;
    int64_t f = r->attr[FACTOR].i;
    const int64_t *d = x->meta.dim;
    return pd_rearrange_run(r, 6, (int64_t[]){d[0], d[1] / (f * f), f, f, d[2], d[3]}, axis, back);
}

static pd_status run(const struct pd_run *r)
{
    return rearrange(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return rearrange(r, 1);
}

PD_REARRANGE_OPS(pixel_shuffle, "Moves channels into blocks of pixels.", attrs, infer, run, "Out@",
                 pd_rearrange_grad_alone, grad_infer, grad_run);
