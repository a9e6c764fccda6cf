/* lookup_sparse_table: rows of a growing table kept as selected rows. */
#include <string.h>

#include "kernels/id_map.h"
#include "ops/check.h"
#include "ops/scratch.h"

enum { W, IDS };
enum { PADDING, GROWN, TEST };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *w = pd_infer_in(c, W), *ids = pd_infer_in(c, IDS);
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
static pd_status run(const struct pd_run *r)
{
    struct pd_value *w = pd_run_in_value(r, W);
    const struct pd_tensor *ids = pd_run_in(r, IDS);
    struct pd_tensor *out = pd_run_out(r, 0);
    if (!pd_value_is_rows(w)) return pd_fail(PD_TYPE, "the table W must be selected rows, found a tensor");
    PD_TRY(pd_check_ids_data(ids, "Ids"));
    int64_t n = pd_tensor_numel(ids), room = w->tensor.meta.dim[0], padding = r->attr[PADDING].l;
    size_t bytes = pd_meta_row_bytes(&w->tensor.meta);
    void *memory = NULL;
    struct pd_id_map map;
    PD_TRY(pd_scratch(r, pd_id_map_bytes(w->rows.n + n), &memory));
    pd_id_map_init(&map, w->rows.n + n, memory);
    for (int i = 0; i < w->rows.n; i++)
        pd_id_map_add(&map, w->rows.at[i], i);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = ((const int64_t *)ids->data)[i];
        char *to = (char *)out->data + (size_t)i * bytes;
        int32_t at = pd_id_map_get(&map, id);
        if ((padding >= 0 && id == padding) || (at < 0 && r->attr[TEST].b)) {
            memset(to, 0, bytes);
            continue;
        }
        if (at < 0) {
            if (id < 0) return pd_fail(PD_RANGE, "id %lld is negative; ids count from 0", (long long)id);
            if (!r->attr[GROWN].b)
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
    .infer = infer,
    .run = run,
};
