/* A door for browsers, scrapers and probes: HTTP, GET and HEAD only, by libmicrohttpd on a thread of its own.
 *
 * Nobody who comes there is trusted, and nothing that they do holds up the rest of the process: connections,
 * time and memory of each are limited, bodies are not read. It is plain HTTP without a password: what is
 * shown is for all who reach the port, which is on loopback unless told otherwise. */
#ifndef PD_NET_HTTP_H
#define PD_NET_HTTP_H

#include <paddle/status.h>
#include <stdint.h>

#include "base/buf.h"

struct pd_http;

struct pd_http_answer {
    int status;       /* 200, 404, 503 */
    const char *type; /* of the content; lasts */
    struct pd_buf body;
};

struct pd_http_site {
    /* What is at `path`? On the door's thread; it may not block. Fills `out` and returns 1, or returns 0: the
     * answer comes by pd_http_reply, from any thread, soon and for certain. */
    int (*get)(void *arg, const char *path, uint64_t ticket, struct pd_http_answer *out);
    void *arg;
};

/* `where`: "PORT" (on loopback), "HOST:PORT" or ":PORT" (all interfaces); port 0: the kernel chooses. Errors
 * and the log name `flag`, by which the user asked for it. */
pd_status pd_http_open(const char *where, const char *flag, const struct pd_http_site *site,
                       struct pd_http **out);
/* From any thread. Takes the body. That nobody waits any more is fine. */
void pd_http_reply(struct pd_http *http, uint64_t ticket, struct pd_http_answer *answer);
const char *pd_http_url(const struct pd_http *http); /* "http://127.0.0.1:8080/" */
/* Those who wait are told that it closes; `get` is not called any more. Others may still reply. NULL is fine.
 */
void pd_http_close(struct pd_http *http);
void pd_http_free(struct pd_http *http);

#endif
