/* The control loop of a server: connections that are not trainers' (other servers, tools). It owns the
 * listener too, so that handshakes and questions are answered while the lanes compute.
 *
 * Sums over servers: a clip by a norm over parameters on several servers needs their squares added up. The
 * first server adds; every server, the first included, waits until all have given theirs for the step. */
#ifndef PD_PSERVER_CONTROL_H
#define PD_PSERVER_CONTROL_H

#include "net/conn.h"

struct pd_server;
struct pd_control;

pd_status pd_control_new(struct pd_server *server, struct pd_control **out);
struct pd_loop *pd_control_loop(const struct pd_control *control);
extern const struct pd_conn_events pd_control_events;
void pd_control_accepted(struct pd_control *control, struct pd_conn *conn);
void pd_control_free(struct pd_control *control);

/* At the first server: gives its own numbers for (group, step) and waits for those of all `servers`; `values`
 * become the sums. From a lane's thread. Names the servers that are late, again and again, up to the
 * deadline. */
pd_status pd_control_sum(struct pd_control *control, const char *group, uint64_t step, int servers, int n,
                         double *values);

#endif
