/* lod_rank_table, max_sequence_len, reorder_lod_tensor_by_rank and shrink_rnn_memory; see rank_table.h. */
#include "ops/rank_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/shape_util.h"

/* ---- picking ---- */

void pd_picker_free(struct pd_picker *p)
{
    pd_free(p->at);
    for (int i = 0; i < PD_PICK_LEVELS; i++)
        pd_vec_free(&p->lengths[i]);
}

pd_status pd_picker_add(struct pd_picker *p, const struct pd_tensor *from, int level, int64_t unit)
{
    const struct pd_lod *lod = from->meta.lod;
    int levels = lod ? lod->levels : 0;
    int64_t begin = unit, end = unit + 1;
    if (levels - level > PD_PICK_LEVELS)
        return pd_fail(PD_SHAPE, "the tensor has %d levels of sequences; at most %d can be picked from",
                       levels, PD_PICK_LEVELS);
    if (p->levels < 0) p->levels = levels - level;
    if (p->levels != levels - level)
        return pd_fail(PD_SHAPE, "the tensors have %d and %d levels of sequences; they must have as many",
                       p->levels, levels - level);
    for (int l = level; l < levels; l++) {
        const struct pd_lod_level *at = &lod->level[l];
        if (begin < 0 || end >= at->n)
            return pd_fail(PD_RANGE, "sequence %lld was asked for, but level %d has %lld", (long long)unit, l,
                           (long long)at->n - 1);
        for (int64_t i = begin; i < end; i++)
            if (!pd_vec_push(&p->lengths[l - level], at->offset[i + 1] - at->offset[i]))
                return pd_no_memory();
        begin = at->offset[begin], end = at->offset[end];
    }
    if (begin < 0 || end > from->meta.dim[0])
        return pd_fail(PD_RANGE, "row %lld was asked for, but the tensor has shape %s", (long long)begin,
                       pd_meta_dims_text(&from->meta));
    struct pd_picked part = {from, begin, end};
    return pd_vec_push(p, part) ? PD_OK : pd_no_memory();
}

static pd_status make_lod(const struct pd_picker *p, struct pd_lod *above, struct pd_lod **out)
{
    int over = above ? above->levels : 0, inside = p->levels > 0 ? p->levels : 0;
    int64_t entries[2 * PD_PICK_LEVELS];
    *out = NULL;
    if (over + inside == 0) return PD_OK;
    if (over > PD_PICK_LEVELS) return pd_fail(PD_SHAPE, "%d levels of sequences are too many", over);
    for (int l = 0; l < over; l++)
        entries[l] = above->level[l].n;
    for (int l = 0; l < inside; l++)
        entries[over + l] = p->lengths[l].n + 1;
    PD_TRY(pd_lod_alloc(over + inside, entries, out));
    for (int l = 0; l < over; l++)
        memcpy((*out)->level[l].offset, above->level[l].offset, (size_t)entries[l] * sizeof(int64_t));
    for (int l = 0; l < inside; l++) {
        int64_t *to = (*out)->level[over + l].offset;
        to[0] = 0;
        for (int i = 0; i < p->lengths[l].n; i++)
            to[i + 1] = to[i] + p->lengths[l].at[i];
    }
    return PD_OK;
}

pd_status pd_picker_finish(struct pd_picker *p, const struct pd_tensor *like, struct pd_lod *above,
                           struct pd_tensor *out)
{
    struct pd_lod *lod = NULL;
    struct pd_meta m = (p->n ? p->at[0].from : like)->meta;
    pd_status status = make_lod(p, above, &lod);
    pd_lod_unref(above);
    PD_TRY(status);
    m.dim[0] = 0;
    int64_t width = pd_meta_span(&m, 1, m.rank) * (int64_t)pd_dtype_size(m.dtype), at = 0;
    for (int i = 0; i < p->n; i++) {
        const struct pd_meta *f = &p->at[i].from->meta;
        if (f->dtype != m.dtype || f->rank != m.rank ||
            pd_meta_span(f, 1, f->rank) != pd_meta_span(&m, 1, m.rank))
            status = pd_fail(PD_SHAPE, "tensors of shapes %s and %s cannot be put together",
                             pd_meta_dims_text(&p->at[0].from->meta), pd_meta_dims_text(f));
        m.dim[0] += p->at[i].end - p->at[i].begin;
    }
    if (status == PD_OK) status = pd_tensor_resize(out, m.dtype, m.rank, m.dim);
    if (status != PD_OK) {
        pd_lod_unref(lod);
        return status;
    }
    for (int i = 0; i < p->n; i++) {
        int64_t rows = p->at[i].end - p->at[i].begin;
        if (rows)
            memcpy((char *)out->data + at, (const char *)p->at[i].from->data + p->at[i].begin * width,
                   (size_t)(rows * width));
        at += rows * width;
    }
    pd_meta_take_lod(&out->meta, lod);
    return PD_OK;
}

/* ---- the table ---- */

enum { X, TABLE, STEP };
enum { OUT };
enum { LEVEL };

static void table_free(void *raw)
{
    struct pd_rank_table *t = raw;
    if (t) pd_lod_unref(t->coarse);
    pd_free(t);
}

pd_status pd_rank_table_get(const struct pd_run *r, int slot, const struct pd_rank_table **out)
{
    const struct pd_value *v = pd_run_in_value(r, slot);
    if (!v || v->tensor.meta.kind != PD_KIND_RANK_TABLE || !v->raw)
        return pd_fail(PD_INVALID, "%s holds no rank table; lod_rank_table must make it first",
                       r->op->inputs[slot].name);
    *out = v->raw;
    return PD_OK;
}

static pd_status table_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (c->attr[LEVEL].i < 0) return pd_fail(PD_RANGE, "level is %d; it must be 0 or more", c->attr[LEVEL].i);
    if (out) out->kind = PD_KIND_RANK_TABLE;
    return PD_OK;
}

static int longer_first(const void *a, const void *b)
{
    const struct pd_rank_item *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static pd_status table_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_value *out = pd_run_out_value(r, OUT);
    int level = r->attr[LEVEL].i, levels = x->meta.lod ? x->meta.lod->levels : 0;
    if (level >= levels)
        return pd_fail(
            PD_SHAPE, "level %d was asked for, but the tensor has %d levels of sequences; feed it with a LoD",
            level, levels);
    const struct pd_lod_level *at = &x->meta.lod->level[level];
    struct pd_rank_table *t = pd_calloc(1, sizeof *t + (size_t)(at->n - 1) * sizeof *t->item);
    if (!t) return pd_no_memory();
    pd_status status = level ? pd_lod_slice(x->meta.lod, 0, level, &t->coarse) : PD_OK;
    if (status != PD_OK) {
        table_free(t);
        return status;
    }
    t->level = level;
    t->n = at->n - 1;
    for (int64_t i = 0; i < t->n; i++)
        t->item[i] = (struct pd_rank_item){i, at->offset[i + 1] - at->offset[i]};
    qsort(t->item, (size_t)t->n, sizeof *t->item, longer_first);
    pd_value_reset(out, PD_KIND_RANK_TABLE);
    out->raw = t;
    out->raw_free = table_free;
    return PD_OK;
}

static pd_status longest_run(const struct pd_run *r)
{
    const struct pd_rank_table *t = NULL;
    PD_TRY(pd_rank_table_get(r, 0, &t));
    *(int64_t *)pd_run_out(r, OUT)->data = t->n ? t->item[0].length : 0;
    return PD_OK;
}

/* ---- reorder_lod_tensor_by_rank ---- */

static pd_status same_infer(const struct pd_infer *c)
{
    pd_shape_like(c, OUT, X);
    return PD_OK;
}

static pd_status reorder(const struct pd_run *r, int back)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_rank_table *t = NULL;
    int64_t *place;
    if (!out) return PD_OK;
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    PD_TRY(pd_shape_scratch(r, (size_t)t->n * sizeof *place, (void **)&place));
    for (int64_t i = 0; i < t->n; i++)
        place[back ? t->item[i].index : i] = back ? i : t->item[i].index;
    struct pd_picker p = {.levels = -1};
    pd_status status = PD_OK;
    for (int64_t i = 0; i < t->n && status == PD_OK; i++)
        status = pd_picker_add(&p, x, 0, place[i]);
    if (status == PD_OK) status = pd_picker_finish(&p, x, NULL, out);
    pd_picker_free(&p);
    return status;
}

static pd_status reorder_run(const struct pd_run *r)
{
    return reorder(r, 0);
}
static pd_status reorder_grad_run(const struct pd_run *r)
{
    return reorder(r, 1);
}

/* ---- shrink_rnn_memory ---- */

static pd_status shrink_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_rank_table *t = NULL;
    int64_t step, alive = 0;
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    PD_TRY(pd_number_at(pd_run_in(r, STEP), "I", 0, &step));
    while (alive < t->n && t->item[alive].length > step)
        alive++;
    struct pd_picker p = {.levels = -1};
    pd_status status = PD_OK;
    for (int64_t i = 0; i < alive && status == PD_OK; i++)
        status = pd_picker_add(&p, x, 0, i);
    if (status == PD_OK) status = pd_picker_finish(&p, x, NULL, out);
    pd_picker_free(&p);
    return status;
}

static pd_status shrink_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, 1);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    size_t all = pd_tensor_bytes(dx), some = dout && dout->data ? pd_tensor_bytes(dout) : 0;
    if (some > all)
        return pd_fail(PD_SHAPE, "the gradient has shape %s, more than X of shape %s",
                       pd_meta_dims_text(&dout->meta), pd_meta_dims_text(&dx->meta));
    if (some) memcpy(dx->data, dout->data, some);
    memset((char *)dx->data + some, 0, all - some);
    return PD_OK;
}

static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_slot_def x_table[] = {{"X", 0}, {"RankTable", PD_SLOT_OTHERS}, {0}};

const struct pd_op pd_op_lod_rank_table = {
    .type = "lod_rank_table",
    .doc = "The sequences of X at a level, longest first.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {0}},
    .outputs = outputs,
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("level", 0), {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = table_infer,
    .run = table_run,
};

const struct pd_op pd_op_max_sequence_len = {
    .type = "max_sequence_len",
    .doc = "Length of the longest sequence of a rank table.",
    .inputs = (const struct pd_slot_def[]){{"RankTable", PD_SLOT_OTHERS}, {0}},
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = pd_shape_infer_number,
    .run = longest_run,
};

const struct pd_op pd_op_reorder_lod_tensor_by_rank = {
    .type = "reorder_lod_tensor_by_rank",
    .doc = "The sequences of X in the order of a rank table.",
    .inputs = x_table,
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC,
    .infer = same_infer,
    .run = reorder_run,
    .grad_type = "reorder_lod_tensor_by_rank_grad",
    .grad_in = "X=Out@ RankTable",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_reorder_lod_tensor_by_rank_grad = {
    .type = "reorder_lod_tensor_by_rank_grad",
    .doc = "Gradient of reorder_lod_tensor_by_rank: the order before.",
    .inputs = x_table,
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_OPTIONAL}, {0}},
    .flags = PD_OP_DYNAMIC,
    .infer = same_infer,
    .run = reorder_grad_run,
};

const struct pd_op pd_op_shrink_rnn_memory = {
    .type = "shrink_rnn_memory",
    .doc = "The rows of X whose sequences go on at step I.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0}, {"RankTable", PD_SLOT_OTHERS}, {"I", PD_SLOT_OWN_TYPE}, {0}},
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC,
    .infer = same_infer,
    .run = shrink_run,
    .grad_type = "shrink_rnn_memory_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_shrink_rnn_memory_grad = {
    .type = "shrink_rnn_memory_grad",
    .doc = "Gradient of shrink_rnn_memory: zeros for the rows that ended.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {"Out@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .outputs = pd_view_grad_outputs,
    .infer = pd_shape_infer_like_first,
    .run = shrink_grad_run,
};
