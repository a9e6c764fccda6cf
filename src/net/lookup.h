/* Looking names up (DNS, /etc/hosts) without holding a loop up: getaddrinfo may block for minutes. */
#ifndef PD_NET_LOOKUP_H
#define PD_NET_LOOKUP_H

#include <paddle/status.h>
#include <sys/socket.h>

#include "net/endpoint.h"
#include "net/loop.h"

enum { PD_LOOKUP_ADDRESSES = 8 };

struct pd_addresses {
    int n;
    struct sockaddr_storage at[PD_LOOKUP_ADDRESSES];
    socklen_t lengths[PD_LOOKUP_ADDRESSES];
};

struct pd_lookup;
/* Looks the endpoint's name up on another thread. done(arg, status, text, addresses) is called from the loop:
 * PD_OK and the addresses, or why there are none. After it the lookup is gone. Errors here: no memory, no
 * thread. */
pd_status pd_lookup_start(struct pd_loop *loop, const struct pd_endpoint *endpoint,
                          void (*done)(void *arg, pd_status status, const char *text,
                                       const struct pd_addresses *addresses),
                          void *arg, struct pd_lookup **out);
/* Never blocks; done is not called any more. On the loop's thread, before done; NULL is fine. */
void pd_lookup_cancel(struct pd_lookup *lookup);

#endif
