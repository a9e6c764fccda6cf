/* A table of rows by 64-bit id, made when they are first updated: no vocabulary, and no room for what nobody
 * trains. A row has the parameter and the optimizer's states of it together (kernels/row_store.h).
 *
 * Lookups change nothing: of a row that is not there they give what it would begin with (row_start.h). So
 * what a table holds is a function of the pushes alone, and a log of them makes the same table again. Its
 * clock counts them: the steps of a sync job, the pushes of trainers in an async one. */
#ifndef PD_PSERVER_TABLE_HASHED_H
#define PD_PSERVER_TABLE_HASHED_H

#include "pserver/shard/row_start.h"
#include "pserver/shard/table.h"

struct pd_hashed_options {
    int64_t first, step; /* ids first, first + step, ... lie here */
    int64_t height;      /* ids are below it; INT64_MAX: any that is not negative */
    int start;           /* block that says what rows begin with */
    /* Which ids get a row: all, */
    int64_t
        count; /* those that came in so many updates (0 or 1: all); until then their gradients are dropped */
    double chance; /* or each time an id comes that has none, with this chance; 1: all */
    /* And until when: */
    int64_t expires; /* a row that so many updates did not touch begins anew; 0: never */
    int64_t most;    /* rows here at most: those that were not touched for longest go; 0: any number */
};

/* "name", then settings, with tabs: "first=0", "step=2", "height=1000", "start=3", "count=10", "chance=0.5",
 * "expires=5000", "most=1000000". What is left out is 0, step, height and chance as if there was no such
 * setting. */
pd_status pd_hashed_options_read(const char *text, struct pd_hashed_options *out);

/* `value` is the variable of the scope that the table goes by: a tensor of one row, as its states are, whose
 * row is what they begin with. Selected rows NAME@ROWS, of the table or of a state, and the files that
 * NAME@FILES names, are what a script has loaded: they become the table's (table_hashed_take.c). Takes the
 * rule, also on error. */
pd_status pd_table_hashed_new(const struct pd_engine *engine, const char *name, struct pd_value *value,
                              struct pd_rule *rule, const struct pd_hashed_options *options,
                              struct pd_table **out);
/* Rows that are there; of another kind of table: its height. */
int64_t pd_table_rows(const struct pd_table *table);

#endif
