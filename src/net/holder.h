/* Who holds a TCP port of this machine, for the message about a taken one. */
#ifndef PD_NET_HOLDER_H
#define PD_NET_HOLDER_H

#include <stddef.h>

/* Writes " (held by process 123, python train.py)" when /proc tells, else an empty text. Returns `out`. */
const char *pd_port_holder(int port, char *out, size_t cap);

#endif
