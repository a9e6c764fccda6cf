/* Is the machine at the other end of a TCP connection still there? One that loses its power or its cable says
 * no word. Its kernel's silence tells, not the process's: a process that computes, or is stopped, is not
 * lost. */
#ifndef PD_NET_ALIVE_H
#define PD_NET_ALIVE_H

#include <stdint.h>

struct pd_alive {
    int after_ms;     /* of silence the machine counts as lost (FLAGS_ps_dead_after); 0: never */
    int64_t since_ms; /* something is unanswered since then; 0: nothing is */
};

/* Has the kernel watch the connection while it is idle. It then ends with an error by itself. */
void pd_alive_start(struct pd_alive *alive, int socket);
/* How often to ask pd_alive_is_lost, in milliseconds; 0: there is no need. */
int pd_alive_every_ms(const struct pd_alive *alive);
/* While bytes are on their way: 1 when nothing at all was heard for the time. */
int pd_alive_is_lost(struct pd_alive *alive, int socket);

#endif
