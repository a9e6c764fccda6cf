/* TLS under the protocol: encrypted, and both ends known by their certificates. It is on when the environment
 * names a certificate (PADDLE_PS_TLS_CERT), its key (PADDLE_PS_TLS_KEY) and whom to believe
 * (PADDLE_PS_TLS_CA), all of them files with PEM. Every process of the job has all three: servers ask
 * trainers for theirs. */
#ifndef PD_NET_TLS_H
#define PD_NET_TLS_H

#include "net/transport.h"

struct pd_tls_settings {
    struct ssl_ctx_st *server, *client; /* OpenSSL's SSL_CTX */
};
/* What the environment says; *out stays NULL when TLS is off. Read once for each set of names. The memory
 * stays. */
pd_status pd_tls_choose(const struct pd_tls_settings **out);

/* The state of one connection, which outlives the pipe: a connection may move to another loop. */
struct pd_tls;
/* `host`: what the server's certificate must be for; NULL: this is the server. */
pd_status pd_tls_new(const struct pd_tls_settings *settings, const char *host, struct pd_tls **out);
void pd_tls_free(struct pd_tls *tls);
/* A pipe over another one, which it takes on success. Borrows tls. */
pd_status pd_tls_pipe(struct pd_tls *tls, struct pd_pipe *under, struct pd_pipe **out);

#endif
