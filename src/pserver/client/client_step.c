/* One exchange of a trainer with its servers: what is pushed and pulled in a step, sent as it comes, kept
 * until it is acknowledged. See client.h. */
#include <stdio.h>

#include "base/log.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

/* Its step: is it one that the server has already, given again for others? */
static int is_given_again(const struct wire *w)
{
    return w->step < w->until;
}

/* ---- sending ---- */

/* One PUSH with pieces [from, to) and, when `end`, the values that are wanted. */
static void send_push(struct wire *w, int from, int to, int end)
{
    struct pd_client *c = w->link->client;
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_PUSH, .step = w->step, .flags = end ? PD_PS_END : 0};
    PD_VEC(struct pd_span) spans = {0};
    int ok = pd_vec_reserve(&spans, 2 * (to - from) + 1);
    pd_put_u32(&meta, (uint32_t)(to - from));
    for (int i = from; ok && i < to; i++) {
        const struct piece *p = &w->push.pieces.at[i];
        pd_put_u32(&meta, c->names.at[p->name].number);
        pd_put_u32(&meta, p->part);
        pd_put_u64(&meta, (uint64_t)p->rows);
        if (p->rows) {
            spans.at[spans.n++] = (struct pd_span){(void *)p->row_numbers, (size_t)p->rows * sizeof(int64_t)};
            head.payload += (size_t)p->rows * sizeof(int64_t);
        }
        spans.at[spans.n++] = (struct pd_span){(void *)p->data, p->bytes};
        head.payload += p->bytes;
    }
    if (end) {
        pd_request_put(c, &w->push.end, &meta);
        head.request = pd_wire_number(w, &w->push.end);
        head.extra = w->link->group->cut;
    }
    meta.failed |= !ok;
    pd_conn_give(w->conn, &head, &meta, spans.at, spans.n);
    pd_vec_free(&spans);
}

static void send_pass(struct wire *w)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_PUSH,
                                 .flags = PD_PS_END | PD_PS_PASS | (w->is_aside ? PD_PS_ASIDE : 0),
                                 .step = w->step,
                                 .request = pd_wire_number(w, &w->pass)};
    pd_put_u32(&meta, 0);
    pd_put_u32(&meta, 0);
    pd_conn_say(w->conn, &head, &meta);
}

/* Pieces travel in messages of about a part each, so that the server can apply the first while the last is on
 * its way. */
static void send_pieces(struct wire *w)
{
    struct push *p = &w->push;
    int ends = p->state == PUSH_ENDS;
    while (p->sent < p->pieces.n) {
        size_t bytes = 0;
        int to = p->sent;
        while (to < p->pieces.n && (bytes == 0 || bytes + p->pieces.at[to].bytes <= PD_PS_PART))
            bytes += p->pieces.at[to++].bytes;
        int is_last = to == p->pieces.n;
        if (is_last && !ends && bytes < PD_PS_PART / 4) return; /* more will come */
        send_push(w, p->sent, to, is_last && ends);
        p->sent = to;
        if (is_last && ends) p->state = PUSH_ENDED;
    }
    if (p->state != PUSH_ENDS) return;
    send_push(w, 0, 0, 1);
    p->state = PUSH_ENDED;
}

void pd_push_flush(struct wire *w)
{
    const struct group *g = w->link->group;
    if (!w->conn || w->state != WIRE_OPEN) return;
    pd_wire_send_asks(w);
    if (w->push.state == PUSH_ENDED) return;
    if (w->passes && !w->pass.number) send_pass(w);
    if (w->passes || !g->is_aligned || (g->checks && w->push.state == PUSH_GATHERS)) return;
    if (is_given_again(w)) {
        if (w->push.state == PUSH_GATHERS) return;
        w->push.sent = w->push.pieces.n;
    }
    send_pieces(w);
}

static void note_counted(struct wire *w, uint64_t step)
{
    w->counted = step;
    pd_group_count(w->link);
}

void pd_push_again(struct wire *w, uint64_t applied, uint64_t counted)
{
    struct pd_client *c = w->link->client;
    int is_idle = !w->push.pieces.n && w->push.state == PUSH_GATHERS, only_asks = is_idle && pd_wire_asks(w);
    if (w->step <= 1 && is_idle)
        w->step = applied + 1, note_counted(w, counted); /* a trainer that starts, or starts again */
    if (applied + 1 < w->step && w->link->client->settings.accepts_rollback) {
        pd_log(PD_LOG_WARNING,
               "server %s came back with step %llu instead of %llu: going on with its older parameters",
               w->link->endpoint, (unsigned long long)applied, (unsigned long long)(w->step - 1));
        /* Servers that agree on steps let one be a single step behind: what comes next is a step further for
         * the others, so the one that is missing is passed here, by all trainers. */
        w->passes = applied + 2 == w->step;
        w->step = applied + 1;
    }
    if (applied + 1 < w->step && !only_asks) {
        c->failed = 1;
        c->failure = PD_INVALID;
        snprintf(c->failure_text, sizeof c->failure_text,
                 "server %s came back with step %llu, but this trainer is in step %llu: it lost updates. "
                 "Start it from a newer snapshot, or set FLAGS_ps_accept_rollback=1",
                 w->link->endpoint, (unsigned long long)applied, (unsigned long long)w->step);
        return;
    }
    w->push.sent = 0;
    if (w->push.state == PUSH_ENDED) w->push.state = PUSH_ENDS;
    if (applied + 1 < w->until) w->until = applied + 1;
    if (applied >= w->step) {
        /* Applied with this trainer: only the answer is missing. Without it, because it was away for long:
         * what it gives goes to the next step. That is the same on all servers, which agree on who is in it.
         */
        if (counted < w->step && !w->passes && !is_given_again(w))
            pd_log(PD_LOG_WARNING,
                   "server %s went on to step %llu without this trainer, whose connection was gone for long: "
                   "its step %llu counts as step %llu",
                   w->link->endpoint, (unsigned long long)applied, (unsigned long long)w->step,
                   (unsigned long long)applied + 1);
        w->next = applied + 1;
        if (is_given_again(w) || (counted >= w->step && w->push.state == PUSH_ENDS && !w->passes)) {
            w->push.sent = w->push.pieces.n;
        } else {
            w->step = w->next;
            w->passes = w->is_aside = 0;
        }
    }
    pd_push_flush(w);
}

/* ---- a step that was broken off ---- */

/* Has the server a part of the step, or may it have one? When it was to end, others may have all of it. */
static int is_begun(const struct wire *w)
{
    return w->push.sent || w->push.state != PUSH_GATHERS;
}

void pd_push_clear(struct wire *w)
{
    w->push.state = PUSH_GATHERS;
    w->push.pieces.n = w->push.end.wanted.n = w->push.sent = w->push.is_meant = 0;
}

/* The connection still reads from and writes to memory of the run, so it ends too; a new one is made at the
 * next use. What was not sent leaves no trace at the server; a step that is to be passed is owed all the
 * same.
 */
static void drop(struct wire *w)
{
    if (w->push.sent || w->push.end.number) pd_wire_break_off(w);
    pd_push_clear(w);
}

int pd_client_is_pushing(struct pd_client *c)
{
    PD_CLIENT_HOLD(c);
    PD_EACH_WIRE(c, w)
        if (w->push.pieces.n) return 1;
    return 0;
}

int pd_client_is_halfway(struct pd_client *c)
{
    PD_CLIENT_HOLD(c);
    PD_EACH_WIRE(c, w)
        if (is_begun(w)) return 1;
    return 0;
}

void pd_client_note_halfway(struct pd_client *c, const char *why)
{
    PD_EACH_WIRE(c, w)
        if (is_begun(w) && !c->halfway[0])
            snprintf(c->halfway, sizeof c->halfway,
                     "it left in step %llu, of which servers have a part: %.300s",
                     (unsigned long long)w->step, why);
}

void pd_client_drop_step(struct pd_client *c)
{
    PD_CLIENT_HOLD(c);
    pd_client_note_halfway(c, pd_error());
    PD_EACH_WIRE(c, w) {
        if (is_begun(w) && !c->spoilt[0])
            snprintf(
                c->spoilt, sizeof c->spoilt,
                "an earlier run failed when servers had a part of step %llu from it, which another batch "
                "must not be mixed with: start this trainer again. The run had failed with: %.700s",
                (unsigned long long)w->step, pd_error());
        drop(w);
    }
}

static pd_status check_spoilt(const struct pd_client *c)
{
    return c->spoilt[0] ? pd_fail(PD_INVALID, "%s", c->spoilt) : PD_OK;
}

/* ---- what the step is made of ---- */

static pd_status add_piece(struct pd_client *c, const struct piece *p)
{
    struct wire *w = pd_client_wire_of(c, p->name);
    PD_TRY(check_spoilt(c));
    if (w->push.state != PUSH_GATHERS)
        return pd_fail(PD_INVALID, "'%s' is sent after its step was ended", c->names.at[p->name].text);
    return pd_vec_push(&w->push.pieces, *p) ? PD_OK : pd_no_memory();
}

pd_status pd_client_push_dense(struct pd_client *c, int number, const void *data, size_t bytes, size_t row)
{
    PD_CLIENT_HOLD(c);
    size_t part = pd_ps_rows_a_part(row) * row;
    uint32_t k = 0;
    for (size_t at = 0; at < bytes || !k; at += part, k++)
        PD_TRY(add_piece(c, &(struct piece){.name = number,
                                            .part = k,
                                            .data = (const char *)data + at,
                                            .bytes = bytes - at < part ? bytes - at : part}));
    pd_push_flush(pd_client_wire_of(c, number));
    return PD_OK;
}

pd_status pd_client_push_rows(struct pd_client *c, int number, int64_t n, const int64_t *rows,
                              const void *data, size_t row, int is_slice)
{
    PD_CLIENT_HOLD(c);
    int64_t part = (int64_t)pd_ps_rows_a_part(row);
    uint32_t k = 0;
    pd_client_wire_of(c, number)->push.is_meant = 1;
    if (!n && is_slice) PD_TRY(add_piece(c, &(struct piece){.name = number}));
    for (int64_t at = 0; at < n; at += part, k++) {
        int64_t count = n - at < part ? n - at : part;
        PD_TRY(add_piece(c, &(struct piece){.name = number,
                                            .part = k,
                                            .rows = count,
                                            .row_numbers = rows + at,
                                            .data = (const char *)data + (size_t)at * row,
                                            .bytes = (size_t)count * row}));
    }
    pd_push_flush(pd_client_wire_of(c, number));
    return PD_OK;
}

/* ---- answers ---- */

void pd_push_passed(struct wire *w)
{
    w->passes = w->has_parts = w->is_aside = 0;
    w->step++;
    pd_push_flush(w);
}

void pd_push_ended(struct wire *w)
{
    int had = is_given_again(w);
    note_counted(w, w->step++);
    if (!had && w->step < w->next) w->step = w->next;
    pd_push_clear(w);
}

/* ---- a step without this trainer ---- */

pd_status pd_push_stand_aside(struct pd_client *c, struct link *one, const struct pd_run *run, uint64_t step,
                              int n, const char *const *endpoints)
{
    PD_TRY(check_spoilt(c));
    PD_TRY(pd_group_align(one, run, n, endpoints));
    PD_EACH_WIRE_OF(c, one->group, w) {
        if (w->step > step || !pd_link_is_pushed_to(w->link, n, endpoints)) continue;
        w->passes = w->is_aside = 1;
        pd_push_flush(w);
    }
    atomic_fetch_add(&one->group->passed, 1);
    return pd_client_wait_until(c, run, pd_group_passes_nothing, one, "a step that others have a batch for");
}

/* ---- the exchange ---- */

struct exchange {
    const struct pd_client *client;
    const struct pd_ask *ask;
    int ends; /* a step of this run, too */
};

static int is_over(void *arg)
{
    const struct exchange *x = arg;
    if (x->ask->left) return 0;
    PD_EACH_WIRE(x->client, w)
        if (x->ends && w->push.state != PUSH_GATHERS) return 0;
    return 1;
}

/* Values that are asked of a server come with the answer of its step. */
static void end_push(struct wire *w, struct pd_ask *ask)
{
    w->push.end.kind = REQUEST_STEP;
    pd_ask_move(ask, w, &w->push.end);
    w->push.state = PUSH_ENDS;
    pd_push_flush(w);
}

/* One step, so the servers are of one job. */
static pd_status end_step(struct pd_client *c, const struct pd_run *run, struct pd_ask *ask, int n,
                          const char *const *endpoints)
{
    struct link *link, *pushed_to = NULL;
    for (int i = 0; i < n; i++)
        PD_TRY(pd_client_connect(c, run, endpoints[i], &link));
    for (int i = 0; i < c->links.n; i++) {
        if (!pd_link_is_pushed_to(c->links.at[i], n, endpoints)) continue;
        if (!pushed_to) pushed_to = c->links.at[i];
        pd_client_join(pushed_to, c->links.at[i]);
    }
    if (!pushed_to) return PD_OK;
    PD_TRY(check_spoilt(c));
    PD_TRY(pd_group_align(pushed_to, run, n, endpoints));
    PD_TRY(pd_group_check_finite(c, pushed_to->group));
    for (int i = 0; i < c->links.n; i++) {
        link = c->links.at[i];
        int is_pushed_to = pd_link_is_pushed_to(link, n, endpoints);
        for (int k = 0; is_pushed_to && k < link->wires.n; k++)
            end_push(link->wires.at[k], ask);
    }
    return PD_OK;
}

pd_status pd_client_exchange(struct pd_client *c, const struct pd_run *run, struct pd_ask *ask, int n,
                             const char *const *endpoints)
{
    PD_CLIENT_HOLD(c);
    struct exchange exchange = {c, ask, pd_client_has_turn(run)};
    pd_status status = exchange.ends ? end_step(c, run, ask, n, endpoints) : PD_OK;
    if (status == PD_OK) status = pd_ask_send(ask);
    if (status == PD_OK)
        status = pd_client_wait_until(c, run, is_over, &exchange, "the exchange with the servers");
    pd_ask_drop(ask);
    return status;
}
