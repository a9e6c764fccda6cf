/* What outlives a hashed table: parts of snapshots, which are its memory as it is, and columns of it as
 * selected rows, which are upstream's format of files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/scope.h"
#include "pserver/shard/table_hashed_private.h"

/* ---- snapshots ---- */

int pd_hashed_part(const struct pd_table *table, int number, struct pd_table_part *out)
{
    struct hashed *h = (struct hashed *)table;
    if (!number--) {
        h->head =
            (struct head){h->clock, pd_row_start_seed(h->start), (uint32_t)h->columns, (uint32_t)h->width};
        *out = (struct pd_table_part){"head", &h->head, 1, sizeof h->head};
        return 1;
    }
    const struct pd_row_store *store = h->store;
    const char *what = "rows";
    if (number >= pd_row_store_chunks(store)) {
        number -= pd_row_store_chunks(store);
        store = h->waiting;
        what = "waiting";
    }
    if (!store || number >= pd_row_store_chunks(store)) return 0;
    out->what = what;
    out->data = pd_row_store_chunk(store, number, &out->n);
    out->size = pd_row_store_stride(store);
    return 1;
}

static pd_status load_head(struct hashed *h, const struct pd_table_part *part)
{
    struct head head;
    if (part->n != 1 || part->size != sizeof head)
        return pd_fail(PD_FORMAT, "the snapshot's head of the table '%s' has %zu bytes, expected %zu",
                       h->table.name, part->size, sizeof head);
    memcpy(&head, part->data, sizeof head);
    if (head.columns != (uint32_t)h->columns || head.width != (uint32_t)h->width)
        return pd_fail(
            PD_SHAPE,
            "the snapshot has the table '%s' with rows of %u x %u numbers, the Program with %d x %d "
            "(optimizer's states and the parameter, times its width): was the optimizer changed? "
            "FLAGS_ps_fresh=1 starts anew",
            h->table.name, head.columns, head.width, h->columns, (int)h->width);
    if (head.clock > h->clock) h->clock = head.clock;
    pd_row_start_set_seed(h->start, head.seed);
    return PD_OK;
}

static pd_status load_rows(struct hashed *h, struct pd_row_store *store, const struct pd_table_part *part)
{
    size_t stride = store ? pd_row_store_stride(store) : part->size;
    if (part->size != stride)
        return pd_fail(PD_FORMAT, "the snapshot has rows of %zu bytes of the table '%s', expected %zu",
                       part->size, h->table.name, stride);
    for (int64_t i = 0; store && i < part->n; i++) {
        struct pd_row *row, head;
        const char *from = (const char *)part->data + (size_t)i * stride;
        memcpy(&head, from, sizeof head);
        int64_t id = pd_row_id(&head);
        if (!head.count || head.count == PD_ROW_FREE || !h->table.kind->has_row(&h->table, id)) continue;
        PD_TRY(pd_row_store_make(store, 1, &id, &row));
        memcpy(row, from, stride);
    }
    return PD_OK;
}

static pd_status make_empty(struct hashed *h)
{
    struct pd_row_store *none = NULL, *nobody = NULL;
    PD_TRY(pd_row_store_new((int)h->width * h->columns, &none));
    pd_status status = h->waiting ? pd_row_store_new(0, &nobody) : PD_OK;
    if (status != PD_OK) {
        pd_row_store_free(none);
        return status;
    }
    pd_row_store_free(h->store);
    pd_row_store_free(h->waiting);
    h->store = none;
    h->waiting = nobody;
    h->clock = 0;
    return PD_OK;
}

pd_status pd_hashed_load(struct pd_table *table, const struct pd_table_part *part)
{
    struct hashed *h = (struct hashed *)table;
    if (!part) return make_empty(h);
    if (strcmp(part->what, "head") == 0) return load_head(h, part);
    if (strcmp(part->what, "rows") == 0) return load_rows(h, h->store, part);
    if (strcmp(part->what, "waiting") == 0) return load_rows(h, h->waiting, part);
    return pd_fail(PD_FORMAT, "the snapshot has '%s' of the table '%s', which is not known here", part->what,
                   table->name);
}

/* ---- files ---- */

static int column_of(const struct hashed *h, const struct pd_value *of)
{
    for (int k = 0; k < h->columns; k++)
        if (pd_rule_start(h->rule, k) == of) return k;
    return -1;
}

/* Rows in the order of their ids would need more memory than they have; they are as they lie. */
pd_status pd_hashed_save(const struct pd_table *table, const struct pd_value *of, struct pd_value *out)
{
    const struct hashed *h = (const struct hashed *)table;
    int column = column_of(h, of);
    int64_t n = 0, numbers = pd_row_store_numbers(h->store), w = h->width, at = 0;
    if (column < 0) return pd_fail(PD_NOT_FOUND, "no state of the table '%s'", table->name);
    for (int64_t k = 0; k < numbers; k++)
        n += pd_hashed_is_there(h, pd_row_store_at(h->store, k));
    pd_value_reset(out, PD_KIND_SELECTED_ROWS);
    PD_TRY(pd_rows_resize(out, n, h->options.height, PD_DTYPE_FP32, 2, (int64_t[]){n, w}));
    for (int64_t k = 0; k < numbers; k++) {
        const struct pd_row *row = pd_row_store_at(h->store, k);
        if (!pd_hashed_is_there(h, row)) continue;
        out->rows.at[at] = pd_row_id(row);
        memcpy((float *)out->tensor.data + at++ * w, row->x + column * w, (size_t)w * sizeof(float));
    }
    return PD_OK;
}

/* ---- what was loaded before the server began ---- */

static pd_status take_rows(struct hashed *h, int column, struct pd_value *from)
{
    const struct pd_tensor *t = &from->tensor;
    int64_t w = h->width, n = from->rows.n;
    PD_TRY(pd_rows_check(from));
    if (t->meta.dtype != PD_DTYPE_FP32 || pd_tensor_numel(t) != n * w)
        return pd_fail(
            PD_SHAPE, "the rows that were loaded for the table '%s' are %s %s; a row has %lld numbers",
            h->table.name, pd_dtype_name(t->meta.dtype), pd_meta_dims_text(&t->meta), (long long)w);
    for (int64_t i = 0; i < n; i++) {
        struct pd_row *row;
        int64_t id = from->rows.at[i];
        if (!h->table.kind->has_row(&h->table, id)) continue;
        if (column)
            pd_row_store_find(h->store, 1, &id, &row);
        else
            PD_TRY(pd_row_store_make(h->store, 1, &id, &row));
        if (!row) continue;
        if (!column) {
            memcpy(row->x + w, h->begin + w, (size_t)(w * (h->columns - 1)) * sizeof *row->x);
            row->count = 1;
            row->step = 0;
        }
        memcpy(row->x + column * w, (const float *)t->data + i * w, (size_t)w * sizeof *row->x);
    }
    return PD_OK;
}

/* The scope's name of a column's variable; NULL: it is none of the Program's. */
static const char *name_of(const struct pd_engine *engine, const struct pd_value *value)
{
    const struct pd_block *top = pd_program_block(engine->program, 0);
    for (int i = 0; i < top->vars.n; i++)
        if (pd_engine_lasting(engine, top->vars.at[i]->name) == value) return top->vars.at[i]->name;
    return NULL;
}

pd_status pd_hashed_take(struct hashed *h, const struct pd_engine *engine)
{
    for (int k = 0; k < h->columns; k++) {
        char whole[512];
        const char *name = k ? name_of(engine, pd_rule_start(h->rule, k)) : h->table.name;
        if (!name || snprintf(whole, sizeof whole, "%s@ROWS", name) >= (int)sizeof whole) continue;
        struct pd_value *rows = pd_engine_lasting(engine, whole);
        if (!rows || !pd_value_is_rows(rows) || !rows->tensor.data) continue;
        PD_TRY(take_rows(h, k, rows));
        pd_value_reset(rows, PD_KIND_SELECTED_ROWS);
    }
    return PD_OK;
}
