/* One exchange of a trainer with its servers: what is pushed and pulled in a step, sent as it comes, kept
 * until it is acknowledged. See client.h. */
#include <stdio.h>
#include <string.h>

#include "base/flags.h"
#include "base/log.h"
#include "net/wire.h"
#include "pserver/client/client_private.h"
#include "pserver/proto.h"

static struct wire *wire_of(struct pd_client *c, int number)
{
    const struct name *n = &c->names.at[number];
    return n->link->wires.at[n->wire];
}

/* The step that is given again for others. */
static int has(const struct wire *w)
{
    return w->step < w->until;
}

/* ---- sending ---- */

/* One PUSH with pieces [from, to) and, when `end`, the wishes. */
static void send_push(struct wire *w, int from, int to, int end)
{
    struct pd_client *c = w->link->client;
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_PUSH, .step = w->step, .flags = end ? PD_PS_END : 0};
    PD_VEC(struct pd_span) spans = {0};
    int ok = pd_vec_reserve(&spans, 2 * (to - from) + 1);
    pd_put_u32(&meta, (uint32_t)(to - from));
    for (int i = from; ok && i < to; i++) {
        const struct piece *p = &w->pieces.at[i];
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
        pd_put_u32(&meta, (uint32_t)w->wishes.n);
        for (int i = 0; i < w->wishes.n; i++)
            pd_put_u32(&meta, c->names.at[w->wishes.at[i].name].number);
        head.request = ++w->request;
        head.extra = w->link->group->cut;
        w->waits = 1;
    }
    meta.failed |= !ok;
    pd_conn_give(w->conn, &head, &meta, spans.at, spans.n);
    pd_vec_free(&spans);
}

static void send_pull(struct wire *w)
{
    struct pd_client *c = w->link->client;
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_PULL, .step = w->step, .request = ++w->request};
    pd_put_u32(&meta, (uint32_t)w->wishes.n);
    for (int i = 0; i < w->wishes.n; i++)
        pd_put_u32(&meta, c->names.at[w->wishes.at[i].name].number);
    w->waits = 1;
    pd_conn_say(w->conn, &head, &meta);
}

static void send_rows(struct wire *w)
{
    struct pd_buf meta = {0};
    struct pd_span ids = {(void *)w->rows, (size_t)w->n_rows * sizeof(int64_t)};
    struct pd_frame_head head = {
        .type = PD_PS_ROWS, .step = w->step, .request = ++w->request, .payload = ids.n};
    pd_put_u32(&meta, w->link->client->names.at[w->wishes.at[0].name].number);
    pd_put_u64(&meta, (uint64_t)w->n_rows);
    w->waits = 1;
    pd_conn_give(w->conn, &head, &meta, &ids, 1);
}

static void send_save(struct wire *w)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {.type = PD_PS_SAVE,
                                 .flags = w->save->is_placed ? PD_PS_PLACE : 0,
                                 .step = w->step,
                                 .request = ++w->request};
    pd_put_u32(&meta, w->link->client->names.at[w->wishes.at[0].name].number);
    pd_put_u32(&meta, w->save->part);
    pd_put_u32(&meta, w->save->parts);
    pd_put_u64(&meta, w->save->save);
    pd_put_text(&meta, w->save->folder);
    w->waits = 1;
    pd_conn_say(w->conn, &head, &meta);
}

static void send_pass(struct wire *w)
{
    struct pd_buf meta = {0};
    struct pd_frame_head head = {
        .type = PD_PS_PUSH, .flags = PD_PS_END | PD_PS_PASS, .step = w->step, .request = ++w->request};
    pd_put_u32(&meta, 0);
    pd_put_u32(&meta, 0);
    w->waits = 1;
    pd_conn_say(w->conn, &head, &meta);
}

/* Pieces travel in messages of about a part each, so that the server can apply the first while the last is on
 * its way. */
void pd_wire_flush(struct wire *w)
{
    if (!w->conn || !w->is_open || w->sent_end) return;
    if (w->passes && !w->waits) send_pass(w);
    if (w->passes || (!w->link->group->is_aligned && !w->is_pull_only)) return;
    if (w->link->group->checks && !w->is_ended) return;
    if (has(w) && !w->is_pull_only) {
        if (!w->is_ended) return;
        w->sent_pieces = w->pieces.n;
    }
    while (w->sent_pieces < w->pieces.n) {
        size_t bytes = 0;
        int to = w->sent_pieces;
        while (to < w->pieces.n && (bytes == 0 || bytes + w->pieces.at[to].bytes <= PD_PS_PART))
            bytes += w->pieces.at[to++].bytes;
        int is_last = to == w->pieces.n;
        if (is_last && !w->is_ended && bytes < PD_PS_PART / 4) return; /* more will come */
        send_push(w, w->sent_pieces, to, is_last && w->is_ended);
        w->sent_pieces = to;
        w->sent_end = is_last && w->is_ended;
    }
    if (!w->is_ended || w->sent_end) return;
    w->sent_end = 1;
    if (w->rows)
        send_rows(w);
    else if (w->save)
        send_save(w);
    else if (w->is_pull_only)
        send_pull(w);
    else
        send_push(w, 0, 0, 1);
}

static void note_counted(struct wire *w, uint64_t step)
{
    w->counted = step;
    pd_group_count(w->link);
}

void pd_wire_again(struct wire *w, uint64_t applied, uint64_t counted)
{
    struct pd_client *c = w->link->client;
    if (w->step <= 1 && !w->pieces.n && !w->is_ended)
        w->step = applied + 1, note_counted(w, counted); /* a trainer that starts, or starts again */
    if (applied + 1 < w->step && pd_flag_int(PD_FLAG_ps_accept_rollback)) {
        pd_log(PD_LOG_WARNING,
               "server %s came back with step %llu instead of %llu: going on with its older parameters",
               w->link->endpoint, (unsigned long long)applied, (unsigned long long)(w->step - 1));
        /* Servers that agree on steps let one be a single step behind: what comes next is a step further for
         * the others, so the one that is missing is passed here, by all trainers. */
        w->passes = applied + 2 == w->step;
        w->step = applied + 1;
    }
    if (applied + 1 < w->step && !w->is_pull_only) {
        c->failed = 1;
        c->failure = PD_INVALID;
        snprintf(c->failure_text, sizeof c->failure_text,
                 "server %s came back with step %llu, but this trainer is in step %llu: it lost updates. "
                 "Start it from a newer snapshot, or set FLAGS_ps_accept_rollback=1",
                 w->link->endpoint, (unsigned long long)applied, (unsigned long long)w->step);
        return;
    }
    w->sent_end = 0;
    w->waits = 0;
    w->sent_pieces = 0;
    if (applied + 1 < w->until) w->until = applied + 1;
    if (applied >= w->step) {
        /* Applied with this trainer: only the answer is missing. Without it, because it was away for long:
         * what it gives goes to the next step. That is the same on all servers, which agree on who is in it.
         */
        if (counted < w->step && !w->passes && !has(w))
            pd_log(PD_LOG_WARNING,
                   "server %s went on to step %llu without this trainer, whose connection was gone for long: "
                   "its step %llu counts as step %llu",
                   w->link->endpoint, (unsigned long long)applied, (unsigned long long)w->step,
                   (unsigned long long)applied + 1);
        w->next = applied + 1;
        if (has(w) || (counted >= w->step && w->is_ended && !w->is_pull_only && !w->passes)) {
            w->sent_pieces = w->pieces.n;
        } else {
            w->step = w->next;
            w->passes = 0;
        }
    }
    pd_wire_flush(w);
}

/* ---- a step that was broken off ---- */

/* Has the server a part of the step, or may it have one? When it was to end, others may have all of it. */
static int is_begun(const struct wire *w)
{
    return !w->is_pull_only && (w->sent_pieces || w->sent_end || w->is_ended);
}

/* The connection still reads from and writes to memory of the run, so it ends too; a new one is made at the
 * next use. What was not sent, and what was only asked for, leaves no trace at the server. */
static void drop(struct wire *w)
{
    if (w->conn && (w->waits || w->sent_pieces)) {
        pd_conn_close(w->conn, 0);
        w->is_open = 0;
    }
    int passes = w->passes; /* that is owed to the server all the same */
    pd_wire_clear(w);
    w->passes = passes;
}

int pd_client_is_pushing(struct pd_client *c)
{
    PD_CLIENT_HOLD(c);
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++)
            if (c->links.at[i]->wires.at[k]->pieces.n) return 1;
    return 0;
}

void pd_client_note_halfway(struct pd_client *c, const char *why)
{
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++) {
            const struct wire *w = c->links.at[i]->wires.at[k];
            if (is_begun(w) && !c->halfway[0])
                snprintf(c->halfway, sizeof c->halfway,
                         "it left in step %llu, of which servers have a part: %.300s",
                         (unsigned long long)w->step, why);
        }
}

void pd_client_drop_step(struct pd_client *c)
{
    PD_CLIENT_HOLD(c);
    pd_client_note_halfway(c, pd_error());
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++) {
            struct wire *w = c->links.at[i]->wires.at[k];
            if (is_begun(w) && !c->spoilt[0])
                snprintf(c->spoilt, sizeof c->spoilt,
                         "an earlier run failed when servers had a part of step %llu from it, which another "
                         "batch must not be mixed with: start this trainer again. The run had failed with: "
                         "%.700s",
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
    struct wire *w = wire_of(c, p->name);
    PD_TRY(check_spoilt(c));
    if (w->is_ended)
        return pd_fail(PD_INVALID, "'%s' is sent after its step was ended", c->names.at[p->name].text);
    return pd_vec_push(&w->pieces, *p) ? PD_OK : pd_no_memory();
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
    pd_wire_flush(wire_of(c, number));
    return PD_OK;
}

pd_status pd_client_push_rows(struct pd_client *c, int number, int64_t n, const int64_t *rows,
                              const void *data, size_t row, int is_slice)
{
    PD_CLIENT_HOLD(c);
    int64_t part = (int64_t)pd_ps_rows_a_part(row);
    uint32_t k = 0;
    wire_of(c, number)->is_meant = 1;
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
    pd_wire_flush(wire_of(c, number));
    return PD_OK;
}

pd_status pd_client_pull(struct pd_client *c, int number, void *to, size_t bytes)
{
    PD_CLIENT_HOLD(c);
    struct wire *w = wire_of(c, number);
    return pd_vec_push(&w->wishes, ((struct wish){number, to, bytes})) ? PD_OK : pd_no_memory();
}

/* ---- answers ---- */

pd_status pd_wire_head(struct wire *w, struct pd_message *m)
{
    if (m->head.type != PD_PS_VALUES) return PD_OK;
    if (!w->waits || m->head.request != w->request)
        return pd_fail(PD_FORMAT, "server %s answers what was not asked", w->link->endpoint);
    uint64_t total = 0;
    w->spans.n = 0;
    for (int i = 0; !w->passes && i < w->wishes.n; i++) {
        if (!pd_vec_push(&w->spans, ((struct pd_span){w->wishes.at[i].to, w->wishes.at[i].bytes})))
            return pd_no_memory();
        total += w->wishes.at[i].bytes;
    }
    if (total != m->head.payload)
        return pd_fail(PD_FORMAT,
                       "server %s answers with %llu bytes, expected %llu: do both run the same Program?",
                       w->link->endpoint, (unsigned long long)m->head.payload, (unsigned long long)total);
    m->spans = w->spans.at;
    m->n_spans = w->spans.n;
    return PD_OK;
}

void pd_wire_clear(struct wire *w)
{
    w->waits = w->passes = 0;
    w->said[0] = 0;
    w->pieces.n = w->wishes.n = w->sent_pieces = w->is_meant = 0;
    w->is_ended = w->sent_end = w->is_pull_only = 0;
    w->rows = NULL;
    w->save = NULL;
}

int pd_wire_refused(struct wire *w, uint64_t request, pd_status status, const char *text)
{
    struct pd_client *c = w->link->client;
    if (!w->save || !w->waits || request != w->request) return 0;
    c->refusal = status;
    snprintf(c->refusal_text, sizeof c->refusal_text, "server %s: %.900s", w->link->endpoint, text);
    pd_wire_clear(w);
    return 1;
}

pd_status pd_wire_done(struct wire *w, const struct pd_message *m)
{
    if (m->head.request != w->request || !w->waits) return PD_OK;
    if (m->head.type != PD_PS_VALUES && m->head.type != PD_PS_DONE)
        return pd_fail(PD_FORMAT, "server %s sends a message of type %u", w->link->endpoint, m->head.type);
    if (m->head.extra > w->link->group->cut) w->link->group->cut = m->head.extra;
    if (w->save && !w->save->parts) w->save->save = m->head.step;
    if (w->passes) {
        w->passes = w->waits = w->has_parts = 0;
        w->step++;
        pd_wire_flush(w);
        return PD_OK;
    }
    if (w->is_ended && !w->is_pull_only) {
        int had = has(w);
        note_counted(w, w->step++);
        if (!had && w->step < w->next) w->step = w->next;
    }
    pd_wire_clear(w);
    return PD_OK;
}

/* ---- the exchange ---- */

static int is_over(void *arg)
{
    const struct pd_client *c = arg;
    for (int i = 0; i < c->links.n; i++)
        for (int k = 0; k < c->links.at[i]->wires.n; k++)
            if (c->links.at[i]->wires.at[k]->is_ended) return 0;
    return 1;
}

int pd_client_is_asked(struct pd_client *c, int number)
{
    PD_CLIENT_HOLD(c);
    return c->names.at[number].link->wires.at[c->names.at[number].wire]->is_ended;
}

/* A wish that is an exchange of its own. */
static pd_status want_alone(struct pd_client *c, int number, void *out, size_t bytes, struct wire **wire)
{
    struct wire *w = *wire = wire_of(c, number);
    if (w->is_ended || w->wishes.n || w->pieces.n)
        return pd_fail(PD_INVALID, "'%s' is asked for in the middle of an exchange",
                       c->names.at[number].text);
    if (!pd_vec_push(&w->wishes, ((struct wish){number, out, bytes}))) return pd_no_memory();
    w->is_ended = w->is_pull_only = 1;
    return PD_OK;
}

int64_t pd_client_rows_most(size_t row)
{
    size_t most = row > sizeof(int64_t) ? row : sizeof(int64_t); /* of a row, and of its number */
    return most < PD_PS_ROWS_MOST ? PD_PS_ROWS_MOST / (int64_t)most : 1;
}

pd_status pd_client_want_rows(struct pd_client *c, int number, int64_t n, const int64_t *rows, size_t row,
                              void *out)
{
    PD_CLIENT_HOLD(c);
    struct wire *w;
    if (n == 0) return PD_OK;
    PD_TRY(want_alone(c, number, out, (size_t)n * row, &w));
    w->rows = rows;
    w->n_rows = n;
    pd_wire_flush(w);
    return PD_OK;
}

pd_status pd_client_want_saved(struct pd_client *c, int number, struct pd_client_save *save)
{
    PD_CLIENT_HOLD(c);
    struct wire *w;
    PD_TRY(want_alone(c, number, NULL, 0, &w));
    w->save = save;
    pd_wire_flush(w);
    return PD_OK;
}

pd_status pd_client_wait(struct pd_client *c, const struct pd_run *run, const char *what)
{
    PD_CLIENT_HOLD(c);
    PD_TRY(pd_client_turn_until(c, run, is_over, c, what));
    pd_status status = c->refusal;
    c->refusal = PD_OK;
    return status == PD_OK ? PD_OK : pd_fail(status, "%s", c->refusal_text);
}

/* One step, so the servers are of one job. */
pd_status pd_client_exchange(struct pd_client *c, const struct pd_run *run, int n,
                             const char *const *endpoints)
{
    PD_CLIENT_HOLD(c);
    for (int i = 0; i < n; i++) {
        struct link *link;
        PD_TRY(pd_client_connect(c, run, endpoints[i], &link));
    }
    struct link *pushed_to = NULL;
    for (int i = 0; i < c->links.n; i++) {
        if (!pd_link_is_pushed_to(c->links.at[i], n, endpoints)) continue;
        if (!pushed_to) pushed_to = c->links.at[i];
        pd_client_join(pushed_to, c->links.at[i]);
    }
    if (pushed_to) {
        PD_TRY(check_spoilt(c));
        PD_TRY(pd_group_align(pushed_to, run, n, endpoints));
        PD_TRY(pd_group_check_finite(c, pushed_to->group));
    }
    for (int i = 0; i < c->links.n; i++) {
        struct link *link = c->links.at[i];
        int pushed = pd_link_is_pushed_to(link, n, endpoints);
        for (int k = 0; k < link->wires.n; k++) {
            struct wire *w = link->wires.at[k];
            if (!pushed && !w->wishes.n) continue;
            w->is_ended = 1;
            w->is_pull_only = !pushed;
            pd_wire_flush(w);
        }
    }
    return pd_client_turn_until(c, run, is_over, c, "the exchange with the servers");
}
