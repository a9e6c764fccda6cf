/* The way out of a connection: messages in a queue, borrowed bytes in place, many small ones in one call to
 * the transport. */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/conn_inside.h"

enum {
    PARTS = 64,        /* of one call to the transport */
    SMALL = 32 << 10,  /* below this, messages of one callback are joined */
    BUDGET = 16 << 20, /* bytes written before other connections have their turn */
};

struct pd_out {
    struct pd_out *next;
    void (*sent)(void *arg, pd_status status);
    void *arg;
    int n;
    struct iovec parts[]; /* head and meta (behind this array), then the spans */
};

static void append(struct pd_conn *conn, struct pd_out *out)
{
    if (conn->last)
        conn->last->next = out;
    else
        conn->first = out;
    conn->last = out;
}

static pd_status check(struct pd_conn *conn, const struct pd_frame_head *head, size_t meta_n,
                       const struct pd_span *spans, int n_spans)
{
    size_t total = 0;
    if (conn->state >= PD_CONN_CLOSING) return pd_fail(PD_GONE, "the connection to %s is closed", conn->peer);
    if (meta_n > PD_FRAME_META_MAX)
        return pd_fail(PD_INVALID, "a message of type %d has a meta part of %zu bytes; the most is %d",
                       head->type, meta_n, PD_FRAME_META_MAX);
    for (int i = 0; i < n_spans; i++)
        if (__builtin_add_overflow(total, spans[i].n, &total) || total > INT64_MAX)
            return pd_fail(PD_INVALID, "a message of type %d has more than 2^63 bytes", head->type);
    if (n_spans < 0 || n_spans > INT_MAX / 2)
        return pd_fail(PD_INVALID, "a message of type %d has %d spans", head->type, n_spans);
    return PD_OK;
}

static pd_status queue(struct pd_conn *conn, const struct pd_frame_head *head, const void *meta,
                       size_t meta_n, const struct pd_span *spans, int n_spans,
                       void (*sent)(void *arg, pd_status status), void *arg)
{
    PD_TRY(check(conn, head, meta_n, spans, n_spans));
    size_t array = sizeof(struct iovec) * (size_t)(n_spans + 1);
    struct pd_out *out = pd_malloc(sizeof *out + array + PD_FRAME_HEAD + meta_n);
    if (!out) return pd_no_memory();
    struct pd_frame_head full = *head;
    uint8_t *bytes = (uint8_t *)out + sizeof *out + array;
    *out = (struct pd_out){.sent = sent, .arg = arg, .n = 1};
    out->parts[0] = (struct iovec){bytes, PD_FRAME_HEAD + meta_n};
    full.meta = (uint32_t)meta_n;
    full.payload = 0;
    for (int i = 0; i < n_spans; i++) {
        if (!spans[i].n) continue;
        out->parts[out->n++] = (struct iovec){spans[i].at, spans[i].n};
        full.payload += spans[i].n;
    }
    pd_frame_pack(&full, bytes);
    if (meta_n) memcpy(bytes + PD_FRAME_HEAD, meta, meta_n);
    append(conn, out);
    conn->queued += PD_FRAME_HEAD + meta_n + full.payload;
    return PD_OK;
}

pd_status pd_conn_send(struct pd_conn *conn, const struct pd_frame_head *head, const void *meta,
                       size_t meta_n, const struct pd_span *spans, int n_spans,
                       void (*sent)(void *arg, pd_status status), void *arg)
{
    if (conn->state < PD_CONN_OPEN)
        return pd_fail(PD_INVALID, "the connection to %s is not open yet: wait for `opened`", conn->peer);
    if (head->type < 16)
        return pd_fail(PD_INVALID, "message type %d belongs to the handshake: use 16 or more", head->type);
    PD_TRY(queue(conn, head, meta, meta_n, spans, n_spans, sent, arg));
    if (conn->blocked) return PD_OK;
    /* A small message inside a callback waits for its end: there may be more. A larger one starts on its way
     * at once. */
    if (pd_loop_inside(conn->loop) && conn->queued < SMALL)
        pd_loop_want(conn->loop, &conn->task);
    else
        pd_conn_flush(conn);
    return PD_OK;
}

void pd_conn_free_sent(void *arg, pd_status status)
{
    (void)status;
    pd_free(arg);
}

void pd_conn_give(struct pd_conn *conn, const struct pd_frame_head *head, struct pd_buf *meta,
                  const struct pd_span *spans, int n_spans)
{
    const struct pd_buf none = {0}, *m = meta ? meta : &none;
    pd_status status =
        m->failed ? pd_no_memory() : pd_conn_send(conn, head, m->at, m->n, spans, n_spans, NULL, NULL);
    if (status == PD_NO_MEMORY)
        pd_conn_end(conn, PD_IO, "a message could not be sent: out of memory");
    else if (status != PD_OK && status != PD_GONE)
        pd_conn_end(conn, status, pd_error());
    if (meta) pd_buf_free(meta);
}

void pd_conn_say(struct pd_conn *conn, const struct pd_frame_head *head, struct pd_buf *meta)
{
    pd_conn_give(conn, head, meta, NULL, 0);
}

pd_status pd_conn_send_meta(struct pd_conn *conn, uint16_t type, uint64_t extra, struct pd_buf *meta)
{
    struct pd_frame_head head = {.type = type, .extra = extra, .meta = (uint32_t)meta->n};
    if (!meta->failed) head.step = pd_frame_sum(&head, meta->at);
    pd_status status =
        meta->failed ? pd_no_memory() : queue(conn, &head, meta->at, meta->n, NULL, 0, NULL, NULL);
    pd_buf_free(meta);
    if (status == PD_OK) pd_loop_want(conn->loop, &conn->task);
    return status;
}

/* The next parts to write, over as many messages as fit, up to `most` bytes: a transport that the other side
 * empties meanwhile takes all that it is given. Returns their number and the sum of their bytes. */
static int gather(struct pd_conn *conn, struct iovec *parts, size_t most, size_t *bytes)
{
    int n = 0, part = conn->part;
    size_t offset = conn->offset;
    *bytes = 0;
    for (struct pd_out *out = conn->first; out && n < PARTS; out = out->next, part = 0)
        for (; part < out->n && n < PARTS; part++) {
            size_t length = out->parts[part].iov_len - offset, room = most - *bytes;
            if (!room) return n;
            parts[n] =
                (struct iovec){(uint8_t *)out->parts[part].iov_base + offset, length < room ? length : room};
            *bytes += parts[n++].iov_len;
            offset = 0;
        }
    return n;
}

static void first_is_written(struct pd_conn *conn)
{
    struct pd_out *out = conn->first;
    conn->first = out->next;
    if (!conn->first) conn->last = NULL;
    conn->part = 0;
    out->next = NULL;
    if (!out->sent) {
        pd_free(out);
        return;
    }
    if (conn->sent_last)
        conn->sent_last->next = out;
    else
        conn->sent_first = out;
    conn->sent_last = out;
    pd_loop_want(conn->loop,
                 &conn->task); /* `sent` is called from the loop, never from inside pd_conn_send */
}

static void advance(struct pd_conn *conn, size_t n)
{
    conn->queued -= n;
    conn->bytes[1] += n;
    while (conn->first) {
        size_t left = conn->first->parts[conn->part].iov_len - conn->offset;
        if (n < left) {
            conn->offset += n;
            return;
        }
        n -= left;
        conn->offset = 0;
        if (++conn->part == conn->first->n) first_is_written(conn);
        if (!n) return;
    }
}

void pd_conn_flush(struct pd_conn *conn)
{
    struct iovec parts[PARTS];
    size_t budget = BUDGET;
    if (!conn->pipe || conn->state == PD_CONN_CONNECTING || conn->state == PD_CONN_ENDED) return;
    while (conn->first) {
        size_t wanted, done = 0;
        int n = gather(conn, parts, budget, &wanted);
        pd_status status = conn->pipe->transport->write(conn->pipe, parts, n, &done);
        if (status != PD_OK) {
            pd_conn_end(conn, status, pd_error());
            return;
        }
        if (done) pd_loop_moved(conn->loop);
        advance(conn, done);
        budget -= done;
        if (done < wanted || !budget) break;
    }
    conn->blocked = conn->first != NULL;
    pd_conn_update(conn);
}

void pd_conn_tell_sent(struct pd_conn *conn)
{
    struct pd_out *out = conn->sent_first;
    conn->sent_first = conn->sent_last = NULL;
    while (out) {
        struct pd_out *next = out->next;
        pd_loop_made(conn->loop);
        out->sent(out->arg, PD_OK);
        pd_free(out);
        out = next;
    }
}

void pd_conn_drop_queue(struct pd_conn *conn)
{
    pd_conn_tell_sent(conn);
    struct pd_out *out = conn->first;
    conn->first = conn->last = NULL;
    conn->queued = 0;
    while (out) {
        struct pd_out *next = out->next;
        if (out->sent) {
            pd_loop_made(conn->loop);
            out->sent(out->arg, conn->why == PD_OK ? PD_GONE : conn->why);
        }
        pd_free(out);
        out = next;
    }
}
