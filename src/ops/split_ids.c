/* split_ids: ids, or selected rows, on their way to servers. */
#include <string.h>

#include "kernels/rows.h"
#include "ops/check.h"
#include "ops/scratch.h"

enum { TABLE, HEIGHT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *ids = pd_infer_in(c, 0);
    for (int i = 0; i < c->out[0].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        if (!out) continue;
        out->kind = ids->kind;
        out->dtype = ids->dtype;
        if (ids->kind != PD_KIND_SELECTED_ROWS) {
            pd_meta_set_2d(out, -1, 1);
            continue;
        }
        pd_meta_copy_dims(out, ids);
        if (ids->rank) out->dim[0] = -1;
    }
    return PD_OK;
}

/* The different ids, ascending; id k goes to output k % outputs. */
static pd_status split_tensors(const struct pd_run *r)
{
    int64_t n = 0, at = 0, shards = r->out[0].n;
    for (int i = 0; i < r->in[0].n; i++) {
        PD_TRY(pd_check_ids_data(pd_run_in_at(r, 0, i), "Ids"));
        n += pd_tensor_numel(pd_run_in_at(r, 0, i));
    }
    void *memory = NULL;
    PD_TRY(pd_scratch(r, (size_t)n * sizeof(int64_t) + pd_rows_group_bytes(n), &memory));
    int64_t *all = memory;
    for (int i = 0; i < r->in[0].n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        if (pd_tensor_numel(t)) memcpy(all + at, t->data, pd_tensor_bytes(t));
        at += pd_tensor_numel(t);
    }
    int64_t height = r->attr[HEIGHT].l, bad = pd_rows_bad_i64(all, n, height > 0 ? height : INT64_MAX, -1);
    if (bad >= 0 && all[bad] < 0)
        return pd_fail(PD_RANGE, "id %lld (number %lld of Ids) is negative; ids count from 0",
                       (long long)all[bad], (long long)bad);
    if (bad >= 0)
        return pd_fail(PD_RANGE,
                       "id %lld (number %lld of Ids) is outside the %lld rows of the table '%s'; give "
                       "embedding a larger "
                       "size, or smaller ids",
                       (long long)all[bad], (long long)bad, (long long)height, r->attr[TABLE].s);
    struct pd_rows_groups g;
    pd_rows_group(all, n, all + n, &g);
    for (int s = 0; s < shards; s++) {
        struct pd_tensor *out = pd_run_out_at(r, 0, s);
        int64_t count = 0;
        if (!out) continue;
        for (int64_t k = 0; k < g.n; k++)
            count += g.row[k] % shards == s;
        PD_TRY(pd_tensor_resize(out, PD_DTYPE_INT64, 2, (int64_t[]){count, 1}));
        pd_meta_take_lod(&out->meta, NULL);
        int64_t *to = out->data;
        for (int64_t k = 0; k < g.n; k++)
            if (g.row[k] % shards == s) *to++ = g.row[k];
    }
    return PD_OK;
}

static pd_status split_rows(const struct pd_run *r, const struct pd_value *ids)
{
    const struct pd_meta *m = &ids->tensor.meta;
    size_t row = pd_meta_row_bytes(m);
    int64_t shards = r->out[0].n;
    for (int s = 0; s < shards; s++) {
        struct pd_value *out = r->out[0].at[s];
        int64_t n = 0;
        if (!out) continue;
        for (int k = 0; k < ids->rows.n; k++)
            n += ids->rows.at[k] % shards == s;
        PD_TRY(pd_rows_resize(out, n, ids->height, m->dtype, m->rank, m->dim));
        n = 0;
        for (int k = 0; k < ids->rows.n; k++) {
            if (ids->rows.at[k] % shards != s) continue;
            out->rows.at[n] = ids->rows.at[k];
            memcpy((char *)out->tensor.data + (size_t)n++ * row,
                   (const char *)ids->tensor.data + (size_t)k * row, row);
        }
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_value *first = pd_run_in_value(r, 0);
    return pd_value_is_rows(first) ? split_rows(r, first) : split_tensors(r);
}

const struct pd_op pd_op_split_ids = {
    .type = "split_ids",
    .doc = "Deals ids (or selected rows) out to the outputs by id modulo their number.",
    .inputs = (const struct pd_slot_def[]){{"Ids", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    /* The table that the ids are of, and its rows; 0: not known. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRING("table_name", ""), PD_DEF_LONG("height", 0), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
};
