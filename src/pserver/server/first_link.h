/* A server's way to another one that it needs: a connection, on the control loop, to the first server of its
 * job for the order of steps (order.h), and to the one that adds for sums over servers (sums.h). Mostly that
 * is the same server, and one connection. It is made again when it breaks; while it is not there the server
 * says so, and so do the trainers that wait for that. */
#ifndef PD_PSERVER_FIRST_LINK_H
#define PD_PSERVER_FIRST_LINK_H

#include "net/conn.h"

struct pd_server;
struct pd_order;
struct pd_sums;
struct pd_first_link;

struct pd_first_link_spec {
    const char *to;
    int place, self;        /* where that one and this one stand in the job's list */
    struct pd_order *order; /* what it is for; NULL: not for that */
    struct pd_sums *sums;
};

/* Before the control loop runs. */
pd_status pd_first_link_new(struct pd_server *server, struct pd_loop *control,
                            const struct pd_first_link_spec *spec, struct pd_first_link **out);
void pd_first_link_free(struct pd_first_link *link); /* after all loops were freed. NULL is fine */
/* On the control loop: nothing stands in the way any more. */
void pd_first_link_works(struct pd_first_link *link);
/* Is there none? Then since when, and why. Any thread. */
int pd_first_link_trouble(struct pd_first_link *link, char *out, size_t cap);

#endif
