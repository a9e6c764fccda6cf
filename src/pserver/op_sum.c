/* ps_sum: adds numbers over the servers of a job (sums.h). */
#include "pserver/op_run.h"
#include "pserver/server/server_private.h"
#include "pserver/server/sums.h"

/* Numbers of one group of this server: X with the same group name add up. */
pd_status pd_ps_ps_sum_run(const struct pd_run *r)
{
    const struct pd_attr *endpoints = pd_ps_attr(r, "endpoints"), *groups = pd_ps_attr(r, "groups");
    int n = r->out[0].n;
    double values[PD_SUMS_MAX];
    if (r->in[0].n != n || n > PD_SUMS_MAX)
        return pd_fail(PD_INVALID, "ps_sum has %d X and %d Out; each X has one Out, %d at most", r->in[0].n,
                       n, PD_SUMS_MAX);
    for (int i = 0; i < n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        if (pd_tensor_numel(t) != 1 || !pd_dtype_is_float(t->meta.dtype))
            return pd_fail(PD_SHAPE, "ps_sum adds single numbers, found %s", pd_meta_dims_text(&t->meta));
        values[i] = t->meta.dtype == PD_DTYPE_FP64 ? *(const double *)t->data : *(const float *)t->data;
    }
    if (endpoints->n > 1) {
        struct pd_server *s = pd_server_running(pd_ps_attr(r, "endpoint")->s);
        if (!s || !s->sums) return pd_fail(PD_INVALID, "ps_sum runs outside a server of its job");
        PD_TRY(pd_sums_add(s->sums, groups->n ? groups->strings[0] : "", s->applying, n, values));
    }
    for (int i = 0; i < n; i++) {
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        PD_TRY(pd_tensor_resize(out, t->meta.dtype, t->meta.rank, t->meta.dim));
        if (t->meta.dtype == PD_DTYPE_FP64)
            *(double *)out->data = values[i];
        else
            *(float *)out->data = (float)values[i];
    }
    return PD_OK;
}
