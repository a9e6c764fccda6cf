/* Tables that are variables of the server's scope: a tensor, or the selected rows of one that is dealt out
 * over servers. An optimizer's op updates them (rule.h), or the engine does. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pserver/shard/table.h"

struct variable {
    struct pd_table table;
    struct pd_rule *rule;
};

static struct pd_rule *rule_of(const struct pd_table *table)
{
    return ((const struct variable *)table)->rule;
}

pd_status pd_table_copy_rows(const struct pd_value *value, const char *name, int64_t n, const int64_t *rows,
                             void *out)
{
    const struct pd_tensor *t = &value->tensor;
    size_t row = pd_meta_row_bytes(&t->meta);
    for (int64_t i = 0; i < n; i++) {
        if (rows[i] < 0 || rows[i] >= t->meta.dim[0])
            return pd_fail(PD_RANGE, "row %lld of '%s', which has %lld rows here", (long long)rows[i], name,
                           (long long)t->meta.dim[0]);
        memcpy((char *)out + (size_t)i * row, (const char *)t->data + (size_t)rows[i] * row, row);
    }
    return PD_OK;
}

static pd_status pull(struct pd_table *table, int64_t n, const int64_t *rows, void *out)
{
    return pd_table_copy_rows(table->value, table->name, n, rows, out);
}

static int has_row(const struct pd_table *table, int64_t row)
{
    return pd_rule_has_row(rule_of(table), row);
}

static pd_status update_part(struct pd_table *table, int64_t first, int64_t n, const void *grad, int is_last)
{
    return pd_rule_dense(rule_of(table), first, n, grad, is_last);
}

static pd_status update_rows(struct pd_table *table, int is_given, int64_t n, const int64_t *rows,
                             const void *grad)
{
    return pd_rule_rows(rule_of(table), is_given, n, rows, grad);
}

static int ends_bare(const struct pd_table *table)
{
    return pd_rule_has_tail(rule_of(table));
}

static uint64_t bytes(const struct pd_table *table)
{
    return pd_tensor_bytes(&table->value->tensor);
}

static void free_variable(struct pd_table *table)
{
    pd_rule_free(rule_of(table));
    pd_free(table);
}

static const struct pd_table_kind by_rule = {
    .name = "variable",
    .has_row = has_row,
    .pull = pull,
    .update_part = update_part,
    .update_rows = update_rows,
    .ends_bare = ends_bare,
    .bytes = bytes,
    .free = free_variable,
};

static const struct pd_table_kind by_engine = {
    .name = "variable of the engine", .pull = pull, .bytes = bytes, .free = free_variable};

pd_status pd_table_of_value(const char *name, struct pd_value *value, struct pd_rule *rule,
                            struct pd_table **out)
{
    struct variable *v = pd_calloc(1, sizeof *v);
    if (!v) {
        pd_rule_free(rule);
        return pd_no_memory();
    }
    const struct pd_meta *m = &value->tensor.meta;
    v->rule = rule;
    v->table.kind = rule ? &by_rule : &by_engine;
    v->table.name = name;
    v->table.meta = *m;
    v->table.meta.lod = NULL;
    v->table.height = pd_value_is_rows(value) ? value->height : m->rank ? m->dim[0] : 1;
    v->table.value = value;
    *out = &v->table;
    return PD_OK;
}

void pd_table_free(struct pd_table *table)
{
    if (table) table->kind->free(table);
}
