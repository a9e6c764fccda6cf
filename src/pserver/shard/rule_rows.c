/* Rules over rows that a table keeps itself: the parameter and its states are columns of gathered rows. */
#include <string.h>

#include "base/error.h"
#include "pserver/shard/rule_private.h"

int pd_rule_is_column(const struct pd_rule *rule, const struct pd_value *value)
{
    const struct pd_meta *m = &value->tensor.meta, *p = &rule->param->tensor.meta;
    int same = m->dtype == p->dtype && m->rank == p->rank && m->rank > 1;
    for (int i = 1; i < m->rank && same; i++)
        same = m->dim[i] == p->dim[i];
    return same;
}

pd_status pd_rule_take_column(struct pd_rule *rule, struct pd_value **value)
{
    for (int i = 0; i < rule->columns.n; i++)
        if (rule->columns.at[i].start == *value) {
            *value = rule->columns.at[i].rows;
            return PD_OK;
        }
    struct pd_rule_column c = {.start = *value};
    const struct pd_meta *m = &(*value)->tensor.meta;
    PD_TRY(pd_value_new(PD_KIND_TENSOR, &c.rows));
    pd_status status =
        pd_tensor_resize(&c.rows->tensor, m->dtype, 2, (int64_t[]){2, pd_meta_span(m, 1, m->rank)});
    if (status == PD_OK && !pd_vec_push(&rule->columns, c)) status = pd_no_memory();
    if (status != PD_OK) {
        pd_value_unref(c.rows);
        return status;
    }
    *value = c.rows;
    return PD_OK;
}

void pd_rule_free_columns(struct pd_rule *rule)
{
    for (int i = 0; i < rule->columns.n; i++)
        pd_value_unref(rule->columns.at[i].rows);
    pd_vec_free(&rule->columns);
}

int pd_rule_columns(const struct pd_rule *rule)
{
    return rule->columns.n;
}

const struct pd_value *pd_rule_start(const struct pd_rule *rule, int column)
{
    return rule->columns.at[column].start;
}

int pd_rule_changes_all(const struct pd_rule *rule)
{
    const struct pd_rule_call *c = &rule->update;
    for (int i = 0; c->run.op->attrs && c->run.op->attrs[i].name; i++)
        if (strcmp(c->run.op->attrs[i].name, "lazy_mode") == 0 && c->attrs[i].b) return 0;
    return !(c->run.op->flags & PD_OP_OWN_ROWS);
}

pd_status pd_rule_gather(struct pd_rule *rule, int64_t n, int column, void **out)
{
    struct pd_tensor *t = &rule->columns.at[column].rows->tensor;
    PD_TRY(pd_tensor_resize(t, t->meta.dtype, 2, (int64_t[]){n, rule->width}));
    *out = t->data;
    return PD_OK;
}

pd_status pd_rule_gathered(struct pd_rule *rule, int is_given, int64_t n, const int64_t *rows,
                           const void *grad, int is_last)
{
    struct pd_value *g = rule->grad, *param = rule->columns.at[0].rows;
    rule->numel = pd_tensor_numel(&param->tensor);
    rule->step.is_slice = is_given;
    pd_rule_aim(rule, 0, rule->numel);
    g->tensor.meta.kind = PD_KIND_SELECTED_ROWS;
    g->tensor.meta.dtype = param->tensor.meta.dtype;
    pd_meta_set_2d(&g->tensor.meta, n, rule->width);
    g->tensor.data = (void *)grad;
    g->rows.at = (int64_t *)rows;
    g->rows.n = g->rows.cap = (int)n;
    g->height = param->tensor.meta.dim[0];
    pd_status status = pd_rule_run(rule, is_last);
    g->rows.at = NULL;
    g->rows.n = g->rows.cap = 0;
    return status;
}
