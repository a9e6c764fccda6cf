/* The gradient ops of fused_embedding_concat.h: selected rows copied straight from the gradient of the
 * concat's output, and the columns of the plain inputs. */
#include <string.h>

#include "kernels/rows.h"
#include "ops/fused_embedding_concat.h"
#include "ops/join.h"
#include "ops/scratch.h"

/* ---- tables ---- */

enum { COUNTS = PD_EMBEDDING_OWN, MEMBERS, KEEP };

static pd_status infer(const struct pd_infer *c)
{
    const int32_t *member = c->attr[MEMBERS].ints;
    for (int o = 0; o < c->out[0].n; o++) {
        const struct pd_meta *w = c->in[PD_EMBEDDING_W].at[*member];
        struct pd_meta *out = c->out[0].at[o];
        out->kind = PD_KIND_SELECTED_ROWS;
        out->dtype = w->dtype;
        pd_meta_copy_dims(out, w);
        member += c->attr[COUNTS].ints[o];
    }
    return PD_OK;
}

/* One output: the lookups that add to it. */
struct sum {
    struct pd_value *to;
    struct pd_embed_item **item; /* by embedding */
    const int32_t *member;
    int n;
    int64_t total, height, width;
    int merged; /* rows that repeat are added up: more than one lookup has rows, and the reader wants each
                   once */
};

static int64_t ids_of(const struct pd_run *r, int k)
{
    return pd_tensor_numel(pd_run_in_at(r, PD_EMBEDDING_IDS, k));
}

static struct sum describe_sum(const struct pd_run *r, int o, const int32_t *member,
                               struct pd_embed_item **item)
{
    const struct pd_meta *w = &pd_run_in_at(r, PD_EMBEDDING_W, *member)->meta;
    struct sum s = {r->out[0].at[o], item, member, r->attr[COUNTS].ints[o], 0, w->dim[0], w->dim[1], 0};
    int filled = 0;
    for (int k = 0; k < s.n; k++) {
        s.total += ids_of(r, member[k]);
        filled += ids_of(r, member[k]) > 0;
    }
    s.merged = filled > 1 && !r->attr[KEEP].ints[o];
    return s;
}

/* Rows one after the other: their numbers now, their places for pd_embed_scatter. */
static pd_status place_rows(const struct pd_run *r, const struct sum *s, enum pd_dtype dtype)
{
    PD_TRY(pd_rows_resize(s->to, s->total, s->height, dtype, 2, (int64_t[]){s->total, s->width}));
    int64_t at = 0;
    for (int k = 0; k < s->n; k++) {
        struct pd_embed_item *item = s->item[s->member[k]];
        int64_t n = ids_of(r, s->member[k]);
        if (n) memcpy(s->to->rows.at + at, item->ids, (size_t)n * sizeof *item->ids);
        item->rows = (char *)s->to->tensor.data + (size_t)(at * s->width) * pd_dtype_size(dtype);
        at += n;
    }
    return PD_OK;
}

static size_t merge_bytes(const struct sum *s, size_t item)
{
    return pd_scratch_round(pd_rows_group_bytes(s->total)) + 2 * pd_scratch_round((size_t)s->total * 8) +
           pd_scratch_round((size_t)s->width * item);
}

static pd_status merge_rows(const struct sum *s, const struct pd_tensor *dout, int64_t row, char *memory)
{
    size_t size = pd_dtype_size(dout->meta.dtype), list = pd_scratch_round((size_t)s->total * 8);
    int64_t *ids = (int64_t *)(memory + pd_scratch_round(pd_rows_group_bytes(s->total))), at = 0;
    const void **rows = (const void **)((char *)ids + list);
    const void *zeros = memset((char *)rows + list, 0, (size_t)s->width * size);
    for (int k = 0; k < s->n; k++) {
        const struct pd_embed_item *item = s->item[s->member[k]];
        for (int64_t sample = 0; sample < dout->meta.dim[0]; sample++) {
            int64_t from = item->offset ? item->offset[sample] : sample,
                    end = item->offset ? item->offset[sample + 1] : sample + 1;
            const void *values = (const char *)dout->data + (size_t)(sample * row + item->at) * size;
            for (; from < end; from++, at++) {
                ids[at] = item->ids[from];
                rows[at] = ids[at] == item->skip ? zeros : values;
            }
        }
    }
    struct pd_rows_groups g;
    pd_rows_group(ids, s->total, memory, &g);
    PD_TRY(pd_rows_resize(s->to, g.n, s->height, dout->meta.dtype, 2, (int64_t[]){g.n, s->width}));
    memcpy(s->to->rows.at, g.row, (size_t)g.n * sizeof *g.row);
    if (dout->meta.dtype == PD_DTYPE_FP64)
        pd_rows_sum_f64(s->to->tensor.data, s->width, &g, rows);
    else
        pd_rows_sum_f32(s->to->tensor.data, s->width, &g, rows);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, PD_EMBEDDING_DOUT);
    int64_t samples = dout->meta.rank ? dout->meta.dim[0] : 0;
    size_t size = pd_dtype_size(dout->meta.dtype),
           list = pd_scratch_round((size_t)r->in[PD_EMBEDDING_IDS].n * sizeof(void *)), extra = 0;
    const int32_t *member = r->attr[MEMBERS].ints;
    for (int o = 0; o < r->out[0].n; member += r->attr[COUNTS].ints[o++]) {
        struct sum s = describe_sum(r, o, member, NULL);
        if (s.merged && extra < merge_bytes(&s, size)) extra = merge_bytes(&s, size);
    }
    struct pd_embedding e;
    PD_TRY(pd_embedding_describe(r, samples, list + extra, &e));
    if (pd_tensor_numel(dout) != samples * e.row)
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but the inputs have %lld columns",
                       pd_meta_dims_text(&dout->meta), (long long)e.row);
    struct pd_embed_item **item = e.extra;
    for (int i = 0, k = 0; i < e.n; i++)
        if (r->attr[PD_EMBEDDING_ORDER].ints[i]) item[k++] = &e.items[i];

    int any = 0;
    member = r->attr[MEMBERS].ints;
    for (int o = 0; o < r->out[0].n; member += r->attr[COUNTS].ints[o++]) {
        struct sum s = describe_sum(r, o, member, item);
        if (s.merged)
            PD_TRY(merge_rows(&s, dout, e.row, (char *)e.extra + list));
        else
            PD_TRY(place_rows(r, &s, dout->meta.dtype));
        any |= !s.merged;
    }
    if (any) pd_embed_scatter(dout->meta.dtype == PD_DTYPE_FP64, e.items, e.n, samples, dout->data, e.row);
    return PD_OK;
}

const struct pd_op pd_op_fused_embedding_concat_grad = {
    .type = "fused_embedding_concat_grad",
    .doc = "Only in plans: the tables' gradients, through concat, sequence_pool SUM and sum.",
    .inputs = (const struct pd_slot_def[]){{"W", PD_SLOT_LIST | PD_SLOT_META},
                                           {"Ids", PD_SLOT_LIST | PD_SLOT_OWN_TYPE},
                                           {"X", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_META},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"W@GRAD", PD_SLOT_LIST}, {0}},
    /* Output o sums counts[o] of the embeddings that members lists; keep: rows may repeat. */
    .attrs =
        (const struct pd_attr_def[]){
            PD_EMBEDDING_ATTRS, PD_DEF_INTS("counts"), PD_DEF_INTS("members"), PD_DEF_INTS("keep"), {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};

/* ---- plain inputs ---- */

static pd_status x_infer(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[0].n; i++)
        if (c->out[0].at[i]) pd_meta_like(c->out[0].at[i], c->in[PD_EMBEDDING_X].at[i]);
    return PD_OK;
}

static pd_status x_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, PD_EMBEDDING_DOUT);
    const struct pd_attr *order = &r->attr[PD_EMBEDDING_ORDER];
    int64_t size = (int64_t)pd_dtype_size(dout->meta.dtype), rows = dout->meta.rank ? dout->meta.dim[0] : 0;
    struct pd_join j;
    int64_t *width;
    PD_TRY(pd_join_make(r, order->n, &j, &width));
    j.whole = dout->data;
    for (int i = 0, embedding = 0, plain = 0; i < order->n; i++) {
        const struct pd_tensor *from = order->ints[i] ? pd_run_in_at(r, PD_EMBEDDING_W, embedding++)
                                                      : pd_run_in_at(r, PD_EMBEDDING_X, plain);
        struct pd_tensor *dx = order->ints[i] || plain >= r->out[0].n ? NULL : pd_run_out_at(r, 0, plain);
        plain += !order->ints[i];
        j.part[i] = dx ? dx->data : NULL;
        width[i] = pd_meta_span(&from->meta, 1, from->meta.rank) * size;
        j.row += width[i];
    }
    if ((int64_t)pd_tensor_bytes(dout) != rows * j.row)
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but the inputs have %lld columns",
                       pd_meta_dims_text(&dout->meta), (long long)(j.row / size));
    pd_copy_part(&j, rows);
    return PD_OK;
}

const struct pd_op pd_op_fused_embedding_concat_x_grad = {
    .type = "fused_embedding_concat_x_grad",
    .doc = "Only in plans: the gradients of what a concat joins beside embeddings.",
    .inputs = (const struct pd_slot_def[]){{"W", PD_SLOT_LIST | PD_SLOT_META},
                                           {"Ids", PD_SLOT_LIST | PD_SLOT_META | PD_SLOT_OWN_TYPE},
                                           {"X", PD_SLOT_LIST | PD_SLOT_META},
                                           {"Out@GRAD", 0},
                                           {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_EMBEDDING_ATTRS, {0}},
    .flags = PD_OP_NO_GRAD,
    .infer = x_infer,
    .run = x_run,
};
