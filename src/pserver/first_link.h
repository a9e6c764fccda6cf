/* A server's way to the first server of its job: one connection, on the control loop, for the order of steps
 * (order.h) and for sums over servers (sums.h). It is made again when it breaks; while it is not there the
 * server says so, and so do the trainers that wait for that. */
#ifndef PD_PSERVER_FIRST_LINK_H
#define PD_PSERVER_FIRST_LINK_H

#include "net/conn.h"

struct pd_server;
struct pd_first_link;

/* Before the control loop runs, at all servers but the first. `self` is this one's place in the list. */
pd_status pd_first_link_new(struct pd_server *server, struct pd_loop *control, const char *first, int self,
                            struct pd_first_link **out);
void pd_first_link_free(struct pd_first_link *link); /* after all loops were freed. NULL is fine */
/* On the control loop: nothing stands in the way any more. */
void pd_first_link_works(struct pd_first_link *link);
/* Is there none? Then since when, and why. Any thread. */
int pd_first_link_trouble(struct pd_first_link *link, char *out, size_t cap);

#endif
