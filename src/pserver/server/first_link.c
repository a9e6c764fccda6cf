/* See first_link.h. */
#include "pserver/server/first_link.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/line.h"
#include "base/lock.h"
#include "net/endpoint.h"
#include "pserver/proto.h"
#include "pserver/server/order.h"
#include "pserver/server/server_private.h"
#include "pserver/server/sums.h"
#include "pserver/server/waiters.h"
#include "pserver/stall.h"

struct pd_first_link {
    struct pd_server *server;
    struct pd_loop *loop;
    struct pd_conn *conn;
    int is_welcome;
    struct pd_stall stall;
    char *to;
    int place, self;
    struct pd_order *order;
    struct pd_sums *sums;
    struct pd_waiters *waiters;
    pthread_mutex_t lock; /* the next two */
    int64_t away_since;   /* 0: it works */
    char trouble[300];    /* what went wrong last */
};

/* ---- what is said while there is none ---- */

/* "the first server 10.0.0.1:6174 (at gateway:7000 by PADDLE_PS_MAP)" */
static const char *which(const struct pd_first_link *link, char *out, size_t cap)
{
    char mapped[280];
    const char *at = pd_endpoint_map(link->to, mapped, sizeof mapped);
    struct pd_line line = pd_line_in(out, cap);
    pd_line_printf(&line, "%sserver %s", link->place ? "" : "the first ", link->to);
    if (at != link->to) pd_line_printf(&line, " (at %s by PADDLE_PS_MAP)", at);
    if (link->place) pd_line_printf(&line, ", which adds norms up,");
    return out;
}

/* What it says is of one moment. */
int pd_first_link_trouble(struct pd_first_link *link, char *out, size_t cap)
{
    char to[700];
    PD_HOLD(&link->lock);
    int is_away = link->away_since != 0;
    snprintf(out, cap, "server %s has not reached %s for %lld s: %s", link->server->config.endpoint,
             which(link, to, sizeof to), (long long)((pd_clock_ns() - link->away_since) / 1000000000),
             link->trouble[0] ? link->trouble : "it does not answer");
    return is_away;
}

static void describe(void *arg, char *out, size_t cap)
{
    (void)pd_first_link_trouble(arg, out, cap);
}

/* The first server may wait for others, who say so themselves: no deadline is made of this. */
static void describe_silence(void *arg, char *out, size_t cap)
{
    const struct pd_first_link *link = arg;
    uint64_t step;
    int64_t since = pd_order_first_silent(link->order, &step);
    snprintf(out, cap,
             "step %llu is whole on server %s, which has waited %lld s for the word of the first server %s",
             (unsigned long long)step, link->server->config.endpoint,
             (long long)((pd_clock_ns() - since) / 1000000000), link->to);
}

/* ---- the connection ---- */

void pd_first_link_works(struct pd_first_link *link)
{
    PD_HOLD(&link->lock);
    link->away_since = 0;
    link->trouble[0] = 0;
}

static void is_away(struct pd_first_link *link, const char *why)
{
    PD_HOLD(&link->lock);
    if (!link->away_since) link->away_since = pd_clock_ns();
    snprintf(link->trouble, sizeof link->trouble, "%s", why);
}

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    struct pd_first_link *link = pd_conn_user(conn);
    (void)welcome;
    link->is_welcome = 1;
    /* An order is there when the first server has said who is in the job. */
    if (link->order)
        pd_order_first_opened(link->order, conn);
    else
        pd_first_link_works(link);
    if (link->sums) pd_sums_first_opened(link->sums, conn);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_first_link *link = pd_conn_user(conn);
    if (m->head.type == PD_PS_HERE) return PD_OK;
    if (m->head.type == PD_PS_SUMMED && link->sums) return pd_sums_first_said(link->sums, m);
    if (m->head.type != PD_PS_SUMMED && link->order) return pd_order_first_said(link->order, m);
    return pd_fail(PD_FORMAT, "server %s sends a message of type %u", link->to, m->head.type);
}

static void broke(struct pd_first_link *link, const char *why)
{
    pd_stall_forget(&link->stall);
    link->conn = NULL;
    link->is_welcome = 0;
    is_away(link, why);
    if (link->order) pd_order_first_closed(link->order);
    if (link->sums) pd_sums_first_closed(link->sums);
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    broke(pd_conn_user(conn), why == PD_OK ? "it hung up" : text);
}

static const struct pd_conn_events events = {.opened = on_opened, .done = on_done, .closed = on_closed};

static pd_status connect_it(void *arg, const struct pd_conn_events *handlers, void *user,
                            struct pd_conn **out)
{
    const struct pd_first_link *link = arg;
    const struct pd_server *s = link->server;
    char mapped[280];
    struct pd_hello hello = {.role = PD_ROLE_SERVER, .id = link->self, .incarnation = s->calls_as};
    snprintf(hello.job, sizeof hello.job, "%s", s->config.job);
    return pd_conn_open(link->loop, pd_endpoint_map(link->to, mapped, sizeof mapped), &hello,
                        &(struct pd_conn_options){.transport = "tcp"}, handlers, user, out);
}

static void replace(void *arg, struct pd_conn *conn, const struct pd_welcome *welcome, const char *why)
{
    struct pd_first_link *link = arg;
    broke(link, why);
    link->conn = conn;
    pd_conn_set_user(conn, &events, link);
    on_opened(conn, welcome);
}

/* A server that is asked whether it is there says so also while it waits for others. */
static void watch(struct pd_first_link *link)
{
    struct pd_stall_wait wait = {0};
    if (!link->is_welcome) return;
    if (link->order) wait.is_on |= pd_order_first_owes(link->order, &wait.request);
    if (link->sums) wait.is_on |= pd_sums_first_owes(link->sums, &wait.request);
    pd_stall_look(&link->stall, link->conn, &wait, link->server->config.silence_ms, pd_clock_ns());
}

static void tick(void *arg)
{
    struct pd_first_link *link = arg;
    if (!link->conn && connect_it(link, &events, link, &link->conn) != PD_OK) is_away(link, pd_error());
    watch(link);
    if (link->order) pd_order_first_tick(link->order);
    uint64_t step;
    int64_t silent = link->order ? pd_order_first_silent(link->order, &step) : 0;
    if (link->away_since || !silent)
        pd_waiters_tend(link->waiters, link->away_since, 0, link->server->config.deadline_ms, describe, link);
    else
        pd_waiters_tend(link->waiters, silent, 1, 0, describe_silence, link);
}

pd_status pd_first_link_new(struct pd_server *server, struct pd_loop *control,
                            const struct pd_first_link_spec *spec, struct pd_first_link **out)
{
    static const struct pd_stall_owner calls = {.connect = connect_it, .replace = replace};
    PD_TRY(pd_endpoint_check_map());
    struct pd_first_link *link = pd_calloc(1, sizeof *link);
    if (!link) return pd_no_memory();
    pthread_mutex_init(&link->lock, NULL);
    link->server = server;
    link->loop = control;
    link->place = spec->place;
    link->self = spec->self;
    link->order = spec->order;
    link->sums = spec->sums;
    link->away_since = pd_clock_ns();
    link->to = pd_strdup(spec->to);
    link->stall = (struct pd_stall){.calls = &calls, .owner = link, .endpoint = link->to};
    pd_status status = link->to ? pd_waiters_new(server, &link->waiters) : pd_no_memory();
    if (status == PD_OK) status = pd_timer_start(control, 0, PD_SERVER_TICK_MS, tick, link, NULL);
    if (status == PD_OK)
        *out = link;
    else
        pd_first_link_free(link);
    return status;
}

void pd_first_link_free(struct pd_first_link *link)
{
    if (!link) return;
    pthread_mutex_destroy(&link->lock);
    pd_waiters_free(link->waiters);
    pd_free(link->to);
    pd_free(link);
}
