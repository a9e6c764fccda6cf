/* ps_sum at work: adds numbers over the servers of a job. The first server adds; the others ask it over a
 * connection of their own, which is made again when it breaks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/wait.h"
#include "net/conn.h"
#include "net/wire.h"
#include "pserver/control.h"
#include "pserver/op_run.h"
#include "pserver/proto.h"
#include "pserver/server_private.h"

enum { TURN_MS = 50, RETRY_MS = 200, MAX_NUMBERS = 4096 };

/* The connection to the first server. */
struct pd_sum_link {
    struct pd_loop *loop;
    struct pd_conn *conn;
    int is_open, is_answered, n;
    uint64_t request;
    int64_t retry_at;
    double *values;
    char trouble[300];
};

static void on_opened(struct pd_conn *conn, const struct pd_welcome *welcome)
{
    (void)welcome;
    ((struct pd_sum_link *)pd_conn_user(conn))->is_open = 1;
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct pd_sum_link *l = pd_conn_user(conn);
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    if (m->head.type != PD_PS_SUMMED || m->head.request != l->request) return PD_OK;
    if ((int)pd_read_u32(&r) != l->n)
        return pd_fail(PD_FORMAT, "the first server answers with another number of sums");
    for (int i = 0; i < l->n; i++)
        l->values[i] = pd_read_f64(&r);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed answer of the first server");
    l->is_answered = 1;
    return PD_OK;
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct pd_sum_link *l = pd_conn_user(conn);
    (void)why;
    l->conn = NULL;
    l->is_open = 0;
    l->retry_at = pd_clock_ns() + (int64_t)RETRY_MS * 1000000;
    snprintf(l->trouble, sizeof l->trouble, "%s", text);
}

static const struct pd_conn_events events = {.opened = on_opened, .done = on_done, .closed = on_closed};

void pd_sum_link_free(struct pd_sum_link *l)
{
    if (!l) return;
    pd_loop_free(l->loop);
    pd_free(l);
}

static void send_numbers(struct pd_sum_link *l, const char *group, uint64_t step, int server, int servers)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_SUM, .step = step, .request = ++l->request};
    pd_put_text(&meta, group);
    pd_put_u32(&meta, (uint32_t)server);
    pd_put_u32(&meta, (uint32_t)servers);
    pd_put_u32(&meta, (uint32_t)l->n);
    for (int i = 0; i < l->n; i++)
        pd_put_f64(&meta, l->values[i]);
    if (!meta.failed) (void)pd_conn_send(l->conn, &head, meta.at, meta.n, NULL, 0, NULL, NULL);
    pd_buf_free(&meta);
}

static pd_status ask_first(struct pd_server *s, const char *first, const char *group, uint64_t step,
                           int server, int servers, int n, double *values)
{
    if (!s->sum_link) {
        s->sum_link = pd_calloc(1, sizeof *s->sum_link);
        if (!s->sum_link) return pd_no_memory();
        PD_TRY(pd_loop_new(&s->sum_link->loop));
    }
    struct pd_sum_link *l = s->sum_link;
    struct pd_patience patience = pd_patience_start(s->config.notice_ms, s->config.deadline_ms);
    int is_sent = 0;
    l->values = values;
    l->n = n;
    l->is_answered = 0;
    while (!l->is_answered) {
        if (!l->conn && pd_clock_ns() >= l->retry_at) {
            struct pd_hello hello = {.role = PD_ROLE_SERVER,
                                     .id = server,
                                     .incarnation = s->incarnation,
                                     .pid = (uint32_t)getpid()};
            snprintf(hello.job, sizeof hello.job, "%s", s->config.job);
            PD_TRY(pd_conn_open(l->loop, first, &hello, &(struct pd_conn_options){.transport = "tcp"},
                                &events, l, &l->conn));
            is_sent = 0;
        }
        if (!l->conn) is_sent = 0;
        if (l->is_open && !is_sent) {
            send_numbers(l, group, step, server, servers);
            is_sent = 1;
        }
        pd_loop_turn(l->loop, TURN_MS);
        if (l->is_answered) break;
        if (pd_server_is_ending(s)) return pd_fail(PD_INTERRUPTED, "the server is ending");
        enum pd_patience_now now = pd_patience_ask(&patience);
        const char *trouble = l->trouble[0] ? l->trouble : "no answer";
        if (now == PD_WAIT_GIVE_UP)
            return pd_fail(PD_UNAVAILABLE,
                           "step %llu waited %lld s for the sum of norms at the first server %s (%s): given "
                           "up (FLAGS_rpc_deadline)",
                           (unsigned long long)step, pd_patience_seconds(&patience), first, trouble);
        if (now == PD_WAIT_TELL)
            pd_log(PD_LOG_WARNING,
                   "step %llu has waited %lld s for the sum of norms at the first server %s: %s",
                   (unsigned long long)step, pd_patience_seconds(&patience), first, trouble);
    }
    return PD_OK;
}

/* Numbers of one group of this server: X with the same group name add up. */
pd_status pd_ps_ps_sum_run(const struct pd_run *r)
{
    const struct pd_attr *endpoints = pd_ps_attr(r, "endpoints"), *groups = pd_ps_attr(r, "groups");
    const char *endpoint = pd_ps_attr(r, "endpoint")->s;
    int n = r->out[0].n, server = -1;
    double values[MAX_NUMBERS];
    if (r->in[0].n != n || n > MAX_NUMBERS)
        return pd_fail(PD_INVALID, "ps_sum has %d X and %d Out; each X has one Out, %d at most", r->in[0].n,
                       n, MAX_NUMBERS);
    for (int i = 0; i < n; i++) {
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        if (pd_tensor_numel(t) != 1 || !pd_dtype_is_float(t->meta.dtype))
            return pd_fail(PD_SHAPE, "ps_sum adds single numbers, found %s", pd_meta_dims_text(&t->meta));
        values[i] = t->meta.dtype == PD_DTYPE_FP64 ? *(const double *)t->data : *(const float *)t->data;
    }
    for (int i = 0; i < endpoints->n; i++)
        if (strcmp(endpoints->strings[i], endpoint) == 0) server = i;
    struct pd_server *s = pd_server_running(endpoint);
    if (endpoints->n > 1) {
        if (server < 0 || !s) return pd_fail(PD_INVALID, "ps_sum runs outside a server of its job");
        const char *group = groups->n ? groups->strings[0] : "";
        if (server == 0)
            PD_TRY(pd_control_sum(s->control, group, s->applying, endpoints->n, n, values));
        else
            PD_TRY(ask_first(s, endpoints->strings[0], group, s->applying, server, endpoints->n, n, values));
    }
    for (int i = 0; i < n; i++) {
        struct pd_tensor *out = pd_run_out_at(r, 0, i);
        const struct pd_tensor *t = pd_run_in_at(r, 0, i);
        PD_TRY(pd_tensor_resize(out, t->meta.dtype, t->meta.rank, t->meta.dim));
        if (t->meta.dtype == PD_DTYPE_FP64)
            *(double *)out->data = values[i];
        else
            *(float *)out->data = (float)values[i];
    }
    return PD_OK;
}
