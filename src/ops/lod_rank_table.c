/* lod_rank_table: the sequences of a tensor at a level, longest first. */
#include "ops/rank_table.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { X };
enum { OUT };
enum { LEVEL };

static void table_free(void *raw)
{
    struct pd_rank_table *t = raw;
    if (t) pd_lod_unref(t->coarse);
    pd_free(t);
}

static pd_status infer(const struct pd_infer *c)
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

static pd_status run(const struct pd_run *r)
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

const struct pd_op pd_op_lod_rank_table = {
    .type = "lod_rank_table",
    .doc = "The sequences of X at a level, longest first.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_META}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("level", 0), {0}},
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
