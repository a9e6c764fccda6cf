/* See opt.h. */
#include "ops/opt.h"

#include <string.h>

#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/scratch.h"

static pd_status check_like_param(const struct pd_infer *c, const struct pd_opt *o, int slot)
{
    const struct pd_meta *p = pd_infer_in(c, o->in[0]), *m = pd_infer_in(c, slot);
    const char *name = c->op->inputs[slot].name, *param = c->op->inputs[o->in[0]].name;
    if (!m || m->kind == PD_KIND_SELECTED_ROWS || p->kind == PD_KIND_SELECTED_ROWS) return PD_OK;
    PD_TRY(pd_check_same_dims(p, param, m, name));
    return pd_check_same_type(p, param, m, name);
}

pd_status pd_opt_infer(const struct pd_infer *c, const struct pd_opt *o)
{
    PD_TRY(check_like_param(c, o, o->grad));
    for (int i = 1; i < o->n; i++)
        PD_TRY(check_like_param(c, o, o->in[i]));
    if (o->lr >= 0) {
        const struct pd_meta *lr = pd_infer_in(c, o->lr);
        int64_t n = pd_meta_numel(lr);
        if (n != 1 && n != -1)
            return pd_fail(PD_SHAPE, "LearningRate must hold one number, found shape %s%s",
                           pd_meta_dims_text(lr), n == 0 ? "; run the startup program after minimize()" : "");
    }
    for (int i = 0; i < o->n; i++)
        pd_out_same(c, o->out[i], o->in[i]);
    return PD_OK;
}

pd_status pd_opt_number(const struct pd_run *r, int slot, double *number)
{
    return pd_number_any(pd_run_in(r, slot), r->op->inputs[slot].name, number);
}

/* The rows of the gradient fit the parameter. */
static pd_status check_rows(const struct pd_value *grad, const struct pd_tensor *param, int64_t width)
{
    const struct pd_meta *g = &grad->tensor.meta, *p = &param->meta;
    int64_t height = p->rank ? p->dim[0] : 0;
    if (g->dtype != p->dtype)
        return pd_fail(PD_TYPE, "Param is %s and Grad is %s; they must be of one type",
                       pd_dtype_name(p->dtype), pd_dtype_name(g->dtype));
    if (pd_meta_span(g, 1, g->rank) != width)
        return pd_fail(PD_SHAPE,
                       "the rows of Grad have shape %s, those of Param %s; they must be equally wide",
                       pd_meta_dims_text(g), pd_meta_dims_text(p));
    int64_t bad = pd_rows_bad_i64(grad->rows.at, grad->rows.n, height, -1);
    if (bad < 0) return PD_OK;
    return pd_fail(PD_RANGE, "Grad names row %lld, but Param has %lld rows", (long long)grad->rows.at[bad],
                   (long long)height);
}

pd_status pd_opt_begin(const struct pd_run *r, const struct pd_opt *o, enum pd_opt_rest rest,
                       size_t extra_bytes, struct pd_update *u, void **extra, int *empty)
{
    const struct pd_value *grad = pd_run_in_value(r, o->grad);
    const struct pd_tensor *param = pd_run_in(r, o->in[0]);
    int rows = pd_value_is_rows(grad);
    *empty = rows && grad->rows.n == 0 && !r->step->is_slice;
    size_t head = pd_scratch_round(extra_bytes);
    PD_TRY(pd_check_float_data(param, "Param"));
    *u = (struct pd_update){.is_double = param->meta.dtype == PD_DTYPE_FP64,
                            .arrays = o->n,
                            .n = pd_tensor_numel(param),
                            .grad = grad->tensor.data,
                            .all = rest == PD_OPT_UPDATE};
    for (int i = 0; i < o->n; i++) {
        const struct pd_tensor *in = pd_run_in(r, o->in[i]);
        struct pd_tensor *out = pd_run_out(r, o->out[i]);
        if (!in || !out)
            return pd_fail(PD_INVALID, "the op needs %s and %s", r->op->inputs[o->in[i]].name,
                           r->op->outputs[o->out[i]].name);
        u->in[i] = in->data;
        u->out[i] = out->data;
        if (in->data != out->data && (*empty || (rows && rest == PD_OPT_KEEP)))
            memcpy(out->data, in->data, pd_tensor_bytes(in));
    }
    if (!rows || *empty) {
        if (extra_bytes) PD_TRY(pd_scratch(r, head, extra));
        return PD_OK;
    }
    u->width = pd_meta_span(&param->meta, 1, param->meta.rank);
    PD_TRY(check_rows(grad, param, u->width));
    /* The groups' header lies in the scratch memory too, before what they point to. */
    struct pd_rows_groups *groups;
    int ascending = pd_rows_ascending(grad->rows.at, grad->rows.n);
    void *memory;
    PD_TRY(pd_scratch(r, head + 64 + (ascending ? 0 : pd_rows_group_bytes(grad->rows.n)), &memory));
    groups = (struct pd_rows_groups *)((char *)memory + head);
    if (ascending)
        *groups = (struct pd_rows_groups){.n = grad->rows.n, .row = grad->rows.at};
    else
        pd_rows_group(grad->rows.at, grad->rows.n, (char *)memory + head + 64, groups);
    u->groups = groups;
    if (extra_bytes) *extra = memory;
    return PD_OK;
}

pd_status pd_opt_run(const struct pd_run *r, const struct pd_opt *o, enum pd_rule rule, const double k[4],
                     enum pd_opt_rest rest, int *empty)
{
    struct pd_update u;
    int none;
    PD_TRY(pd_opt_begin(r, o, rest, 0, &u, NULL, &none));
    if (empty) *empty = none;
    if (none) return PD_OK;
    u.rule = rule;
    memcpy(u.k, k, 4 * sizeof *k);
    pd_update_run(&u);
    return PD_OK;
}

size_t pd_opt_norm_bytes(const struct pd_run *r, const struct pd_opt *o)
{
    const struct pd_value *grad = pd_run_in_value(r, o->grad);
    return pd_value_is_rows(grad) ? pd_tensor_bytes(&grad->tensor) : 0;
}

double pd_opt_grad_norm(const struct pd_update *u, void *merged)
{
    const struct pd_rows_groups *g = u->groups;
    if (!g) return pd_update_norm(u->grad, u->is_double, u->n);
    if (!g->start) return pd_update_norm(u->grad, u->is_double, g->n * u->width);
    for (int64_t k = 0; k < g->n; k++)
        for (int32_t m = g->start[k]; m < g->start[k + 1]; m++)
            for (int64_t i = 0; i < u->width; i++) {
                int64_t to = k * u->width + i, from = g->at[m] * u->width + i;
                int first = m == g->start[k];
                if (u->is_double)
                    ((double *)merged)[to] =
                        (first ? 0 : ((double *)merged)[to]) + ((const double *)u->grad)[from];
                else
                    ((float *)merged)[to] =
                        (first ? 0 : ((float *)merged)[to]) + ((const float *)u->grad)[from];
            }
    return pd_update_norm(merged, u->is_double, g->n * u->width);
}
