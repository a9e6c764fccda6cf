/* space_to_depth: moves blocks of pixels into channels. */
#include "ops/out.h"
#include "ops/rearrange.h"

enum { OUT };
enum { BLOCK };
enum { BLOCK_MOST = 1 << 20 }; /* its square is a number of channels */
static const struct pd_attr_def attrs[] = {PD_DEF_LONG("blocksize", 2), {0}};

/* The type and shape that X gets. */
static pd_status depth_shape(const struct pd_infer *c, const struct pd_meta *x, struct pd_meta *out)
{
    int64_t b = c->attr[BLOCK].l;
    PD_TRY(pd_rearrange_need_image(x));
    if (b < 2 || b > BLOCK_MOST)
        return pd_fail(PD_INVALID, "blocksize is %lld; it must be at least 2 and at most %d", (long long)b,
                       BLOCK_MOST);
    if ((x->dim[1] >= 0 && x->dim[1] % (b * b)) || (x->dim[2] >= 0 && x->dim[2] % b) ||
        (x->dim[3] >= 0 && x->dim[3] % b))
        return pd_fail(
            PD_SHAPE,
            "X has shape %s; with blocksize %lld its channels must be a multiple of %lld, height and width "
            "of %lld",
            pd_meta_dims_text(x), (long long)b, (long long)(b * b), (long long)b);
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    out->dim[1] = pd_rearrange_times(x->dim[1], b * b);
    out->dim[2] = pd_rearrange_over(x->dim[2], b);
    out->dim[3] = pd_rearrange_over(x->dim[3], b);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *x = pd_infer_in(c, PD_REARRANGE_X), *out = pd_infer_out(c, OUT);
    PD_TRY(depth_shape(c, x, out));
    if (out) pd_meta_share_lod(out, x);
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    const struct pd_meta *dout = pd_infer_in(c, PD_REARRANGE_DOUT);
    struct pd_meta want = {0};
    PD_TRY(depth_shape(c, pd_infer_in(c, PD_REARRANGE_GRAD_X), &want));
    if (!pd_meta_dims_match(dout, &want))
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s; with this X and blocksize it must be %s",
                       pd_meta_dims_text(dout), pd_meta_dims_text(&want));
    pd_out_like(c, 0, PD_REARRANGE_GRAD_X);
    return PD_OK;
}

static pd_status rearrange(const struct pd_run *r, int back)
{
    static const int axis[] = {0, 3, 4, 1, 5, 2};
    const struct pd_tensor *x = pd_rearrange_x(r, back);
    if (!x) return PD_OK;
    int64_t b = r->attr[BLOCK].l;
    const int64_t *d = x->meta.dim;
    return pd_rearrange_run(r, 6, (int64_t[]){d[0], b, b, d[1] / (b * b), d[2], d[3]}, axis, back);
}

static pd_status run(const struct pd_run *r)
{
    return rearrange(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return rearrange(r, 1);
}

PD_REARRANGE_OPS(space_to_depth, "Moves blocks of pixels into channels.", attrs, infer, run, "X Out@",
                 pd_rearrange_grad_inputs, grad_infer, grad_run);
