/* Questions for a server's status and the way of their answers; see status.h. The words are in status_text.c.
 *
 * An errand goes to each lane and comes back to the control loop by posts; when that is closed, it stays with
 * its question, which the desk frees after the lanes. */
#include "pserver/server/status.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "pserver/proto.h"
#include "pserver/server/server_private.h"
#include "pserver/store/durable.h"

enum { PATIENCE_MS = 1000 };

struct errand {
    struct question *question;
    struct lane *lane;
    struct pd_lane_report report;
};

/* Of the control loop, but for the errands that are under way. */
struct question {
    struct pd_status_desk *desk;
    int is_open;          /* it has no answer yet, and somebody waits for it: */
    struct pd_conn *conn; /* NULL: none, gone, or answered */
    uint64_t request;
    int as_json;
    void (*fn)(void *arg, const struct pd_lane_report *lanes, double uptime_s);
    void *arg;
    struct pd_lane_report *lanes;
    struct errand *errands;
    int n_known, n_out; /* lanes that have answered; errands under way */
    struct pd_timer *timer;
};

struct pd_status_desk {
    struct pd_server *server;
    struct pd_loop *loop;
    int64_t started;
    PD_VEC(struct question *) open; /* they have no answer yet, or errands under way */
};

static void question_free(struct question *q)
{
    for (int i = 0; i < q->desk->server->n_lanes; i++) {
        if (q->lanes) pd_lane_report_free(&q->lanes[i]);
        if (q->errands) pd_lane_report_free(&q->errands[i].report);
    }
    pd_free(q->lanes);
    pd_free(q->errands);
    pd_free(q);
}

/* ---- on the control loop ---- */

static void send_report(struct question *q)
{
    struct pd_buf text = {0};
    double uptime = (double)(pd_clock_ns() - q->desk->started) * 1e-9;
    if (q->fn) {
        q->fn(q->arg, q->lanes, uptime);
        return;
    }
    pd_status_write(q->desk->server, uptime, q->lanes, q->as_json, &text);
    struct pd_frame_head head = {.type = PD_PS_REPORT, .request = q->request};
    struct pd_span span = {text.at, text.n};
    if (!text.failed && pd_conn_send(q->conn, &head, NULL, 0, &span, 1, pd_conn_free_sent, text.at) == PD_OK)
        return;
    pd_buf_free(&text);
    pd_conn_close(q->conn, 0); /* nobody waits for what does not come */
}

/* Takes the question off the desk, when nothing of it is under way. */
static void tidy(struct question *q)
{
    struct pd_status_desk *desk = q->desk;
    if (q->is_open || q->n_out) return;
    pd_vec_drop(&desk->open, q);
    question_free(q);
}

/* Answers, if there is still someone to answer. */
static void finish(struct question *q)
{
    if (q->is_open) send_report(q);
    q->is_open = 0;
    q->conn = NULL;
    pd_timer_stop(&q->timer);
    tidy(q);
}

static void patience_is_over(void *arg)
{
    finish(arg);
}

static void arrived(void *arg)
{
    struct errand *e = arg;
    struct question *q = e->question;
    q->n_out--;
    q->lanes[e->lane->index] = e->report;
    e->report = (struct pd_lane_report){0};
    q->n_known += q->lanes[e->lane->index].is_known;
    if (q->is_open && q->n_known == q->desk->server->n_lanes)
        finish(q);
    else
        tidy(q);
}

/* ---- on a lane's thread ---- */

/* Without memory for it the lane is shown as busy. */
static void visit(void *arg)
{
    struct errand *e = arg;
    (void)pd_lane_report_take(e->lane, &e->report);
    (void)pd_loop_post(e->question->desk->loop, arrived, e);
}

pd_status pd_lane_report_take(struct lane *lane, struct pd_lane_report *out)
{
    struct pd_lane_report r = {.is_known = 1, .rows = -1, .parameters = pd_shard_units(lane->shard)};
    int64_t now = pd_clock_ns();
    int n = lane->server->config.trainers;
    struct timespec cpu;
    r.counts = lane->counts;
    pd_durable_syncs(lane->server->durable, lane->index, &r.syncs);
    if (!pd_vec_reserve(&r.tables, r.parameters)) return pd_no_memory();
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) == 0)
        r.cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9;
    for (int u = 0; u < r.parameters; u++) {
        const struct pd_table *table = pd_shard_unit(lane->shard, u)->table;
        r.bytes += table->kind->bytes(table);
        if (table->kind->rows) r.rows = (r.rows < 0 ? 0 : r.rows) + table->kind->rows(table);
        struct pd_table_report *to = &r.tables.at[r.tables.n++];
        *to = (struct pd_table_report){.name = table->name,
                                       .rows = table->kind->rows ? table->kind->rows(table) : -1,
                                       .bytes = table->kind->bytes(table)};
        if (table->kind->tally) table->kind->tally(table, &to->tally);
    }
    r.step = pd_shard_step(lane->shard);
    r.repeated = pd_shard_repeated(lane->shard);
    r.held = pd_shard_held(lane->shard);
    r.refused = lane->refused;
    int *late = pd_calloc((size_t)n, sizeof *late);
    if (!late || !pd_vec_reserve(&r.trainers, n)) {
        pd_free(late);
        pd_lane_report_free(&r);
        return pd_no_memory();
    }
    int n_late = pd_shard_waits_for(lane->shard, late, n);
    if (n_late && lane->waiting_since && lane->waiting_step == r.step + 1)
        r.waited_s = (double)(now - lane->waiting_since) * 1e-9;
    for (int t = 0, k = 0; t < n; t++) {
        const struct member *m = &lane->members[t];
        struct pd_trainer_report *to = &r.trainers.at[r.trainers.n++];
        *to = (struct pd_trainer_report){.trainer = t,
                                         .state = (int)pd_shard_trainer(lane->shard, t),
                                         .is_connected = m->session != NULL,
                                         .is_late = k < n_late && late[k] == t,
                                         .away_s = m->lost_at ? (double)(now - m->lost_at) * 1e-9 : 0,
                                         .step = pd_shard_trainer_step(lane->shard, t)};
        k += to->is_late;
        if (!m->session) continue;
        struct pd_conn *conn = pd_session_conn(m->session);
        to->waits = pd_session_waits(m->session);
        to->in = pd_conn_bytes(conn, 0);
        to->out = pd_conn_bytes(conn, 1);
        to->pid = pd_conn_hello(conn)->pid;
        snprintf(to->host, sizeof to->host, "%s", pd_conn_hello(conn)->host);
        snprintf(to->peer, sizeof to->peer, "%s", pd_conn_peer(conn));
        snprintf(to->transport, sizeof to->transport, "%s", pd_conn_transport(conn));
    }
    pd_free(late);
    *out = r;
    return PD_OK;
}

void pd_lane_report_free(struct pd_lane_report *report)
{
    pd_vec_free(&report->trainers);
    pd_vec_free(&report->tables);
}

/* ---- asking ---- */

static void send_errands(struct question *q)
{
    for (int i = 0; i < q->desk->server->n_lanes; i++) {
        struct lane *lane = &q->desk->server->lanes[i];
        q->errands[i] = (struct errand){.question = q, .lane = lane};
        q->n_out += pd_loop_post(lane->loop, visit, &q->errands[i]) == PD_OK;
    }
}

/* As `like`, which says who waits. */
static pd_status ask(struct pd_status_desk *desk, const struct question *like)
{
    struct question *q = pd_calloc(1, sizeof *q);
    if (!q) return pd_no_memory();
    *q = *like;
    q->desk = desk;
    q->is_open = 1;
    q->lanes = pd_calloc((size_t)desk->server->n_lanes, sizeof *q->lanes);
    q->errands = pd_calloc((size_t)desk->server->n_lanes, sizeof *q->errands);
    int is_whole = q->lanes && q->errands && pd_vec_reserve(&desk->open, desk->open.n + 1);
    pd_status status = is_whole ? PD_OK : pd_no_memory();
    if (status == PD_OK) status = pd_timer_start(desk->loop, PATIENCE_MS, 0, patience_is_over, q, &q->timer);
    if (status != PD_OK) {
        question_free(q);
        return status;
    }
    desk->open.at[desk->open.n++] = q;
    send_errands(q);
    return PD_OK;
}

pd_status pd_status_ask(struct pd_status_desk *desk, struct pd_conn *conn, uint64_t request, int as_json)
{
    struct question q = {.conn = conn, .request = request, .as_json = as_json};
    for (int i = 0; i < desk->open.n; i++)
        if (desk->open.at[i]->conn == conn)
            return pd_fail(PD_INVALID, "a STATUS comes before the last one was answered");
    return ask(desk, &q);
}

pd_status pd_status_gather(struct pd_status_desk *desk,
                           void (*fn)(void *arg, const struct pd_lane_report *lanes, double uptime_s),
                           void *arg)
{
    struct question q = {.fn = fn, .arg = arg};
    return ask(desk, &q);
}

void pd_status_forget(struct pd_status_desk *desk, struct pd_conn *conn)
{
    for (int i = desk->open.n - 1; i >= 0; i--)
        if (desk->open.at[i]->conn == conn) {
            desk->open.at[i]->is_open = 0;
            finish(desk->open.at[i]);
        }
}

/* ---- the desk ---- */

pd_status pd_status_desk_new(struct pd_server *server, struct pd_loop *loop, struct pd_status_desk **out)
{
    struct pd_status_desk *desk = pd_calloc(1, sizeof *desk);
    if (!desk) return pd_no_memory();
    desk->server = server;
    desk->loop = loop;
    desk->started = pd_clock_ns();
    *out = desk;
    return PD_OK;
}

void pd_status_desk_free(struct pd_status_desk *desk)
{
    if (!desk) return;
    for (int i = 0; i < desk->open.n; i++)
        question_free(desk->open.at[i]);
    pd_vec_free(&desk->open);
    pd_free(desk);
}
