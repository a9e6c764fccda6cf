/* Ids and rows on their way to and from servers: split_ids, merge_ids, lookup_sparse_table,
 * ref_by_trainer_id, fake_init. */
#include <string.h>

#include "kernels/id_map.h"
#include "kernels/rows.h"
#include "ops/math_util.h"

static pd_status need_ids(const struct pd_tensor *t, const char *name)
{
    if (t->meta.dtype == PD_DTYPE_INT64) return PD_OK;
    return pd_fail(PD_TYPE, "%s must be int64, found %s", name, pd_dtype_name(t->meta.dtype));
}

/* ---- split_ids ---- */

enum { SPLIT_TABLE, SPLIT_HEIGHT };

static pd_status split_infer(const struct pd_infer *c)
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
        PD_TRY(need_ids(pd_run_in_at(r, 0, i), "Ids"));
        n += pd_tensor_numel(pd_run_in_at(r, 0, i));
    }
    void *memory = NULL;
    PD_TRY(pd_math_scratch(r, (size_t)n * sizeof(int64_t) + pd_rows_group_bytes(n), &memory));
    int64_t *all = memory;
    for (int i = 0; i < r->in[0].n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        if (pd_tensor_numel(t)) memcpy(all + at, t->data, pd_tensor_bytes(t));
        at += pd_tensor_numel(t);
    }
    int64_t height = r->attr[SPLIT_HEIGHT].l,
            bad = pd_rows_bad_i64(all, n, height > 0 ? height : INT64_MAX, -1);
    if (bad >= 0 && all[bad] < 0)
        return pd_fail(PD_RANGE, "id %lld (number %lld of Ids) is negative; ids count from 0",
                       (long long)all[bad], (long long)bad);
    if (bad >= 0)
        return pd_fail(PD_RANGE,
                       "id %lld (number %lld of Ids) is outside the %lld rows of the table '%s'; give "
                       "embedding a larger "
                       "size, or smaller ids",
                       (long long)all[bad], (long long)bad, (long long)height, r->attr[SPLIT_TABLE].s);
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
    size_t row = (size_t)pd_meta_span(m, 1, m->rank) * pd_dtype_size(m->dtype);
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

static pd_status split_run(const struct pd_run *r)
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
    .infer = split_infer,
    .run = split_run,
};

/* ---- merge_ids ---- */

enum { M_IDS, M_ROWS, M_X };

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

static pd_status merge_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, M_X);
    for (int i = 0; i < c->out[0].n && i < c->in[M_IDS].n; i++) {
        struct pd_meta *out = c->out[0].at[i];
        const struct pd_meta *ids = c->in[M_IDS].at[i];
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
    for (int i = 0; i < r->in[M_ROWS].n; i++) {
        const struct pd_tensor *rows = pd_run_in_at(r, M_ROWS, i), *x = pd_run_in_at(r, M_X, i);
        PD_TRY(need_ids(rows, "Rows"));
        if (x->meta.dtype != dtype || x->meta.rank != 2 || x->meta.dim[1] != width ||
            pd_tensor_numel(rows) != x->meta.dim[0])
            return pd_fail(PD_SHAPE, "X %d is %s %s and Rows %d has %lld ids; each X must be [ids, %lld]", i,
                           pd_dtype_name(x->meta.dtype), pd_meta_dims_text(&x->meta), i,
                           (long long)pd_tensor_numel(rows), (long long)width);
        n += pd_tensor_numel(rows);
    }
    void *memory = NULL;
    PD_TRY(pd_math_scratch(r, pd_id_map_bytes(n), &memory));
    pd_id_map_init(map, n, memory);
    int32_t at = 0;
    for (int i = 0; i < r->in[M_ROWS].n; i++) {
        const struct pd_tensor *rows = pd_run_in_at(r, M_ROWS, i);
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
        const struct pd_tensor *x = pd_run_in_at(r, M_X, i);
        if (at < x->meta.dim[0]) return (const char *)x->data + (size_t)at * bytes;
        at -= x->meta.dim[0];
    }
}

static pd_status merge_run(const struct pd_run *r)
{
    const struct pd_tensor *first = pd_run_in(r, M_X);
    if (r->in[M_ROWS].n != r->in[M_X].n || r->in[M_IDS].n != r->out[0].n)
        return pd_fail(PD_INVALID, "there are %d Rows for %d X, and %d Ids for %d Out; each must be as many",
                       r->in[M_ROWS].n, r->in[M_X].n, r->in[M_IDS].n, r->out[0].n);
    int64_t width = first->meta.rank == 2 ? first->meta.dim[1] : -1;
    size_t bytes = (size_t)width * pd_dtype_size(first->meta.dtype);
    struct pd_id_map map;
    PD_TRY(map_rows(r, &map, width, first->meta.dtype));
    for (int i = 0; i < r->out[0].n; i++) {
        const struct pd_tensor *ids = pd_run_in_at(r, M_IDS, i);
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        int64_t n = pd_tensor_numel(ids), dim[PD_MAX_RANK];
        int rank;
        if (!out) continue;
        PD_TRY(need_ids(ids, "Ids"));
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
    .infer = merge_infer,
    .run = merge_run,
};

/* ---- lookup_sparse_table ---- */

enum { T_W, T_IDS };
enum { T_PADDING, T_GROWN, T_TEST };

static pd_status table_infer(const struct pd_infer *c)
{
    const struct pd_meta *w = pd_infer_in(c, T_W), *ids = pd_infer_in(c, T_IDS);
    struct pd_meta *out = pd_infer_out(c, 0);
    out->dtype = w->dtype;
    if (w->rank < 2)
        return pd_fail(PD_SHAPE, "the table W must have 2 dimensions or more, found %s",
                       pd_meta_dims_text(w));
    pd_meta_copy_dims(out, w);
    out->dim[0] = pd_meta_numel(ids);
    pd_meta_share_lod(out, ids);
    return PD_OK;
}

/* The table has room for more rows than it names; an id that is new gets the next free one. */
static pd_status table_run(const struct pd_run *r)
{
    struct pd_value *w = pd_run_in_value(r, T_W);
    const struct pd_tensor *ids = pd_run_in(r, T_IDS);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (!pd_value_is_rows(w)) return pd_fail(PD_TYPE, "the table W must be selected rows, found a tensor");
    PD_TRY(need_ids(ids, "Ids"));
    int64_t n = pd_tensor_numel(ids), room = w->tensor.meta.dim[0], padding = r->attr[T_PADDING].l;
    size_t bytes =
        (size_t)pd_meta_span(&w->tensor.meta, 1, w->tensor.meta.rank) * pd_dtype_size(w->tensor.meta.dtype);
    void *memory = NULL;
    struct pd_id_map map;
    PD_TRY(pd_math_scratch(r, pd_id_map_bytes(w->rows.n + n), &memory));
    pd_id_map_init(&map, w->rows.n + n, memory);
    for (int i = 0; i < w->rows.n; i++)
        pd_id_map_add(&map, w->rows.at[i], i);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = ((const int64_t *)ids->data)[i];
        char *to = (char *)out->data + (size_t)i * bytes;
        int32_t at = pd_id_map_get(&map, id);
        if ((padding >= 0 && id == padding) || (at < 0 && r->attr[T_TEST].b)) {
            memset(to, 0, bytes);
            continue;
        }
        if (at < 0) {
            if (id < 0) return pd_fail(PD_RANGE, "id %lld is negative; ids count from 0", (long long)id);
            if (!r->attr[T_GROWN].b)
                return pd_fail(PD_RANGE, "id %lld is not in the table and it may not grow", (long long)id);
            if (w->rows.n >= room)
                return pd_fail(
                    PD_RANGE,
                    "id %lld is new, but all %lld rows of the table are taken; make the table larger",
                    (long long)id, (long long)room);
            at = pd_id_map_add(&map, id, w->rows.n);
            if (!pd_vec_push(&w->rows, id)) return pd_no_memory();
        }
        memcpy(to, (const char *)w->tensor.data + (size_t)at * bytes, bytes);
    }
    return PD_OK;
}

const struct pd_op pd_op_lookup_sparse_table = {
    .type = "lookup_sparse_table",
    .doc = "Rows of a growing table kept as selected rows; a new id gets the next free row.",
    .inputs = (const struct pd_slot_def[]){{"W", 0}, {"Ids", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    /* The last three are accepted from old Programs: the table's rows hold their start values already. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_LONG("padding_idx", -1),
                                          PD_DEF_BOOL("auto_grown_table", 1),
                                          PD_DEF_BOOL("is_test", 0),
                                          PD_DEF_FLOAT("min", -1),
                                          PD_DEF_FLOAT("max", 1),
                                          PD_DEF_INT("seed", 0),
                                          {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_EFFECT,
    .infer = table_infer,
    .run = table_run,
};

/* ---- ref_by_trainer_id ---- */

static pd_status ref_infer(const struct pd_infer *c)
{
    pd_math_out_like(c, 0, 0);
    return PD_OK;
}

static pd_status ref_run(const struct pd_run *r)
{
    double number = 0;
    PD_TRY(pd_math_number(pd_run_in(r, 1), "TrainerId", &number));
    if (number < 0 || number >= r->in[0].n)
        return pd_fail(PD_RANGE, "TrainerId is %g, but there are %d inputs X", number, r->in[0].n);
    return pd_tensor_copy(pd_run_out(r, 0), pd_run_in_at(r, 0, (int)number));
}

const struct pd_op pd_op_ref_by_trainer_id = {
    .type = "ref_by_trainer_id",
    .doc = "The X that belongs to a trainer.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"TrainerId", PD_SLOT_OWN_TYPE},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = ref_infer,
    .run = ref_run,
};

/* ---- fake_init ---- */

static pd_status fake_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (c->attr[0].n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "shape has %d dimensions; at most %d", c->attr[0].n, PD_MAX_RANK);
    return pd_meta_set_dims(out, c->attr[0].n, c->attr[0].longs);
}

/* A table that lives on servers has a shape here, but no memory. */
static pd_status fake_run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, 0);
    const struct pd_attr *shape = &r->attr[0];
    if (shape->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "shape has %d dimensions; at most %d", shape->n, PD_MAX_RANK);
    if (pd_value_is_rows(out)) out->height = shape->n ? shape->longs[0] : 0;
    const struct pd_meta *declared = r->step->declared ? r->step->declared(r, 1, 0, 0) : NULL;
    if (declared && declared->dtype != PD_DTYPE_NONE) out->tensor.meta.dtype = declared->dtype;
    if (out->tensor.meta.dtype == PD_DTYPE_NONE) out->tensor.meta.dtype = PD_DTYPE_FP32;
    out->on_servers = 1;
    return pd_meta_set_dims(&out->tensor.meta, shape->n, shape->longs);
}

const struct pd_op pd_op_fake_init = {
    .type = "fake_init",
    .doc = "Gives a variable a shape without memory.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_LONGS("shape"), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = fake_infer,
    .run = fake_run,
};
