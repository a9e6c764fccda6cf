/* Records: what a connection sends over TCP once the handshake is through, in pieces of at most 128 KiB, each
 * with its length and its seal (seal.h). A pipe over another pipe: above it are bytes of messages, below it
 * records.
 *
 *   u32 length (1 to 131072) and check, 4 or 16 bytes seal, the bytes
 *
 * The length has a check of its own, since the seal is looked at when the record is whole: a length that was
 * damaged would be waited for.
 *
 * A byte is handed up only when the record it came in is whole and its seal is right. A large payload goes
 * straight into its place all the same: `placed` bytes of what is read into keep their place, so a record
 * that fits there is checked there, and until then it counts as not read. Other records come through memory
 * of the loop, many at a time; what is left of them is kept.
 *
 * On the way out a record is sealed when it is written. One that goes out in part is copied: a server changes
 * parameters while they are on their way (async), and the seal is that of the bytes as they were. */
#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "net/conn.h"
#include "net/loop_inside.h"
#include "net/seal.h"
#include "net/transport.h"
#include "net/wire.h"

enum {
    LENGTH = 4,
    LENGTH_BITS = 18, /* of the four bytes; the others are its check */
    HEAD_MOST = LENGTH + PD_SEAL_TAG,
    PARTS = 96,       /* 64 of a call, and where they are cut, and heads */
    ALONE = 32 << 10, /* a part this large has records of its own: it can be checked in its place there */
    AT_ONCE = 6,      /* records that are written with one call of the pipe below */
};

struct record_pipe {
    struct pd_pipe base;
    struct pd_task task; /* bytes are here that the other pipe knows nothing of */
    size_t head;         /* bytes of a record's head */
    int may_read;        /* as the connection said last */

    struct pd_seal *out;
    size_t plain; /* bytes that still go out as they are: the end of the handshake */
    struct made { /* records that are sealed and not written yet; the first may be written in part */
        uint8_t head[HEAD_MOST];
        size_t head_left, data_left;
    } made[AT_ONCE];
    int n_made;
    uint8_t
        *rest; /* what is to be written of the first of them, where the caller's memory may have changed */
    size_t rest_n;

    struct pd_seal *in;
    uint8_t in_head[HEAD_MOST];
    size_t in_head_n; /* bytes of it that are here */
    size_t size;      /* of the record that is coming in; 0: its head is not whole */
    size_t have;      /* bytes of it that lie in their place, unchecked */
    int in_place;
    uint8_t *kept; /* bytes not handled yet: first `ready` that are checked, then raw ones */
    size_t kept_n, kept_cap, ready;
};

static const struct pd_transport records;

/* The lower bits of a CRC-32C find any four that were flipped. */
uint32_t pd_record_word(uint32_t length)
{
    uint8_t bytes[4];
    pd_le_put(bytes, length, 4);
    return length | pd_crc32c(0, bytes, 4) << LENGTH_BITS;
}

static uint32_t word_of(const uint8_t *head)
{
    return (uint32_t)pd_le_get(head, LENGTH);
}

static uint32_t length_of(const uint8_t *head)
{
    return word_of(head) & ((1U << LENGTH_BITS) - 1);
}

/* ---- parts ---- */

/* Where in the parts of a call the next byte goes. */
struct place {
    const struct iovec *parts;
    int n;
    size_t at; /* in the first of them */
};

static void skip(struct place *p, size_t n)
{
    p->at += n;
    while (p->n && p->at >= p->parts->iov_len) {
        p->at -= p->parts->iov_len;
        p->parts++, p->n--;
    }
}

static size_t put(struct place *p, const uint8_t *bytes, size_t n)
{
    size_t done = 0;
    while (p->n && done < n) {
        size_t room = p->parts->iov_len - p->at, step = n - done < room ? n - done : room;
        memcpy((uint8_t *)p->parts->iov_base + p->at, bytes + done, step);
        done += step;
        skip(p, step);
    }
    return done;
}

/* The bytes [from, from + n) of a place, as parts, `most` of them at most; returns their number. */
static int cut(struct place p, size_t from, size_t n, struct iovec *out, int most)
{
    int count = 0;
    skip(&p, from);
    while (n && p.n && count < most) {
        size_t room = p.parts->iov_len - p.at, step = n < room ? n : room;
        out[count++] = (struct iovec){(uint8_t *)p.parts->iov_base + p.at, step};
        n -= step;
        skip(&p, step);
    }
    return count;
}

/* ---- out ---- */

/* How much of the parts goes into the next record. */
static size_t record_size(struct place p)
{
    size_t n = 0;
    while (p.n) {
        size_t length = p.parts->iov_len - p.at;
        if (length >= ALONE && n) break;
        n += length;
        if (n >= PD_RECORD_MOST) return PD_RECORD_MOST;
        if (length >= ALONE) break;
        skip(&p, length);
    }
    return n;
}

/* Seals what stands at a place as the next record. */
static pd_status make(struct record_pipe *pipe, struct place p)
{
    struct iovec parts[PARTS];
    struct made *made = &pipe->made[pipe->n_made];
    size_t n = record_size(p);
    pd_le_put(made->head, pd_record_word((uint32_t)n), LENGTH);
    (void)cut(p, 0, n, parts, PARTS);
    PD_TRY(pd_seal_next(pipe->out, made->head, parts, n, made->head + LENGTH));
    made->head_left = pipe->head;
    made->data_left = n;
    pipe->n_made++;
    return PD_OK;
}

/* Seals what the parts have, as far as it goes out at once. The records that were made before come first. */
static pd_status make_all(struct record_pipe *pipe, struct place p)
{
    for (int i = 0; i < pipe->n_made; i++)
        skip(&p, pipe->made[i].data_left);
    while (p.n && pipe->n_made < AT_ONCE) {
        PD_TRY(make(pipe, p));
        skip(&p, pipe->made[pipe->n_made - 1].data_left);
    }
    return PD_OK;
}

/* The made records as parts; returns their number. */
static int lay_out(struct record_pipe *pipe, struct place p, struct iovec *parts)
{
    int count = 0;
    for (int i = 0; i < pipe->n_made && p.n && count < PARTS - 2; i++) {
        struct made *made = &pipe->made[i];
        if (made->head_left)
            parts[count++] = (struct iovec){made->head + pipe->head - made->head_left, made->head_left};
        if (i == 0 && pipe->rest)
            parts[count++] = (struct iovec){pipe->rest + pipe->rest_n - made->data_left, made->data_left};
        else
            count += cut(p, 0, made->data_left, parts + count, PARTS - count);
        skip(&p, made->data_left);
    }
    return count;
}

/* The pipe below is full. A record that was begun is kept as it is; the others are sealed when it goes on. */
static pd_status keep_begun(struct record_pipe *pipe, struct place p)
{
    struct made *first = pipe->made;
    int begun = pipe->n_made && first->head_left < pipe->head;
    pd_seal_back(pipe->out, pipe->n_made - begun);
    pipe->n_made = begun;
    if (!begun || pipe->rest) return PD_OK;
    pipe->rest = pd_malloc(first->data_left);
    if (!pipe->rest) return pd_no_memory();
    for (size_t done = 0; done < first->data_left;) {
        size_t room = p.parts->iov_len - p.at, left = first->data_left - done,
               step = left < room ? left : room;
        memcpy(pipe->rest + done, (const uint8_t *)p.parts->iov_base + p.at, step);
        done += step;
        skip(&p, step);
    }
    pipe->rest_n = first->data_left;
    return PD_OK;
}

/* So many bytes of the made records are written. Returns how many of them are not heads. */
static size_t written(struct record_pipe *pipe, size_t n)
{
    size_t data = 0;
    int gone = 0;
    while (gone < pipe->n_made) {
        struct made *made = &pipe->made[gone];
        size_t of_head = n < made->head_left ? n : made->head_left;
        made->head_left -= of_head;
        n -= of_head;
        size_t of_data = n < made->data_left ? n : made->data_left;
        made->data_left -= of_data;
        n -= of_data;
        data += of_data;
        if (made->data_left) break;
        gone++;
    }
    if (gone) {
        pd_free(pipe->rest);
        pipe->rest = NULL;
    }
    pipe->n_made -= gone;
    memmove(pipe->made, pipe->made + gone, (size_t)pipe->n_made * sizeof *pipe->made);
    return data;
}

/* The end of the handshake, as it is. */
static pd_status write_plain(struct record_pipe *pipe, struct place *p, size_t *done, int *full)
{
    struct iovec parts[PARTS];
    size_t wrote, n;
    int count = cut(*p, 0, pipe->plain, parts, PARTS);
    n = pd_parts_bytes(parts, count);
    PD_TRY(pipe->base.under->transport->write(pipe->base.under, parts, count, &wrote));
    pipe->plain -= wrote;
    *done += wrote;
    *full = wrote < n;
    skip(p, wrote);
    return PD_OK;
}

static pd_status record_write(struct pd_pipe *base, const struct iovec *given, int n, size_t *done)
{
    struct record_pipe *pipe = (struct record_pipe *)base;
    struct place p = {given, n, 0};
    struct iovec parts[PARTS];
    int full = 0;
    *done = 0;
    skip(&p, 0);
    while (p.n && pipe->plain && !full)
        PD_TRY(write_plain(pipe, &p, done, &full));
    while (p.n && !full) {
        size_t wrote = 0;
        PD_TRY(make_all(pipe, p));
        int count = lay_out(pipe, p, parts);
        PD_TRY(pipe->base.under->transport->write(pipe->base.under, parts, count, &wrote));
        full = wrote < pd_parts_bytes(parts, count);
        size_t data = written(pipe, wrote);
        *done += data;
        skip(&p, data);
        if (full) PD_TRY(keep_begun(pipe, p));
    }
    return PD_OK;
}

/* ---- in ---- */

static pd_status damaged(const struct record_pipe *pipe, const char *what)
{
    const char *peer = pd_conn_peer(pipe->base.conn);
    const char *how = pd_seal_bytes(pipe->in) == PD_SEAL_TAG
                          ? "they were changed on the way, or come from somebody else"
                          : "they were damaged on the way";
    pd_log(PD_LOG_WARNING, "bytes from %s are not what was sent (%s): %s. The connection is made anew", peer,
           what, how);
    return pd_fail(PD_IO, "bytes came that are not what was sent (%s): %s", what, how);
}

static pd_status check_size(struct record_pipe *pipe, const uint8_t *head)
{
    uint32_t size = length_of(head);
    return size && size <= PD_RECORD_MOST && word_of(head) == pd_record_word(size)
               ? PD_OK
               : damaged(pipe, "the length of a record");
}

static pd_status check_seal(struct record_pipe *pipe, const uint8_t *head, const struct iovec *parts,
                            size_t n)
{
    uint8_t right[PD_SEAL_TAG];
    PD_TRY(pd_seal_next(pipe->in, head, parts, n, right));
    return pd_seal_same(pipe->in, right, head + LENGTH) ? PD_OK : damaged(pipe, "a seal");
}

/* Is a whole record kept, which nobody will be told of? */
static int has_whole(const struct record_pipe *pipe)
{
    return pipe->kept_n >= pipe->head && pipe->kept_n - pipe->head >= length_of(pipe->kept);
}

/* Room for n kept bytes. */
static pd_status keep_room(struct record_pipe *pipe, size_t n)
{
    if (n <= pipe->kept_cap) return PD_OK;
    uint8_t *more = pd_realloc_array(pipe->kept, n, 1);
    if (!more) return pd_no_memory();
    pipe->kept = more;
    pipe->kept_cap = n;
    return PD_OK;
}

static pd_status keep(struct record_pipe *pipe, const uint8_t *bytes, size_t n)
{
    if (!n) {
        pd_free(pipe->kept); /* idle connections are many */
        pipe->kept = NULL;
        pipe->kept_n = pipe->kept_cap = 0;
        return PD_OK;
    }
    PD_TRY(keep_room(pipe, n));
    if (bytes != pipe->kept) memmove(pipe->kept, bytes, n); /* a large record comes in many pieces */
    pipe->kept_n = n;
    return PD_OK;
}

/* A record that goes straight into its place, or the rest of it. *more: there may be more to read. */
static pd_status read_in_place(struct record_pipe *pipe, struct place *p, size_t *done, int *more, int *end)
{
    struct iovec parts[PARTS];
    int count = cut(*p, pipe->have, pipe->size - pipe->have, parts, PARTS - 1);
    uint8_t next[HEAD_MOST];
    size_t missing = pipe->size - pipe->have, got;
    parts[count] = (struct iovec){next, pipe->head};
    PD_TRY(pipe->base.under->transport->read(pipe->base.under, parts, count + 1, &got, end));
    *more = got == missing + pipe->head;
    pipe->have += got < missing ? got : missing;
    if (pipe->have < pipe->size) return PD_OK;
    (void)cut(*p, 0, pipe->size, parts, PARTS);
    PD_TRY(check_seal(pipe, pipe->in_head, parts, pipe->size));
    *done += pipe->size;
    skip(p, pipe->size);
    pipe->in_place = 0;
    pipe->size = pipe->have = 0;
    memcpy(pipe->in_head, next, got - missing);
    pipe->in_head_n = got - missing;
    if (pipe->in_head_n < pipe->head) return PD_OK;
    pipe->size = length_of(pipe->in_head);
    return check_size(pipe, pipe->in_head);
}

/* Handles whole records of raw bytes. Returns how many were used; what was checked and had no room is told in
 * *ready, and lies at the front of the rest. */
static pd_status take(struct record_pipe *pipe, uint8_t *raw, size_t n, struct place *p, size_t *used,
                      size_t *done, size_t *ready)
{
    *used = *ready = 0;
    while (!*ready && n - *used >= pipe->head) {
        uint8_t *at = raw + *used, *data = at + pipe->head;
        size_t size = length_of(at);
        PD_TRY(check_size(pipe, at));
        if (n - *used - pipe->head < size) break;
        PD_TRY(check_seal(pipe, at, &(struct iovec){data, size}, size));
        size_t gave = put(p, data, size);
        *done += gave;
        *used += pipe->head + gave;
        *ready = size - gave;
    }
    return PD_OK;
}

/* The record whose beginning was read goes on in its place, when it has one. */
static int try_in_place(struct record_pipe *pipe, const struct place *p, size_t placed, uint8_t *raw,
                        size_t *n)
{
    if (*n < pipe->head) return 0;
    size_t size = length_of(raw);
    if (size > placed) return 0;
    struct place copy = *p;
    memcpy(pipe->in_head, raw, pipe->head);
    pipe->in_head_n = pipe->head;
    pipe->size = size;
    pipe->have = put(&copy, raw + pipe->head, *n - pipe->head);
    pipe->in_place = 1;
    *n = 0;
    return 1;
}

/* Reads records through memory of the loop, or, one that is larger, through memory of its own. */
static pd_status read_raw(struct record_pipe *pipe, struct place *p, size_t room, size_t placed, size_t *done,
                          int *more, int *end)
{
    uint8_t *raw = pd_loop_raw(pipe->base.loop);
    size_t n = pipe->kept_n + pipe->in_head_n, most = PD_LOOP_RAW, got = 0, used, ready;
    if (pipe->kept_n >= pipe->head && pipe->head + length_of(pipe->kept) > most) {
        most = pipe->head + length_of(pipe->kept);
        PD_TRY(keep_room(pipe, most));
        raw = pipe->kept;
    } else if (pipe->kept_n) {
        memcpy(raw, pipe->kept, pipe->kept_n);
    } else if (pipe->in_head_n) {
        memcpy(raw, pipe->in_head, pipe->in_head_n); /* the head behind a record that was read in place */
        pipe->in_head_n = pipe->size = 0;
    }
    /* No more than there is room for, so that nothing waits here while the connection is busy elsewhere. */
    size_t want = most - n < room + pipe->head ? most - n : room + pipe->head;
    if (want)
        PD_TRY(pipe->base.under->transport->read(pipe->base.under, &(struct iovec){raw + n, want}, 1, &got,
                                                 end));
    *more = got == want;
    n += got;
    PD_TRY(take(pipe, raw, n, p, &used, done, &ready));
    size_t rest = n - used;
    if (!used && try_in_place(pipe, p, placed, raw + used, &rest)) return keep(pipe, raw, 0);
    pipe->ready = ready;
    return keep(pipe, raw + used, rest);
}

static pd_status record_read(struct pd_pipe *base, const struct iovec *given, int n, size_t *done, int *end)
{
    struct record_pipe *pipe = (struct record_pipe *)base;
    struct place p = {given, n, 0};
    size_t room = pd_parts_bytes(given, n), placed = base->placed;
    int more = 1, over = 0;
    *done = 0;
    *end = 0;
    if (base->drains) return pipe->base.under->transport->read(pipe->base.under, given, n, done, end);
    skip(&p, 0);
    if (pipe->ready) {
        *done = put(&p, pipe->kept, pipe->ready);
        pipe->ready -= *done;
        return keep(pipe, pipe->kept + *done, pipe->kept_n - *done);
    }
    if (pipe->size)
        pipe->in_place = pipe->in_place || pipe->size <= placed;
    else if (pipe->kept_n && !has_whole(pipe) && try_in_place(pipe, &p, placed, pipe->kept, &pipe->kept_n))
        PD_TRY(keep(pipe, NULL, 0));
    while (more && !over && pipe->in_place) {
        if (pipe->size > placed - *done)
            return pd_fail(PD_INTERNAL,
                           "a record of %zu bytes, %zu of which are here, has lost its place: there are %zu, "
                           "and %zu of them are used",
                           pipe->size, pipe->have, placed, *done);
        PD_TRY(read_in_place(pipe, &p, done, &more, &over));
        pipe->in_place = pipe->in_place || (pipe->size && pipe->size <= placed - *done);
    }
    if (!pipe->in_place && more && !over && *done < room)
        PD_TRY(read_raw(pipe, &p, room - *done, *done ? 0 : placed, done, &more, &over));
    *end = over && !*done;
    return PD_OK;
}

/* ---- the rest of the vtable ---- */

static void run(struct pd_task *task)
{
    struct record_pipe *pipe = (struct record_pipe *)((char *)task - offsetof(struct record_pipe, task));
    if (pipe->may_read) pd_pipe_ready(pipe->base.conn, 1, 0);
}

static void record_want(struct pd_pipe *base, int read, int write)
{
    struct record_pipe *pipe = (struct record_pipe *)base;
    pipe->may_read = read;
    if (read && (pipe->ready || has_whole(pipe))) pd_loop_want(base->loop, &pipe->task);
    pipe->base.under->transport->want(pipe->base.under, read, write);
}

static size_t record_arriving(const struct pd_pipe *base)
{
    const struct record_pipe *r = (const struct record_pipe *)base;
    return r->in_head_n + r->have + r->kept_n;
}

static void record_free(struct pd_pipe *base)
{
    struct record_pipe *pipe = (struct record_pipe *)base;
    pd_loop_forget(pipe->base.loop, &pipe->task);
    pd_seal_free(pipe->out);
    pd_seal_free(pipe->in);
    pd_free(pipe->kept);
    pd_free(pipe->rest);
    pd_free(pipe);
}

pd_status pd_record_pipe(struct pd_pipe *under, const uint8_t *key_in, const uint8_t *key_out, size_t plain,
                         struct pd_pipe **out)
{
    struct record_pipe *pipe = pd_calloc(1, sizeof *pipe);
    if (!pipe) return pd_no_memory();
    pipe->base = (struct pd_pipe){.transport = &records, .loop = under->loop, .conn = under->conn};
    pipe->task.run = run;
    pipe->plain = plain;
    pd_status status = pd_seal_new(key_in, &pipe->in);
    if (status == PD_OK) status = pd_seal_new(key_out, &pipe->out);
    if (status != PD_OK) {
        record_free(&pipe->base);
        return status;
    }
    pipe->head = LENGTH + (size_t)pd_seal_bytes(pipe->in);
    pipe->base.under = under;
    *out = &pipe->base;
    return PD_OK;
}

pd_status pd_record_feed(struct pd_pipe *base, const void *bytes, size_t n)
{
    return base->transport == &records && n ? keep((struct record_pipe *)base, bytes, n) : PD_OK;
}

static const struct pd_transport records = {
    .name = "tcp",
    .write = record_write,
    .read = record_read,
    .arriving = record_arriving,
    .want = record_want,
    .free = record_free,
};
