/* What rule.c and rule_rows.c share. */
#ifndef PD_PSERVER_RULE_PRIVATE_H
#define PD_PSERVER_RULE_PRIVATE_H

#include "base/vec.h"
#include "pserver/shard/rule.h"

struct pd_rule_view {
    struct pd_value *whole; /* of the scope */
    struct pd_value *part;  /* the view handed to the op; the same as `whole` for single numbers */
    int is_written;
};

/* One op with its arguments at hand. */
struct pd_rule_call {
    struct pd_run run;
    struct pd_attr *attrs;
    struct pd_values *slots;
    struct pd_value **args;
    struct pd_rule_view *views;
    int n_views, n_args;
};

/* What a table that keeps its rows itself (table_hashed.c) has of the parameter, or of a state that has its
 * rows: those that are being updated, gathered. */
struct pd_rule_column {
    struct pd_value *start; /* the scope's; of a state: the row that rows begin with */
    struct pd_value *rows;
};

struct pd_rule {
    struct pd_step step;
    struct pd_rule_call update;
    struct pd_rule_call *tail; /* ops on single numbers after it: powers of beta */
    int n_tail;
    struct pd_value *param, *grad; /* grad: the view of the gradient */
    const char *name;              /* of the parameter; the Program's */
    int is_checked;                /* what it makes must be finite */
    int64_t numel, width;
    /* A parameter that is selected rows first_row, first_row + row_step, ...: the op sees a tensor, and
     * gradients name its rows. row_step 0: a tensor, or rows in another order. */
    int64_t first_row, row_step;
    PD_VEC(int64_t) rows;
    int has_columns; /* the first is the parameter's */
    PD_VEC(struct pd_rule_column) columns;
    void *scratch;
    size_t scratch_size;
};

/* Points the views of whole-sized state at the part. */
void pd_rule_aim(struct pd_rule *rule, int64_t first, int64_t n);
/* What each step advances once does so with the last part. */
pd_status pd_rule_run(struct pd_rule *rule, int is_last);
/* rule_rows.c: has it a row for each of the parameter's? */
int pd_rule_is_column(const struct pd_rule *rule, const struct pd_value *value);
/* A column takes the place of the scope's variable. */
pd_status pd_rule_take_column(struct pd_rule *rule, struct pd_value **value);
void pd_rule_free_columns(struct pd_rule *rule);

#endif
