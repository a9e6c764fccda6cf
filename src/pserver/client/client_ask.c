/* Requests: values, rows and files that threads ask for, side by side, beside the step that one of them may
 * be in. A request is known by its number until its answer comes; when its connection breaks first, it is
 * asked again on the next one. See client.h. */
#include <stdio.h>

#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

/* Bytes on their way on one connection, beside the last ones, while more rows are asked for there: of rows,
 * and of whole values. */
enum { ROWS_UNDER_WAY = 64 << 20, VALUES_UNDER_WAY = 128 << 20 };

uint64_t pd_wire_number(struct wire *w, struct request *q)
{
    q->wire = w;
    return q->number = ++w->asked;
}

/* ---- sending ---- */

void pd_request_put(const struct pd_client *c, const struct request *q, struct pd_buf *meta)
{
    pd_put_u32(meta, (uint32_t)q->wanted.n);
    for (int i = 0; i < q->wanted.n; i++)
        pd_put_u32(meta, c->names.at[q->wanted.at[i].name].number);
}

static void send_values(struct wire *w, struct request *q)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_PULL, .step = w->step, .request = pd_wire_number(w, q)};
    pd_request_put(w->link->client, q, &meta);
    pd_conn_say(w->conn, &head, &meta);
}

static void send_rows(struct wire *w, struct request *q)
{
    struct pd_buf meta = {0};
    struct pd_span ids = {(void *)q->rows, (size_t)q->n_rows * sizeof(int64_t)};
    struct pd_frame_head head = {
        .type = PD_PS_ROWS, .step = w->step, .request = pd_wire_number(w, q), .payload = ids.n};
    pd_put_u32(&meta, w->link->client->names.at[q->wanted.at[0].name].number);
    pd_put_u64(&meta, (uint64_t)q->n_rows);
    w->rows_asked += q->wanted.at[0].bytes;
    pd_conn_give(w->conn, &head, &meta, &ids, 1);
}

static void send_save(struct wire *w, struct request *q)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_SAVE,
                                 .flags = q->save->is_placed ? PD_PS_PLACE : 0,
                                 .step = w->step,
                                 .request = pd_wire_number(w, q)};
    pd_put_u32(&meta, w->link->client->names.at[q->wanted.at[0].name].number);
    pd_put_u32(&meta, q->save->part);
    pd_put_u32(&meta, q->save->parts);
    pd_put_u64(&meta, q->save->save);
    pd_put_text(&meta, q->save->folder);
    pd_conn_say(w->conn, &head, &meta);
}

static size_t value_bytes(const struct request *q)
{
    size_t bytes = 0;
    int is_of_values = q->kind == REQUEST_VALUES || q->kind == REQUEST_STEP;
    for (int i = 0; q->number && is_of_values && i < q->wanted.n; i++)
        bytes += q->wanted.at[i].bytes;
    return bytes;
}

static int is_full(const struct wire *w)
{
    size_t values = value_bytes(&w->push.end);
    for (int i = 0; i < w->requests.n && values <= VALUES_UNDER_WAY; i++)
        values += value_bytes(w->requests.at[i]);
    return w->rows_asked > ROWS_UNDER_WAY || values > VALUES_UNDER_WAY;
}

/* Servers hang up on who asks for more rows than it takes in. */
void pd_wire_send_asks(struct wire *w)
{
    for (int i = 0; i < w->requests.n; i++) {
        struct request *q = w->requests.at[i];
        if (q->number) continue;
        if (q->kind == REQUEST_ROWS && is_full(w)) return;
        if (q->kind == REQUEST_ROWS)
            send_rows(w, q);
        else if (q->kind == REQUEST_SAVE)
            send_save(w, q);
        else if (q->kind == REQUEST_GATHER)
            pd_gathering_send(w, q);
        else
            send_values(w, q);
    }
}

void pd_wire_unsend(struct wire *w)
{
    for (int i = 0; i < w->requests.n; i++)
        w->requests.at[i]->number = 0;
    w->push.end.number = w->pass.number = w->bye.number = 0;
    w->rows_asked = 0;
}

int pd_wire_asks(const struct wire *w)
{
    return w->requests.n > 0;
}

/* ---- answers ---- */

static struct request *find(struct wire *w, uint64_t number)
{
    struct request *own[] = {&w->push.end, &w->pass, &w->bye};
    if (!number) return NULL;
    for (int i = 0; i < 3; i++)
        if (own[i]->number == number) return own[i];
    for (int i = 0; i < w->requests.n; i++)
        if (w->requests.at[i]->number == number) return w->requests.at[i];
    return NULL;
}

static pd_status check_payload(const struct wire *w, const struct pd_message *m, uint64_t total)
{
    if (total == m->head.payload) return PD_OK;
    return pd_fail(PD_FORMAT,
                   "server %s answers with %llu bytes, expected %llu: do both run the same Program?",
                   w->link->endpoint, (unsigned long long)m->head.payload, (unsigned long long)total);
}

pd_status pd_ask_head(struct wire *w, struct pd_message *m)
{
    if (m->head.type != PD_PS_VALUES) return PD_OK;
    const struct request *q = find(w, m->head.request);
    if (!q) return pd_fail(PD_FORMAT, "server %s answers what was not asked", w->link->endpoint);
    uint64_t total = 0;
    w->spans.n = 0;
    for (int i = 0; i < q->wanted.n; i++) {
        if (!pd_vec_push(&w->spans, ((struct pd_span){q->wanted.at[i].to, q->wanted.at[i].bytes})))
            return pd_no_memory();
        total += q->wanted.at[i].bytes;
    }
    PD_TRY(check_payload(w, m, total));
    m->spans = w->spans.at;
    m->n_spans = w->spans.n;
    return PD_OK;
}

/* It was answered, or nobody waits for it any more. */
static void take_off(struct request *q)
{
    struct wire *w = q->wire;
    if (q->is_asked) pd_vec_drop(&w->requests, q);
    if (q->number && q->kind == REQUEST_ROWS) w->rows_asked -= q->wanted.at[0].bytes;
    if (q->is_asked && q->ask) q->ask->left--;
    q->number = 0;
    q->is_asked = 0;
}

pd_status pd_ask_done(struct wire *w, const struct pd_message *m)
{
    struct request *q = find(w, m->head.request);
    if (!q) return PD_OK;
    int is_met = m->head.type == PD_PS_MET;
    if ((m->head.type != PD_PS_VALUES && m->head.type != PD_PS_DONE && !is_met) ||
        is_met != (q->kind == REQUEST_GATHER))
        return pd_fail(PD_FORMAT, "server %s sends a message of type %u", w->link->endpoint, m->head.type);
    if (is_met) PD_TRY(pd_gathering_answered(q->gathering, m));
    if (m->head.extra > w->link->group->cut) w->link->group->cut = m->head.extra;
    if (q->save && !q->save->parts) q->save->save = m->head.step;
    w->answered++;
    w->breaks = 0;
    w->said[0] = 0;
    take_off(q);
    switch (q->kind) {
    case REQUEST_STEP:
        pd_push_ended(w);
        pd_wire_send_asks(w);
        break;
    case REQUEST_PASS:
        pd_push_passed(w);
        break;
    case REQUEST_BYE:
        if (m->head.flags & PD_PS_TELLS) w->link->group->is_passed_on = 1;
        w->state = WIRE_QUIT;
        break;
    default:
        pd_wire_send_asks(w); /* rows that had to wait */
    }
    return PD_OK;
}

int pd_ask_refused(struct wire *w, uint64_t number, pd_status status, const char *text)
{
    struct request *q = find(w, number);
    if (!q || (q->kind != REQUEST_SAVE && q->kind != REQUEST_GATHER)) return 0;
    q->ask->refusal = status;
    snprintf(q->ask->refusal_text, sizeof q->ask->refusal_text, "server %s: %.900s", w->link->endpoint, text);
    take_off(q);
    return 1;
}

/* ---- what a thread asks ---- */

struct wire *pd_client_wire_of(const struct pd_client *c, int number)
{
    const struct name *n = &c->names.at[number];
    return n->link->wires.at[n->wire];
}

void pd_wire_break_off(struct wire *w)
{
    if (w->conn) pd_conn_close(w->conn, 0);
    if (w->state != WIRE_QUIT) w->state = WIRE_DOWN;
    pd_wire_unsend(w);
}

void pd_ask_drop(struct pd_ask *ask)
{
    struct pd_client *c = ask->client;
    for (struct request *q = ask->first, *next; q; q = next) {
        next = q->next;
        if (q->number) pd_wire_break_off(q->wire);
        take_off(q);
        q->wanted.n = 0;
        if (!pd_vec_push(&c->spare, q)) {
            pd_vec_free(&q->wanted);
            pd_free(q);
        }
    }
    ask->first = NULL;
}

void pd_ask_end(struct pd_ask *ask)
{
    if (!ask->first) return;
    PD_CLIENT_HOLD(ask->client);
    pd_ask_drop(ask);
}

void pd_client_free_asks(struct pd_client *c)
{
    for (int i = 0; i < c->spare.n; i++) {
        pd_vec_free(&c->spare.at[i]->wanted);
        pd_free(c->spare.at[i]);
    }
    pd_vec_free(&c->spare);
}

void pd_wire_forget_asks(struct wire *w)
{
    while (w->requests.n) {
        struct request *q = w->requests.at[w->requests.n - 1];
        q->ask = NULL; /* its thread does not go on */
        take_off(q);
    }
}

static struct request *make(struct pd_client *c, struct pd_ask *ask, struct wire *w, enum request_kind kind)
{
    struct request *q =
        c->spare.n ? c->spare.at[--c->spare.n] : (struct request *)pd_calloc(1, sizeof(struct request));
    if (!q) return NULL;
    q->kind = kind;
    q->wire = w;
    q->ask = ask;
    q->save = NULL;
    q->gathering = NULL;
    q->next = ask->first;
    ask->first = q;
    ask->client = c;
    return q;
}

static pd_status add(struct pd_client *c, struct pd_ask *ask, enum request_kind kind, struct wanted wanted,
                     struct request **out)
{
    struct wire *w = pd_client_wire_of(c, wanted.name);
    struct request *q = kind == REQUEST_VALUES ? ask->first : NULL;
    while (q && (q->wire != w || q->kind != kind))
        q = q->next;
    if (!q) q = make(c, ask, w, kind);
    if (!q || !pd_vec_push(&q->wanted, wanted)) return pd_no_memory();
    if (out) *out = q;
    return PD_OK;
}

pd_status pd_ask_value(struct pd_client *c, struct pd_ask *ask, int number, void *to, size_t bytes)
{
    PD_CLIENT_HOLD(c);
    return add(c, ask, REQUEST_VALUES, (struct wanted){number, to, bytes}, NULL);
}

int64_t pd_client_rows_most(size_t row)
{
    size_t most = row > sizeof(int64_t) ? row : sizeof(int64_t); /* of a row, and of its number */
    return most < PD_PS_ROWS_MOST ? PD_PS_ROWS_MOST / (int64_t)most : 1;
}

pd_status pd_ask_rows(struct pd_client *c, struct pd_ask *ask, int number, int64_t n, const int64_t *rows,
                      size_t row, void *out)
{
    PD_CLIENT_HOLD(c);
    struct request *q;
    if (n == 0) return PD_OK;
    PD_TRY(add(c, ask, REQUEST_ROWS, (struct wanted){number, out, (size_t)n * row}, &q));
    q->rows = rows;
    q->n_rows = n;
    return PD_OK;
}

pd_status pd_ask_save(struct pd_client *c, struct pd_ask *ask, int number, struct pd_client_save *save)
{
    PD_CLIENT_HOLD(c);
    struct request *q;
    PD_TRY(add(c, ask, REQUEST_SAVE, (struct wanted){.name = number}, &q));
    q->save = save;
    return PD_OK;
}

pd_status pd_ask_gathering(struct pd_client *c, struct pd_ask *ask, struct wire *w, struct gathering *g)
{
    struct request *q = make(c, ask, w, REQUEST_GATHER);
    if (!q) return pd_no_memory();
    q->gathering = g;
    return PD_OK;
}

void pd_ask_move(struct pd_ask *ask, struct wire *w, struct request *to)
{
    struct request *q = ask->first;
    while (q && (q->wire != w || q->kind != REQUEST_VALUES))
        q = q->next;
    if (!q) return;
    __typeof__(q->wanted) none = to->wanted; /* its memory serves again */
    to->wanted = q->wanted;
    q->wanted = none;
}

/* In the order in which they were made: the last one is the first of the list. */
static pd_status send_from(struct pd_ask *ask, struct request *q)
{
    if (!q) return PD_OK;
    PD_TRY(send_from(ask, q->next));
    if (!q->wanted.n && !q->gathering) return PD_OK; /* moved */
    if (!pd_vec_push(&q->wire->requests, q)) return pd_no_memory();
    q->is_asked = 1;
    ask->left++;
    return PD_OK;
}

pd_status pd_ask_send(struct pd_ask *ask)
{
    PD_TRY(send_from(ask, ask->first));
    for (struct request *q = ask->first; q; q = q->next)
        if (q->is_asked) pd_push_flush(q->wire);
    return PD_OK;
}

static int is_answered(void *arg)
{
    return !((const struct pd_ask *)arg)->left;
}

pd_status pd_ask_wait(struct pd_client *c, const struct pd_run *run, struct pd_ask *ask, const char *what)
{
    PD_CLIENT_HOLD(c);
    pd_status status = pd_ask_send(ask);
    if (status == PD_OK) status = pd_client_wait_until(c, run, is_answered, ask, what);
    return pd_ask_over(ask, status);
}

pd_status pd_ask_over(struct pd_ask *ask, pd_status status)
{
    pd_ask_drop(ask);
    pd_status refusal = ask->refusal;
    ask->refusal = PD_OK;
    return status == PD_OK && refusal != PD_OK ? pd_fail(refusal, "%s", ask->refusal_text) : status;
}
