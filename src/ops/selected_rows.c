/* Ops on selected rows: merge_selected_rows, get_tensor_from_selected_rows, split_selected_rows. */
#include <string.h>

#include "kernels/rows.h"
#include "ops/out.h"
#include "ops/rows.h"

static pd_status need_rows(const struct pd_meta *x)
{
    if (x->kind == PD_KIND_SELECTED_ROWS) return PD_OK;
    return pd_fail(PD_TYPE, "X must be selected rows, found a %s", pd_kind_name(x->kind));
}

/* ---- merge_selected_rows ---- */

static pd_status merge_infer(const struct pd_infer *c)
{
    PD_TRY(need_rows(pd_infer_in(c, 0)));
    pd_out_same(c, 0, 0);
    return PD_OK;
}

static pd_status merge_run(const struct pd_run *r)
{
    return pd_rows_merge(r, pd_run_out_value(r, 0), 1, r->in[0].at);
}

const struct pd_op pd_op_merge_selected_rows = {
    .type = "merge_selected_rows",
    .doc = "Adds up rows that repeat; rows come out ascending.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = merge_infer,
    .run = merge_run,
};

/* ---- get_tensor_from_selected_rows ---- */

static pd_status get_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    struct pd_meta *out = pd_infer_out(c, 0);
    PD_TRY(need_rows(x));
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    return PD_OK;
}

static pd_status get_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (pd_tensor_numel(x) > 0) memcpy(out->data, x->data, pd_tensor_bytes(x));
    return PD_OK;
}

const struct pd_op pd_op_get_tensor_from_selected_rows = {
    .type = "get_tensor_from_selected_rows",
    .doc = "The values of selected rows as a tensor [rows, ...].",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = get_infer,
    .run = get_run,
};

/* ---- split_selected_rows ---- */

static pd_status split_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    PD_TRY(need_rows(x));
    if (c->attr[0].n != c->out[0].n)
        return pd_fail(PD_INVALID, "height_sections names %d sections, but there are %d outputs",
                       c->attr[0].n, c->out[0].n);
    for (int i = 0; i < c->out[0].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        if (!out) continue;
        out->kind = PD_KIND_SELECTED_ROWS;
        out->dtype = x->dtype;
        pd_meta_copy_dims(out, x);
        if (x->rank) out->dim[0] = c->attr[0].longs[i];
    }
    return PD_OK;
}

static pd_status split_run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, 0);
    const struct pd_meta *m = &x->tensor.meta;
    size_t row = pd_meta_row_bytes(m);
    int64_t first = 0, all = 0;
    for (int i = 0; i < r->out[0].n; i++)
        all += r->attr[0].longs[i];
    int64_t bad = pd_rows_bad_i64(x->rows.at, x->rows.n, all, -1);
    if (bad >= 0)
        return pd_fail(PD_RANGE, "X names row %lld, but height_sections add up to %lld rows",
                       (long long)x->rows.at[bad], (long long)all);
    for (int i = 0; i < r->out[0].n; first += r->attr[0].longs[i], i++) {
        struct pd_value *out = r->out[0].at[i];
        int64_t height = r->attr[0].longs[i], n = 0;
        if (!out) continue;
        for (int k = 0; k < x->rows.n; k++)
            n += x->rows.at[k] >= first && x->rows.at[k] < first + height;
        PD_TRY(pd_rows_resize(out, n, height, m->dtype, m->rank, m->dim));
        n = 0;
        for (int k = 0; k < x->rows.n; k++) {
            if (x->rows.at[k] < first || x->rows.at[k] >= first + height) continue;
            out->rows.at[n] = x->rows.at[k] - first;
            memcpy((char *)out->tensor.data + (size_t)n * row, (const char *)x->tensor.data + (size_t)k * row,
                   row);
            n++;
        }
    }
    return PD_OK;
}

const struct pd_op pd_op_split_selected_rows = {
    .type = "split_selected_rows",
    .doc =
        "Cuts selected rows into sections of the given heights; rows count from the start of their section.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_LONGS("height_sections"), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = split_infer,
    .run = split_run,
};
