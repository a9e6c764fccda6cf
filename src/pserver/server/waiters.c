/* See waiters.h. The control loop asks the lanes, which own the connections. */
#include "pserver/server/waiters.h"

#include <stdio.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/wait.h"
#include "pserver/server/server_private.h"

/* What is posted to a lane. */
struct question {
    struct pd_waiters *waiters;
    struct lane *lane;
};

struct pd_waiters {
    struct pd_server *server;
    struct question *questions; /* by lane */
    pthread_mutex_t lock;
    char notice[PD_WAITERS_TEXT]; /* under the lock; empty: nothing to tell now */
    _Atomic int is_waiting;       /* a lane has found one */
    int64_t told, waits_since;
};

/* On a lane's thread. */
static void ask(void *arg)
{
    const struct question *q = arg;
    struct lane *lane = q->lane;
    struct pd_waiters *w = q->waiters;
    char text[PD_WAITERS_TEXT];
    pthread_mutex_lock(&w->lock);
    snprintf(text, sizeof text, "%s", w->notice);
    pthread_mutex_unlock(&w->lock);
    for (int i = lane->sessions.n - 1; i >= 0; i--) {
        struct session *session = lane->sessions.at[i];
        if (!pd_session_waits_for_servers(session)) continue;
        atomic_store(&w->is_waiting, 1);
        if (text[0]) pd_session_notice(session, text);
    }
}

static void set_notice(struct pd_waiters *w, const char *text)
{
    PD_HOLD(&w->lock);
    snprintf(w->notice, sizeof w->notice, "%s", text);
}

void pd_waiters_tend(struct pd_waiters *w, int64_t since, int is_quiet, int64_t deadline_ms,
                     void (*describe)(void *arg, char *out, size_t cap), void *arg)
{
    const struct pd_server_config *config = &w->server->config;
    int64_t now = pd_clock_ns(), waited = 0;
    char text[PD_WAITERS_TEXT] = "";
    int is_waiting = atomic_exchange(&w->is_waiting, 0);
    if (!since || !is_waiting) w->waits_since = 0;
    if (!since) {
        w->told = now;
        return;
    }
    if (is_waiting && !w->waits_since) w->waits_since = now;
    if (w->waits_since) waited = now - (w->waits_since > since ? w->waits_since : since);
    if (deadline_ms && waited / 1000000 >= deadline_ms) {
        describe(arg, text, sizeof text);
        pd_server_fail(w->server, pd_fail(PD_UNAVAILABLE, "%s: given up (FLAGS_rpc_deadline is %d ms)", text,
                                          config->deadline_ms));
        return;
    }
    int64_t told = w->told > since ? w->told : since, often = config->notice_ms;
    if (!w->waits_since) often = pd_patience_seldom(often, (now - since) / 1000000);
    if ((now - told) / 1000000 >= often) {
        w->told = now;
        describe(arg, text, sizeof text);
        if (!is_quiet || w->waits_since) pd_log(PD_LOG_WARNING, "%s", text);
    }
    set_notice(w, text);
    for (int i = 0; i < w->server->n_lanes; i++)
        (void)pd_loop_post(w->server->lanes[i].loop, ask, &w->questions[i]);
}

pd_status pd_waiters_new(struct pd_server *server, struct pd_waiters **out)
{
    struct pd_waiters *w = pd_calloc(1, sizeof *w);
    if (!w) return pd_no_memory();
    w->questions = pd_calloc((size_t)server->n_lanes, sizeof *w->questions);
    if (!w->questions) {
        pd_free(w);
        return pd_no_memory();
    }
    for (int i = 0; i < server->n_lanes; i++)
        w->questions[i] = (struct question){w, &server->lanes[i]};
    pthread_mutex_init(&w->lock, NULL);
    w->server = server;
    *out = w;
    return PD_OK;
}

void pd_waiters_free(struct pd_waiters *w)
{
    if (!w) return;
    pthread_mutex_destroy(&w->lock);
    pd_free(w->questions);
    pd_free(w);
}
