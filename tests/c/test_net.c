/* Tests of src/net below connections: numbers and texts on the wire, frames, the handshake's messages,
 * endpoints, rings, loops. */
#include "net_peer.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "net/endpoint.h"
#include "net/hello_inside.h"
#include "net/shm_copy.h"
#include "net/shm_ring.h"
#include "net/transport.h"
#include "net/wire.h"

static void numbers_and_texts_come_back(void **state)
{
    (void)state;
    struct pd_buf buf = {0};
    char text[16];
    pd_put_u8(&buf, 200);
    pd_put_u16(&buf, 60000);
    pd_put_u32(&buf, 4000000000u);
    pd_put_u64(&buf, UINT64_MAX - 1);
    pd_put_i64(&buf, INT64_MIN);
    pd_put_f64(&buf, -0.1);
    pd_put_text(&buf, "gr\xc3\xbc\xc3\x9f");
    pd_put_text(&buf, "");
    assert_false(buf.failed);
    assert_int_equal((uint8_t)buf.at[1], 0x60); /* little-endian on every machine */
    assert_int_equal((uint8_t)buf.at[2], 0xea);
    struct pd_reader r = pd_reader_of(buf.at, buf.n);
    assert_int_equal(pd_read_u8(&r), 200);
    assert_int_equal(pd_read_u16(&r), 60000);
    assert_true(pd_read_u32(&r) == 4000000000u);
    assert_true(pd_read_u64(&r) == UINT64_MAX - 1);
    assert_true(pd_read_i64(&r) == INT64_MIN);
    assert_true(pd_read_f64(&r) == -0.1);
    pd_read_text(&r, text, sizeof text);
    assert_string_equal(text, "gr\xc3\xbc\xc3\x9f");
    assert_false(pd_reader_done(&r));
    pd_read_text(&r, text, sizeof text);
    assert_string_equal(text, "");
    assert_true(pd_reader_done(&r));
    pd_buf_free(&buf);
}

static void a_reader_never_passes_its_end(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {5, 0, 'h', 'e', 'l', 'l', 'o', 2, 0, 'a', '\n', 1};
    char text[6], small[5];
    for (size_t n = 0; n < 7; n++) {
        struct pd_reader r = pd_reader_of(bytes, n);
        pd_read_text(&r, text, sizeof text);
        assert_true(r.bad);
        assert_string_equal(text, "");
        assert_int_equal(pd_read_u8(&r), 0);
        assert_null(pd_read_bytes(&r, 0));
        assert_false(pd_reader_done(&r));
    }
    struct pd_reader r = pd_reader_of(bytes, sizeof bytes);
    pd_read_text(&r, text, sizeof text);
    assert_string_equal(text, "hello");
    assert_false(r.bad);
    pd_read_text(&r, text, sizeof text); /* a control character */
    assert_true(r.bad);
    r = pd_reader_of(bytes, sizeof bytes);
    pd_read_text(&r, small, sizeof small); /* no room for the zero */
    assert_true(r.bad);
    r = pd_reader_of(bytes, sizeof bytes);
    assert_null(pd_read_bytes(&r, SIZE_MAX));
    assert_true(r.bad);
}

static void heads_come_back_and_are_checked(void **state)
{
    (void)state;
    struct pd_frame_head head = {300, 7, 1 << 20, UINT64_C(1) << 40, 3, 4, UINT64_MAX}, again;
    uint8_t bytes[PD_FRAME_HEAD];
    pd_frame_pack(&head, bytes);
    assert_memory_equal(bytes, "CPDL", 4);
    assert_ok(pd_frame_unpack(bytes, &again));
    assert_int_equal(again.type, 300);
    assert_int_equal(again.flags, 7);
    assert_int_equal(again.meta, 1 << 20);
    assert_true(again.payload == UINT64_C(1) << 40 && again.request == 3 && again.step == 4 &&
                again.extra == UINT64_MAX);
    for (int i = 0; i < 12; i++) {
        if (i >= 6 && i < 10) continue; /* type and flags may be anything */
        uint8_t bad[PD_FRAME_HEAD];
        memcpy(bad, bytes, sizeof bad);
        bad[i] ^= 0x55;
        assert_int_equal(pd_frame_unpack(bad, &again), PD_FORMAT);
    }
    head.meta = PD_FRAME_META_MAX + 1;
    pd_frame_pack(&head, bytes);
    assert_int_equal(pd_frame_unpack(bytes, &again), PD_FORMAT);
    head.meta = 0;
    head.payload = UINT64_C(1) << 63;
    pd_frame_pack(&head, bytes);
    assert_int_equal(pd_frame_unpack(bytes, &again), PD_FORMAT);
}

static void handshake_messages_come_back(void **state)
{
    (void)state;
    struct pd_buf buf = {0};
    struct pd_hello_message hello = {.hello = {.role = PD_ROLE_SERVER, .id = -1, .loop = 3, .job = "j"},
                                     .ring = 9},
                            hello2;
    assert_ok(pd_hello_fill(&hello, 1));
    pd_hello_pack(&hello, &buf);
    assert_ok(pd_hello_unpack(buf.at, buf.n, &hello2));
    assert_memory_equal(hello.nonce, hello2.nonce, PD_NONCE);
    assert_int_equal(hello2.hello.id, -1);
    assert_int_equal(hello2.hello.pid, getpid());
    assert_string_equal(hello.hello.boot, hello2.hello.boot);
    for (size_t n = 0; n < buf.n; n++)
        assert_int_equal(pd_hello_unpack(buf.at, n, &hello2), PD_FORMAT);
    buf.at[2] = 77; /* the role */
    assert_int_equal(pd_hello_unpack(buf.at, buf.n, &hello2), PD_FORMAT);
    pd_buf_free(&buf);

    struct pd_welcome_message welcome = {.welcome = {.id = 5, .incarnation = 6, .note = "n"},
                                         .shm_name = "name",
                                         .ring = 1 << 20},
                              w;
    struct pd_proof proof = {.n = PD_PROOF_BYTES}, p;
    size_t body;
    pd_welcome_pack(&welcome, &buf);
    size_t covered = buf.n;
    pd_proof_pack(&proof, &buf);
    assert_ok(pd_welcome_unpack(buf.at, buf.n, &w, &p, &body));
    assert_int_equal(body, covered);
    assert_string_equal(w.shm_name, "name");
    assert_true(pd_proof_same(&p, &proof));
    pd_buf_free(&buf);

    char text[64];
    pd_refused_pack("two\nlines", &buf);
    assert_ok(pd_refused_unpack(buf.at, buf.n, text, sizeof text));
    assert_string_equal(text, "two lines");
    pd_buf_free(&buf);
}

static void proofs_depend_on_everything(void **state)
{
    (void)state;
    struct pd_buf a = {0}, b = {0};
    struct pd_proof first, other;
    pd_buf_text(&a, "hello");
    pd_buf_text(&b, "challenge");
    assert_ok(pd_proof_make((const uint8_t *)"key", 3, "label", &a, &b, "body", 4, &first));
    assert_int_equal(first.n, PD_PROOF_BYTES);
    assert_ok(pd_proof_make((const uint8_t *)"key", 3, "label", &a, &b, "body", 4, &other));
    assert_true(pd_proof_same(&first, &other));
    assert_ok(pd_proof_make((const uint8_t *)"kez", 3, "label", &a, &b, "body", 4, &other));
    assert_false(pd_proof_same(&first, &other));
    assert_ok(pd_proof_make((const uint8_t *)"key", 3, "lable", &a, &b, "body", 4, &other));
    assert_false(pd_proof_same(&first, &other));
    assert_ok(pd_proof_make((const uint8_t *)"key", 3, "label", &b, &a, "body", 4, &other));
    assert_false(pd_proof_same(&first, &other));
    assert_ok(pd_proof_make((const uint8_t *)"key", 3, "label", &a, &b, "bodz", 4, &other));
    assert_false(pd_proof_same(&first, &other));
    assert_ok(pd_proof_make(NULL, 0, "label", &a, &b, "body", 4, &other));
    assert_int_equal(other.n, 0);
    assert_false(pd_proof_same(&first, &other));
    pd_buf_free(&a);
    pd_buf_free(&b);
}

static void a_server_may_bind_another_address(void **state)
{
    (void)state;
    static const struct {
        const char *bind, *host;
        int port;
    } good[] = {
        {"", "gateway", 7000},       {"0.0.0.0", "0.0.0.0", 7000}, {"10.0.0.1:6174", "10.0.0.1", 6174},
        {"::", "::", 7000},          {"fe80::1", "fe80::1", 7000}, {"[::]", "::", 7000},
        {"[::1]:6174", "::1", 6174}, {":6174", "", 6174},          {"ps-1", "ps-1", 7000},
    };
    static const char *const bad[] = {"a b", "10.0.0.1:x", "[::", "a,b", "http://a", "[]"};
    struct pd_endpoint out;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        setenv("PADDLE_PS_BIND", good[i].bind, 1);
        assert_int_equal(pd_endpoint_to_bind("gateway:7000", &out), PD_OK);
        assert_string_equal(out.host, good[i].host);
        assert_int_equal(out.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("PADDLE_PS_BIND", bad[i], 1);
        assert_int_equal(pd_endpoint_to_bind("gateway:7000", &out), PD_INVALID);
        assert_non_null(strstr(pd_error(), "PADDLE_PS_BIND"));
    }
    unsetenv("PADDLE_PS_BIND");
    assert_int_equal(pd_endpoint_to_bind("gateway", &out), PD_INVALID);
}

static void endpoints_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {{"ps-1.cluster:6174", "ps-1.cluster", 6174},
                {"1.2.3.4:1", "1.2.3.4", 1},
                {"[::1]:65535", "::1", 65535},
                {":0", "", 0},
                {"6174", "", 6174}};
    static const char *const bad[][2] = {{"", "empty"},
                                         {":", "port is missing"},
                                         {"host:", "port is missing"},
                                         {"host", "port is missing"},
                                         {"1.2.3.4", "port is missing"},
                                         {"host:x", "up to 65535"},
                                         {"host:65536", "up to 65535"},
                                         {"host:-1", "up to 65535"},
                                         {"65536", "up to 65535"},
                                         {"host:99999999999", "up to 65535"},
                                         {"host:80 ", "up to 65535"},
                                         {"a:1,b:2", "several"},
                                         {"a:1;b:2", "several"},
                                         {"http://a:1", "URL"},
                                         {"::1:80", "brackets"},
                                         {"[::1]", "after ']'"},
                                         {"[::1]80", "after ']'"},
                                         {"[]:80", "no address"},
                                         {"[::1:80", "is missing"},
                                         {"a b:80", "character"},
                                         {"a/b:80", "character"}};
    struct pd_endpoint endpoint;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(pd_endpoint_parse(good[i].text, &endpoint));
        assert_string_equal(endpoint.host, good[i].host);
        assert_int_equal(endpoint.port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(pd_endpoint_parse(bad[i][0], &endpoint), PD_INVALID);
        for (int k = 0; k < 2; k++)
            if (!strstr(pd_error(), bad[i][k])) fail_msg("'%s' does not say '%s'", pd_error(), bad[i][k]);
    }
    assert_int_equal(pd_endpoint_parse(NULL, &endpoint), PD_INVALID);
    char longest[400];
    memset(longest, 'a', sizeof longest);
    memcpy(longest + 300, ":1", 3);
    assert_int_equal(pd_endpoint_parse(longest, &endpoint), PD_INVALID);
}

static void addresses_are_written(void **state)
{
    (void)state;
    char text[80];
    struct sockaddr_storage out[4];
    socklen_t lengths[4];
    int n;
    struct pd_endpoint endpoint = {"127.0.0.1", 80};
    assert_ok(pd_endpoint_resolve(&endpoint, 0, 4, out, lengths, &n));
    assert_int_equal(n, 1);
    assert_string_equal(pd_endpoint_text((struct sockaddr *)out, text, sizeof text), "127.0.0.1:80");
    endpoint = (struct pd_endpoint){"::1", 81};
    assert_ok(pd_endpoint_resolve(&endpoint, 1, 4, out, lengths, &n));
    assert_string_equal(pd_endpoint_text((struct sockaddr *)out, text, sizeof text), "[::1]:81");
    endpoint = (struct pd_endpoint){"", 82};
    assert_ok(pd_endpoint_resolve(&endpoint, 1, 4, out, lengths, &n));
    assert_string_equal(pd_endpoint_text((struct sockaddr *)out, text, sizeof text), "[::]:82");
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(83)};
    inet_pton(AF_INET6, "::ffff:10.0.0.9", &mapped.sin6_addr);
    assert_string_equal(pd_endpoint_text((struct sockaddr *)&mapped, text, sizeof text), "10.0.0.9:83");
}

/* Both ends of a ring in one process. */
struct two_ends {
    struct pd_ring_control *control;
    uint8_t *bytes;
    struct pd_ring in, out;
    int bell;
};

static struct two_ends *ends_new(uint64_t size)
{
    struct two_ends *ends = calloc(1, sizeof *ends);
    ends->control = aligned_alloc(128, sizeof *ends->control);
    memset(ends->control, 0, sizeof *ends->control);
    ends->bytes = malloc(size);
    ends->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ends->in = ends->out = (struct pd_ring){
        .control = ends->control, .bytes = ends->bytes, .size = size, .reserved = size, .bell = ends->bell};
    return ends;
}

static void ends_free(struct two_ends *ends)
{
    close(ends->bell);
    free(ends->bytes);
    free(ends->control);
    free(ends);
}

static void rings_keep_bytes_in_order(void **state)
{
    (void)state;
    struct two_ends *ends = ends_new(PD_RING_LEAST);
    uint64_t random = 1234567, written = 0, read = 0;
    uint8_t *buffer = malloc(100000);
    while (read < 5000000) {
        size_t done, n;
        random = random * 6364136223846793005u + 1442695040888963407u;
        n = (size_t)(random >> 40) % 90000;
        for (size_t i = 0; i < n; i++)
            buffer[i] = byte_at(0, written + i);
        struct iovec parts[2] = {{buffer, n / 3}, {buffer + n / 3, n - n / 3}};
        assert_ok(pd_ring_write(&ends->out, parts, 2, &done));
        assert_true(done <= n && done <= PD_RING_LEAST);
        written += done;
        random = random * 6364136223846793005u + 1442695040888963407u;
        n = (size_t)(random >> 40) % 90000;
        parts[0] = (struct iovec){buffer, n / 2};
        parts[1] = (struct iovec){buffer + n / 2, n - n / 2};
        assert_ok(pd_ring_read(&ends->in, parts, 2, &done));
        for (size_t i = 0; i < done; i++)
            if (buffer[i] != byte_at(0, read + i)) fail_msg("byte %zu is wrong", (size_t)read + i);
        read += done;
        assert_int_equal(pd_ring_readable(&ends->in), read != written);
        assert_int_equal(pd_ring_writable(&ends->out), written - read < PD_RING_LEAST);
    }
    free(buffer);
    ends_free(ends);
}

/* Messages of an odd size, two in flight so that the ring never starts again: the end of the ring comes at
 * every place of a message. One that lies around it is not shown, and read in two copies. */
static void messages_lie_around_the_end_in_every_way(void **state)
{
    (void)state;
    enum { ODD = 1201 };
    struct two_ends *ends = ends_new(PD_RING_LEAST);
    uint8_t *pattern = make_bytes(0, 3 * ODD + 256), got[ODD], seen[ODD] = {0};
    size_t done;
    for (uint64_t i = 0; i <= PD_RING_LEAST; i++) {
        struct iovec out = {pattern + i % 251, ODD}, in = {got, ODD};
        assert_ok(pd_ring_write(&ends->out, &out, 1, &done));
        assert_int_equal(done, ODD);
        if (!i) continue;
        uint64_t before = PD_RING_LEAST - ends->in.position % PD_RING_LEAST; /* bytes up to the end */
        const void *shown = pd_ring_show(&ends->in, ODD, 1);
        assert_int_equal(shown == NULL, before < ODD);
        if (before < ODD) seen[before] = 1;
        if (shown) assert_memory_equal(shown, pattern + (i - 1) % 251, ODD);
        ends->in.streams = i % 2;
        assert_ok(pd_ring_read(&ends->in, &in, 1, &done));
        assert_int_equal(done, ODD);
        assert_memory_equal(got, pattern + (i - 1) % 251, ODD);
    }
    for (int i = 1; i < ODD; i++)
        if (!seen[i]) fail_msg("no message had %d bytes before the end", i);
    free(pattern);
    ends_free(ends);
}

static void rings_show_what_is_whole(void **state)
{
    (void)state;
    struct two_ends *ends = ends_new(PD_RING_LEAST);
    uint8_t *buffer = make_bytes(3, PD_RING_LEAST);
    struct iovec part = {buffer, 1000}, rest = {buffer + 1000, PD_RING_LEAST - 1000};
    size_t done;
    assert_null(pd_ring_show(&ends->in, 1, 1));
    assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
    assert_null(pd_ring_show(&ends->in, 1001, 1));
    assert_ptr_equal(pd_ring_show(&ends->in, 1000, 1), ends->bytes);
    pd_ring_drop(&ends->in, 500);
    assert_memory_equal(pd_ring_show(&ends->in, 500, 1), buffer + 500, 500);
    assert_null(pd_ring_show(&ends->in, 500, 4096)); /* not aligned so */
    assert_ok(pd_ring_write(&ends->out, &rest, 1, &done));
    assert_int_equal(done, rest.iov_len);
    assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
    assert_int_equal(done, 500);                            /* what was dropped is room again */
    assert_null(pd_ring_show(&ends->in, PD_RING_LEAST, 1)); /* there, but not in one piece */
    assert_memory_equal(pd_ring_show(&ends->in, PD_RING_LEAST - 500, 1), buffer + 500, PD_RING_LEAST - 500);
    pd_ring_drop(&ends->in, PD_RING_LEAST - 500);
    assert_memory_equal(pd_ring_show(&ends->in, 500, 1), buffer, 500);
    atomic_store(&ends->control->writer.position, UINT64_MAX / 2);
    assert_null(pd_ring_show(&ends->in, 501, 1)); /* makes no sense */
    assert_int_equal(pd_ring_read(&ends->in, &part, 1, &done), PD_FORMAT);
    free(buffer);
    ends_free(ends);
}

static void small_messages_stay_in_few_pages(void **state)
{
    (void)state;
    struct two_ends *ends = ends_new(1 << 20);
    uint8_t buffer[4096];
    struct iovec part = {buffer, sizeof buffer};
    size_t done;
    memset(ends->bytes, 0xaa, 1 << 20);
    memset(buffer, 1, sizeof buffer);
    for (int i = 0; i < 1000; i++) {
        assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
        assert_int_equal(done, sizeof buffer);
        assert_ok(pd_ring_read(&ends->in, &part, 1, &done));
        assert_int_equal(done, sizeof buffer);
    }
    assert_int_equal(ends->bytes[40 << 10], 0xaa);
    ends_free(ends);
}

static void positions_of_the_other_side_are_checked(void **state)
{
    (void)state;
    static const uint64_t bad[] = {PD_RING_LEAST + 1, UINT64_MAX, UINT64_C(1) << 63};
    uint8_t buffer[256];
    struct iovec part = {buffer, sizeof buffer};
    size_t done;
    for (size_t i = 0; i < 3; i++) {
        struct two_ends *ends = ends_new(PD_RING_LEAST);
        atomic_store(&ends->control->writer.position, bad[i]);
        atomic_store(&ends->control->writer.origin, bad[2 - i]);
        assert_true(pd_ring_readable(&ends->in));
        assert_int_equal(pd_ring_read(&ends->in, &part, 1, &done), PD_FORMAT);
        assert_int_equal(pd_ring_read(&ends->in, &part, 1, &done), PD_FORMAT);
        ends_free(ends);
        ends = ends_new(PD_RING_LEAST);
        uint8_t *all = calloc(1, PD_RING_LEAST);
        struct iovec whole = {all, PD_RING_LEAST};
        atomic_store(&ends->control->reader.position, bad[i]);
        assert_true(pd_ring_writable(&ends->out));
        assert_int_equal(pd_ring_write(&ends->out, &whole, 1, &done) == PD_FORMAT ||
                             pd_ring_write(&ends->out, &part, 1, &done) == PD_FORMAT,
                         1);
        free(all);
        ends_free(ends);
    }
}

static void sleepers_are_woken_once(void **state)
{
    (void)state;
    struct two_ends *ends = ends_new(PD_RING_LEAST);
    uint8_t *buffer = calloc(1, PD_RING_LEAST);
    struct iovec part = {buffer, 100}, all = {buffer, PD_RING_LEAST};
    uint64_t count = 0;
    size_t done;
    assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
    assert_true(read(ends->bell, &count, 8) < 0);
    pd_ring_sleep_reader(&ends->in, 1);
    assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
    assert_ok(pd_ring_write(&ends->out, &part, 1, &done));
    assert_int_equal(read(ends->bell, &count, 8), 8);
    assert_int_equal(count, 1);
    assert_ok(pd_ring_write(&ends->out, &all, 1, &done));
    assert_false(pd_ring_writable(&ends->out));
    pd_ring_sleep_writer(&ends->out, 1);
    assert_ok(pd_ring_read(&ends->in, &part, 1, &done)); /* too little to be worth it */
    assert_true(read(ends->bell, &count, 8) < 0);
    assert_ok(pd_ring_read(&ends->in, &all, 1, &done));
    assert_int_equal(read(ends->bell, &count, 8), 8);
    free(buffer);
    ends_free(ends);
}

static void copies_are_exact(void **state)
{
    (void)state;
    uint8_t from[2100], to[2200];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = byte_at(5, i);
    for (size_t n = 0; n < 2000; n += n < 600 ? 1 : 97)
        for (size_t way = 0; way < 6; way++) {
            size_t shift = way % 3;
            memset(to, 0xcc, sizeof to);
            (way < 3 ? pd_shm_copy : pd_shm_stream)(to + 7, from + shift, n);
            assert_memory_equal(to + 7, from + shift, n);
            assert_int_equal(to[6], 0xcc);
            assert_int_equal(to[7 + n], 0xcc);
        }
}

struct counter {
    struct pd_loop *loop;
    atomic_int n;
    int wrong, next[4];
};

struct ticket {
    struct counter *counter;
    int thread, number;
};

static void take_ticket(void *arg)
{
    struct ticket *ticket = arg;
    struct counter *counter = ticket->counter;
    if (counter->next[ticket->thread]++ != ticket->number) counter->wrong = 1;
    atomic_fetch_add(&counter->n, 1);
    free(ticket);
}

struct poster {
    pthread_t thread;
    struct counter *counter;
    int number;
};

static void *post_many(void *arg)
{
    struct poster *poster = arg;
    for (int i = 0; i < 2000; i++) {
        struct ticket *ticket = malloc(sizeof *ticket);
        *ticket = (struct ticket){poster->counter, poster->number, i};
        if (pd_loop_post(poster->counter->loop, take_ticket, ticket) != PD_OK) abort();
    }
    return NULL;
}

static void posts_from_many_threads_keep_their_order(void **state)
{
    (void)state;
    for (int with_thread = 0; with_thread < 2; with_thread++) {
        struct counter counter = {0};
        struct poster posters[4];
        struct pd_loop *turned;
        assert_ok(pd_loop_new(&counter.loop));
        assert_ok(pd_loop_new(&turned));
        pd_loop_set_spin(counter.loop, with_thread ? 20 : 0);
        if (with_thread) assert_ok(pd_loop_start(counter.loop, "a name that is much too long"));
        for (int i = 0; i < 4; i++) {
            posters[i] = (struct poster){.counter = &counter, .number = i};
            assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
        }
        wait_until(with_thread ? turned : counter.loop, counter.n == 8000);
        for (int i = 0; i < 4; i++)
            pthread_join(posters[i].thread, NULL);
        pd_loop_free(counter.loop);
        pd_loop_free(turned);
        assert_int_equal(counter.wrong, 0);
    }
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void posts_before_the_end_are_run(void **state)
{
    (void)state;
    struct pd_loop *loop;
    int n = 0;
    assert_ok(pd_loop_new(&loop));
    for (int i = 0; i < 10; i++)
        assert_ok(pd_loop_post(loop, count, &n));
    pd_loop_free(loop);
    assert_int_equal(n, 10);
    pd_loop_free(NULL);
}

static void fail_in_vain(void *arg)
{
    assert_int_equal(pd_loop_post(arg, count, NULL), PD_GONE);
}

/* A server that failed for one reason told another one: that its loop took no more work. */
static void the_end_of_a_loop_keeps_the_error_of_its_caller(void **state)
{
    (void)state;
    struct pd_loop *loop;
    assert_ok(pd_loop_new(&loop));
    assert_ok(pd_loop_post(loop, fail_in_vain, loop));
    assert_int_equal(pd_fail(PD_UNAVAILABLE, "the reason"), PD_UNAVAILABLE);
    pd_error_set_part(3);
    pd_loop_free(loop);
    assert_string_equal(pd_error(), "the reason");
    assert_int_equal(pd_error_part(), 3);
}

struct stopper {
    struct pd_timer *timer;
    int n;
};

static void stop_at_three(void *arg)
{
    struct stopper *stopper = arg;
    if (++stopper->n < 3) return;
    pd_timer_stop(&stopper->timer);
}

static void timers_fire_repeat_and_stop(void **state)
{
    (void)state;
    struct pd_loop *loop;
    struct pd_timer *once, *never, *left;
    struct stopper stopper = {0};
    int fired = 0, other = 0;
    assert_ok(pd_loop_new(&loop));
    assert_ok(pd_timer_start(loop, 5, 0, count, &fired, &once));
    assert_ok(pd_timer_start(loop, 1, 0, count, &other, &never));
    assert_ok(pd_timer_start(loop, 0, 1, stop_at_three, &stopper, &stopper.timer));
    assert_ok(pd_timer_start(loop, 100000, 0, count, &other, &left));
    pd_timer_stop(&never);
    wait_until(loop, fired == 1 && stopper.n == 3);
    assert_int_equal(pd_loop_turn(loop, 30), 0); /* nothing happens */
    assert_int_equal(fired, 1);
    pd_timer_stop(&once);
    assert_ok(pd_timer_start(loop, 30, 0, count, &fired, &once));
    assert_int_equal(pd_loop_turn(loop, 60000), 1); /* it waits */
    assert_int_equal(fired, 2);
    assert_int_equal(pd_loop_turn(loop, 0), 0); /* and does not, or the one that is left would fire */
    pd_timer_stop(&once);
    pd_timer_stop(&once); /* NULL by now */
    pd_loop_free(loop);
    assert_int_equal(other, 0);
}

/* A timer that was due before the loop went to sleep must not leave it asleep: what it did may need the loop.
 */
static void a_timer_that_is_late_ends_the_sleep(void **state)
{
    (void)state;
    struct pd_loop *loop;
    struct pd_timer *timer, *later;
    int fired = 0, other = 0;
    assert_ok(pd_loop_new(&loop));
    assert_ok(pd_timer_start(loop, 1, 0, count, &fired, &timer));
    assert_ok(pd_timer_start(loop, 30000, 0, count, &other, &later));
    int64_t begin = pd_clock_ns();
    while (pd_clock_ns() - begin < 5000000)
        sched_yield();
    assert_int_equal(pd_loop_turn(loop, 60000), 1);
    assert_int_equal(fired, 1);
    assert_int_equal(other, 0); /* asleep, it would have been woken by this one */
    pd_timer_stop(&timer);
    pd_timer_stop(&later);
    pd_loop_free(loop);
}

static void a_post_wakes_a_sleeping_loop(void **state)
{
    (void)state;
    struct pd_loop *loop;
    struct counter counter = {0};
    assert_ok(pd_loop_new(&loop));
    counter.loop = loop;
    struct poster poster = {.counter = &counter};
    assert_int_equal(pthread_create(&poster.thread, NULL, post_many, &poster), 0);
    while (counter.n < 2000)
        assert_true(pd_loop_turn(loop, 60000) > 0); /* 0: it slept through a post */
    pthread_join(poster.thread, NULL);
    pd_loop_free(loop);
}

/* Up to four flipped bits of a record's length make another that has no right check. */
static void damaged_lengths_have_no_check(void **state)
{
    (void)state;
    uint32_t word = pd_record_word(1000), bits = (1U << 18) - 1;
    for (int a = 0; a < 32; a++)
        for (int b = a; b < 32; b++)
            for (int c = b; c < 32; c++)
                for (int d = c; d < 32; d++) {
                    uint32_t other = word ^ 1U << a;
                    other = b > a ? other ^ 1U << b : other;
                    other = c > b ? other ^ 1U << c : other;
                    other = d > c ? other ^ 1U << d : other;
                    assert_true(other != pd_record_word(other & bits));
                }
    assert_int_equal(word & bits, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_lengths_have_no_check),
        cmocka_unit_test(numbers_and_texts_come_back),
        cmocka_unit_test(a_reader_never_passes_its_end),
        cmocka_unit_test(heads_come_back_and_are_checked),
        cmocka_unit_test(handshake_messages_come_back),
        cmocka_unit_test(proofs_depend_on_everything),
        cmocka_unit_test(endpoints_are_read),
        cmocka_unit_test(a_server_may_bind_another_address),
        cmocka_unit_test(addresses_are_written),
        cmocka_unit_test(rings_keep_bytes_in_order),
        cmocka_unit_test(messages_lie_around_the_end_in_every_way),
        cmocka_unit_test(rings_show_what_is_whole),
        cmocka_unit_test(small_messages_stay_in_few_pages),
        cmocka_unit_test(positions_of_the_other_side_are_checked),
        cmocka_unit_test(sleepers_are_woken_once),
        cmocka_unit_test(copies_are_exact),
        cmocka_unit_test(posts_from_many_threads_keep_their_order),
        cmocka_unit_test(posts_before_the_end_are_run),
        cmocka_unit_test(the_end_of_a_loop_keeps_the_error_of_its_caller),
        cmocka_unit_test(timers_fire_repeat_and_stop),
        cmocka_unit_test(a_timer_that_is_late_ends_the_sleep),
        cmocka_unit_test(a_post_wakes_a_sleeping_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
