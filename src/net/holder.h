/* What has a TCP port of this machine, for the message about a taken one. */
#ifndef PD_NET_HOLDER_H
#define PD_NET_HOLDER_H

struct pd_holder {
    char who[320];   /* " (held by process 123, python train.py)", " by a connection that ..."; empty: /proc
                        does not tell */
    char advice[80]; /* what to do about it, as a sentence without its full stop */
};

void pd_port_holder(int port, struct pd_holder *out);

#endif
