/* Polling before sleep. To wake a sleeping core costs ten times a small message, so who waits for one polls
 * for a moment first; but only where the processes of the job do not outnumber the cores, or the one that
 * polls would keep the other from answering. */
#ifndef PD_PSERVER_SPIN_H
#define PD_PSERVER_SPIN_H

/* Microseconds for a loop of a job with that many trainers and loops of servers: as FLAGS_ps_spin says, or
 * chosen as if all of them were on this host. */
int pd_spin_us(int processes);

#endif
