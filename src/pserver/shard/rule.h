/* An update rule: the optimizer op of a server's optimize block, run straight on a part of its parameter.
 *
 * Most optimize blocks only average the trainers' gradients and call one optimizer. Such a block needs no
 * plan: the op runs on views of the parameter and its state, over the elements of one part while these are in
 * the cache. Blocks with more in them (decay, clips) are not recognised and run through the engine. */
#ifndef PD_PSERVER_RULE_H
#define PD_PSERVER_RULE_H

#include "pserver/engine.h"

struct pd_rule;

/* *out is NULL when the block is not recognised. `merged` is the name of the averaged gradient. Variables are
 * those that the block sees. The rule borrows them. */
pd_status pd_rule_new(const struct pd_engine *engine, int block, const char *merged, struct pd_rule **out);
void pd_rule_free(struct pd_rule *rule);

/* Are the trainers' gradients added up to `merged`, and not averaged? By the block, or by the one that runs
 * before all of them (-1: there is none), whether there is a rule or not. */
int pd_rule_adds(const struct pd_engine *engine, int prepare, int block, const char *merged);
/* Is this a row of the parameter? One that is selected rows has only some of its height. */
int pd_rule_has_row(const struct pd_rule *rule, int64_t row);

/* Elements [first, first + n) of a dense gradient; n is a multiple of a row unless it is the last. `last`:
 * the step's last part of this parameter (state of one element advances). */
pd_status pd_rule_dense(struct pd_rule *rule, int64_t first, int64_t n, const void *grad, int last);
/* A sparse gradient; rows may repeat. Not given: the whole of it has no rows, anywhere, and only the ops
 * behind the update run, as in one process. */
pd_status pd_rule_rows(struct pd_rule *rule, int is_given, int64_t n, const int64_t *rows, const void *grad);
int pd_rule_has_tail(const struct pd_rule *rule); /* are there such ops? */

/* ---- rows that a table keeps itself ---- */

/* A rule over rows that its caller gathers: of the parameter, and of each state that has its rows. The
 * variables of the scope only say how wide they are. */
pd_status pd_rule_new_of_rows(const struct pd_engine *engine, int block, const char *merged,
                              struct pd_rule **out);
/* How many such columns there are, the parameter's first; and the scope's variable of one. */
int pd_rule_columns(const struct pd_rule *rule);
const struct pd_value *pd_rule_start(const struct pd_rule *rule, int column);
/* Does a step change rows, too, for which the gradient has nothing? */
int pd_rule_changes_all(const struct pd_rule *rule);
/* Room for n rows of a column: they are put there, and are there, changed, after pd_rule_gathered. */
pd_status pd_rule_gather(struct pd_rule *rule, int64_t n, int column, void **out);
/* As pd_rule_rows; `rows` count among those that were gathered. `is_last`: of the step. */
pd_status pd_rule_gathered(struct pd_rule *rule, int is_given, int64_t n, const int64_t *rows,
                           const void *grad, int is_last);

#endif
