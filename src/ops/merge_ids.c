/* merge_ids: rows that servers looked up, back in the order of the ids. */
#include <string.h>

#include "kernels/id_map.h"
#include "ops/check.h"
#include "ops/scratch.h"

enum { IDS, ROWS, X };

/* The shape of the rows for ids of a shape: as lookup_table, the width takes the place of a last dimension
 * of 1; as lookup_table_v2, or where there is none, the width is added. */
static pd_status merged_dims(const struct pd_attr *attr, const struct pd_meta *ids, int64_t width, int *rank,
                             int64_t dim[PD_MAX_RANK])
{
    int is_v2 = strcmp(attr[0].s, "lookup_table_v2") == 0;
    int ends_in_one = ids->rank > 1 && (ids->dim[ids->rank - 1] == 1 || ids->dim[ids->rank - 1] == -1);
    *rank = ids->rank + (is_v2 || !ends_in_one);
    if (*rank > PD_MAX_RANK)
        return pd_fail(PD_SHAPE,
                       "Ids has shape %s; with the width of the table that is more than %d dimensions",
                       pd_meta_dims_text(ids), PD_MAX_RANK);
    memcpy(dim, ids->dim, (size_t)ids->rank * sizeof *dim);
    dim[*rank - 1] = width;
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    for (int i = 0; i < c->out[0].n && i < c->in[IDS].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        const struct pd_meta *ids = c->in[IDS].at[i];
        int64_t dim[PD_MAX_RANK];
        int rank;
        if (!out) continue;
        out->dtype = x->dtype;
        PD_TRY(merged_dims(c->attr, ids, x->rank > 1 ? x->dim[1] : -1, &rank, dim));
        PD_TRY(pd_meta_set_dims(out, rank, dim));
        pd_meta_share_lod(out, ids);
    }
    return PD_OK;
}

/* Where the row of each id lies: row numbers count through all X, one after the other. */
static pd_status map_rows(const struct pd_run *r, struct pd_id_map *map, int64_t width, enum pd_dtype dtype)
{
    int64_t n = 0;
    for (int i = 0; i < r->in[ROWS].n; i++) {
        const struct pd_tensor *rows = pd_run_in_at(r, ROWS, i), *x = pd_run_in_at(r, X, i);
        PD_TRY(pd_check_ids_data(rows, "Rows"));
        if (x->meta.dtype != dtype || x->meta.rank != 2 || x->meta.dim[1] != width ||
            pd_tensor_numel(rows) != x->meta.dim[0])
            return pd_fail(PD_SHAPE, "X %d is %s %s and Rows %d has %lld ids; each X must be [ids, %lld]", i,
                           pd_dtype_name(x->meta.dtype), pd_meta_dims_text(&x->meta), i,
                           (long long)pd_tensor_numel(rows), (long long)width);
        n += pd_tensor_numel(rows);
    }
    void *memory = NULL;
    PD_TRY(pd_scratch(r, pd_id_map_bytes(n), &memory));
    pd_id_map_init(map, n, memory);
    int32_t at = 0;
    for (int i = 0; i < r->in[ROWS].n; i++) {
        const struct pd_tensor *rows = pd_run_in_at(r, ROWS, i);
        for (int64_t k = 0; k < pd_tensor_numel(rows); k++, at++)
            if (pd_id_map_add(map, ((const int64_t *)rows->data)[k], at) != at)
                return pd_fail(PD_INVALID, "id %lld stands twice in Rows",
                               (long long)((const int64_t *)rows->data)[k]);
    }
    return PD_OK;
}

static const char *row_at(const struct pd_run *r, int64_t at, size_t bytes)
{
    for (int i = 0;; i++) {
        const struct pd_tensor *x = pd_run_in_at(r, X, i);
        if (at < x->meta.dim[0]) return (const char *)x->data + (size_t)at * bytes;
        at -= x->meta.dim[0];
    }
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *first = pd_run_in(r, X);
    if (r->in[ROWS].n != r->in[X].n || r->in[IDS].n != r->out[0].n)
        return pd_fail(PD_INVALID, "there are %d Rows for %d X, and %d Ids for %d Out; each must be as many",
                       r->in[ROWS].n, r->in[X].n, r->in[IDS].n, r->out[0].n);
    int64_t width = first->meta.rank == 2 ? first->meta.dim[1] : -1;
    size_t bytes = (size_t)width * pd_dtype_size(first->meta.dtype);
    struct pd_id_map map;
    PD_TRY(map_rows(r, &map, width, first->meta.dtype));
    for (int i = 0; i < r->out[0].n; i++) {
        const struct pd_tensor *ids = pd_run_in_at(r, IDS, i);
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        int64_t n = pd_tensor_numel(ids), dim[PD_MAX_RANK];
        int rank;
        if (!out) continue;
        PD_TRY(pd_check_ids_data(ids, "Ids"));
        PD_TRY(merged_dims(r->attr, &ids->meta, width, &rank, dim));
        PD_TRY(pd_tensor_resize(out, first->meta.dtype, rank, dim));
        pd_meta_share_lod(&out->meta, &ids->meta);
        for (int64_t k = 0; k < n; k++) {
            int64_t id = ((const int64_t *)ids->data)[k];
            int32_t at = pd_id_map_get(&map, id);
            if (at < 0) return pd_fail(PD_RANGE, "id %lld of Ids is not among Rows", (long long)id);
            memcpy((char *)out->data + (size_t)k * bytes, row_at(r, at, bytes), bytes);
        }
    }
    return PD_OK;
}

const struct pd_op pd_op_merge_ids = {
    .type = "merge_ids",
    .doc = "Puts rows that were looked up by split ids back into the order of Ids.",
    .inputs = (const struct pd_slot_def[]){{"Ids", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"Rows", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"X", PD_SLOT_LIST},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_STRING("lookup_table_version", "lookup_table"), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
};
