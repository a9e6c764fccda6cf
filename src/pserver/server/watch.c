/* See watch.h. The words of /metrics are in status_metrics.c, those of /status.json in status_text.c. */
#include "pserver/server/watch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/log.h"
#include "net/http.h"
#include "pserver/server/control.h"
#include "pserver/server/first_link.h"
#include "pserver/server/order.h"
#include "pserver/server/page.h"
#include "pserver/server/server_private.h"

enum { FRESH_MS = 100 }; /* what was gathered so lately is not gathered again */

enum phase { LOADS, SERVES, ENDS };

/* What is made of what the lanes say. */
enum made { METRICS, STATUS, N_MADE };

static const char text_type[] = "text/plain; charset=utf-8", json_type[] = "application/json",
                  page_type[] = "text/html; charset=utf-8",
                  metrics_type[] = "text/plain; version=0.0.4; charset=utf-8";
static const char *const types[N_MADE] = {[METRICS] = metrics_type, [STATUS] = json_type};

struct waiter {
    uint64_t ticket;
    enum made wants;
};

struct pd_watch {
    struct pd_server *server;
    struct pd_http *http;
    int64_t started;
    _Atomic int phase;
    pthread_mutex_t lock; /* what follows */
    int gathers;          /* the control loop has been asked */
    int64_t made_at;      /* 0: never */
    struct pd_buf made[N_MADE];
    PD_VEC(struct waiter) waiting;
};

/* ---- is it ready? ---- */

/* Other servers may be needed for that. */
static int is_let_in(struct pd_server *s, char why[1200])
{
    char text[1100];
    int is_alone = (s->first && pd_first_link_trouble(s->first, text, sizeof text)) ||
                   (s->adds && pd_first_link_trouble(s->adds, text, sizeof text));
    if (is_alone)
        snprintf(why, 1200, "it waits: %s\n", text);
    else if (!pd_order_lets_in(s->order))
        snprintf(why, 1200, "it waits for the other servers, which know how far the job was\n");
    else
        snprintf(why, 1200, "ready\n");
    return strcmp(why, "ready\n") == 0;
}

/* 1: trainers can train. `why` is the whole text either way. */
static int is_ready(struct pd_watch *w, char why[1200])
{
    struct pd_server *s = w->server;
    int phase = atomic_load(&w->phase);
    if (!s) {
        snprintf(why, 1200, "it waits for trainer 0 to bring its Program\n");
        return 0;
    }
    pthread_mutex_lock(&s->lock);
    int failed = s->failed, is_over = s->lanes_finished == s->n_lanes;
    if (failed) snprintf(why, 1200, "it has failed: %s\n", s->failure_text);
    pthread_mutex_unlock(&s->lock);
    if (failed) return 0;
    if (atomic_load(&s->draining))
        snprintf(why, 1200, "it ends: it was asked to, and takes a last snapshot where it keeps any\n");
    else if (is_over)
        snprintf(why, 1200, "it ends: the job is done\n");
    else if (phase == ENDS)
        snprintf(why, 1200, "it ends\n");
    else if (phase == LOADS)
        snprintf(why, 1200, "it starts: its tables are made, and what it has on disk is taken up\n");
    else
        return is_let_in(s, why);
    return 0;
}

static int has_failed(struct pd_watch *w)
{
    if (!w->server) return 0;
    PD_HOLD(&w->server->lock);
    return w->server->failed;
}

/* ---- what the lanes say ---- */

static void copy(struct pd_watch *w, enum made what, struct pd_http_answer *out)
{
    *out = (struct pd_http_answer){.status = 200, .type = types[what]};
    pd_buf_add(&out->body, w->made[what].at, w->made[what].n);
    out->body.failed |= w->made[what].failed;
}

/* All who wait get theirs, or hear that there is nothing. */
static void serve_waiting(struct pd_watch *w, int has_it)
{
    PD_HOLD(&w->lock);
    w->gathers = 0;
    for (int i = 0; i < w->waiting.n; i++) {
        struct pd_http_answer answer = {.status = 503, .type = text_type};
        if (has_it)
            copy(w, w->waiting.at[i].wants, &answer);
        else
            pd_buf_text(&answer.body, "it ends, or memory is short\n");
        pd_http_reply(w->http, w->waiting.at[i].ticket, &answer);
    }
    w->waiting.n = 0;
}

/* On the control loop. */
static void gathered(void *arg, const struct pd_lane_report *lanes, double uptime_s)
{
    struct pd_watch *w = arg;
    struct pd_buf made[N_MADE] = {0};
    char why[1200];
    pd_status_write(w->server, uptime_s, lanes, 1, &made[STATUS]);
    pd_status_write_metrics(w->server, uptime_s, lanes, is_ready(w, why), &made[METRICS]);
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < N_MADE; i++) {
        pd_buf_free(&w->made[i]);
        w->made[i] = made[i];
    }
    w->made_at = pd_clock_ns();
    pthread_mutex_unlock(&w->lock);
    serve_waiting(w, 1);
}

/* On the control loop, or by who closes it. */
static void gather(void *arg)
{
    struct pd_watch *w = arg;
    if (atomic_load(&w->phase) != SERVES ||
        pd_status_gather(pd_control_desk(w->server->control), gathered, w) != PD_OK)
        serve_waiting(w, 0);
}

/* On the door's thread. 0: the answer comes later. */
static int ask(struct pd_watch *w, enum made what, uint64_t ticket, struct pd_http_answer *out)
{
    struct waiter waiter = {ticket, what};
    PD_HOLD(&w->lock);
    if (w->made_at && pd_clock_ns() - w->made_at < (int64_t)FRESH_MS * 1000000) {
        copy(w, what, out);
        return 1;
    }
    if (!pd_vec_push(&w->waiting, waiter)) return 1; /* as 503 */
    if (w->gathers) return 0;
    w->gathers = pd_loop_post(pd_control_loop(w->server->control), gather, w) == PD_OK;
    if (w->gathers) return 0;
    w->waiting.n = 0; /* who gathers nothing has nobody else who waits */
    pd_buf_text(&out->body, "it ends\n");
    return 1;
}

/* ---- requests; on the door's thread ---- */

static int get_health(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out)
{
    char why[1200] = "ok\n";
    (void)ticket;
    out->status = has_failed(w) ? 503 : 200;
    if (out->status == 503) (void)is_ready(w, why);
    pd_buf_text(&out->body, why);
    return 1;
}

static int get_readiness(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out)
{
    char why[1200];
    (void)ticket;
    out->status = is_ready(w, why) ? 200 : 503;
    pd_buf_text(&out->body, why);
    return 1;
}

static int get_metrics(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out)
{
    if (atomic_load(&w->phase) == SERVES) return ask(w, METRICS, ticket, out);
    *out = (struct pd_http_answer){.status = 200, .type = metrics_type};
    pd_status_write_metrics(w->server, (double)(pd_clock_ns() - w->started) * 1e-9, NULL, 0, &out->body);
    return 1;
}

static int get_status(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out)
{
    char why[1200];
    if (atomic_load(&w->phase) == SERVES) return ask(w, STATUS, ticket, out);
    (void)is_ready(w, why);
    pd_buf_text(&out->body, why);
    return 1;
}

static int get_page(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out)
{
    (void)w, (void)ticket;
    *out = (struct pd_http_answer){.status = 200, .type = page_type};
    pd_buf_add(&out->body, pd_page, sizeof pd_page);
    return 1;
}

static const struct place {
    const char *path;
    int (*get)(struct pd_watch *w, uint64_t ticket, struct pd_http_answer *out);
} places[] = {
    {"/", get_page},           {"/healthz", get_health},     {"/readyz", get_readiness},
    {"/metrics", get_metrics}, {"/status.json", get_status},
};

static int get(void *arg, const char *path, uint64_t ticket, struct pd_http_answer *out)
{
    *out = (struct pd_http_answer){.status = 503, .type = text_type};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (strcmp(places[i].path, path) == 0) return places[i].get(arg, ticket, out);
    out->status = 404;
    pd_buf_text(&out->body, "there is /healthz, /readyz, /metrics, /status.json and a page at /\n");
    return 1;
}

/* ---- life ---- */

pd_status pd_watch_open(struct pd_server *server, const char *where, struct pd_watch **out)
{
    *out = NULL;
    if (!where || !*where) return PD_OK;
    struct pd_watch *w = pd_calloc(1, sizeof *w);
    if (!w) return pd_no_memory();
    w->server = server;
    w->started = pd_clock_ns();
    pthread_mutex_init(&w->lock, NULL);
    struct pd_http_site site = {.get = get, .arg = w};
    pd_status status = pd_http_open(where, "FLAGS_ps_http", &site, &w->http);
    if (status != PD_OK) {
        pd_watch_free(w);
        return status;
    }
    pd_log(PD_LOG_INFO, "this server can be watched at %s", pd_http_url(w->http));
    *out = w;
    return PD_OK;
}

void pd_watch_serves(struct pd_watch *w)
{
    if (w) atomic_store(&w->phase, SERVES);
}

void pd_watch_ends(struct pd_watch *w)
{
    if (!w) return;
    atomic_store(&w->phase, ENDS);
    serve_waiting(w, 0);
}

void pd_watch_close(struct pd_watch *w)
{
    if (w) pd_http_close(w->http);
}

void pd_watch_free(struct pd_watch *w)
{
    if (!w) return;
    pd_http_free(w->http);
    for (int i = 0; i < N_MADE; i++)
        pd_buf_free(&w->made[i]);
    pd_vec_free(&w->waiting);
    pthread_mutex_destroy(&w->lock);
    pd_free(w);
}
