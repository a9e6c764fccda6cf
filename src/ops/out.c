/* See out.h. */
#include "ops/out.h"

#include <string.h>

#include "ops/check.h"

const struct pd_slot_def pd_out_x_grad[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {0}};

void pd_out_like(const struct pd_infer *c, int out, int in)
{
    struct pd_meta *o = pd_infer_out(c, out);
    const struct pd_meta *x = pd_infer_in(c, in);
    if (o && x) pd_meta_like(o, x);
}

void pd_out_same(const struct pd_infer *c, int out, int in)
{
    struct pd_meta *o = pd_infer_out(c, out);
    const struct pd_meta *x = pd_infer_in(c, in);
    if (o && x) o->kind = x->kind;
    pd_out_like(c, out, in);
}

void pd_out_number(const struct pd_infer *c, int out, enum pd_dtype dtype)
{
    struct pd_meta *o = pd_infer_out(c, out);
    if (!o) return;
    o->dtype = dtype;
    pd_meta_set_1d(o, 1);
}

pd_status pd_out_dims(struct pd_meta *out, const struct pd_meta *x, int rank, const int64_t *dim)
{
    if (!out) return PD_OK;
    int same_rows = x->rank && rank && x->dim[0] == dim[0];
    out->dtype = x->dtype;
    PD_TRY(pd_meta_set_dims(out, rank, dim));
    if (same_rows)
        pd_meta_share_lod(out, x);
    else
        pd_meta_take_lod(out, NULL);
    return PD_OK;
}

pd_status pd_out_fit(struct pd_tensor *out, enum pd_dtype dtype, int rank, const int64_t *dim)
{
    const struct pd_meta *m = &out->meta;
    if (out->data && m->dtype == dtype && m->rank == rank &&
        memcmp(m->dim, dim, (size_t)rank * sizeof *dim) == 0)
        return PD_OK;
    return pd_tensor_resize(out, dtype, rank, dim);
}

pd_status pd_out_infer_like(const struct pd_infer *c)
{
    pd_out_like(c, 0, 0);
    return PD_OK;
}

pd_status pd_out_infer_like_both(const struct pd_infer *c)
{
    pd_out_like(c, 0, 0);
    pd_out_like(c, 1, 1);
    return PD_OK;
}

pd_status pd_out_infer_both_like_first(const struct pd_infer *c)
{
    pd_out_like(c, 0, 0);
    pd_out_like(c, 1, 0);
    return PD_OK;
}

pd_status pd_out_infer_same(const struct pd_infer *c)
{
    pd_out_same(c, 0, 0);
    return PD_OK;
}

pd_status pd_out_infer_same_both(const struct pd_infer *c)
{
    pd_out_same(c, 0, 0);
    pd_out_same(c, 1, 1);
    return PD_OK;
}

pd_status pd_out_infer_int64(const struct pd_infer *c)
{
    pd_out_number(c, 0, PD_DTYPE_INT64);
    return PD_OK;
}

pd_status pd_out_infer_line(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (!out) return PD_OK;
    out->dtype = pd_infer_in(c, 0)->dtype;
    pd_meta_set_1d(out, -1);
    return PD_OK;
}

pd_status pd_out_infer_alike(const struct pd_infer *c, int inputs, int main, int outputs)
{
    const struct pd_meta *first = pd_infer_in(c, main);
    const char *name = c->op->inputs[main].name;
    PD_TRY(pd_check_float(first, name));
    for (int i = 0; i < inputs; i++) {
        PD_TRY(pd_check_same_dims(first, name, pd_infer_in(c, i), c->op->inputs[i].name));
        PD_TRY(pd_check_same_type(first, name, pd_infer_in(c, i), c->op->inputs[i].name));
    }
    for (int i = 0; i < outputs; i++)
        pd_out_like(c, i, main);
    return PD_OK;
}
