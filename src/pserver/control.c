/* See control.h. */
#include "pserver/control.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/wait.h"
#include "net/wire.h"
#include "pserver/order.h"
#include "pserver/proto.h"
#include "pserver/server_private.h"
#include "pserver/status.h"

enum { MAX_NUMBERS = 4096 };

/* A sum that the Program asks for (an op ps_sum): its numbers in one step, by server. */
struct sum {
    const char *group; /* of the Program */
    uint64_t step;
    int n, servers, given;
    double *values; /* servers x n */
    char *has;
};

struct peer {
    struct pd_control *control;
    struct pd_conn *conn;
    uint64_t request;
    int waits;
    char group[600];
    uint64_t step;
};

struct pd_control {
    struct pd_server *server;
    struct pd_loop *loop;
    struct pd_status_desk *desk;
    PD_VEC(struct peer *) peers;
    pthread_mutex_t lock; /* the sums */
    pthread_cond_t changed;
    PD_VEC(struct sum *) sums;
};

/* ---- sums ---- */

static void sum_free(struct sum *s)
{
    pd_free(s->values);
    pd_free(s->has);
    pd_free(s);
}

static pd_status add_sum(struct pd_control *c, const struct pd_opdesc *op)
{
    const struct pd_attr *groups = pd_opdesc_attr(op, "groups"), *endpoints = pd_opdesc_attr(op, "endpoints");
    const struct pd_io *x = pd_opdesc_slot(op, 0, "X");
    if (!groups || !groups->n || !endpoints || endpoints->n < 2 || !x || x->args.n > MAX_NUMBERS)
        return PD_OK;
    struct sum *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    *s = (struct sum){.group = groups->strings[0], .n = x->args.n, .servers = endpoints->n};
    s->values = pd_calloc((size_t)s->n * (size_t)s->servers, sizeof *s->values);
    s->has = pd_calloc((size_t)s->servers, 1);
    if (s->values && s->has && pd_vec_push(&c->sums, s)) return PD_OK;
    sum_free(s);
    return pd_no_memory();
}

/* All sums there can be: others cannot make it keep more. */
static pd_status find_sums(struct pd_control *c)
{
    const struct pd_program *program = c->server->program;
    for (int i = 0; i < program->blocks.n; i++) {
        const struct pd_block *block = program->blocks.at[i];
        for (int k = 0; k < block->ops.n; k++)
            if (strcmp(block->ops.at[k]->type, "ps_sum") == 0) PD_TRY(add_sum(c, block->ops.at[k]));
    }
    return PD_OK;
}

/* The entry of a group; one of an older step starts anew. Under the lock. */
static pd_status sum_of(struct pd_control *c, const char *group, uint64_t step, int servers, int n,
                        struct sum **out)
{
    struct sum *s = NULL;
    for (int i = 0; i < c->sums.n && !s; i++)
        if (strcmp(c->sums.at[i]->group, group) == 0) s = c->sums.at[i];
    if (!s)
        return pd_fail(PD_NOT_FOUND,
                       "a SUM of '%s', but this server's Program has no such sum: do all "
                       "servers run the same Program?",
                       group);
    if (s->n != n || s->servers != servers)
        return pd_fail(PD_INVALID, "a SUM of '%s' with %d numbers of %d servers; the Program adds %d of %d",
                       group, n, servers, s->n, s->servers);
    if (s->step > step)
        return pd_fail(PD_INVALID, "a server adds to '%s' in step %llu, but step %llu has begun", group,
                       (unsigned long long)step, (unsigned long long)s->step);
    if (s->step < step) {
        s->step = step;
        s->given = 0;
        memset(s->has, 0, (size_t)s->servers);
    }
    *out = s;
    return PD_OK;
}

static void give(struct pd_control *c, struct sum *s, int server, const double *values)
{
    memcpy(s->values + (size_t)server * (size_t)s->n, values, (size_t)s->n * sizeof *values);
    if (!s->has[server]) s->given++;
    s->has[server] = 1;
    if (s->given == s->servers) pthread_cond_broadcast(&c->changed);
}

static double total_of(const struct sum *s, int i)
{
    double total = 0;
    for (int k = 0; k < s->servers; k++)
        total += s->values[(size_t)k * (size_t)s->n + (size_t)i];
    return total;
}

/* Answers every server that waits for a sum which is whole. On the control loop. */
static void answer_peers(void *arg)
{
    struct pd_control *c = arg;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < c->peers.n; i++) {
        struct peer *p = c->peers.at[i];
        for (int k = 0; p->waits && k < c->sums.n; k++) {
            const struct sum *s = c->sums.at[k];
            if (s->step != p->step || strcmp(s->group, p->group) != 0 || s->given < s->servers) continue;
            struct pd_buf meta = {0};
            struct pd_frame_head head = {.type = PD_PS_SUMMED, .request = p->request, .step = p->step};
            pd_put_u32(&meta, (uint32_t)s->n);
            for (int j = 0; j < s->n; j++)
                pd_put_f64(&meta, total_of(s, j));
            p->waits = 0;
            if (!meta.failed) (void)pd_conn_send(p->conn, &head, meta.at, meta.n, NULL, 0, NULL, NULL);
            pd_buf_free(&meta);
        }
    }
    pthread_mutex_unlock(&c->lock);
}

static void list_late(const struct sum *s, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < s->servers && used + 1 < cap; i++)
        if (!s->has[i]) {
            int wrote = snprintf(out + used, cap - used, "%sserver %d", used ? ", " : "", i);
            used += wrote > 0 ? (size_t)wrote : 0;
        }
}

pd_status pd_control_sum(struct pd_control *c, const char *group, uint64_t step, int servers, int n,
                         double *values)
{
    struct sum *s;
    const struct pd_server_config *config = &c->server->config;
    struct pd_patience patience = pd_patience_start(config->notice_ms, config->deadline_ms);
    char late[512];
    pthread_mutex_lock(&c->lock);
    pd_status status = sum_of(c, group, step, servers, n, &s);
    if (status == PD_OK) give(c, s, 0, values);
    while (status == PD_OK && s->given < servers) {
        pd_cond_wait_ms(&c->changed, &c->lock, 100);
        if (s->given == servers) break;
        if (pd_server_is_ending(c->server)) {
            status = pd_fail(PD_INTERRUPTED, "the server is ending");
            break;
        }
        enum pd_patience_now now = pd_patience_ask(&patience);
        if (now == PD_WAIT_ON) continue;
        list_late(s, late, sizeof late);
        if (now == PD_WAIT_GIVE_UP)
            status = pd_fail(PD_UNAVAILABLE,
                             "step %llu waited %lld s for the norms of %s: given up (FLAGS_rpc_deadline)",
                             (unsigned long long)step, pd_patience_seconds(&patience), late);
        else
            pd_log(PD_LOG_WARNING, "step %llu has waited %lld s for the norms of %s",
                   (unsigned long long)step, pd_patience_seconds(&patience), late);
    }
    for (int i = 0; status == PD_OK && i < n; i++)
        values[i] = total_of(s, i);
    pthread_mutex_unlock(&c->lock);
    if (status == PD_OK) (void)pd_loop_post(c->loop, answer_peers, c);
    return status;
}

static pd_status on_sum(struct peer *p, const struct pd_message *m)
{
    struct pd_control *c = p->control;
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    double values[MAX_NUMBERS];
    struct sum *s;
    pd_read_text(&r, p->group, sizeof p->group);
    uint32_t server = pd_read_u32(&r), servers = pd_read_u32(&r), n = pd_read_u32(&r);
    if (r.bad || !n || n > MAX_NUMBERS || servers > INT32_MAX || !server || server >= servers)
        return pd_fail(PD_FORMAT, "malformed SUM");
    for (uint32_t i = 0; i < n; i++)
        values[i] = pd_read_f64(&r);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed SUM");
    /* Servers are a step apart at most; a sum of a later one would stand in the way of the real ones. */
    uint64_t applied = pd_server_step(c->server), step = m->head.step;
    if (step < applied || step > applied + 1)
        return pd_fail(PD_RANGE, "a SUM of step %llu, but this server has applied step %llu",
                       (unsigned long long)step, (unsigned long long)applied);
    p->request = m->head.request;
    p->step = step;
    pthread_mutex_lock(&c->lock);
    pd_status status = sum_of(c, p->group, p->step, (int)servers, (int)n, &s);
    if (status == PD_OK) give(c, s, (int)server, values);
    p->waits = status == PD_OK;
    pthread_mutex_unlock(&c->lock);
    if (status == PD_OK) answer_peers(c);
    return status;
}

/* ---- connections ---- */

static pd_status answer(struct peer *p, const struct pd_message *m)
{
    if (m->head.type == PD_PS_SUM && pd_conn_hello(p->conn)->role == PD_ROLE_SERVER) return on_sum(p, m);
    if (m->head.type >= PD_PS_ORDER && m->head.type <= PD_PS_READY && p->control->server->order &&
        pd_conn_hello(p->conn)->role == PD_ROLE_SERVER)
        return pd_order_message(p->control->server->order, p->conn, m);
    if (m->head.type == PD_PS_STATUS)
        return pd_status_ask(p->control->desk, p->conn, m->head.request, m->head.flags & PD_PS_AS_JSON);
    if (m->head.type == PD_PS_BEAT || m->head.type == PD_PS_BYE) return PD_OK;
    return pd_fail(PD_UNSUPPORTED, "message type %u is not known here", m->head.type);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    pd_status status = answer(pd_conn_user(conn), m);
    if (status != PD_OK) pd_log(PD_LOG_WARNING, "%s: refused: %s", pd_conn_peer(conn), pd_error());
    return status;
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct peer *p = pd_conn_user(conn);
    (void)why;
    (void)text;
    pd_status_forget(p->control->desk, conn);
    pd_order_forget(p->control->server->order, conn);
    for (int i = 0; i < p->control->peers.n; i++)
        if (p->control->peers.at[i] == p) {
            pd_vec_remove(&p->control->peers, i);
            break;
        }
    pd_free(p);
}

const struct pd_conn_events pd_control_events = {.done = on_done, .closed = on_closed};

void pd_control_accepted(struct pd_control *c, struct pd_conn *conn)
{
    struct peer *p = pd_calloc(1, sizeof *p);
    if (!p || !pd_vec_push(&c->peers, p)) {
        pd_free(p);
        pd_conn_close(conn, 0);
        return;
    }
    *p = (struct peer){.control = c, .conn = conn};
    pd_conn_set_user(conn, &pd_control_events, p);
}

pd_status pd_control_new(struct pd_server *server, struct pd_control **out)
{
    struct pd_control *c = pd_calloc(1, sizeof *c);
    if (!c) return pd_no_memory();
    pd_cond_init(&c->changed);
    pthread_mutex_init(&c->lock, NULL);
    c->server = server;
    pd_status status = pd_loop_new(&c->loop);
    if (status == PD_OK) status = find_sums(c);
    if (status == PD_OK) status = pd_status_desk_new(server, c->loop, &c->desk);
    if (status != PD_OK) {
        pd_control_free(c);
        return status;
    }
    *out = c;
    return PD_OK;
}

struct pd_loop *pd_control_loop(const struct pd_control *control)
{
    return control->loop;
}

void pd_control_free(struct pd_control *c)
{
    if (!c) return;
    pd_status_desk_close(c->desk);
    pd_loop_free(c->loop);
    pd_status_desk_free(c->desk);
    for (int i = 0; i < c->sums.n; i++)
        sum_free(c->sums.at[i]);
    pd_vec_free(&c->sums);
    pd_vec_free(&c->peers);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    pd_free(c);
}
