/* The forward op of fused_embedding_concat.h: table rows and plain inputs are written straight to their
 * columns. */
#include "ops/fused_embedding_concat.h"

#include "base/alloc.h"
#include "ops/fused.h"
#include "ops/lookup_table.h"
#include "ops/scratch.h"

extern const struct pd_op pd_op_lookup_table, pd_op_lookup_table_v2, pd_op_sequence_pool, pd_op_concat;

/* ---- shapes: those of the ops it stands for, one after the other ---- */

static pd_status infer_with(const struct pd_infer *c, const struct pd_op *op, const struct pd_attr *attr,
                            const struct pd_metas *in, struct pd_meta *out)
{
    struct pd_metas outs[2] = {{1, &out}, {0, NULL}};
    struct pd_infer one = {.op = op, .attr = attr, .in = in, .out = outs, .running = c->running};
    return op->infer(&one);
}

/* `made` has room for the result of each lookup and of each pooling; at[i] is the i-th input of the concat.
 */
static pd_status infer_inputs(const struct pd_infer *c, struct pd_meta *made, struct pd_meta **at)
{
    const struct pd_attr pool[] = {
        {.type = PD_ATTR_BOOL}, {.type = PD_ATTR_STRING, .s = "SUM"}, {.type = PD_ATTR_FLOAT}};
    int n = c->attr[PD_EMBEDDING_ORDER].n, embeddings = 0, plain = 0;
    for (int i = 0; i < n; i++) {
        if (!c->attr[PD_EMBEDDING_ORDER].ints[i]) {
            at[i] = c->in[PD_EMBEDDING_X].at[plain++];
            continue;
        }
        int k = embeddings++, part = c->attr[PD_EMBEDDING_PART].ints[k];
        const struct pd_op *lookup =
            c->attr[PD_EMBEDDING_VERSION].ints[k] == 2 ? &pd_op_lookup_table_v2 : &pd_op_lookup_table;
        const struct pd_metas in[] = {{1, &c->in[PD_EMBEDDING_W].at[k]}, {1, &c->in[PD_EMBEDDING_IDS].at[k]}};
        at[i] = &made[2 * k];
        at[i]->kind = PD_KIND_TENSOR;
        PD_TRY(pd_fused_part(part, infer_with(c, lookup, NULL, in, at[i])));
        if (!c->attr[PD_EMBEDDING_POOLED].ints[k]) continue;
        const struct pd_metas rows = {1, &at[i]};
        made[2 * k + 1].kind = PD_KIND_TENSOR;
        PD_TRY(pd_fused_part(part + 1, infer_with(c, &pd_op_sequence_pool, pool, &rows, &made[2 * k + 1])));
        at[i] = &made[2 * k + 1];
    }
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_attr axis = {.type = PD_ATTR_INT, .i = 1};
    int n = c->attr[PD_EMBEDDING_ORDER].n, embeddings = c->attr[PD_EMBEDDING_PART].n;
    struct pd_meta *made = pd_calloc((size_t)(2 * embeddings), sizeof *made),
                   **at = pd_calloc((size_t)n, sizeof *at);
    pd_status status = made && at ? infer_inputs(c, made, at) : pd_no_memory();
    if (status == PD_OK) {
        const struct pd_metas in[] = {{n, at}, {0, NULL}};
        int concat = c->attr[PD_EMBEDDING_PART].ints[embeddings - 1] +
                     c->attr[PD_EMBEDDING_POOLED].ints[embeddings - 1] + 1;
        status = pd_fused_part(concat, infer_with(c, &pd_op_concat, &axis, in, pd_infer_out(c, 0)));
    }
    for (int i = 0; made && i < 2 * embeddings; i++)
        pd_lod_unref(made[i].lod);
    pd_free(at);
    pd_free(made);
    return status;
}

/* ---- running ---- */

static pd_status describe_one(const struct pd_run *r, int k, int64_t samples, int64_t *room,
                              struct pd_embed_item *item)
{
    const struct pd_tensor *ids = pd_run_in_at(r, PD_EMBEDDING_IDS, k);
    const struct pd_value *w = r->in[PD_EMBEDDING_W].at[k];
    const struct pd_meta *table = &w->tensor.meta;
    int64_t padding = r->attr[PD_EMBEDDING_PADDING].longs[k], found = pd_tensor_numel(ids);
    if (pd_value_is_rows(w))
        return pd_fail(PD_TYPE, "the table W is declared as a tensor, but holds selected rows; declare it as "
                                "selected rows, or set "
                                "the flag fuse_ops to 0");
    PD_TRY(pd_lookup_ids(ids, table->dim[0], padding, room, &item->ids));
    if (r->attr[PD_EMBEDDING_POOLED].ints[k]) {
        const struct pd_lod_level *level = ids->meta.lod ? pd_lod_last(ids->meta.lod) : NULL;
        if (!level || level->offset[level->n - 1] != found)
            return pd_fail(PD_SHAPE, "Ids have shape %s, but their sequences add up to %lld rows",
                           pd_meta_dims_text(&ids->meta),
                           level ? (long long)level->offset[level->n - 1] : 0LL);
        item->offset = level->offset;
        found = level->n - 1;
    }
    if (found != samples)
        return pd_fail(PD_SHAPE,
                       "Ids of shape %s give %lld rows where %lld are needed; feed one id for each row",
                       pd_meta_dims_text(&ids->meta), (long long)found, (long long)samples);
    item->skip = padding < 0 ? -1 : padding;
    item->width = table->dim[1];
    item->pad = r->attr[PD_EMBEDDING_PAD].floats[k];
    return PD_OK;
}

pd_status pd_embedding_describe(const struct pd_run *r, int64_t samples, size_t extra,
                                struct pd_embedding *out)
{
    const struct pd_attr *order = &r->attr[PD_EMBEDDING_ORDER];
    size_t room = 0, head = pd_scratch_round((size_t)order->n * sizeof *out->items);
    int embeddings = 0, plain = 0;
    char *memory;
    for (int k = 0; k < r->in[PD_EMBEDDING_IDS].n; k++)
        room += pd_lookup_ids_room(pd_run_in_at(r, PD_EMBEDDING_IDS, k));
    room = pd_scratch_round(room);
    PD_TRY(pd_scratch(r, head + room + extra, (void **)&memory));
    *out = (struct pd_embedding){order->n, (struct pd_embed_item *)memory, 0, memory + head + room};
    int64_t *converted = (int64_t *)(memory + head);
    for (int i = 0; i < order->n; i++) {
        struct pd_embed_item *item = &out->items[i];
        *item = (struct pd_embed_item){.skip = -1, .at = out->row};
        if (order->ints[i]) {
            int k = embeddings++;
            PD_TRY(pd_fused_part(r->attr[PD_EMBEDDING_PART].ints[k],
                                 describe_one(r, k, samples, converted, item)));
            converted += pd_lookup_ids_room(pd_run_in_at(r, PD_EMBEDDING_IDS, k)) / sizeof *converted;
        } else {
            const struct pd_meta *x = &pd_run_in_at(r, PD_EMBEDDING_X, plain++)->meta;
            item->width = pd_meta_span(x, 1, x->rank);
        }
        out->row += item->width;
    }
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, 0);
    struct pd_embedding e;
    int embeddings = 0, plain = 0;
    PD_TRY(pd_embedding_describe(r, out->meta.dim[0], 0, &e));
    for (int i = 0; i < e.n; i++)
        e.items[i].rows = e.items[i].ids ? r->in[PD_EMBEDDING_W].at[embeddings++]->tensor.data
                                         : pd_run_in_at(r, PD_EMBEDDING_X, plain++)->data;
    pd_embed_gather(out->meta.dtype == PD_DTYPE_FP64, e.items, e.n, out->meta.dim[0], out->data, e.row);
    return PD_OK;
}

const struct pd_op pd_op_fused_embedding_concat = {
    .type = "fused_embedding_concat",
    .doc = "Only in plans: many lookup_table, some with sequence_pool SUM, and the concat of their results "
           "and of X.",
    .inputs = (const struct pd_slot_def[]){{"W", PD_SLOT_LIST},
                                           {"Ids", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"X", PD_SLOT_LIST | PD_SLOT_OPTIONAL},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_EMBEDDING_ATTRS, {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
