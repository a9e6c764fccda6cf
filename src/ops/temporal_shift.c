/* temporal_shift: moves some channels one moment on and some one moment back. */
#include "kernels/copy.h"
#include "ops/out.h"
#include "ops/rearrange.h"

enum { OUT };
enum { SEG_NUM, RATIO };
static const struct pd_attr_def attrs[] = {PD_DEF_INT("seg_num", 1), PD_DEF_FLOAT("shift_ratio", 0.25f), {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, PD_REARRANGE_X);
    int t = c->attr[SEG_NUM].i;
    PD_TRY(pd_rearrange_need_image(x));
    if (t < 1 || (x->dim[0] >= 0 && x->dim[0] % t))
        return pd_fail(PD_SHAPE,
                       "seg_num is %d; it must be at least 1 and divide the first dimension of X, shape %s",
                       t, pd_meta_dims_text(x));
    if (!(c->attr[RATIO].f > 0 && c->attr[RATIO].f < 0.5f))
        return pd_fail(PD_INVALID, "shift_ratio is %g; it must lie between 0 and 0.5",
                       (double)c->attr[RATIO].f);
    pd_out_like(c, OUT, PD_REARRANGE_X);
    return PD_OK;
}

/* Channels [first, end): moment t of `to` is moment t - by of `from`, 0 where there is none. `d` is [n, t, c,
 * size]. */
static void shift(const int64_t *d, int64_t first, int64_t end, int by, size_t item, char *to,
                  const char *from)
{
    int64_t step[4], dim[4] = {d[0], d[1] - (by ? 1 : 0), end - first, d[3]};
    struct pd_copy copy;
    pd_copy_steps(4, d, step);
    int64_t at = first * step[2], moment = step[1];
    if (by && d[1] > 0) {
        int64_t edge_dim[4] = {d[0], 1, end - first, d[3]}, none[4] = {0};
        static const uint64_t zero;
        pd_copy_make(&copy, item, 4, edge_dim, step, none);
        pd_copy_run(&copy, to + (at + (by > 0 ? 0 : (d[1] - 1) * moment)) * (int64_t)item, &zero);
    }
    pd_copy_make(&copy, item, 4, dim, step, step);
    pd_copy_run(&copy, to + (at + (by > 0 ? moment : 0)) * (int64_t)item,
                from + (at + (by < 0 ? moment : 0)) * (int64_t)item);
}

static pd_status shift_any(const struct pd_run *r, int back)
{
    const struct pd_tensor *from = pd_run_in(r, back ? PD_REARRANGE_DOUT : PD_REARRANGE_X);
    struct pd_tensor *to = pd_run_out(r, 0);
    if (!to) return PD_OK;
    const int64_t *m = to->meta.dim, c = m[1], t = r->attr[SEG_NUM].i;
    int64_t d[4] = {m[0] / t, t, c, m[2] * m[3]};
    int64_t one = (int64_t)((float)c * r->attr[RATIO].f), two = (int64_t)((float)c * 2 * r->attr[RATIO].f);
    size_t item = pd_dtype_size(to->meta.dtype);
    shift(d, 0, one, back ? -1 : 1, item, to->data, from->data);
    shift(d, one, two, back ? 1 : -1, item, to->data, from->data);
    shift(d, two, c, 0, item, to->data, from->data);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    return shift_any(r, 0);
}
static pd_status grad_run(const struct pd_run *r)
{
    return shift_any(r, 1);
}

PD_REARRANGE_OPS(temporal_shift, "Moves some channels one moment on and some one moment back.", attrs, infer,
                 run, "Out@", pd_rearrange_grad_alone, infer, grad_run);
