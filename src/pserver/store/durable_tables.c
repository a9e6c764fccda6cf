/* What snapshots have of tables that are no variables (a hashed table's rows): each part of its memory is a
 * variable of bytes, "TABLE<tab>WHAT.NUMBER", which no variable of a Program is called. */
#include <stdio.h>
#include <string.h>

#include "pserver/store/durable_private.h"

/* Servers have parts of the same name, which are not slices of one whole: they say the same of that. */
#define ANY_ROWS ((int64_t)1 << 48)

/* The next table with parts: `unit` of `lane` on. NULL: there is none. */
static struct pd_table *next_table(const struct pd_server *s, int *lane, int *unit)
{
    for (; *lane < s->n_lanes; ++*lane, *unit = 0)
        for (; *unit < pd_shard_units(s->lanes[*lane].shard); ++*unit) {
            struct pd_table *table = pd_shard_unit(s->lanes[*lane].shard, *unit)->table;
            if (table->kind->part) return table;
        }
    return NULL;
}

int pd_tables_have(const struct pd_server *s, const struct pd_value *value)
{
    const struct pd_table *table;
    for (int lane = 0, unit = 0; (table = next_table(s, &lane, &unit)); unit++)
        if (table->value == value) return 1;
    return 0;
}

int pd_tables_count(const struct pd_server *s)
{
    const struct pd_table *table;
    struct pd_table_part part;
    int n = 0;
    for (int lane = 0, unit = 0; (table = next_table(s, &lane, &unit)); unit++)
        for (int i = 0; table->kind->part(table, i, &part); i++)
            n += part.n > 0;
    return n;
}

pd_status pd_tables_put(const struct pd_server *s, struct pd_snapshot_var *vars, struct pd_buf *names)
{
    const struct pd_table *table;
    struct pd_table_part part;
    size_t at = 0;
    /* First the names: their memory moves while it grows. */
    for (int lane = 0, unit = 0; (table = next_table(s, &lane, &unit)); unit++)
        for (int i = 0; table->kind->part(table, i, &part); i++)
            if (part.n) {
                pd_buf_printf(names, "%s\t%s.%d", table->name, part.what, i);
                pd_buf_add(names, "", 1);
            }
    if (names->failed) return pd_no_memory();
    for (int lane = 0, unit = 0; (table = next_table(s, &lane, &unit)); unit++)
        for (int i = 0; table->kind->part(table, i, &part); i++) {
            if (!part.n) continue;
            *vars++ = (struct pd_snapshot_var){.name = names->at + at,
                                               .dtype = PD_DTYPE_UINT8,
                                               .rank = 2,
                                               .dim = {part.n, (int64_t)part.size},
                                               .data = part.data,
                                               .whole = names->at + at,
                                               .row_step = 1,
                                               .whole_rows = ANY_ROWS};
            at += strlen(names->at + at) + 1;
        }
    return PD_OK;
}

/* The part that a variable of a snapshot is; 0: it is none of this table. */
static int read_part(const struct pd_table *table, const struct pd_snapshot_var *v, char what[32],
                     struct pd_table_part *out)
{
    size_t length = strlen(table->name);
    if (strncmp(v->name, table->name, length) != 0 || v->name[length] != '\t') return 0;
    const char *begin = v->name + length + 1, *end = strchr(begin, '.');
    if (!end || end - begin >= 32 || v->dtype != PD_DTYPE_UINT8 || v->rank != 2) return 0;
    snprintf(what, 32, "%.*s", (int)(end - begin), begin);
    *out = (struct pd_table_part){what, v->data, v->dim[0], (size_t)v->dim[1]};
    return 1;
}

static pd_status load_table(struct pd_table *table, const struct pd_snapshot *snapshot)
{
    const struct pd_snapshot_info *info = pd_snapshot_info(snapshot);
    int found = 0;
    for (int i = 0; i < info->n_vars; i++) {
        struct pd_table_part part;
        char what[32];
        if (!read_part(table, &info->vars[i], what, &part)) continue;
        found = 1;
        PD_TRY(table->kind->load(table, &part));
    }
    return found ? PD_OK
                 : pd_fail(
                       PD_NOT_FOUND,
                       "the snapshot of step %llu by server %s has no rows of the table '%s', which has rows "
                       "by id now: is it another job's? FLAGS_ps_fresh=1 starts anew",
                       (unsigned long long)info->step, info->endpoint, table->name);
}

pd_status pd_tables_empty(const struct pd_durable *d)
{
    struct pd_table *table;
    for (int lane = 0, unit = 0; (table = next_table(d->server, &lane, &unit)); unit++)
        PD_TRY(table->kind->load(table, NULL));
    return PD_OK;
}

pd_status pd_tables_load(const struct pd_durable *d, const struct pd_snapshot *snapshot)
{
    struct pd_table *table;
    for (int lane = 0, unit = 0; (table = next_table(d->server, &lane, &unit)); unit++)
        PD_TRY(load_table(table, snapshot));
    return PD_OK;
}
