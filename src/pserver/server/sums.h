/* Sums over the servers of a job: a clip by a norm over parameters on several servers needs their squares
 * added up (ops ps_sum of the server's Program).
 *
 * Servers that hold none of these parameters have no part in it. Of those that do, the first adds: it need
 * not be the first of the job. Every one of them waits until all have given their numbers of a step. The
 * others have a connection to the one that adds, on their control loop, and say their last numbers again on
 * each new one: when it was killed it may need them once more after they went on. What a step's sums were is
 * logged with the step, so that it can be done again without the others. */
#ifndef PD_PSERVER_SUMS_H
#define PD_PSERVER_SUMS_H

#include "base/buf.h"
#include "net/conn.h"

struct pd_server;
struct pd_sums;

enum { PD_SUMS_MAX = 4096 }; /* numbers of one op */

/* Before the log is read. *out is NULL when the Program adds nothing over servers. Borrows the job's list of
 * servers for the call. */
pd_status pd_sums_new(struct pd_server *server, int n_servers, const char *const *servers,
                      struct pd_sums **out);
void pd_sums_start(struct pd_sums *sums, struct pd_loop *control); /* before that loop runs */
void pd_sums_free(struct pd_sums *sums); /* after all loops were freed. NULL is fine */

/* On the thread of the lane that applies `step`: gives this server's numbers; `values` become the sums. Names
 * those who are late, again and again, up to the deadline. */
pd_status pd_sums_add(struct pd_sums *sums, const char *group, uint64_t step, int n, double *values);

/* Before the loops run: sums that the log has (payload of PD_CHANGE_SUMS), or a snapshot. */
pd_status pd_sums_recall(struct pd_sums *sums, uint32_t number, uint64_t step, const void *totals,
                         size_t bytes);
void pd_sums_write(struct pd_sums *sums, struct pd_buf *text); /* those of the last step, for a snapshot */
void pd_sums_read(struct pd_sums *sums, const char *text);

/* On the control loop of the one that adds: SUM of another; its connection is gone. */
pd_status pd_sums_message(struct pd_sums *sums, struct pd_conn *conn, const struct pd_message *message);
void pd_sums_forget(struct pd_sums *sums, const struct pd_conn *conn);

/* At the others, for first_link.c; on the control loop. */
/* The one that adds; NULL: it is this server. *self and *place: where this one and that one stand in the
 * job's list. */
const char *pd_sums_first(const struct pd_sums *sums, int *self, int *place);
void pd_sums_first_opened(struct pd_sums *sums, struct pd_conn *conn);
pd_status pd_sums_first_said(struct pd_sums *sums, const struct pd_message *message);
void pd_sums_first_closed(struct pd_sums *sums);
/* Is an answer waited for? Adds to *request what changes with the question. */
int pd_sums_first_owes(struct pd_sums *sums, uint64_t *request);

#endif
