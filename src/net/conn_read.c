/* The way into a connection: head, meta, payload. Small messages come many at a time through the loop's
 * scratch memory; a large payload goes straight into its place. Memory grows with what has arrived, never
 * with what was announced. */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "net/conn_inside.h"

enum {
    PARTS = 64,
    META_AHEAD = 64 << 10, /* memory taken before the bytes are there */
    BODY_AHEAD = 1 << 20,
    KEEP = 4 << 10,   /* a connection keeps a meta buffer up to this size between messages */
    BUDGET = 8 << 20, /* bytes read before other connections have their turn */
    ALIGNED = 16,     /* what a payload without spans may rely on */
};
static const uint64_t payload_most = UINT64_C(256) << 20; /* without spans */
static const uint64_t large = UINT64_C(32) << 20; /* more than the caches of a core, and of its share */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int is_alive(const struct pd_conn *conn)
{
    return conn->state == PD_CONN_GREETING || conn->state == PD_CONN_OPEN;
}

static int may_handle(const struct pd_conn *conn)
{
    return !conn->held && !conn->is_sealed_now && is_alive(conn);
}

/* Room for `need` of `total` bytes, and some ahead. */
static pd_status grow(struct pd_conn *conn, struct pd_spare *buffer, size_t need, size_t total, size_t ahead)
{
    if (need <= buffer->cap) return PD_OK;
    size_t more = need / 4 > ahead ? need / 4 : ahead;
    size_t cap = total - need > more ? need + more : total;
    uint8_t *at = pd_realloc_array(buffer->at, cap, 1);
    if (!at) return pd_no_memory();
    buffer->at = at;
    buffer->cap = cap;
    return PD_OK;
}

/* The other side may find a fault in our last message of the handshake, after which we took the connection
 * for open. */
static int is_late_refusal(const struct pd_conn *conn, const struct pd_frame_head *head)
{
    return conn->state == PD_CONN_OPEN && head->type == PD_REFUSED && !head->payload &&
           head->meta <= PD_HELLO_META_MAX;
}

static pd_status refused_late(const struct pd_message *message)
{
    char text[1100];
    PD_TRY(pd_refused_unpack(message->meta, message->head.meta, text, sizeof text));
    return pd_fail(pd_refused_status(message->head.extra), "the other side refused this process: %s", text);
}

static pd_status take_head(struct pd_conn *conn, const uint8_t *bytes)
{
    struct pd_frame_head head;
    int version = pd_frame_version(bytes);
    if (conn->state == PD_CONN_GREETING && version >= 0 && version != PD_FRAME_VERSION &&
        conn->handshake->version)
        conn->handshake->version(conn, version);
    if (!is_alive(conn)) return PD_OK;
    PD_TRY(pd_frame_unpack(bytes, &head));
    if (conn->state == PD_CONN_GREETING) {
        if (head.type < PD_HELLO || head.type > PD_SWITCH || head.payload || head.meta > PD_HELLO_META_MAX)
            return pd_fail(PD_FORMAT,
                           "a message of type %d with %u + %llu bytes has no place in the handshake",
                           head.type, (unsigned)head.meta, (unsigned long long)head.payload);
    } else if (conn->state == PD_CONN_OPEN && head.type < 16 && !is_late_refusal(conn, &head)) {
        return pd_fail(PD_FORMAT, "a message of type %d has no place after the handshake", head.type);
    } else if (conn->meta_most && head.meta > conn->meta_most) {
        return pd_fail(PD_FORMAT,
                       "a message of type %d announces a meta part of %u bytes; here the most is %u",
                       head.type, (unsigned)head.meta, (unsigned)conn->meta_most);
    }
    conn->message = (struct pd_message){.head = head};
    conn->phase = PD_READ_META;
    conn->have = 0;
    return PD_OK;
}

/* Head and meta are in: the user may place the payload. */
static pd_status meta_is_in(struct pd_conn *conn, const uint8_t *meta)
{
    struct pd_message *message = &conn->message;
    uint64_t placed = 0;
    message->meta = meta;
    conn->phase = PD_READ_PAYLOAD;
    conn->have = conn->span_at = 0;
    conn->span = 0;
    if (conn->state != PD_CONN_OPEN || is_late_refusal(conn, &message->head)) return PD_OK;
    if (conn->events->head) {
        pd_loop_made(conn->loop);
        PD_TRY(conn->events->head(conn, message));
        /* The handler may have closed. */
        if (conn->state != PD_CONN_OPEN) return PD_OK;
    }
    for (int i = 0; i < message->n_spans; i++)
        placed += message->spans[i].n;
    if (message->n_spans && placed != message->head.payload)
        return pd_fail(PD_INTERNAL, "the spans for a payload of %llu bytes have %llu",
                       (unsigned long long)message->head.payload, (unsigned long long)placed);
    if (!message->n_spans && message->head.payload > payload_most)
        return pd_fail(
            PD_FORMAT,
            "a message of type %d announces a payload of %llu bytes that nobody expects; the most is %llu",
            message->head.type, (unsigned long long)message->head.payload, (unsigned long long)payload_most);
    return PD_OK;
}

/* The handshake's messages come before there are records. */
static pd_status check_sum(const struct pd_conn *conn, const struct pd_message *message)
{
    if (message->head.step == pd_frame_sum(&message->head, message->meta)) return PD_OK;
    pd_log(PD_LOG_WARNING,
           "a message of the handshake with %s was damaged on the way. The connection is made anew",
           conn->peer);
    return pd_fail(PD_IO, "a message of the handshake was damaged on the way");
}

static pd_status message_is_in(struct pd_conn *conn)
{
    pd_status status = PD_OK;
    conn->phase = PD_READ_HEAD;
    conn->have = 0;
    if (conn->state == PD_CONN_GREETING) {
        status = check_sum(conn, &conn->message);
        if (status == PD_OK) status = conn->handshake->message(conn, &conn->message);
    } else if (is_late_refusal(conn, &conn->message.head)) {
        status = check_sum(conn, &conn->message);
        if (status == PD_OK) status = refused_late(&conn->message);
    } else if (conn->state == PD_CONN_OPEN) {
        pd_loop_made(conn->loop);
        status = conn->events->done(conn, &conn->message);
    }
    if (conn->meta.cap > KEEP) {
        pd_free(conn->meta.at);
        conn->meta = (struct pd_spare){0};
    }
    if (conn->body.at) pd_loop_give_spare(conn->loop, conn->body);
    conn->body = (struct pd_spare){0};
    conn->message = (struct pd_message){0};
    return status;
}

/* Moves on by bytes that were read into place. */
static void advance_spans(struct pd_conn *conn, size_t n)
{
    conn->have += n;
    while (n) {
        size_t left = conn->message.spans[conn->span].n - conn->span_at;
        size_t step = least(n, left);
        conn->span_at += step;
        n -= step;
        if (conn->span_at == conn->message.spans[conn->span].n) {
            conn->span++;
            conn->span_at = 0;
        }
    }
}

static pd_status body_room(struct pd_conn *conn, size_t need)
{
    if (!conn->body.at) conn->body = pd_loop_take_spare(conn->loop);
    return grow(conn, &conn->body, need, (size_t)conn->message.head.payload, BODY_AHEAD);
}

/* Payload bytes out of the scratch memory. Returns how many were taken. */
static pd_status take_payload(struct pd_conn *conn, const uint8_t *bytes, size_t n, size_t *taken)
{
    uint64_t missing = conn->message.head.payload - conn->have;
    size_t take = missing < n ? (size_t)missing : n;
    *taken = take;
    if (!take) return PD_OK;
    if (conn->message.n_spans) {
        for (size_t done = 0; done < take;) {
            const struct pd_span *span = &conn->message.spans[conn->span];
            size_t step = least(take - done, span->n - conn->span_at);
            if (step) memcpy((uint8_t *)span->at + conn->span_at, bytes + done, step);
            if (step)
                advance_spans(conn, step);
            else
                conn->span++, conn->span_at = 0; /* an empty span */
            done += step;
        }
        return PD_OK;
    }
    if (conn->have == 0 && take == conn->message.head.payload && (uintptr_t)bytes % ALIGNED == 0) {
        conn->message.payload =
            (uint8_t *)bytes; /* all there, and in a good place: the scratch memory is ours */
        conn->have = take;
        return PD_OK;
    }
    PD_TRY(body_room(conn, conn->have + take));
    memcpy(conn->body.at + conn->have, bytes, take);
    conn->have += take;
    conn->message.payload = conn->body.at;
    return PD_OK;
}

/* One step of the way: takes what it can use of the bytes. */
static pd_status take(struct pd_conn *conn, const uint8_t *bytes, size_t n, size_t *taken)
{
    const struct pd_frame_head *head = &conn->message.head;
    *taken = 0;
    if (conn->phase == PD_READ_HEAD) {
        *taken = least(n, PD_FRAME_HEAD - conn->have);
        memcpy(conn->head + conn->have, bytes, *taken);
        conn->have += *taken;
        if (conn->have < PD_FRAME_HEAD) return PD_OK;
        PD_TRY(take_head(conn, conn->head));
        if (conn->phase == PD_READ_HEAD) return PD_OK;
        bytes += *taken;
        n -= *taken;
    }
    if (conn->phase == PD_READ_META) {
        /* A message that is wholly here is handled in place; otherwise its meta must outlive these bytes. */
        if (conn->have == 0 && n >= head->meta && n - head->meta >= head->payload) {
            *taken += head->meta;
            PD_TRY(meta_is_in(conn, bytes));
            bytes += head->meta;
            n -= head->meta;
        } else {
            size_t step = least(n, head->meta - conn->have);
            PD_TRY(grow(conn, &conn->meta, conn->have + step, head->meta, META_AHEAD));
            if (step) memcpy(conn->meta.at + conn->have, bytes, step);
            conn->have += step;
            *taken += step;
            if (conn->have < head->meta) return PD_OK;
            return meta_is_in(conn, conn->meta.at);
        }
    }
    size_t step = 0;
    if (!is_alive(conn)) return PD_OK; /* closed in `head` */
    PD_TRY(take_payload(conn, bytes, n, &step));
    *taken += step;
    return PD_OK;
}

static void fail(struct pd_conn *conn, pd_status status)
{
    pd_conn_end(conn, status, pd_error());
}

/* Handles bytes until they are used up or nobody wants to hear more. Returns how many were used; a connection
 * that closes uses all. */
static size_t handle(struct pd_conn *conn, const uint8_t *bytes, size_t n)
{
    size_t used = 0;
    while (may_handle(conn)) {
        size_t taken = 0;
        int complete = conn->phase == PD_READ_PAYLOAD && conn->have == conn->message.head.payload;
        if (!complete) {
            if (used == n) break;
            pd_status status = take(conn, bytes + used, n - used, &taken);
            used += taken;
            if (status != PD_OK) {
                fail(conn, status);
                break;
            }
            complete = conn->phase == PD_READ_PAYLOAD && conn->have == conn->message.head.payload;
        }
        if (complete && is_alive(conn)) {
            pd_status status = message_is_in(conn);
            if (status != PD_OK) {
                fail(conn, status);
                break;
            }
        }
    }
    return conn->state == PD_CONN_CLOSING ? n : used;
}

/* Keeps bytes for later, when the connection moves to another loop. */
static void keep(struct pd_conn *conn, const uint8_t *bytes, size_t n)
{
    if (!n || conn->state == PD_CONN_ENDED) return;
    uint8_t *copy = pd_malloc(n);
    if (!copy) {
        fail(conn, pd_no_memory());
        return;
    }
    memcpy(copy, bytes, n);
    conn->stash = copy;
    conn->stash_n = n;
}

/* The handshake ended in these bytes: what stands behind it is the first of the records. Returns how many
 * were taken. */
static size_t feed(struct pd_conn *conn, const uint8_t *bytes, size_t n)
{
    if (!conn->is_sealed_now) return 0;
    conn->is_sealed_now = 0;
    if (conn->state == PD_CONN_ENDED) return n;
    pd_status status = pd_record_feed(conn->pipe, bytes, n);
    if (status != PD_OK) fail(conn, status);
    return n;
}

void pd_conn_read_stash(struct pd_conn *conn)
{
    if (!conn->stash || (!may_handle(conn) && conn->state != PD_CONN_CLOSING)) return;
    uint8_t *stash = conn->stash;
    size_t n = conn->stash_n;
    conn->stash = NULL;
    /* Handled from the scratch memory, whose alignment the payload's promise rests on. */
    uint8_t *scratch = pd_loop_scratch(conn->loop);
    memcpy(scratch, stash, n);
    pd_free(stash);
    size_t used = handle(conn, scratch, n);
    keep(conn, scratch + used, n - used);
}

/* How much to read into the scratch memory: a large payload that could be borrowed stays out of it. The head
 * is read again and checked later. */
static size_t scratch_room(struct pd_conn *conn)
{
    const struct pd_transport *transport = conn->pipe->transport;
    if (!transport->borrow || conn->state != PD_CONN_OPEN || conn->phase != PD_READ_HEAD || conn->have)
        return PD_LOOP_SCRATCH;
    const uint8_t *head = transport->borrow(conn->pipe, PD_FRAME_HEAD, 1);
    if (!head) return PD_LOOP_SCRATCH;
    uint64_t meta, payload;
    pd_frame_sizes(head, &meta, &payload);
    return payload > PD_LOOP_SCRATCH && meta <= PD_LOOP_SCRATCH - PD_FRAME_HEAD ? PD_FRAME_HEAD + (size_t)meta
                                                                                : PD_LOOP_SCRATCH;
}

/* Where the next bytes go: the rest of the payload in place (up to `most` bytes, as the other side may send
 * as fast as we read), then the scratch memory. Returns the number of parts. */
static int where(struct pd_conn *conn, struct iovec *parts, size_t most, size_t *direct, size_t *wanted)
{
    uint8_t *scratch = pd_loop_scratch(conn->loop);
    const struct pd_message *message = &conn->message;
    int n = 0;
    *direct = 0;
    conn->pipe->is_large = 0;
    conn->pipe->placed = 0;
    conn->pipe->drains = conn->state == PD_CONN_CLOSING;
    if (most < PD_RECORD_MOST) most = PD_RECORD_MOST;
    if (conn->phase == PD_READ_PAYLOAD && is_alive(conn)) {
        uint64_t missing = message->head.payload - conn->have;
        if (message->n_spans) {
            size_t at = conn->span_at;
            for (int i = conn->span; i < message->n_spans && n < PARTS - 1 && *direct < most; i++, at = 0) {
                if (message->spans[i].n == at) continue;
                parts[n] = (struct iovec){(uint8_t *)message->spans[i].at + at,
                                          least(message->spans[i].n - at, most - *direct)};
                *direct += parts[n++].iov_len;
            }
        } else if (message->head.payload > PD_LOOP_SCRATCH && missing) {
            /* To its end: a part of it may lie in its place that was not told as read (pipe->placed). */
            if (body_room(conn, conn->have + 1) != PD_OK) return -1;
            *direct = least(least(conn->body.cap - conn->have, (size_t)missing), most);
            parts[n++] = (struct iovec){conn->body.at + conn->have, *direct};
            conn->message.payload = conn->body.at;
        }
        conn->pipe->is_large = *direct && message->head.payload > large;
        conn->pipe->placed = *direct;
        *wanted = *direct;
        if (*direct && (*direct < missing || conn->pipe->transport->borrow))
            return n; /* what follows is still payload, or may be borrowed */
    }
    size_t room = scratch_room(conn);
    parts[n++] = (struct iovec){scratch, room};
    *wanted = *direct + room;
    return n;
}

static void ended(struct pd_conn *conn)
{
    if (conn->state == PD_CONN_CLOSING)
        pd_conn_end(conn, PD_OK, "closed");
    else if (conn->phase != PD_READ_HEAD || conn->have)
        pd_conn_end(conn, PD_IO, "closed by the other side in the middle of a message");
    else
        pd_conn_end(conn, PD_IO, "closed by the other side");
}

/* A payload that can stay where it is is handled there. Returns its size; 0: it has to be read. */
static size_t use_in_place(struct pd_conn *conn)
{
    struct pd_message *message = &conn->message;
    struct pd_pipe *pipe = conn->pipe;
    if (!message->borrows || conn->phase != PD_READ_PAYLOAD || conn->have || !pipe->transport->borrow)
        return 0;
    size_t n = (size_t)message->head.payload;
    const void *at = pipe->transport->borrow(pipe, n, message->borrows);
    if (!at) return 0;
    message->payload = (void *)at;
    message->spans = NULL;
    message->n_spans = 0;
    conn->have = n;
    pd_status status = message_is_in(conn);
    pipe->transport->give_back(pipe, n);
    if (status != PD_OK) fail(conn, status);
    return n;
}

void pd_conn_read(struct pd_conn *conn)
{
    struct iovec parts[PARTS];
    size_t budget = BUDGET;
    while ((may_handle(conn) || conn->state == PD_CONN_CLOSING) && !conn->stash) {
        size_t direct = 0, wanted = 0, done = use_in_place(conn);
        if (done) {
            pd_loop_moved(conn->loop);
            conn->bytes[0] += done;
            if (done >= budget) return;
            budget -= done;
            continue;
        }
        int end = 0, n = where(conn, parts, budget, &direct, &wanted);
        if (n < 0) {
            fail(conn, PD_NO_MEMORY);
            return;
        }
        pd_status status = conn->pipe->transport->read(conn->pipe, parts, n, &done, &end);
        if (status != PD_OK) {
            fail(conn, status);
            return;
        }
        if (end) {
            ended(conn);
            return;
        }
        if (!done) return;
        pd_loop_moved(conn->loop);
        conn->bytes[0] += done;
        size_t in_place = least(done, direct);
        if (conn->message.n_spans && in_place)
            advance_spans(conn, in_place);
        else
            conn->have += in_place;
        size_t rest = done - in_place;
        uint8_t *scratch = pd_loop_scratch(conn->loop);
        size_t used = handle(conn, scratch, rest);
        used += feed(conn, scratch + used, rest - used);
        keep(conn, scratch + used, rest - used);
        if (done < wanted || done >= budget) return;
        budget -= done;
    }
}

void pd_conn_read_free(struct pd_conn *conn)
{
    pd_free(conn->stash);
    pd_free(conn->meta.at);
    pd_free(conn->body.at);
    conn->stash = NULL;
    conn->meta = conn->body = (struct pd_spare){0};
}
