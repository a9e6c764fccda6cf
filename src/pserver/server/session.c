/* One connection to a lane: messages in, answers out. What arrives is checked here and by the shard before it
 * is believed.
 *
 * A connection is nobody until its first OPEN: only then does it stand for its trainer, and a trainer that is
 * there already keeps its place. Strangers, port checks and second processes with the same id change nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/server/book.h"
#include "pserver/server/control.h"
#include "pserver/server/meet.h"
#include "pserver/server/order.h"
#include "pserver/server/session_private.h"
#include "pserver/store/durable.h"

enum {
    BEHIND_MOST = 1 << 14,   /* who asks this often without reading the answers is hung up on */
    UNSENT_ROWS = 256 << 20, /* bytes of answers unsent when it asks for rows */
    PULLS_EACH = 4,          /* times that a message may ask for a value, on average */
    CUT_AHEAD = 64,          /* a snapshot is announced a few steps ahead */
    OPEN_MS = 1000,          /* from the welcome to the first OPEN, at least */
    OUT_MS = 500,            /* for the goodbye of one that is lost by the word of another server */
    STRANGERS = 256,         /* who have not opened, beside the job's own */
};

void pd_session_sweep(struct session *session, int64_t now)
{
    int ms = session->lane->server->config.reconnect_ms;
    if (session->out_since && (now - session->out_since) / 1000000 >= OUT_MS) {
        pd_conn_close(session->conn, 0);
        return;
    }
    if (session->is_in || session->opens || (now - session->since) / 1000000 < (ms > OPEN_MS ? ms : OPEN_MS))
        return;
    session->since = now; /* once */
    pd_session_fail(session, 0, PD_UNAVAILABLE,
                    "no OPEN came within FLAGS_ps_reconnect: this connection is of no use");
}

int pd_session_waits(const struct session *session)
{
    return session->waits;
}

int pd_session_waits_for_servers(const struct session *session)
{
    return session->waits || session->opens || session->leaves;
}

struct pd_conn *pd_session_conn(const struct session *session)
{
    return session->conn;
}

static void send_text(struct session *session, uint16_t type, uint64_t request, int status, const char *text)
{
    struct pd_buf meta = {0};
    if (status >= 0) pd_put_u32(&meta, (uint32_t)status);
    pd_put_line(&meta, text, PD_PS_TEXT_MOST);
    struct pd_frame_head head = {.type = type, .request = request};
    pd_conn_say(session->conn, &head, &meta);
}

void pd_session_deny(struct session *session, uint64_t request, pd_status status, const char *text)
{
    send_text(session, PD_PS_FAILED, request, (int)status, text);
}

void pd_session_notice(struct session *session, const char *text)
{
    send_text(session, PD_PS_NOTICE, 0, -1, text);
}

void pd_session_fail(struct session *session, uint64_t request, pd_status status, const char *text)
{
    pd_session_deny(session, request, status, text);
    pd_conn_close(session->conn, 1000);
}

/* Who is refused may try again several times a second: the same reason is told every 10 s. */
static enum pd_log_level level_of_refusal(struct lane *lane, const char *text)
{
    int64_t now = pd_clock_ns();
    int is_new = strncmp(lane->refusal, text, sizeof lane->refusal - 1) != 0;
    if (!is_new && now - lane->refusal_told < 10 * 1000000000ll) return PD_LOG_DEBUG;
    lane->refusal_told = now;
    snprintf(lane->refusal, sizeof lane->refusal, "%.255s", text);
    return PD_LOG_WARNING;
}

/* Should its trainer not come back, not even for a goodbye, this is why. */
static void note_refusal(const struct session *session, const char *text)
{
    struct lane *lane = session->lane;
    if (session->is_in && !session->said_bye && lane->members[session->trainer].session == session)
        pd_book_note_refusal(lane->server->book, session->trainer, text);
}

/* A message that cannot be served: the trainer is told why and hung up on; the job goes on. */
static pd_status refuse(struct session *session, uint64_t request, pd_status status)
{
    char text[1024];
    session->lane->refused++;
    session->lane->counts.errors[(unsigned)status % PD_LANE_STATUSES]++;
    snprintf(text, sizeof text, "%s", pd_error());
    enum pd_log_level level = level_of_refusal(session->lane, text);
    int id = pd_conn_hello(session->conn)->id;
    note_refusal(session, text);
    if (!session->is_in && id >= 0 && id < session->lane->server->config.trainers)
        snprintf(session->lane->members[id].refused, sizeof session->lane->members[id].refused, "%.127s",
                 text);
    pd_log(level, "%s: refused: %s",
           session->is_in ? pd_lane_who(session->lane, session->trainer) : pd_conn_peer(session->conn), text);
    pd_session_fail(session, request, status, text);
    return PD_OK;
}

/* ---- values out ---- */

/* Values that other lanes change too are sent from a copy: the connection reads them more than once, and
 * later. NULL when there are none. */
static pd_status copy_shared(struct session *session, const uint32_t *numbers, int n, char **out)
{
    const struct lane *lane = session->lane;
    size_t bytes = 0, at = 0;
    *out = NULL;
    for (int i = 0; i < n; i++)
        if (lane->served.at[numbers[i]].is_shared) bytes += session->values.at[i].n;
    if (!bytes) return PD_OK;
    if (!(*out = pd_malloc(bytes))) return pd_no_memory();
    pthread_mutex_lock(&lane->server->engine_lock);
    for (int i = 0; i < n; i++) {
        struct pd_span *span = &session->values.at[i];
        if (!lane->served.at[numbers[i]].is_shared) continue;
        memcpy(*out + at, span->at, span->n);
        span->at = *out + at;
        at += span->n;
    }
    pthread_mutex_unlock(&lane->server->engine_lock);
    return PD_OK;
}

static pd_status send_values(struct session *session, uint64_t request, uint64_t step,
                             const uint32_t *numbers, int n)
{
    struct lane *lane = session->lane;
    char *copies;
    session->values.n = 0;
    if (!pd_vec_reserve(&session->values, n + 1)) return pd_no_memory();
    struct pd_frame_head head = {.type = PD_PS_VALUES,
                                 .request = request,
                                 .step = step,
                                 .extra = pd_durable_next(lane->server->durable)};
    for (int i = 0; i < n; i++) {
        const struct pd_tensor *t = &lane->served.at[numbers[i]].value->tensor;
        if (!t->data)
            return pd_fail(PD_INVALID, "'%s' has no value on the server", lane->served.at[numbers[i]].name);
        session->values.at[session->values.n++] = (struct pd_span){t->data, pd_tensor_bytes(t)};
        head.payload += pd_tensor_bytes(t);
        const struct pd_table *table = lane->served.at[numbers[i]].table;
        if (session->is_in && table) PD_TRY(pd_shard_shown(lane->shard, session->trainer, table, t));
    }
    PD_TRY(copy_shared(session, numbers, n, &copies));
    pd_status status = pd_conn_send(session->conn, &head, NULL, 0, session->values.at, session->values.n,
                                    copies ? pd_conn_free_sent : NULL, copies);
    if (status != PD_OK) pd_free(copies);
    return status;
}

/* How long it has waited, or how much has happened behind its back. */
static void count_answer(struct session *session)
{
    struct lane *lane = session->lane;
    if (!lane->server->watch) return;
    struct pd_lane_counts *counts = &lane->counts;
    struct member *m = &lane->members[session->trainer];
    if (lane->server->config.is_sync) {
        if (session->waits) pd_histogram_add_ns(&counts->waits, pd_clock_ns() - session->ended_at);
        return;
    }
    uint64_t others = m->seen ? counts->answered + 1 - m->seen : 0;
    if (m->seen) pd_histogram_add(&counts->staleness, (double)others, (double)others);
    counts->answered++;
    m->seen = counts->answered + 1;
}

void pd_session_answer(struct session *session, uint64_t request, uint64_t step)
{
    count_answer(session);
    session->waits = 0;
    pd_status status = send_values(session, request, step, session->wanted.at, session->wanted.n);
    if (status != PD_OK) (void)refuse(session, request, status);
}

void pd_session_tell_kept(struct session *session)
{
    struct pd_frame_head head = {.type = PD_PS_KEPT, .step = pd_durable_kept(session->lane->server->durable)};
    if (head.step) pd_conn_say(session->conn, &head, NULL);
}

/* ---- PUSH, PULL, ROWS ---- */

static pd_status read_pulls(struct session *session, struct pd_reader *r)
{
    uint32_t n = pd_read_u32(r);
    session->pulls.n = 0;
    if (!r->bad && n > PULLS_EACH * (uint64_t)session->lane->served.n)
        return pd_fail(PD_FORMAT, "%u values are asked for, but %d were opened", n, session->lane->served.n);
    for (uint32_t i = 0; i < n && !r->bad; i++) {
        uint32_t number = pd_read_u32(r);
        if (r->bad) break;
        if (number >= (uint32_t)session->lane->served.n)
            return pd_fail(PD_NOT_FOUND, "value number %u, but %d were opened", number,
                           session->lane->served.n);
        if (!pd_vec_push(&session->pulls, number)) return pd_no_memory();
    }
    return PD_OK;
}

/* Rows grow in place, so a message has them once for each unit: `seen` tells. */
static pd_status next_push(struct session *session)
{
    int units = pd_shard_units(session->lane->shard);
    if (++session->pushes == 0 || session->seen.n < units) {
        if (!pd_vec_reserve(&session->seen, units + 1)) return pd_no_memory();
        memset(session->seen.at, 0, (size_t)units * sizeof *session->seen.at);
        session->seen.n = units;
        session->pushes = 1;
    }
    return PD_OK;
}

static pd_status place_push(struct session *session, struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t n = pd_read_u32(&r);
    uint64_t total = 0;
    session->parts.n = session->spans.n = session->pulls.n = 0;
    PD_TRY(next_push(session));
    for (uint32_t i = 0; i < n && !r.bad; i++) {
        struct part p = {pd_read_u32(&r), pd_read_u32(&r), pd_read_u64(&r)};
        struct pd_span where[2];
        int spans;
        if (r.bad) break;
        PD_TRY(pd_shard_place(session->lane->shard, session->trainer, m->head.step, p.unit, p.part, p.rows,
                              where, &spans));
        if (spans == 2) {
            if (session->seen.at[p.unit] == session->pushes)
                return pd_fail(PD_FORMAT, "a PUSH has two parts of rows of unit %u", p.unit);
            session->seen.at[p.unit] = session->pushes;
        }
        if (!pd_vec_push(&session->parts, p)) return pd_no_memory();
        for (int k = 0; k < spans; k++) {
            if (!pd_vec_push(&session->spans, where[k])) return pd_no_memory();
            total += where[k].n;
        }
    }
    if (m->head.flags & PD_PS_END) PD_TRY(read_pulls(session, &r));
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed PUSH");
    if (total != m->head.payload)
        return pd_fail(PD_FORMAT, "a PUSH announces %llu bytes, but its parts have %llu",
                       (unsigned long long)m->head.payload, (unsigned long long)total);
    m->spans = session->spans.at;
    m->n_spans = session->spans.n;
    /* Not with a log: the sender could change the bytes between the log and the update. */
    if (session->parts.n == 1 && !session->lane->server->durable)
        m->borrows = pd_shard_may_lend(session->lane->shard, session->trainer);
    return PD_OK;
}

/* An error of the update itself is the job's, not the trainer's. */
static pd_status job_error(struct session *session, pd_status status)
{
    if (status != PD_OK) pd_server_fail(session->lane->server, status);
    return PD_OK;
}

static pd_status finish_push(struct session *session, const struct pd_message *m)
{
    struct pd_shard *shard = session->lane->shard;
    session->lane->members[session->trainer].is_back = 0;
    if (m->borrows && m->payload) pd_shard_lend(shard, session->trainer, m->payload);
    for (int i = 0; i < session->parts.n; i++) {
        const struct part *p = &session->parts.at[i];
        pd_status status = pd_shard_arrived(shard, session->trainer, m->head.step, p->unit, p->part, p->rows);
        int is_its_fault = status == PD_RANGE || status == PD_NOT_FINITE;
        if (is_its_fault && !pd_shard_has_failed(shard)) return status;
        if (status != PD_OK) return job_error(session, status);
    }
    if (!(m->head.flags & PD_PS_END)) return PD_OK;
    if (m->head.extra && m->head.extra <= pd_shard_step(shard) + CUT_AHEAD)
        pd_durable_hear(session->lane->server->durable, m->head.extra);
    __typeof__(session->pulls) before = session->wanted;
    session->wanted = session->pulls;
    session->pulls = before; /* its memory, for what comes */
    session->waits = 1;
    session->ended_at = session->lane->server->watch ? pd_clock_ns() : 0;
    PD_TRY(pd_shard_may_end(shard, session->trainer, m->head.step));
    if (m->head.flags & PD_PS_PASS) {
        int is_next = pd_shard_pass(shard, session->trainer, m->head.step);
        pd_log(is_next ? PD_LOG_DEBUG : PD_LOG_INFO, "%s passes step %llu, which %s",
               pd_lane_who(session->lane, session->trainer), (unsigned long long)m->head.step,
               m->head.flags & PD_PS_ASIDE ? "it has no batch for: it waits for the others at a meeting"
                                           : "another server or loop has");
    }
    pd_status status = pd_shard_end(shard, session->trainer, m->head.step, m->head.request);
    if (status == PD_OK) pd_meet_step(session->lane->meet);
    return job_error(session, status);
}

static pd_status handle_pull(struct session *session, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    PD_TRY(read_pulls(session, &r));
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed PULL");
    session->lane->members[session->trainer].seen = session->lane->counts.answered + 1;
    return send_values(session, m->head.request, pd_shard_step(session->lane->shard), session->pulls.at,
                       session->pulls.n);
}

/* Before the ids come in: which value's rows, and how many? A few bytes that ask for much must not cost that
 * much memory. */
static pd_status check_rows(struct session *session, const struct pd_message *m, const struct served **served,
                            uint64_t *count)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    uint32_t number = pd_read_u32(&r);
    uint64_t n = *count = pd_read_u64(&r);
    if (!pd_reader_done(&r) || n > m->head.payload / sizeof(int64_t) ||
        n * sizeof(int64_t) != m->head.payload)
        return pd_fail(PD_FORMAT, "malformed ROWS");
    if (number >= (uint32_t)session->lane->served.n)
        return pd_fail(PD_NOT_FOUND, "value number %u, but %d were opened", number, session->lane->served.n);
    if (pd_conn_queued(session->conn) > UNSENT_ROWS)
        return pd_fail(PD_INVALID, "more rows are asked for while %zu bytes of answers were not read",
                       pd_conn_queued(session->conn));
    *served = &session->lane->served.at[number];
    size_t row = pd_meta_row_bytes(&(*served)->value->tensor.meta);
    if (n > 1 && (n > PD_PS_ROWS_MOST / sizeof(int64_t) || (row && n > PD_PS_ROWS_MOST / row)))
        return pd_fail(PD_RANGE,
                       "%llu rows of '%s' are asked for at once; an answer has %d MiB at most, which are %zu",
                       (unsigned long long)n, (*served)->name, PD_PS_ROWS_MOST >> 20,
                       row && row < PD_PS_ROWS_MOST ? PD_PS_ROWS_MOST / row : 1);
    return PD_OK;
}

static pd_status send_rows(struct session *session, const struct pd_message *m)
{
    const struct served *served;
    uint64_t n;
    PD_TRY(check_rows(session, m, &served, &n));
    size_t row = pd_meta_row_bytes(&served->value->tensor.meta);
    char *out = pd_malloc((size_t)n * row);
    if (!out) return pd_no_memory();
    pd_status status = served->table
                           ? served->table->kind->pull(served->table, (int64_t)n, m->payload, out)
                           : pd_table_copy_rows(served->value, served->name, (int64_t)n, m->payload, out);
    struct pd_frame_head head = {.type = PD_PS_VALUES,
                                 .request = m->head.request,
                                 .step = pd_shard_step(session->lane->shard),
                                 .payload = n * row};
    struct pd_span span = {out, (size_t)n * row};
    if (status == PD_OK)
        status = pd_conn_send(session->conn, &head, NULL, 0, &span, 1, pd_conn_free_sent, out);
    if (status != PD_OK) pd_free(out);
    return status;
}

/* ---- leaving ---- */

/* A trainer has failed, and the others hear why. The job ends, goes on without it, or waits for a process in
 * its place, as when it is lost without a word. */
static pd_status leave_failed(struct session *session, const char *why)
{
    struct lane *lane = session->lane;
    struct pd_server *s = lane->server;
    struct member *m = &lane->members[session->trainer];
    char text[PD_BOOK_LOSS];
    snprintf(text, sizeof text, "%s failed: %s", pd_lane_who(lane, session->trainer), why);
    if (s->config.on_loss == PD_LOSS_FAIL) {
        pd_server_fail(s, pd_fail(PD_UNAVAILABLE, "%s", text));
        return PD_OK;
    }
    int waits = s->config.on_loss == PD_LOSS_WAIT;
    int is_news = pd_book_note_loss(s->book, session->trainer, text, 1);
    if (!waits || is_news) /* its other loops hear it too */
        pd_log(PD_LOG_WARNING, "%s: %s", text, waits ? "waiting for it to come back" : "the others go on");
    if (!waits) return pd_lane_leave(lane, session->trainer, PD_TRAINER_LOST, why);
    m->is_missed = 1;
    m->failed_at = pd_clock_ns();
    snprintf(m->failed, sizeof m->failed, "%.127s", *why ? why : "it did not say why");
    if (s->order)
        pd_order_want(s->order, session->trainer, pd_shard_incarnation(lane->shard, session->trainer),
                      PD_TRAINER_FAILED, m->failed);
    pd_session_left(session, PD_TRAINER_LOST);
    return PD_OK;
}

/* Another Program than before, of a trainer that is in the job: it will not get further. */
static pd_status handle_program(struct session *session, const struct pd_message *m)
{
    pd_status status = pd_session_compare(session, m);
    if (status == PD_OK) {
        session->has_told = 1;
        return PD_OK;
    }
    if (session->has_told)
        status = pd_fail(status,
                         "%s This trainer has run with another one before: a server serves one Program; "
                         "start servers of its own for the second",
                         pd_error());
    char why[PD_PS_WHY_MOST + 1];
    snprintf(why, sizeof why, "%s", pd_error());
    (void)refuse(session, m->head.request, status);
    if (!session->is_in || session->said_bye) return PD_OK;
    session->said_bye = 1; /* as good as that */
    status = leave_failed(session, why);
    return status == PD_OK ? PD_OK : job_error(session, status);
}

static pd_status handle_bye(struct session *session, const struct pd_message *m)
{
    struct lane *lane = session->lane;
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    int failed = pd_read_u8(&r);
    char why[PD_PS_WHY_MOST + 1];
    pd_read_text(&r, why, sizeof why);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed BYE");
    /* Others have counted on that step. Where steps are applied when they are whole, it just goes without it.
     */
    if (failed == PD_PS_HALFWAY)
        failed = !lane->server->config.is_sync || lane->server->config.on_loss == PD_LOSS_FAIL;
    if (!failed && session->out_since) { /* it comes again, and has done its work then */
        pd_conn_close(session->conn, 0);
        return PD_OK;
    }
    session->said_bye = 1;
    if (failed && lane->members[session->trainer].is_back) failed = 0; /* its work had been done before */
    enum pd_trainer_state how = failed ? PD_TRAINER_LOST : PD_TRAINER_DONE;
    session->leaves = 1;
    session->leaves_as = m->head.request;
    pd_status status = failed ? leave_failed(session, why) : pd_lane_leave(lane, session->trainer, how, NULL);
    if (status != PD_OK) return job_error(session, status);
    if (pd_shard_trainer(lane->shard, session->trainer) != PD_TRAINER_IN) pd_session_left(session, how);
    return PD_OK;
}

void pd_session_left(struct session *session, enum pd_trainer_state how)
{
    if (session->leaves) {
        struct pd_frame_head head = {.type = PD_PS_DONE, .request = session->leaves_as};
        if (pd_order_tells_others(session->lane->server->order)) head.flags = PD_PS_TELLS;
        session->leaves = 0;
        pd_conn_say(session->conn, &head, NULL);
    } else if (how == PD_TRAINER_LOST && !session->said_bye) {
        /* It is there after all: it may come again, and takes part from the next step on. Or it has failed,
         * and its goodbye is on the way, which says why. */
        session->out_since = pd_clock_ns();
        if (session->takes_in) pd_conn_close(session->conn, 0);
    }
}

/* What it gave and asked for is gone: only its goodbye counts. */
static int is_out_for(const struct session *session, const struct pd_message *m)
{
    return session->out_since && m->head.type != PD_PS_BYE && m->head.type != PD_PS_BEAT;
}

/* ---- who is late, and why ---- */

/* What it says stands in the log, and goes to other trainers. */
static pd_status handle_beat(struct session *session, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    if (m->head.meta) {
        pd_read_text(&r, session->held_up, sizeof session->held_up);
        if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed BEAT");
        session->explained = pd_clock_ns();
    }
    return pd_control_beat(session->conn, m);
}

const char *pd_session_held_up(const struct session *session, int64_t since)
{
    return session->explained >= since ? session->held_up : "";
}

/* ---- events ---- */

static pd_status place_rows(struct session *session, struct pd_message *m)
{
    const struct served *served;
    uint64_t n;
    return check_rows(session, m, &served, &n);
}

static pd_status place_gift(struct session *session, struct pd_message *m)
{
    return pd_meet_check(session->lane->meet, session, m);
}

static pd_status take_gift(struct session *session, const struct pd_message *m)
{
    return pd_meet_give(session->lane->meet, session, m);
}

static pd_status hear_common(struct session *session, const struct pd_message *m)
{
    pd_durable_hear_common(session->lane->server->durable, m->head.step);
    return PD_OK;
}

/* What trainers send. */
static const struct kind {
    const char *name; /* for those who watch */
    /* When the head and meta are there: finds the place of the payload, or refuses it. NULL: it has none. */
    pd_status (*place)(struct session *session, struct pd_message *m);
    /* When all of it is there. An error is the message's: it is refused. */
    pd_status (*handle)(struct session *session, const struct pd_message *m);
    int is_first;  /* it comes before the trainer is in */
    int is_always; /* also while an OPEN is not answered, and after the goodbye */
} kinds[PD_LANE_MESSAGES] = {
    [PD_PS_OPEN - PD_PS_OPEN] = {"open", NULL, pd_session_open, .is_first = 1},
    [PD_PS_PUSH - PD_PS_OPEN] = {"push", place_push, finish_push},
    [PD_PS_PULL - PD_PS_OPEN] = {"pull", NULL, handle_pull},
    [PD_PS_ROWS - PD_PS_OPEN] = {"rows", place_rows, send_rows},
    [PD_PS_BYE - PD_PS_OPEN] = {"bye", NULL, handle_bye},
    [PD_PS_BEAT - PD_PS_OPEN] = {"beat", NULL, handle_beat, .is_always = 1},
    [PD_PS_SAVE - PD_PS_OPEN] = {"save", NULL, pd_session_save},
    [PD_PS_PROGRAM - PD_PS_OPEN] = {"program", NULL, handle_program, .is_first = 1},
    [PD_PS_JOB - PD_PS_OPEN] = {"job", NULL, pd_session_job},
    [PD_PS_COMMON - PD_PS_OPEN] = {"common", NULL, hear_common},
    [PD_PS_MEET - PD_PS_OPEN] = {"meet", place_gift, take_gift},
};

/* NULL: trainers send no such message. */
static const struct kind *kind_of(int type)
{
    unsigned k = (unsigned)type - PD_PS_OPEN;
    return k < PD_LANE_MESSAGES && kinds[k].handle ? &kinds[k] : NULL;
}

const char *pd_session_message(int type)
{
    const struct kind *kind = kind_of(type);
    return kind ? kind->name : NULL;
}

/* May this message come now? Its payload is not taken in otherwise. */
static pd_status expect(struct session *session, const struct pd_message *m)
{
    int type = m->head.type;
    const struct kind *kind = kind_of(type);
    if (!kind) return pd_fail(PD_UNSUPPORTED, "message type %d is not known here", type);
    if (!session->is_in && !kind->is_first)
        return pd_fail(PD_INVALID, "a message of type %d before any OPEN", type);
    if (session->opens && !kind->is_always)
        return pd_fail(PD_INVALID, "a message of type %d before the OPEN was answered", type);
    if (session->said_bye && !kind->is_always)
        return pd_fail(PD_INVALID, "a message of type %d after the trainer said goodbye", type);
    if (m->head.payload && !kind->place)
        return pd_fail(PD_FORMAT, "a message of type %d with %llu bytes of payload, which it does not have",
                       type, (unsigned long long)m->head.payload);
    if (type != PD_PS_PUSH || m->head.flags & PD_PS_END) {
        session->behind = pd_conn_queued(session->conn) ? session->behind + 1 : 0;
        if (session->behind > BEHIND_MOST)
            return pd_fail(PD_INVALID, "%d messages came while their answers were not read", session->behind);
    }
    return PD_OK;
}

static pd_status on_head(struct pd_conn *conn, struct pd_message *m)
{
    struct session *session = pd_conn_user(conn);
    if (is_out_for(session, m)) {
        pd_conn_close(conn, 0);
        return PD_OK;
    }
    pd_status status = expect(session, m);
    session->takes_in = m->head.type == PD_PS_PUSH;
    if (status == PD_OK && kind_of(m->head.type)->place) status = kind_of(m->head.type)->place(session, m);
    return status == PD_OK ? PD_OK : refuse(session, m->head.request, status);
}

static pd_status on_done(struct pd_conn *conn, const struct pd_message *m)
{
    struct session *session = pd_conn_user(conn);
    session->takes_in = 0;
    if (is_out_for(session, m)) {
        pd_conn_close(conn, 0);
        return PD_OK;
    }
    struct lane *lane = session->lane;
    int64_t began =
        lane->server->watch ? pd_clock_ns() : 0; /* small messages are as quick as two looks at it */
    pd_status status = kind_of(m->head.type)->handle(session, m);
    if (began) pd_histogram_add_ns(&lane->counts.messages[m->head.type - PD_PS_OPEN], pd_clock_ns() - began);
    return status == PD_OK ? PD_OK : refuse(session, m->head.request, status);
}

static void forget(struct session *session)
{
    struct lane *lane = session->lane;
    if (session->is_in && pd_book_release(lane->server->book, session->trainer)) pd_server_wake(lane->server);
    pd_vec_drop(&lane->sessions, session);
    pd_meet_forget(lane->meet, session);
    pd_buf_free(&session->opened);
    pd_vec_free(&session->parts);
    pd_vec_free(&session->spans);
    pd_vec_free(&session->pulls);
    pd_vec_free(&session->wanted);
    pd_vec_free(&session->values);
    pd_vec_free(&session->seen);
    pd_free(session);
}

static void on_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct session *session = pd_conn_user(conn);
    struct lane *lane = session->lane;
    if (why != PD_OK && why != PD_IO) {
        lane->refused++;
        lane->counts.errors[(unsigned)why % PD_LANE_STATUSES]++;
        note_refusal(session, text);
        pd_log(PD_LOG_WARNING, "%s: refused: %s",
               session->is_in ? pd_lane_who(lane, session->trainer) : pd_conn_peer(conn), text);
    }
    if (session->is_in && lane->members[session->trainer].session == session) {
        struct member *m = &lane->members[session->trainer];
        m->session = NULL;
        if (!session->said_bye && !lane->finished) {
            m->lost_at = pd_clock_ns();
            pd_log(PD_LOG_DEBUG, "%s: connection ended: %s", pd_lane_who(lane, session->trainer), text);
        }
    }
    forget(session);
}

const struct pd_conn_events pd_session_events = {.head = on_head, .done = on_done, .closed = on_closed};

/* Those who were welcomed and have not opened are as many as the job has trainers, and some; when there are
 * more, the oldest makes room. */
static int has_room(struct lane *lane, int64_t now)
{
    struct session *oldest = NULL;
    int n = 0;
    for (int i = 0; i < lane->sessions.n; i++) {
        struct session *each = lane->sessions.at[i];
        if (each->is_in) continue;
        n++;
        if (!oldest || each->since < oldest->since) oldest = each;
    }
    if (n < lane->server->config.trainers + STRANGERS) return 1;
    if ((now - oldest->since) / 1000000 < OPEN_MS) return 0;
    pd_conn_close(oldest->conn, 0);
    return 1;
}

void pd_session_accepted(void *user, struct pd_conn *conn)
{
    struct lane *lane = user;
    int64_t now = pd_clock_ns();
    struct session *session = has_room(lane, now) ? pd_calloc(1, sizeof *session) : NULL;
    if (!session || !pd_vec_push(&lane->sessions, session)) {
        pd_free(session);
        pd_conn_drop(conn);
        return;
    }
    *session = (struct session){.lane = lane, .conn = conn, .trainer = -1, .since = now};
    pd_conn_set_user(conn, &pd_session_events, session);
    pd_conn_limit_meta(conn, lane->server->names.meta);
}
