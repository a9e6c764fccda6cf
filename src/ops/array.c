/* Tensor arrays: writing, reading and counting items; a tensor of sequences taken apart into moments and put
 * together. */
#include <string.h>

#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/rank_table.h"
#include "ops/scratch.h"
#include "program/grad.h"

enum { X, I, WRITTEN };
enum { TABLE = 1 };
enum { OUT };

/* Makes the value an array of at least n items. */
static pd_status grow(struct pd_value *array, int64_t n)
{
    if (array->tensor.meta.kind != PD_KIND_TENSOR_ARRAY) pd_value_reset(array, PD_KIND_TENSOR_ARRAY);
    if (n > INT32_MAX / 2) return pd_fail(PD_RANGE, "a tensor array cannot hold %lld items", (long long)n);
    while (array->items.n < n) {
        struct pd_value *item;
        PD_TRY(pd_value_new(PD_KIND_TENSOR, &item));
        if (!pd_vec_push(&array->items, item)) {
            pd_value_unref(item);
            return pd_no_memory();
        }
    }
    return PD_OK;
}

static void cut(struct pd_value *array, int64_t n)
{
    while (array->items.n > n)
        pd_value_unref(array->items.at[--array->items.n]);
}

static pd_status need_array(const struct pd_value *v, const char *slot)
{
    if (v && v->tensor.meta.kind == PD_KIND_TENSOR_ARRAY) return PD_OK;
    return pd_fail(PD_TYPE, "%s is a %s; a tensor array is needed", slot,
                   v ? pd_kind_name(v->tensor.meta.kind) : "hole");
}

static pd_status position(const struct pd_run *r, int64_t *i)
{
    PD_TRY(pd_number_check(pd_run_in(r, I), "I"));
    PD_TRY(pd_number_at(pd_run_in(r, I), "I", 0, i));
    if (*i < 0) return pd_fail(PD_RANGE, "I is %lld; a position must be 0 or more", (long long)*i);
    return PD_OK;
}

/* ---- write_to_array, read_from_array, lod_array_length ---- */

static pd_status write_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (!out || c->running) return PD_OK;
    out->kind = PD_KIND_TENSOR_ARRAY;
    pd_meta_like(out, x);
    return PD_OK;
}

static pd_status write_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_value *out = pd_run_out_value(r, OUT);
    int64_t i;
    if (!out) return PD_OK;
    PD_TRY(position(r, &i));
    PD_TRY(grow(out, i + 1));
    out->items.at[i]->handed_on = 0;
    return x->data ? pd_tensor_copy(&out->items.at[i]->tensor, x) : PD_OK;
}

/* The item's gradient goes to X, and none of it to who wrote the item before. Where nobody wants that of X it
 * is read nevertheless, into a variable that no one reads. */
static pd_status write_make_grad(struct pd_grad_maker *g)
{
    const char *array = pd_opdesc_arg(g->op, 1, "Out"), *to;
    struct pd_opdesc *grad;
    if (!array || !g->has_grad(g, array)) return PD_OK;
    PD_TRY(pd_grad_from_table(g, "read_from_array", "X=Out@ I X_W=X", "Out=X@", &grad));
    to = pd_opdesc_arg(grad, 1, "Out");
    if ((!to || strcmp(to, PD_EMPTY_VAR) == 0) && g->lives_before(g, array)) {
        struct pd_buf name = {0};
        pd_buf_printf(&name, "%s@OVERWRITTEN", pd_opdesc_arg(grad, 0, "X"));
        pd_status status = name.failed
                               ? pd_no_memory()
                               : pd_opdesc_set_args(grad, 1, "Out", 1, (const char *const[]){name.at});
        pd_buf_free(&name);
        if (status != PD_OK) {
            pd_opdesc_free(grad);
            return status;
        }
    }
    return g->emit(g, grad);
}

static pd_status read_run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, X);
    const struct pd_tensor *written = pd_run_in(r, WRITTEN);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t i;
    if (!out) return PD_OK;
    PD_TRY(position(r, &i));
    PD_TRY(need_array(x, "X"));
    struct pd_value *item = i < x->items.n ? x->items.at[i] : NULL;
    if (item && item->tensor.data && !(written && item->handed_on)) {
        /* As the gradient of a write: the item before this write gets what comes from now on. */
        if (written) item->handed_on = 1;
        return pd_tensor_copy(out, &item->tensor);
    }
    if (!written || written->meta.dtype == PD_DTYPE_NONE)
        return pd_fail(PD_RANGE, "item %lld was asked for, but the array has %d items%s", (long long)i,
                       x->items.n, i < x->items.n ? " and nothing was written there" : "");
    /* No gradient came to this item. */
    PD_TRY(pd_tensor_resize(out, written->meta.dtype, written->meta.rank, written->meta.dim));
    pd_meta_share_lod(&out->meta, &written->meta);
    memset(out->data, 0, pd_tensor_bytes(out));
    return PD_OK;
}

static pd_status length_run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, X);
    PD_TRY(need_array(x, "X"));
    *(int64_t *)pd_run_out(r, OUT)->data = x->items.n;
    return PD_OK;
}

/* ---- lod_tensor_to_array, array_to_lod_tensor ---- */

static pd_status apart_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (!out || c->running) return PD_OK;
    out->kind = PD_KIND_TENSOR_ARRAY;
    pd_meta_like(out, x);
    out->lod_level = x->lod_level > 0 ? x->lod_level - 1 : 0;
    return PD_OK;
}

/* The levels above the items: those above the ranked level, then the sequences in their own order. */
static pd_status levels_above(const struct pd_rank_table *t, const int64_t *place, struct pd_lod **out)
{
    int over = t->coarse ? t->coarse->levels : 0;
    int64_t entries[PD_PICK_LEVELS + 1];
    if (over > PD_PICK_LEVELS) return pd_fail(PD_SHAPE, "%d levels of sequences are too many", over);
    for (int l = 0; l < over; l++)
        entries[l] = t->coarse->level[l].n;
    entries[over] = t->n + 1;
    PD_TRY(pd_lod_alloc(over + 1, entries, out));
    for (int l = 0; l < over; l++)
        memcpy((*out)->level[l].offset, t->coarse->level[l].offset, (size_t)entries[l] * sizeof(int64_t));
    int64_t *to = (*out)->level[over].offset;
    to[0] = 0;
    for (int64_t i = 0; i < t->n; i++)
        to[i + 1] = to[i] + t->item[place[i]].length;
    return PD_OK;
}

/* Where each sequence of the table stands in it. */
static pd_status places(const struct pd_run *r, const struct pd_rank_table *t, int64_t **place)
{
    PD_TRY(pd_scratch(r, (size_t)t->n * sizeof **place, (void **)place));
    for (int64_t i = 0; i < t->n; i++)
        (*place)[t->item[i].index] = i;
    return PD_OK;
}

/* Moment t of all sequences that are longer than t. */
static pd_status take_moment(const struct pd_tensor *x, const struct pd_rank_table *t, int64_t moment,
                             struct pd_tensor *out)
{
    const struct pd_lod_level *at = &x->meta.lod->level[t->level];
    struct pd_picker p = {.levels = -1};
    pd_status status = PD_OK;
    for (int64_t i = 0; i < t->n && t->item[i].length > moment && status == PD_OK; i++) {
        if (t->item[i].index >= at->n - 1)
            status = pd_fail(PD_RANGE, "the rank table names sequence %lld, but X has %lld",
                             (long long)t->item[i].index, (long long)at->n - 1);
        else
            status = pd_picker_add(&p, x, t->level + 1, at->offset[t->item[i].index] + moment);
    }
    if (status == PD_OK) status = pd_picker_finish(&p, x, NULL, out);
    pd_picker_free(&p);
    return status;
}

static pd_status take_moments(const struct pd_tensor *x, const struct pd_rank_table *t, struct pd_value *out)
{
    int64_t moments = t->n ? t->item[0].length : 0;
    PD_TRY(grow(out, moments));
    cut(out, moments);
    for (int64_t m = 0; m < moments; m++)
        PD_TRY(take_moment(x, t, m, &out->items.at[m]->tensor));
    return PD_OK;
}

static pd_status apart_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_value *out = pd_run_out_value(r, OUT);
    const struct pd_rank_table *t = NULL;
    int64_t rows = 0, *place;
    if (!out) return PD_OK;
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    if (x->meta.lod && x->meta.lod->levels > t->level) return take_moments(x, t, out);
    for (int64_t i = 0; i < t->n; i++)
        rows += t->item[i].length;
    if (x->meta.lod || x->meta.rank < 1 || x->meta.dim[0] != rows)
        return pd_fail(PD_SHAPE, "X has %d levels of sequences, the rank table needs %d",
                       x->meta.lod ? x->meta.lod->levels : 0, t->level + 1);
    /* A gradient that came by an op without sequences: the table knows how its rows group. */
    struct pd_tensor grouped = *x;
    PD_TRY(places(r, t, &place));
    PD_TRY(levels_above(t, place, &grouped.meta.lod));
    pd_status status = take_moments(&grouped, t, out);
    pd_lod_unref(grouped.meta.lod);
    return status;
}

static pd_status together_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (!out || c->running) return PD_OK;
    pd_meta_like(out, x);
    out->kind = PD_KIND_TENSOR;
    out->lod_level = x->lod_level + 1;
    return PD_OK;
}

static pd_status together_run(const struct pd_run *r)
{
    const struct pd_value *x = pd_run_in_value(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_rank_table *t = NULL;
    struct pd_lod *above = NULL;
    int64_t *place;
    if (!out) return PD_OK;
    PD_TRY(need_array(x, "X"));
    PD_TRY(pd_rank_table_get(r, TABLE, &t));
    if (x->items.n == 0) return pd_fail(PD_SHAPE, "the array is empty; nothing can be put together from it");
    if (t->n && t->item[0].length > x->items.n)
        return pd_fail(PD_SHAPE, "the longest sequence has %lld entries, but the array has %d items",
                       (long long)t->item[0].length, x->items.n);
    PD_TRY(places(r, t, &place));
    struct pd_picker p = {.levels = -1};
    pd_status status = levels_above(t, place, &above);
    for (int64_t i = 0; i < t->n && status == PD_OK; i++)
        for (int64_t m = 0; m < t->item[place[i]].length && status == PD_OK; m++)
            status = pd_picker_add(&p, &x->items.at[m]->tensor, 0, place[i]);
    if (status == PD_OK)
        status = pd_picker_finish(&p, &x->items.at[0]->tensor, above, out);
    else
        pd_lod_unref(above);
    pd_picker_free(&p);
    return status;
}

static const struct pd_slot_def x_i[] = {{"X", 0}, {"I", PD_SLOT_OWN_TYPE}, {0}};
static const struct pd_slot_def x_table[] = {{"X", 0}, {"RankTable", PD_SLOT_OTHERS}, {0}};
static const struct pd_slot_def array_table[] = {{"X", PD_SLOT_OTHERS}, {"RankTable", PD_SLOT_OTHERS}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};

const struct pd_op pd_op_write_to_array = {
    .type = "write_to_array",
    .doc = "Writes X as item I of an array, which grows as needed.",
    .inputs = x_i,
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC | PD_OP_UPDATES,
    .infer = write_infer,
    .run = write_run,
    .make_grad = write_make_grad,
};

const struct pd_op pd_op_read_from_array = {
    .type = "read_from_array",
    .doc = "Item I of an array.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_OTHERS}, {"I", PD_SLOT_OWN_TYPE}, {"X_W", PD_SLOT_OPTIONAL | PD_SLOT_META}, {0}},
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC,
    .infer = pd_out_infer_like,
    .run = read_run,
    .grad_type = "write_to_array",
    .grad_in = "X=Out@ I",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_lod_array_length = {
    .type = "lod_array_length",
    .doc = "How many items an array has.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_OTHERS}, {0}},
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = pd_out_infer_int64,
    .run = length_run,
};

const struct pd_op pd_op_lod_tensor_to_array = {
    .type = "lod_tensor_to_array",
    .doc = "Item t of the array holds moment t of all sequences that last so long, in the order of the rank "
           "table.",
    .inputs = x_table,
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC,
    .infer = apart_infer,
    .run = apart_run,
    .grad_type = "array_to_lod_tensor",
    .grad_in = "X=Out@ RankTable",
    .grad_out = "Out=X@",
};

const struct pd_op pd_op_array_to_lod_tensor = {
    .type = "array_to_lod_tensor",
    .doc = "Puts the moments of an array together to sequences again.",
    .inputs = array_table,
    .outputs = outputs,
    .flags = PD_OP_DYNAMIC,
    .infer = together_infer,
    .run = together_run,
    .grad_type = "lod_tensor_to_array",
    .grad_in = "X=Out@ RankTable",
    .grad_out = "Out=X@",
};
