/* What tls.c and tls_settings.c share. */
#ifndef PD_NET_TLS_INSIDE_H
#define PD_NET_TLS_INSIDE_H

#include <openssl/types.h>

#include "net/tls.h"

struct pd_tls_settings {
    SSL_CTX *server, *client;
};

#endif
