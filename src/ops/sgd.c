/* sgd: gradient descent without state. */
#include <string.h>

#include "ops/opt.h"
#include "ops/scratch.h"

enum { PARAM, LR, GRAD };

static const struct pd_opt sgd = {.grad = GRAD, .lr = LR, .n = 1, .in = {PARAM}, .out = {0}};

static pd_status sgd_infer(const struct pd_infer *c)
{
    return pd_opt_infer(c, &sgd);
}

/* A parameter kept as selected rows, changed by a gradient of selected rows. */
static pd_status sgd_rows_param(const struct pd_run *r, double lr)
{
    const struct pd_value *param = pd_run_in_value(r, PARAM), *grad = pd_run_in_value(r, GRAD);
    struct pd_value *out = pd_run_out_value(r, 0);
    if (!pd_value_is_rows(grad))
        return pd_fail(PD_TYPE, "Param is selected rows, so Grad must be selected rows too; it is a tensor");
    if (out != param) PD_TRY(pd_value_copy(out, param));
    int64_t n = grad->rows.n, held = out->rows.n;
    if (n == 0) return PD_OK;
    const struct pd_meta *m = &out->tensor.meta, *g = &grad->tensor.meta;
    int64_t width = pd_meta_span(m, 1, m->rank);
    if (pd_meta_span(g, 1, g->rank) != width || g->dtype != m->dtype)
        return pd_fail(
            PD_SHAPE, "the rows of Grad (%s %s) and of Param (%s %s) must be of one width and type",
            pd_dtype_name(g->dtype), pd_meta_dims_text(g), pd_dtype_name(m->dtype), pd_meta_dims_text(m));
    size_t head = pd_scratch_round(pd_rows_group_bytes(held));
    void *memory;
    PD_TRY(pd_scratch(r, head + (size_t)n * sizeof(int64_t), &memory));
    int64_t *at = (int64_t *)((char *)memory + head);
    struct pd_rows_groups groups;
    pd_rows_group(out->rows.at, held, memory, &groups);
    for (int64_t i = 0; i < n; i++) {
        int64_t low = 0, high = groups.n;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (groups.row[middle] < grad->rows.at[i])
                low = middle + 1;
            else
                high = middle;
        }
        if (low == groups.n || groups.row[low] != grad->rows.at[i])
            return pd_fail(PD_RANGE, "Grad names row %lld, which is not among the %lld rows that Param holds",
                           (long long)grad->rows.at[i], (long long)held);
        at[i] = groups.at[groups.start[low]];
    }
    if (m->dtype == PD_DTYPE_FP64)
        pd_rows_add_f64(out->tensor.data, width, at, n, grad->tensor.data, -lr, -1);
    else
        pd_rows_add_f32(out->tensor.data, width, at, n, grad->tensor.data, (float)-lr, -1);
    return PD_OK;
}

static pd_status sgd_run(const struct pd_run *r)
{
    const struct pd_value *grad = pd_run_in_value(r, GRAD);
    double lr;
    PD_TRY(pd_opt_number(r, LR, &lr));
    if (pd_value_is_rows(pd_run_in_value(r, PARAM))) return sgd_rows_param(r, lr);
    if (!pd_value_is_rows(grad)) return pd_opt_run(r, &sgd, PD_RULE_SGD, (double[4]){lr}, PD_OPT_KEEP, NULL);
    /* Rows that repeat need no merging: each is subtracted in its turn. */
    const struct pd_tensor *param = pd_run_in(r, PARAM);
    struct pd_tensor *out = pd_run_out(r, 0);
    const struct pd_meta *g = &grad->tensor.meta;
    int64_t width = pd_meta_span(&param->meta, 1, param->meta.rank), n = grad->rows.n;
    if (param->data != out->data) memcpy(out->data, param->data, pd_tensor_bytes(param));
    if (n == 0) return PD_OK;
    if (g->dtype != param->meta.dtype || pd_meta_span(g, 1, g->rank) != width)
        return pd_fail(PD_SHAPE,
                       "the rows of Grad (%s %s) and of Param (%s %s) must be of one width and type",
                       pd_dtype_name(g->dtype), pd_meta_dims_text(g), pd_dtype_name(param->meta.dtype),
                       pd_meta_dims_text(&param->meta));
    int64_t bad = pd_rows_bad_i64(grad->rows.at, n, param->meta.dim[0], -1);
    if (bad >= 0)
        return pd_fail(PD_RANGE, "Grad names row %lld, but Param has %lld rows",
                       (long long)grad->rows.at[bad], (long long)param->meta.dim[0]);
    if (g->dtype == PD_DTYPE_FP64)
        pd_rows_add_f64(out->data, width, grad->rows.at, n, grad->tensor.data, -lr, -1);
    else
        pd_rows_add_f32(out->data, width, grad->rows.at, n, grad->tensor.data, (float)-lr, -1);
    return PD_OK;
}

const struct pd_op pd_op_sgd = {
    .type = "sgd",
    .doc = "Param - LearningRate * Grad; a sparse Grad changes its rows only.",
    .inputs =
        (const struct pd_slot_def[]){{"Param", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {"Grad", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"ParamOut", 0}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER | PD_OP_ELEMENTWISE | PD_OP_OWN_ROWS,
    .infer = sgd_infer,
    .run = sgd_run,
};
