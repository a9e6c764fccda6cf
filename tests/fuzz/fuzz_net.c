/* Any bytes from the network: heads, the messages of the handshake, the wire's numbers and texts, and a whole
 * stream into an open connection, cut into pieces as a socket would, as it is, in records, or taken for
 * records. The first byte chooses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn_inside.h"
#include "net/seal.h"
#include "net/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_wire(const uint8_t *bytes, size_t n)
{
    struct pd_reader r = pd_reader_of(bytes, n);
    char text[20];
    while (r.at < r.end && !r.bad)
        switch (pd_read_u8(&r) % 8) {
        case 0:
            pd_read_u16(&r);
            break;
        case 1:
            pd_read_u32(&r);
            break;
        case 2:
            pd_read_u64(&r);
            break;
        case 3:
            pd_read_i64(&r);
            break;
        case 4:
            pd_read_f64(&r);
            break;
        case 5:
            pd_read_bytes(&r, pd_read_u64(&r));
            break;
        default:
            pd_read_text(&r, text, sizeof text);
            if (strlen(text) >= sizeof text) abort();
        }
    if (r.at > r.end) abort();
}

static void same(const struct pd_buf *buf, const uint8_t *bytes, size_t n)
{
    if (buf->failed || buf->n != n || (n && memcmp(buf->at, bytes, n) != 0)) abort();
}

/* What was understood is written as it was read. */
static void read_handshake(int which, const uint8_t *bytes, size_t n)
{
    struct pd_hello_message hello;
    struct pd_challenge challenge;
    struct pd_proof proof;
    struct pd_welcome_message welcome;
    struct pd_buf buf = {0};
    char text[1100];
    size_t body;
    int to_shm;
    if (which == 0 && pd_hello_unpack(bytes, n, &hello) == PD_OK) {
        pd_hello_pack(&hello, &buf);
        same(&buf, bytes, n);
    } else if (which == 1 && pd_challenge_unpack(bytes, n, &challenge) == PD_OK) {
        pd_challenge_pack(&challenge, &buf);
        same(&buf, bytes, n);
    } else if (which == 2 && pd_proof_unpack(bytes, n, &proof) == PD_OK) {
        pd_proof_pack(&proof, &buf);
        same(&buf, bytes, n);
    } else if (which == 3 && pd_welcome_unpack(bytes, n, &welcome, &proof, &body) == PD_OK) {
        pd_welcome_pack(&welcome, &buf);
        if (buf.n != body) abort();
        pd_proof_pack(&proof, &buf);
        same(&buf, bytes, n);
    } else if (which == 4) {
        pd_refused_unpack(bytes, n, text, sizeof text);
    } else if (which == 5 && pd_switch_unpack(bytes, n, &to_shm) == PD_OK) {
        pd_switch_pack(to_shm, &buf);
        same(&buf, bytes, n);
    }
    pd_buf_free(&buf);
}

static void read_head(const uint8_t *bytes, size_t n)
{
    struct pd_frame_head head;
    uint8_t again[PD_FRAME_HEAD];
    if (n < PD_FRAME_HEAD || pd_frame_unpack(bytes, &head) != PD_OK) return;
    pd_frame_pack(&head, again);
    if (memcmp(bytes, again, sizeof again) != 0) abort();
}

/* A transport that gives the input, a few bytes at a time. */
struct source {
    struct pd_pipe base;
    const uint8_t *at, *end;
    unsigned step;
};

static pd_status source_read(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done, int *end)
{
    struct source *source = (struct source *)base;
    size_t most = 1 + source->step % 97;
    source->step = source->step * 5 + 1;
    *done = 0;
    *end = source->at == source->end;
    for (int i = 0; i < n && most && source->at < source->end; i++) {
        size_t take = parts[i].iov_len < most ? parts[i].iov_len : most;
        if (take > (size_t)(source->end - source->at)) take = (size_t)(source->end - source->at);
        if (take) memcpy(parts[i].iov_base, source->at, take);
        source->at += take;
        *done += take;
        most -= take;
    }
    return PD_OK;
}

static pd_status source_write(struct pd_pipe *base, const struct iovec *parts, int n, size_t *done)
{
    (void)base;
    *done = 0;
    for (int i = 0; i < n; i++)
        *done += parts[i].iov_len;
    return PD_OK;
}

static void source_want(struct pd_pipe *base, int read, int write)
{
    (void)base, (void)read, (void)write;
}

static int source_finish(struct pd_pipe *base)
{
    (void)base;
    return 0;
}

static void source_close(struct pd_pipe *base)
{
    (void)base;
}

static const void *source_borrow(struct pd_pipe *base, size_t n, size_t alignment)
{
    struct source *source = (struct source *)base;
    return n <= (size_t)(source->end - source->at) && source->step % 3 &&
                   (uintptr_t)source->at % alignment == 0
               ? source->at
               : NULL;
}

static void source_give_back(struct pd_pipe *base, size_t n)
{
    ((struct source *)base)->at += n;
}

static const struct pd_transport lending_transport = {
    .name = "lending source",
    .read = source_read,
    .borrow = source_borrow,
    .give_back = source_give_back,
    .write = source_write,
    .want = source_want,
    .finish = source_finish,
    .close = source_close,
};

static const struct pd_transport source_transport = {
    .name = "source",
    .read = source_read,
    .write = source_write,
    .want = source_want,
    .finish = source_finish,
    .close = source_close,
};

struct place {
    struct pd_span spans[2];
    uint8_t bytes[4096];
    int closed, messages;
};

static pd_status place_head(struct pd_conn *conn, struct pd_message *message)
{
    struct place *place = pd_conn_user(conn);
    size_t n = (size_t)message->head.payload;
    if (message->head.type % 2 || message->head.payload > sizeof place->bytes) return PD_OK;
    place->spans[0] = (struct pd_span){place->bytes, n / 2};
    place->spans[1] = (struct pd_span){place->bytes + n / 2, n - n / 2};
    message->spans = place->spans;
    message->n_spans = 2;
    message->borrows = message->head.type % 4 ? 1 : 0;
    return PD_OK;
}

static pd_status place_done(struct pd_conn *conn, const struct pd_message *message)
{
    uint8_t sum = 0; /* touches every byte */
    ((struct place *)pd_conn_user(conn))->messages++;
    for (size_t i = 0; i < message->head.meta; i++)
        sum ^= ((const uint8_t *)message->meta)[i];
    if (!message->n_spans)
        for (size_t i = 0; i < message->head.payload; i++)
            sum ^= ((const uint8_t *)message->payload)[i];
    struct pd_frame_head head = {.type = 20, .extra = sum};
    if (message->head.flags & 1)
        pd_conn_send(conn, &head, message->meta, message->head.meta, NULL, 0, NULL, NULL);
    if (message->head.flags & 2) pd_conn_close(conn, message->head.flags & 4 ? 10 : 0);
    return message->head.flags & 16 ? PD_INVALID : PD_OK;
}

static void place_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct place *place = pd_conn_user(conn);
    (void)why, (void)text;
    place->closed = 1;
}

static const struct pd_conn_events place_events = {
    .head = place_head, .done = place_done, .closed = place_closed};

/* The bytes in records with the right checksums, of sizes that they say themselves. */
static void put_records(struct pd_buf *out, const uint8_t *bytes, size_t n)
{
    struct pd_seal *seal;
    if (pd_seal_new(NULL, &seal) != PD_OK) abort();
    while (n) {
        size_t size = 1 + bytes[0] * (bytes[0] % 3 ? 1u : 300u);
        if (size > n) size = n;
        uint32_t word = pd_record_word((uint32_t)size);
        uint8_t head[4 + PD_SEAL_TAG] = {(uint8_t)word, (uint8_t)(word >> 8), (uint8_t)(word >> 16),
                                         (uint8_t)(word >> 24)};
        struct iovec part = {(void *)bytes, size};
        if (pd_seal_next(seal, head, &part, size, head + 4) != PD_OK) abort();
        pd_buf_add(out, head, 4 + PD_SEAL_SUM);
        pd_buf_add(out, bytes, size);
        bytes += size;
        n -= size;
    }
    pd_seal_free(seal);
}

enum way { PLAIN, RECORDS, RAW_RECORDS, SEALED };

static void read_stream(const uint8_t *bytes, size_t n, enum way way)
{
    static struct pd_loop *loop;
    static const uint8_t key[PD_SEAL_KEY] = {1, 2, 3};
    struct place place = {0};
    struct pd_conn *conn;
    struct pd_buf whole = {0};
    if (n == 0) return;
    uint8_t first = bytes[0];
    if (way == RECORDS) {
        pd_buf_add(&whole, bytes, 1);
        put_records(&whole, bytes + 1, n - 1);
        if (whole.failed) abort();
        bytes = (const uint8_t *)whole.at;
        n = whole.n;
    }
    if (!loop && pd_loop_new(&loop) != PD_OK) abort();
    if (pd_conn_make(loop, NULL, &conn) != PD_OK) abort();
    struct source source = {
        .base = {.transport = first % 2 && way == PLAIN ? &lending_transport : &source_transport,
                 .loop = loop,
                 .conn = conn},
        .at = bytes + 1,
        .end = bytes + n,
        .step = bytes[0]};
    conn->pipe = &source.base;
    if (way != PLAIN && pd_record_pipe(&source.base, way == SEALED ? key : NULL, way == SEALED ? key : NULL,
                                       0, &conn->pipe) != PD_OK)
        abort();
    conn->state = PD_CONN_OPEN;
    pd_conn_set_user(conn, &place_events, &place);
    /* It ends with the input at the latest. */
    for (size_t i = 0; !place.closed; i++) {
        if (i > 4 * n + 100) abort();
        pd_loop_enter(loop);
        pd_pipe_ready(conn, 1, 1);
        pd_loop_exit(loop);
    }
    if (way == SEALED && place.messages) abort(); /* nobody has the key */
    pd_loop_turn(loop, 0);                        /* frees what libuv has closed */
    pd_buf_free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n == 0) return 0;
    int which = bytes[0] % 12;
    if (which < 6)
        read_handshake(which, bytes + 1, n - 1);
    else if (which == 6)
        read_head(bytes + 1, n - 1);
    else if (which == 7)
        read_wire(bytes + 1, n - 1);
    else
        read_stream(bytes + 1, n - 1, (enum way)(which - 8));
    return 0;
}
