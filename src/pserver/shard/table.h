/* A table: what a gradient changes on a server, and trainers pull rows of. Its kind says how rows are found
 * and updated; the shard, which gathers gradients and knows whose step it is, asks nothing else.
 *
 * Of the shard's thread only, once the server serves. A kind is one const struct (table_value.c has the first
 * two: variables of the server's scope). */
#ifndef PD_PSERVER_TABLE_H
#define PD_PSERVER_TABLE_H

#include <stdio.h>

#include "pserver/shard/rule.h"

struct pd_table;

/* Memory of a table that a snapshot has, as it is: `n` pieces of `size` bytes, called `what`. */
struct pd_table_part {
    const char *what;
    const void *data;
    int64_t n;
    size_t size;
};

/* What a table knows of its rows beside their number. */
struct pd_table_tally {
    uint64_t admitted, evicted; /* rows that were made, and that went, since the server was started */
    uint64_t waiting_bytes;     /* of its bytes: of ids that have no row yet */
};

struct pd_table_kind {
    const char *name;
    /* Does a row below the table's height lie here? NULL: all do. */
    int (*has_row)(const struct pd_table *table, int64_t row);
    /* n rows, one after the other, into `out`; `rows` are as trainers name them in lookups. PD_RANGE: one of
     * them is not there. */
    pd_status (*pull)(struct pd_table *table, int64_t n, const int64_t *rows, void *out);
    /* Elements [first, first + n) of a dense gradient; is_last: the step's last part. NULL: gradients are
     * rows.
     */
    pd_status (*update_part)(struct pd_table *table, int64_t first, int64_t n, const void *grad, int is_last);
    /* A sparse gradient; rows may repeat. Not given: the whole of it has no rows, anywhere; only asked for
     * where ends_bare says so. NULL: the engine runs the gradient's block instead. */
    pd_status (*update_rows)(struct pd_table *table, int is_given, int64_t n, const int64_t *rows,
                             const void *grad);
    /* Does a step without rows change it? NULL: no. */
    int (*ends_bare)(const struct pd_table *table);
    uint64_t (*bytes)(const struct pd_table *table); /* that it holds */
    int64_t (*rows)(const struct pd_table *table);   /* that are there; NULL: its height */
    void (*tally)(const struct pd_table *table, struct pd_table_tally *out); /* NULL: it counts nothing */
    /* What a snapshot keeps, from number 0 on, in this order; 0: there is no such part. They stay where they
     * are until the next update. NULL: its value is all. */
    int (*part)(const struct pd_table *table, int number, struct pd_table_part *out);
    /* Takes up a part that this server, or another one of a former job, has kept. Rows that do not lie here
     * are left out. Before the first part comes NULL: what the table has goes. */
    pd_status (*load)(struct pd_table *table, const struct pd_table_part *part);
    /* Writes its rows as selected rows (tensor/file.h), of the table or, where `of` is the variable of a
     * state, of that. NULL: the variable is as it is. */
    pd_status (*save)(const struct pd_table *table, const struct pd_value *of, FILE *file);
    void (*free)(struct pd_table *table);
};

/* The head of every kind's own struct. */
struct pd_table {
    const struct pd_table_kind *kind;
    const char *name;       /* for messages; borrowed */
    struct pd_meta meta;    /* element type and shape; a row is all but the first dimension */
    int64_t height;         /* rows have numbers below it; INT64_MAX: all that are not negative */
    struct pd_value *value; /* the variable of the scope that it is; NULL: it is none */
};

/* Is it updated by its kind, and not by the engine? */
static inline int pd_table_is_direct(const struct pd_table *table)
{
    return table->kind->update_rows != NULL;
}

void pd_table_free(struct pd_table *table); /* NULL is fine */
/* A variable of the scope, with elements or rows; borrowed. Takes the rule, also on error; NULL: the engine
 * updates it. */
pd_status pd_table_of_value(const char *name, struct pd_value *value, struct pd_rule *rule,
                            struct pd_table **out);
/* Rows [0, height) of a variable by their places in it; `name` is for the message. */
pd_status pd_table_copy_rows(const struct pd_value *value, const char *name, int64_t n, const int64_t *rows,
                             void *out);

#endif
