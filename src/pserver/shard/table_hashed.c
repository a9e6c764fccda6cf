/* See table_hashed.h. Lookups and updates are here; table_hashed_admit.c says which rows there are,
 * table_hashed_keep.c has files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pserver/shard/table_hashed_private.h"

/* ---- settings ---- */

static pd_status read_setting(const char *text, struct pd_hashed_options *o)
{
    char *end;
    const char *equals = strchr(text, '='), *stop = text + strcspn(text, "\t");
    const struct {
        const char *name;
        int64_t *to;
        int64_t least;
    } numbers[] = {{"first", &o->first, 0}, {"step", &o->step, 1}, {"height", &o->height, 1},
                   {"count", &o->count, 1}, {"most", &o->most, 1}, {"expires", &o->expires, 1}};
    if (equals && equals < stop) {
        size_t length = (size_t)(equals - text);
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            if (strncmp(text, numbers[i].name, length) != 0 || numbers[i].name[length]) continue;
            long long value = strtoll(equals + 1, &end, 10);
            if (end != stop || value < numbers[i].least) break;
            *numbers[i].to = value;
            return PD_OK;
        }
        if (strncmp(text, "start=", 6) == 0) {
            long value = strtol(equals + 1, &end, 10);
            o->start = (int)value;
            if (end == stop && value > 0 && value < INT32_MAX) return PD_OK;
        }
        if (strncmp(text, "chance=", 7) == 0) {
            o->chance = strtod(equals + 1, &end);
            if (end == stop && o->chance > 0 && o->chance <= 1) return PD_OK;
        }
    }
    return pd_fail(PD_INVALID,
                   "a table has the setting '%.*s': see hashed_tables in docs/TABLES.md for those there are",
                   (int)(stop - text), text);
}

pd_status pd_hashed_options_read(const char *text, struct pd_hashed_options *out)
{
    struct pd_hashed_options o = {.step = 1, .height = INT64_MAX, .chance = 1};
    for (const char *at = strchr(text, '\t'); at; at = strchr(at + 1, '\t'))
        PD_TRY(read_setting(at + 1, &o));
    if (!o.start || o.first >= o.step)
        return pd_fail(PD_INVALID, "the table '%.*s' needs the settings start, and first below step",
                       (int)strcspn(text, "\t"), text);
    if (o.count && o.chance < 1)
        return pd_fail(PD_INVALID,
                       "the table '%.*s' has the settings count and chance: an id has its row by one of them",
                       (int)strcspn(text, "\t"), text);
    *out = o;
    return PD_OK;
}

/* ---- lookups ---- */

static int has_row(const struct pd_table *table, int64_t id)
{
    const struct pd_hashed_options *o = &((const struct hashed *)table)->options;
    return id >= 0 && id < o->height && id % o->step == o->first;
}

/* Row k here is id first + k step. */
static pd_status pull(struct pd_table *table, int64_t n, const int64_t *rows, void *out)
{
    struct hashed *h = (struct hashed *)table;
    int64_t last = (h->options.height - 1 - h->options.first) / h->options.step, ids[PD_HASHED_BATCH];
    struct pd_row *found[PD_HASHED_BATCH];
    float *to = out;
    for (int64_t at = 0; at < n; at += PD_HASHED_BATCH) {
        int m = n - at < PD_HASHED_BATCH ? (int)(n - at) : PD_HASHED_BATCH;
        for (int i = 0; i < m; i++) {
            if (rows[at + i] < 0 || rows[at + i] > last)
                return pd_fail(PD_RANGE, "row %lld of '%s', which has %lld rows here",
                               (long long)rows[at + i], table->name, (long long)last + 1);
            ids[i] = h->options.first + rows[at + i] * h->options.step;
        }
        pd_row_store_find(h->store, m, ids, found);
        for (int i = 0; i < m; i++, to += h->width)
            if (pd_hashed_is_there(h, found[i]))
                memcpy(to, found[i]->x, (size_t)h->width * sizeof *to);
            else
                PD_TRY(pd_row_start_fill(h->start, ids[i], to));
    }
    return PD_OK;
}

/* ---- updates ---- */

/* Columns of some rows to where the rule finds them, or back. */
static pd_status carry(struct hashed *h, int n, struct pd_row *const *rows, int is_back)
{
    size_t bytes = (size_t)h->width * sizeof(float);
    for (int k = 0; k < h->columns; k++) {
        void *column;
        PD_TRY(pd_rule_gather(h->rule, n, k, &column));
        for (int i = 0; i < n; i++) {
            float *here = rows[i]->x + k * h->width;
            char *there = (char *)column + (size_t)i * bytes;
            if (is_back)
                memcpy(here, there, bytes);
            else
                memcpy(there, here, bytes);
        }
    }
    return PD_OK;
}

static pd_status run_rule(struct hashed *h, int n, struct pd_row *const *rows, int64_t n_grad,
                          const int64_t *at, const float *grad)
{
    PD_TRY(carry(h, n, rows, 0));
    PD_TRY(pd_rule_gathered(h->rule, 1, n_grad, at, grad, 0));
    return carry(h, n, rows, 1);
}

/* Groups [from, from + n) of a gradient, each of one id. */
static pd_status update_batch(struct hashed *h, const struct pd_rows_groups *g, int64_t from, int n,
                              const float *grad)
{
    struct pd_row *rows[PD_HASHED_BATCH];
    const int64_t w = h->width;
    int there = 0;
    PD_TRY(pd_hashed_admit(h, n, g->row + from, rows));
    h->rows.n = 0;
    int64_t members = g->start ? g->start[from + n] - g->start[from] : n;
    if (!pd_vec_reserve(&h->rows, (int)members)) return pd_no_memory();
    int is_whole = !g->start; /* the gradient can be used where it is */
    for (int i = 0; i < n; i++)
        is_whole &= rows[i] != NULL;
    if (!is_whole && !pd_room_growing(&h->grad, &h->grad_size, (size_t)(members * w) * sizeof *grad))
        return pd_no_memory();
    for (int i = 0; i < n; i++) {
        if (!rows[i]) continue;
        int64_t first = g->start ? g->start[from + i] : from + i,
                end = g->start ? g->start[from + i + 1] : first + 1;
        for (int64_t m = first; m < end; m++) {
            int64_t at = g->start ? g->at[m] : m;
            if (!is_whole) memcpy((float *)h->grad + h->rows.n * w, grad + at * w, (size_t)w * sizeof *grad);
            h->rows.at[h->rows.n++] = there;
        }
        rows[there++] = rows[i];
    }
    return there ? run_rule(h, there, rows, h->rows.n, h->rows.at, is_whole ? grad + from * w : h->grad)
                 : PD_OK;
}

/* Rows that this update has not touched, by a gradient of zero. */
static pd_status update_others(struct hashed *h)
{
    struct pd_row *rows[PD_HASHED_BATCH];
    int64_t numbers = pd_row_store_numbers(h->store);
    int n = 0;
    for (int64_t k = 0; k < numbers; k++) {
        struct pd_row *row = pd_row_store_at(h->store, k);
        if (row && row->count && row->step != (uint32_t)pd_hashed_now(h)) rows[n++] = row;
        if (n < PD_HASHED_BATCH && (k + 1 < numbers || !n)) continue;
        PD_TRY(run_rule(h, n, rows, 0, NULL, NULL));
        n = 0;
    }
    return PD_OK;
}

static pd_status group(struct hashed *h, int64_t n, const int64_t *ids, struct pd_rows_groups *out)
{
    if (pd_rows_ascending(ids, n)) {
        *out = (struct pd_rows_groups){.n = n, .row = (int64_t *)ids};
        return PD_OK;
    }
    if (!pd_room_growing(&h->groups, &h->groups_size, pd_rows_group_bytes(n))) return pd_no_memory();
    pd_rows_group(ids, n, h->groups, out);
    return PD_OK;
}

static pd_status update_rows(struct pd_table *table, int is_given, int64_t n, const int64_t *ids,
                             const void *grad)
{
    struct hashed *h = (struct hashed *)table;
    struct pd_rows_groups g = {0};
    void *none;
    if (n) PD_TRY(group(h, n, ids, &g));
    for (int64_t at = 0; at < g.n; at += PD_HASHED_BATCH)
        PD_TRY(update_batch(h, &g, at, g.n - at < PD_HASHED_BATCH ? (int)(g.n - at) : PD_HASHED_BATCH, grad));
    if (is_given && pd_rule_changes_all(h->rule)) PD_TRY(update_others(h));
    /* What is one number for all rows advances once, behind the last of them. */
    for (int k = 0; k < h->columns; k++)
        PD_TRY(pd_rule_gather(h->rule, 0, k, &none));
    PD_TRY(pd_rule_gathered(h->rule, is_given, 0, NULL, NULL, 1));
    pd_hashed_sweep(h, g.n);
    h->clock += is_given != 0;
    return PD_OK;
}

static int ends_bare(const struct pd_table *table)
{
    return pd_rule_has_tail(((const struct hashed *)table)->rule);
}

static void tally(const struct pd_table *table, struct pd_table_tally *out)
{
    const struct hashed *h = (const void *)table;
    out->admitted = h->admitted;
    out->evicted = h->evicted;
    out->waiting_bytes = h->waiting ? pd_row_store_bytes(h->waiting) : 0;
}

static uint64_t bytes(const struct pd_table *table)
{
    const struct hashed *h = (const struct hashed *)table;
    return pd_row_store_bytes(h->store) + (h->waiting ? pd_row_store_bytes(h->waiting) : 0);
}

static int64_t rows(const struct pd_table *table)
{
    return pd_row_store_rows(((const struct hashed *)table)->store);
}

/* ---- life ---- */

static void free_hashed(struct pd_table *table)
{
    struct hashed *h = (struct hashed *)table;
    pd_rule_free(h->rule);
    pd_row_start_free(h->start);
    pd_row_store_free(h->store);
    pd_row_store_free(h->waiting);
    pd_vec_free(&h->rows);
    pd_free_aligned(h->grad);
    pd_free_aligned(h->groups);
    pd_free(h->begin);
    pd_free(h);
}

static const struct pd_table_kind hashed = {
    .name = "hashed",
    .has_row = has_row,
    .pull = pull,
    .update_rows = update_rows,
    .ends_bare = ends_bare,
    .bytes = bytes,
    .tally = tally,
    .rows = rows,
    .part = pd_hashed_part,
    .load = pd_hashed_load,
    .save = pd_hashed_save,
    .free = free_hashed,
};

static pd_status open_hashed(struct hashed *h, const struct pd_engine *engine)
{
    const struct pd_meta *m = &h->table.meta;
    h->width = pd_meta_span(m, 1, m->rank);
    h->columns = pd_rule_columns(h->rule);
    if (m->dtype != PD_DTYPE_FP32 || m->rank != 2 || h->width < 1 ||
        h->width > PD_ROW_FLOATS_MOST / h->columns)
        return pd_fail(PD_UNSUPPORTED,
                       "the table '%s' is %s %s; rows by id are of float32, 1 to %d in all states",
                       h->table.name, pd_dtype_name(m->dtype), pd_meta_dims_text(m), PD_ROW_FLOATS_MOST);
    PD_TRY(pd_row_start_new(engine, h->options.start, h->table.name, h->width, &h->start));
    PD_TRY(pd_row_store_new((int)h->width * h->columns, &h->store));
    if (h->options.count > 1) PD_TRY(pd_row_store_new(0, &h->waiting));
    h->begin = pd_calloc((size_t)h->width * (size_t)h->columns, sizeof *h->begin);
    if (!h->begin) return pd_no_memory();
    for (int k = 1; k < h->columns; k++) {
        const struct pd_tensor *t = &pd_rule_start(h->rule, k)->tensor;
        if (pd_tensor_numel(t) < h->width)
            return pd_fail(PD_SHAPE, "a state of the table '%s' has no row, which says what rows begin with",
                           h->table.name);
        memcpy(h->begin + k * h->width, t->data, (size_t)h->width * sizeof *h->begin);
    }
    return pd_hashed_take(h, engine);
}

pd_status pd_table_hashed_new(const struct pd_engine *engine, const char *name, struct pd_value *value,
                              struct pd_rule *rule, const struct pd_hashed_options *options,
                              struct pd_table **out)
{
    struct hashed *h = rule ? pd_calloc(1, sizeof *h) : NULL;
    if (!h) {
        pd_status status =
            rule ? pd_no_memory()
                 : pd_fail(PD_UNSUPPORTED,
                           "the optimizer's block of the table '%s' has more in it than a merge and one "
                           "elementwise optimizer, which rows by id need",
                           name);
        pd_rule_free(rule);
        return status;
    }
    h->rule = rule;
    h->options = *options;
    h->table = (struct pd_table){
        .kind = &hashed, .name = name, .meta = value->tensor.meta, .height = options->height, .value = value};
    h->table.meta.lod = NULL;
    pd_status status = open_hashed(h, engine);
    if (status != PD_OK) {
        free_hashed(&h->table);
        return status;
    }
    *out = &h->table;
    return PD_OK;
}

int64_t pd_table_rows(const struct pd_table *table)
{
    return table->kind->rows ? table->kind->rows(table) : table->height;
}
