/* Endpoints as users write them: "host:port", "1.2.3.4:6174", "[::1]:6174", ":6174" or "6174" (all
 * interfaces). */
#ifndef PD_NET_ENDPOINT_H
#define PD_NET_ENDPOINT_H

#include <paddle/status.h>
#include <stddef.h>
#include <sys/socket.h>

struct pd_endpoint {
    char host[256]; /* empty: all interfaces */
    int port;       /* 0: the kernel chooses */
};

/* The message of an error names the text and what is wrong with it. */
pd_status pd_endpoint_parse(const char *text, struct pd_endpoint *out);
/* Where the server of an endpoint listens: PADDLE_PS_BIND names another address than the endpoint's, alone or
 * with another port ("0.0.0.0", "10.0.0.1:7000", "::", "[::]:7000"); else the endpoint itself. */
pd_status pd_endpoint_to_bind(const char *endpoint, struct pd_endpoint *out);
/* Looks the name up (blocks: DNS; lookup.h does not). Fills up to `cap` addresses, IPv4 and IPv6. An empty
 * host: the wildcard address when `to_bind`, else loopback. */
pd_status pd_endpoint_resolve(const struct pd_endpoint *endpoint, int to_bind, int cap,
                              struct sockaddr_storage *out, socklen_t *lengths, int *n);
/* The same for a host that is an address, which never blocks; 0: it is a name, or empty. */
int pd_endpoint_is_numeric(const struct pd_endpoint *endpoint, int cap, struct sockaddr_storage *out,
                           socklen_t *lengths, int *n);
/* Where to connect to for an endpoint: PADDLE_PS_MAP="from=to,from=to" names another way to it (a forwarded
 * port, a proxy); else the endpoint itself. Returns `out`, or `endpoint`. */
const char *pd_endpoint_map(const char *endpoint, char *out, size_t cap);
pd_status pd_endpoint_check_map(void); /* does each entry say from where to where? */
/* Is it an address of this machine that no other one reaches? */
int pd_endpoint_is_loopback(const struct sockaddr_storage *address);
/* Do both addresses stand for the same machine? All loopback addresses do; ports do not matter. */
int pd_endpoint_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* "127.0.0.1:6174", "[::1]:6174". Returns `out`. */
const char *pd_endpoint_text(const struct sockaddr *address, char *out, size_t cap);

#endif
