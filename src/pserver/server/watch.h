/* What a server shows to those who watch it by HTTP (FLAGS_ps_http): /healthz, /readyz, /metrics,
 * /status.json and a page. docs/WATCHING.md tells of them.
 *
 * Requests come on the door's own thread (net/http.h), which never touches a lane: it asks the control loop,
 * as `paddle ps status` does, and one gathering serves all who asked meanwhile or ask a moment later. */
#ifndef PD_PSERVER_WATCH_H
#define PD_PSERVER_WATCH_H

#include "base/buf.h"
#include "pserver/server/status.h"

struct pd_watch;

/* `where` is as the flag has it; empty or NULL: *out is NULL. `server` is borrowed until pd_watch_close;
 * NULL: one that has no Program yet. */
pd_status pd_watch_open(struct pd_server *server, const char *where, struct pd_watch **out);
void pd_watch_serves(struct pd_watch *watch); /* its control loop runs: trainers may come */
/* Its control loop is about to be closed. All of these: NULL is fine. */
void pd_watch_ends(struct pd_watch *watch);
void pd_watch_close(struct pd_watch *watch);
void pd_watch_free(struct pd_watch *watch); /* after the control loop */

/* status_metrics.c: the text of /metrics. `server` NULL: it has no Program; `lanes` NULL: it does not serve.
 */
void pd_status_write_metrics(struct pd_server *server, double uptime_s, const struct pd_lane_report *lanes,
                             int is_ready, struct pd_buf *out);

#endif
