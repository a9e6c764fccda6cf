/* The control loop of a server: connections that are not trainers' (other servers, tools). It owns the
 * listener too, so that handshakes and questions are answered while the lanes compute. */
#ifndef PD_PSERVER_CONTROL_H
#define PD_PSERVER_CONTROL_H

#include "net/conn.h"

struct pd_server;
struct pd_control;
struct pd_status_desk;

/* `names`: the endpoints of all servers of the job. */
pd_status pd_control_new(struct pd_server *server, int n, const char *const *names, struct pd_control **out);
/* On the control loop: may this server or tool come in? */
pd_status pd_control_greet(struct pd_control *control, const struct pd_hello *hello, const char *peer);
struct pd_status_desk *pd_control_desk(const struct pd_control *control);
struct pd_loop *pd_control_loop(const struct pd_control *control);
extern const struct pd_conn_events pd_control_events;
void pd_control_accepted(struct pd_control *control, struct pd_conn *conn);
/* Ends its connections, and the listener. Lanes may still post to its loop. NULL is fine. */
void pd_control_close(struct pd_control *control);
void pd_control_free(struct pd_control *control); /* after all lanes' loops were freed */
/* Answers a BEAT that wants to know whether it arrives. On any loop. */
pd_status pd_control_beat(struct pd_conn *conn, const struct pd_message *message);

#endif
