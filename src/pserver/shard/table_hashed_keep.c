/* What outlives a hashed table: parts of snapshots, which are its memory as it is, and columns of it as
 * selected rows, which are upstream's format of files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pserver/shard/table_hashed_private.h"
#include "tensor/file.h"

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

/* Where a file is in the table: rows that are there, by their numbers. */
struct walk {
    const struct hashed *h;
    int column;
    int64_t at;
};

static const struct pd_row *next_row(struct walk *w)
{
    for (;;) {
        const struct pd_row *row = pd_row_store_at(w->h->store, w->at++);
        if (pd_hashed_is_there(w->h, row)) return row;
    }
}

static void next_numbers(void *arg, int n, int64_t *out)
{
    struct walk *w = arg;
    for (int i = 0; i < n; i++)
        out[i] = pd_row_id(next_row(w));
}

static void next_values(void *arg, int n, float *out)
{
    struct walk *w = &((struct walk *)arg)[1];
    int64_t width = w->h->width;
    for (int i = 0; i < n; i++)
        memcpy(out + i * width, next_row(w)->x + w->column * width, (size_t)width * sizeof *out);
}

/* Rows in the order of their ids would need more memory than they have; they are as they lie. */
pd_status pd_hashed_save(const struct pd_table *table, const struct pd_value *of, FILE *file)
{
    const struct hashed *h = (const struct hashed *)table;
    int column = column_of(h, of);
    int64_t n = 0, numbers = pd_row_store_numbers(h->store);
    if (column < 0) return pd_fail(PD_NOT_FOUND, "no state of the table '%s'", table->name);
    for (int64_t k = 0; k < numbers; k++)
        n += pd_hashed_is_there(h, pd_row_store_at(h->store, k));
    struct walk walks[2] = {{h, column, 0}, {h, column, 0}}; /* of the ids, and of their values */
    return pd_rows_write_file(
        &(struct pd_rows_given){n, h->options.height, h->width, next_numbers, next_values, walks}, file);
}
