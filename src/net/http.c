/* See http.h. */
#include "net/http.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/vec.h"
#include "net/endpoint.h"
#include "net/holder.h"
#include "net/http_lib.h"
#include "net/sockets.h"

enum {
    CONNECTIONS_MOST = 256,
    FILES_PART = 8, /* of the descriptors that this process may have, one in so many */
    SILENT_S = 5,   /* a connection that is silent for so long is closed */
    MEMORY = 8192,  /* of a connection: its request must fit in */
    BACKLOG = 64,
    LAST_WORDS_MS = 200, /* for those who wait when it closes */
};

/* A request, from its first line to its answer. */
struct visit {
    struct pd_http *http;
    struct MHD_Connection *connection;
    uint64_t ticket; /* 0: nothing was asked for it yet */
    int is_answered, is_last;
    struct pd_http_answer answer;
};

struct pd_http {
    const struct pd_http_lib *lib;
    struct pd_http_site site;
    struct MHD_Daemon *daemon;
    int socket, is_local;
    char url[128];
    pthread_mutex_t lock; /* what follows, and the answers of visits */
    int closes;
    int n_told; /* answers at the end that are not out yet */
    uint64_t last;
    PD_VEC(struct visit *) waiting;
};

static const char plain[] = "text/plain; charset=utf-8";

static void say(struct visit *v, int status, const char *text)
{
    v->answer.status = status;
    v->answer.type = plain;
    pd_buf_text(&v->answer.body, text);
    v->is_answered = 1;
}

/* ---- answers ---- */

/* A page runs its own script and asks its own server, nothing else; nobody puts it into a frame. */
static const struct {
    const char *name, *value;
} headers[] = {
    {"Cache-Control", "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'"},
};

static enum MHD_Result send_answer(struct visit *v)
{
    const struct pd_http_lib *lib = v->http->lib;
    struct pd_buf *body = &v->answer.body;
    if (body->failed) {
        pd_buf_free(body);
        v->answer.status = MHD_HTTP_SERVICE_UNAVAILABLE;
    }
    struct MHD_Response *r =
        lib->create_response_from_buffer(body->n, body->n ? body->at : (char *)"", MHD_RESPMEM_MUST_COPY);
    if (!r) return MHD_NO;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        (void)lib->add_response_header(r, headers[i].name, headers[i].value);
    (void)lib->add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, v->answer.type ? v->answer.type : plain);
    if (v->answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)lib->add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result sent = lib->queue_response(v->connection, (unsigned)v->answer.status, r);
    lib->destroy_response(r);
    return sent;
}

void pd_http_reply(struct pd_http *h, uint64_t ticket, struct pd_http_answer *answer)
{
    PD_HOLD(&h->lock);
    for (int i = 0; i < h->waiting.n; i++) {
        struct visit *v = h->waiting.at[i];
        if (v->ticket != ticket) continue;
        v->answer = *answer;
        v->is_answered = 1;
        *answer = (struct pd_http_answer){0};
        pd_vec_drop(&h->waiting, v);
        h->lib->resume_connection(v->connection);
        return;
    }
    pd_buf_free(&answer->body);
}

/* ---- requests; on the door's thread ---- */

/* A page of another site whose name leads here (DNS rebinding) must not read what is for this machine: at a
 * loopback address a browser says an address, or localhost. Who says nothing (HTTP/1.0) is not served. */
static int is_meant(const struct visit *v)
{
    if (!v->http->is_local) return 1;
    const char *host = v->http->lib->lookup_connection_value(v->connection, MHD_HEADER_KIND, "Host");
    if (!host) return 0;
    struct in_addr four;
    struct in6_addr six;
    char name[INET6_ADDRSTRLEN];
    int in_brackets = *host == '[';
    size_t n = strcspn(host += in_brackets, in_brackets ? "]" : ":");
    if (n >= sizeof name) return 0;
    memcpy(name, host, n);
    name[n] = 0;
    if (in_brackets) return host[n] == ']' && inet_pton(AF_INET6, name, &six) == 1;
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &four) == 1;
}

/* 0: the visit waits, suspended. */
static int ask(struct visit *v, const char *path)
{
    struct pd_http *h = v->http;
    struct pd_http_answer now = {0};
    pthread_mutex_lock(&h->lock);
    int may_wait = !h->closes && pd_vec_push(&h->waiting, v);
    if (may_wait) {
        v->ticket = ++h->last;
        h->lib->suspend_connection(v->connection); /* before anybody may resume it */
    }
    uint64_t ticket = v->ticket;
    pthread_mutex_unlock(&h->lock);
    if (!may_wait) {
        say(v, MHD_HTTP_SERVICE_UNAVAILABLE, "it ends\n");
        return 1;
    }
    if (h->site.get(h->site.arg, path, ticket, &now)) pd_http_reply(h, ticket, &now);
    return 0;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **state)
{
    struct visit *v = *state;
    (void)version, (void)data;
    if (!v) {
        v = pd_calloc(1, sizeof *v);
        if (!v) return MHD_NO;
        v->http = arg;
        v->connection = connection;
        *state = v;
        return MHD_YES;
    }
    if (*size) { /* a body, which nobody wants */
        *size = 0;
        return MHD_YES;
    }
    if (v->is_answered) return send_answer(v);
    if (v->ticket) return MHD_YES; /* its answer is on the way */
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        say(v, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n");
    else if (!is_meant(v))
        say(v, MHD_HTTP_MISDIRECTED_REQUEST,
            "this port is for this machine: ask for it as localhost, or by its address\n");
    else if (!ask(v, url))
        return MHD_YES;
    return send_answer(v);
}

static void on_over(void *arg, struct MHD_Connection *connection, void **state,
                    enum MHD_RequestTerminationCode why)
{
    struct pd_http *h = arg;
    struct visit *v = *state;
    (void)connection, (void)why;
    if (!v) return;
    pthread_mutex_lock(&h->lock);
    pd_vec_drop(&h->waiting, v);
    h->n_told -= v->is_last;
    pthread_mutex_unlock(&h->lock);
    pd_buf_free(&v->answer.body);
    pd_free(v);
    *state = NULL;
}

/* ---- the door ---- */

static pd_status cannot(const char *flag, const char *where, int port, int error)
{
    struct pd_holder holder;
    if (error == EADDRINUSE) {
        pd_port_holder(port, &holder);
        return pd_fail(PD_EXISTS, "%s=%s: port %d is taken%s. Take another, or 0 for any that is free", flag,
                       where, port, holder.who);
    }
    return pd_fail(PD_IO, "%s=%s: cannot listen there: %s", flag, where, strerror(error));
}

static pd_status bind_it(struct pd_http *h, const char *where, const char *flag)
{
    struct pd_endpoint said;
    struct sockaddr_storage to[8];
    socklen_t lengths[8];
    char text[300];
    int n, one = 1;
    const char *digits = where;
    while (isdigit((unsigned char)*digits))
        digits++;
    snprintf(text, sizeof text, "%s%s", *digits ? "" : "127.0.0.1:", where);
    if (pd_endpoint_parse(text, &said) != PD_OK)
        return pd_fail(PD_INVALID, "%s=%s: give PORT (on this machine only), HOST:PORT or :PORT (%s)", flag,
                       where, pd_error());
    pd_status status = pd_endpoint_resolve(&said, 1, 8, to, lengths, &n);
    if (status != PD_OK) return pd_fail(status, "%s=%s: %s", flag, where, pd_error());
    h->socket = pd_socket_made(socket(to[0].ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (h->socket < 0) return cannot(flag, where, said.port, errno);
    setsockopt(h->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(h->socket, (struct sockaddr *)&to[0], lengths[0]) < 0 || listen(h->socket, BACKLOG) < 0)
        return cannot(flag, where, said.port, errno);
    getsockname(h->socket, (struct sockaddr *)&to[0], &lengths[0]);
    h->is_local = pd_endpoint_is_loopback(&to[0]);
    char at[80];
    snprintf(h->url, sizeof h->url, "http://%s/", pd_endpoint_text((struct sockaddr *)&to[0], at, sizeof at));
    return PD_OK;
}

static unsigned connections_most(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / FILES_PART >= CONNECTIONS_MOST)
        return CONNECTIONS_MOST;
    return files.rlim_cur < (rlim_t)4 * FILES_PART ? 4 : (unsigned)(files.rlim_cur / FILES_PART);
}

static pd_status start(struct pd_http *h, const char *flag)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the program's threads take signals, ours do not */
    h->daemon = h->lib->start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, h->socket, MHD_OPTION_CONNECTION_LIMIT, connections_most(),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
        MHD_OPTION_NOTIFY_COMPLETED, on_over, h, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (h->daemon) return PD_OK;
    h->socket = -1; /* it has closed it */
    return pd_fail(PD_IO, "%s: libmicrohttpd could not start", flag);
}

pd_status pd_http_open(const char *where, const char *flag, const struct pd_http_site *site,
                       struct pd_http **out)
{
    const struct pd_http_lib *lib;
    PD_TRY(pd_http_lib(&lib));
    struct pd_http *h = pd_calloc(1, sizeof *h);
    if (!h) return pd_no_memory();
    h->lib = lib;
    h->site = *site;
    h->socket = -1;
    pthread_mutex_init(&h->lock, NULL);
    pd_status status = bind_it(h, where, flag);
    if (status == PD_OK) status = start(h, flag);
    if (status != PD_OK) {
        pd_http_free(h);
        return status;
    }
    if (!h->is_local)
        pd_log(PD_LOG_WARNING,
               "%s=%s: whoever reaches %s can read how this job gets on (names of hosts and tables, counts, "
               "messages of failures; no parameters and no secrets). HTTP asks for no password: let only "
               "trusted networks reach it",
               flag, where, h->url);
    *out = h;
    return PD_OK;
}

const char *pd_http_url(const struct pd_http *http)
{
    return http->url;
}

static int tells(struct pd_http *h)
{
    PD_HOLD(&h->lock);
    return h->n_told;
}

void pd_http_close(struct pd_http *h)
{
    if (!h || !h->daemon) return;
    pthread_mutex_lock(&h->lock);
    h->closes = 1;
    while (h->waiting.n) {
        struct visit *v = h->waiting.at[0];
        say(v, MHD_HTTP_SERVICE_UNAVAILABLE, "it ends\n");
        v->is_last = 1;
        h->n_told++;
        pd_vec_drop(&h->waiting, v);
        h->lib->resume_connection(v->connection);
    }
    pthread_mutex_unlock(&h->lock);
    for (int ms = 0; ms < LAST_WORDS_MS && tells(h); ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    (void)h->lib->quiesce_daemon(h->daemon); /* the socket is ours to close */
    h->lib->stop_daemon(h->daemon);
    h->daemon = NULL;
    pd_socket_close(h->socket);
    h->socket = -1;
}

void pd_http_free(struct pd_http *h)
{
    if (!h) return;
    pd_http_close(h);
    if (h->socket >= 0) pd_socket_close(h->socket);
    pd_vec_free(&h->waiting);
    pthread_mutex_destroy(&h->lock);
    pd_free(h);
}
