/* How long the calling thread has waited for servers: who runs Programs tells computing from waiting by it.
 */
#ifndef PD_BASE_WAITED_H
#define PD_BASE_WAITED_H

#include <stdint.h>

/* Nanoseconds, of all waits of this thread so far. */
int64_t pd_waited(void);
/* One wait more, from `begin` (pd_clock_ns) until now. */
void pd_waited_since(int64_t begin);

#endif
