/* One suite for every transport: whole messages of all sizes, order, borrowed memory, backpressure, ends of
 * all kinds. */
#include "net_peer.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "net/hello_inside.h"
#include "net/shm_ring.h"
#include "tls_help.h"

static const char *transport; /* of the run of the suite */

#if defined(PD_SANITIZED)
enum { LARGE = 12 << 20, MANY = 3000, RANDOM = 10000 };
#else
enum { LARGE = 64 << 20, MANY = 20000, RANDOM = 100000 };
#endif

struct pair {
    struct server server;
    struct pd_loop *loop;
    struct peer client;
    atomic_int busy; /* hold and release */
};

static struct pair *pair_new(int threads)
{
    struct pair *pair = calloc(1, sizeof *pair);
    server_open(&pair->server, "job", threads);
    assert_ok(pd_loop_new(&pair->loop));
    return pair;
}

/* What is asked for: TLS is on by the environment, and goes over TCP. */
static const char *asked(void)
{
    return strcmp(transport, "tls") == 0 ? "tcp" : transport;
}

static void pair_connect_with(struct pair *pair, size_t ring)
{
    peer_connect_ring(&pair->client, pair->loop, pair->server.endpoint, asked(), ring);
    wait_until(pair->loop, pair->client.opened || pair->client.closed);
    if (pair->client.closed) fail_msg("not connected: %s", pair->client.text);
    wait_until(pair->loop, pair->server.accepted);
    assert_string_equal(pd_conn_transport(pair->client.conn), transport);
}

static void pair_connect(struct pair *pair)
{
    pair_connect_with(pair, 256 << 10);
}

static void pair_free(struct pair *pair)
{
    pd_loop_free(pair->loop);
    server_close(&pair->server);
    assert_int_equal(pair->client.bad, 0);
    assert_int_equal(pair->server.peer.bad, 0);
    free(pair);
}

struct parcel {
    uint8_t *payload, *meta;
    struct peer *peer;
};

static void parcel_sent(void *arg, pd_status status)
{
    struct parcel *parcel = arg;
    count_sent(parcel->peer, status);
    /* The memory is ours again: a transport that still reads it would send this. */
    free(parcel->payload);
    free(parcel);
}

static void send_bytes(struct peer *peer, int type, uint64_t seed, size_t meta_n, size_t n)
{
    struct parcel *parcel = malloc(sizeof *parcel);
    *parcel = (struct parcel){make_bytes(seed, n), NULL, peer};
    uint8_t *meta = make_bytes(seed + 1, meta_n);
    struct pd_frame_head head = {.type = (uint16_t)type, .request = seed, .step = 3, .extra = 4};
    struct pd_span spans[4] = {
        {parcel->payload, n / 5}, {NULL, 0}, {parcel->payload + n / 5, n - n / 5}, {NULL, 0}};
    assert_ok(pd_conn_send(peer->conn, &head, meta, meta_n, spans, 4, parcel_sent, parcel));
    memset(meta, 0xee, meta_n); /* it was copied */
    free(meta);
}

static void says_hello_and_welcome(void **state)
{
    (void)state;
    struct pair *pair = pair_new(2);
    pair_connect(pair);
    assert_int_equal(pair->client.welcome.id, 7);
    assert_true(pair->client.welcome.incarnation == 12345678901);
    assert_string_equal(pair->client.welcome.note, "hello job");
    const struct pd_hello *hello = pd_conn_hello(pair->client.conn);
    assert_int_equal(hello->pid, getpid());
    assert_string_equal(hello->job, "job");
    assert_non_null(strchr(pd_conn_peer(pair->client.conn), ':'));
    pair_free(pair);
}

static void messages_of_all_sizes_come_back(void **state)
{
    static const size_t sizes[] = {0, 1, 47, 4096, 16383, 32768, 65537, 1 << 20, 5000003};
    int spans = *(int *)*state;
    struct pair *pair = pair_new(1);
    pair->client.uses_spans = pair->server.peer.uses_spans = spans > 0;
    pair->client.borrows = pair->server.peer.borrows = spans > 1;
    pair_connect(pair);
    int n = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)n++, i * 37, sizes[i]);
        wait_until(pair->loop, pair->client.messages == n);
    }
    /* And without waiting for each other. */
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            send_bytes(&pair->client, TYPE_ECHO, (uint64_t)n++, 200000 * (size_t)(round == 1), sizes[i]);
    wait_until(pair->loop,
               pair->client.messages == n && pair->client.sent == n && pair->server.peer.sent == n);
    assert_int_equal(pair->client.closed, 0);
    assert_int_equal(pd_conn_queued(pair->client.conn), 0);
    if (spans < 2 || strcmp(transport, "shm") != 0) {
        assert_int_equal(pair->server.peer.borrowed, 0);
    } else {
        /* Once all of it lies in the ring it may stay there. */
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)n++, 9, 100000);
        wait_aside(pair->server.peer.sent == n);
        wait_until(pair->loop, pair->client.messages == n && pair->client.sent == n);
        assert_true(pair->client.borrowed > 0);
    }
    /* The handshakes differ a little. */
    int64_t difference = (int64_t)(pd_conn_bytes(pair->client.conn, 1) - pd_conn_bytes(pair->client.conn, 0));
    assert_true(difference > -1000 && difference < 1000);
    pair_free(pair);
}

static void a_large_message_comes_through(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    size_t n = LARGE;
    pair->server.peer.uses_spans = 1;
    pair_connect(pair);
    pair->client.uses_spans = 1;
    send_bytes(&pair->client, TYPE_ECHO, 0, 5, n);
    wait_until(pair->loop, pair->client.messages == 1 && pair->client.sent == 1);
    assert_true(pair->client.received == n);
    pair_free(pair);
}

static void many_small_ones_keep_their_order(void **state)
{
    (void)state;
    struct pair *pair = pair_new(2);
    pair_connect(pair);
    int n = MANY;
    for (int i = 0; i < n; i++) {
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)i, (size_t)i % 90, (size_t)i % 211);
        if (i % 64 == 0) pd_loop_turn(pair->loop, 0);
    }
    wait_until(pair->loop, pair->client.messages == n && pair->client.sent == n);
    assert_int_equal(pair->server.peer.messages, n);
    pair_free(pair);
}

/* Sizes without any pattern through the smallest ring, which is hardly ever empty: messages begin, and cross
 * its end, anywhere. The server uses payloads where they lie, the client gets copies. */
static void messages_of_random_sizes_come_back(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    uint64_t random = 20;
    pair->server.peer.uses_spans = pair->server.peer.borrows = 1;
    pair_connect_with(pair, PD_RING_LEAST);
    for (int i = 0; i < RANDOM; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t most = (random >> 24) % 256 == 0 ? 90000 : 500; /* now and then one that fills the ring */
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)i, (random >> 32) % 60, (random >> 40) % most);
        while (pd_conn_queued(pair->client.conn) > 1 << 20)
            pd_loop_turn(pair->loop, 20);
    }
    wait_until(pair->loop, pair->client.messages == RANDOM && pair->client.sent == RANDOM);
    pair_free(pair);
}

static void polling_gives_the_same(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pd_loop_set_spin(pair->loop, 50);
    pd_loop_set_spin(pair->server.loop, 50);
    pair_connect(pair);
    for (int i = 0; i < 2000; i++) {
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)i, 10, (size_t)(i % 7) * 1000);
        wait_until(pair->loop, pair->client.messages == i + 1);
    }
    pair_free(pair);
}

/* A server's thread that is busy, from hold to release: it reads nothing. */
enum { FREE, BUSY, DONE };

static void be_busy(void *arg)
{
    atomic_int *how = arg;
    atomic_store(how, BUSY);
    while (atomic_load(how) != DONE)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void hold(struct pair *pair)
{
    assert_ok(pd_loop_post(pair->server.loop, be_busy, &pair->busy));
    wait_aside(atomic_load(&pair->busy) == BUSY);
}

static void release(struct pair *pair)
{
    atomic_store(&pair->busy, DONE);
}

/* A reader that is busy holds the writer back; nobody's memory grows. */
static void a_busy_reader_holds_the_writer_back(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pair_connect(pair);
    hold(pair);
    size_t n = 64 << 20;
    send_bytes(&pair->client, TYPE_DATA, 0, 0, n);
    size_t before = SIZE_MAX;
    /* Until nothing moves for a while. */
    for (int still = 0; still < 20;) {
        pd_loop_turn(pair->loop, 5);
        size_t queued = pd_conn_queued(pair->client.conn);
        still = queued == before ? still + 1 : 0;
        before = queued;
    }
    long memory = resident_kb();
    for (int i = 0; i < 20; i++)
        pd_loop_turn(pair->loop, 1);
    assert_true(pd_conn_queued(pair->client.conn) > n / 2);
    assert_int_equal(pair->server.peer.messages, 0);
    assert_int_equal(pair->client.sent, 0);
    assert_true(resident_kb() - memory < 8 << 10);
    release(pair);
    wait_until(pair->loop, pair->server.peer.messages == 1 && pair->client.sent == 1);
    pair_free(pair);
}

static void note_sent(void *arg, pd_status status)
{
    atomic_int *sent = arg;
    *sent += status == PD_OK;
}

/* A server updates parameters while they are on their way (async): the receiver gets bytes of both, and the
 * connection works. */
static void memory_may_change_on_the_way(void **state)
{
    (void)state;
    enum { SIZE = 16 << 20 };
    struct pair *pair = pair_new(1);
    pair_connect(pair);
    hold(pair);
    uint8_t *bytes = calloc(SIZE, 1);
    atomic_int sent = 0;
    struct pd_span span = {bytes, SIZE};
    assert_ok(pd_conn_send(pair->client.conn, &(struct pd_frame_head){.type = TYPE_DATA}, NULL, 0, &span, 1,
                           note_sent, &sent));
    size_t before = SIZE_MAX;
    for (int still = 0; still < 20;) {
        pd_loop_turn(pair->loop, 5);
        size_t queued = pd_conn_queued(pair->client.conn);
        still = queued == before ? still + 1 : 0;
        before = queued;
    }
    assert_true(before > 0);
    release(pair);
    for (uint8_t value = 1; !sent && !pair->client.closed; value++) {
        for (size_t i = 0; i < SIZE; i += 4096) /* every record changes */
            bytes[i] = value;
        pd_loop_turn(pair->loop, 1);
    }
    wait_until(pair->loop, pair->server.peer.messages == 1 || pair->client.closed);
    assert_int_equal(pair->client.closed, 0);
    free(bytes);
    pair->server.peer.bad = 0; /* not the bytes that it looks for */
    pair_free(pair);
}

static void closing_writes_the_rest_first(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pair_connect(pair);
    for (int i = 0; i < 20; i++)
        send_bytes(&pair->client, TYPE_DATA, (uint64_t)i, 0, 1 << 20);
    pd_conn_close(pair->client.conn, 20000);
    wait_until(pair->loop, pair->client.closed && pair->server.peer.closed);
    assert_int_equal(pair->client.why, PD_OK);
    assert_int_equal(pair->client.sent, 20);
    assert_int_equal(pair->server.peer.messages, 20);
    assert_int_equal(pair->server.peer.why, PD_IO);
    assert_string_equal(pair->server.peer.text, "closed by the other side");
    pair_free(pair);
}

/* The server closes when it has read "bye", while its own answers are still on their way. */
static void a_goodbye_loses_nothing(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pair_connect(pair);
    for (int i = 0; i < 10; i++)
        send_bytes(&pair->client, TYPE_ECHO, (uint64_t)i, 0, 300000);
    send_bytes(&pair->client, TYPE_BYE, 10, 0, 0);
    wait_until(pair->loop, pair->client.closed && pair->server.peer.closed);
    if (pair->client.messages != 10)
        fail_msg("%d of 10 messages; the client's end: %d %s; the server's: %d %s", pair->client.messages,
                 pair->client.why, pair->client.text, pair->server.peer.why, pair->server.peer.text);
    assert_int_equal(pair->server.peer.why, PD_OK);
    pair_free(pair);
}

static void closing_in_the_middle_tells_both(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pair_connect(pair);
    hold(pair);
    send_bytes(&pair->client, TYPE_DATA, 0, 0, 32 << 20);
    pd_loop_turn(pair->loop, 0);
    pd_conn_close(pair->client.conn, 0);
    struct pd_frame_head head = {.type = TYPE_DATA};
    assert_int_equal(pd_conn_send(pair->client.conn, &head, NULL, 0, NULL, 0, NULL, NULL), PD_GONE);
    wait_until(pair->loop, pair->client.closed);
    assert_int_equal(pair->client.why, PD_OK);
    assert_int_equal(pair->client.sent_failed, 1);
    release(pair);
    wait_until(pair->loop, pair->server.peer.closed);
    assert_int_equal(pair->server.peer.why, PD_IO);
    pair_free(pair);
}

static void an_error_of_the_handler_closes(void **state)
{
    (void)state;
    struct pair *pair = pair_new(1);
    pair->server.peer.fail_in_done = PD_FORMAT;
    pair_connect(pair);
    send_bytes(&pair->client, TYPE_DATA, 0, 0, 10);
    wait_until(pair->loop, pair->client.closed && pair->server.peer.closed);
    assert_int_equal(pair->server.peer.why, PD_FORMAT);
    assert_string_equal(pair->server.peer.text, "the handler says no");
    assert_int_equal(pair->client.why, PD_IO);
    pair_free(pair);
}

static void loops_can_be_freed_with_open_connections(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct pair *pair = pair_new(2);
        pair_connect(pair);
        for (int i = 0; i < 5; i++)
            send_bytes(&pair->client, TYPE_DATA, (uint64_t)i, 10, 8 << 20);
        if (first) {
            server_close(&pair->server);
            assert_int_equal(pair->server.peer.closed, 1);
            assert_int_equal(pair->server.peer.why, PD_OK);
            wait_until(pair->loop, pair->client.closed);
            assert_int_equal(pair->client.why, PD_IO);
            pair->server.loop = pair->server.other = NULL;
        }
        pd_loop_free(pair->loop);
        pair->loop = NULL;
        assert_int_equal(pair->client.closed, 1);
        assert_int_equal(pair->client.sent + pair->client.sent_failed, 5);
        pair_free(pair);
    }
}

/* A child process as the other side; it never ends by itself. */
static pid_t child_server(int *port)
{
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct server server = {0};
        alarm(2 * PATIENCE_S);
        server_open(&server, "job", 0);
        if (write(pipe_ends[1], &server.port, sizeof server.port) != sizeof server.port) _exit(1);
        for (;;)
            pd_loop_turn(server.loop, 1000);
    }
    close(pipe_ends[1]);
    assert_int_equal(read(pipe_ends[0], port, sizeof *port), sizeof *port);
    close(pipe_ends[0]);
    return pid;
}

static void a_killed_peer_is_noticed(void **state)
{
    (void)state;
    int port, status;
    char endpoint[64];
    pid_t pid = child_server(&port);
    struct pd_loop *loop;
    struct peer client = {0};
    assert_ok(pd_loop_new(&loop));
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
    peer_connect(&client, loop, endpoint, asked());
    wait_until(loop, client.opened || client.closed);
    assert_int_equal(client.closed, 0);
    assert_string_equal(pd_conn_transport(client.conn), transport);
    for (int i = 0; i < 5; i++)
        send_bytes(&client, TYPE_ECHO, (uint64_t)i, 0, 100000);
    wait_until(loop, client.messages == 5);
    kill(pid, SIGKILL);
    wait_until(loop, client.closed); /* silence would not end it: the machine goes on answering */
    assert_int_equal(client.why, PD_IO);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    pd_loop_free(loop);
    assert_int_equal(client.bad, 0);
}

/* Each allocation on the way fails once, with all that follow it: no crash, no leak, and both ends hear of
 * it. */
static void short_memory_is_survived(void **state)
{
    (void)state;
    int through = 0;
    pd_handshake_ms = 300;
    for (uint64_t n = 1; n < 400 && through < 3; n++) {
        struct server server = {0};
        struct peer client = {0};
        struct pd_hello hello = {.role = PD_ROLE_TRAINER, .job = "job"};
        struct pd_conn_options options = {.transport = asked(), .ring = 64 << 10};
        server_open(&server, "job", 0);
        pd_alloc_fail_at(n);
        pd_status status =
            pd_conn_open(server.loop, server.endpoint, &hello, &options, &peer_events, &client, &client.conn);
        int64_t end = pd_clock_ns() + PATIENCE_S * INT64_C(1000000000);
        while (status == PD_OK && !client.opened && !client.closed && pd_clock_ns() < end)
            pd_loop_turn(server.loop, 10);
        struct pd_frame_head head = {.type = TYPE_ECHO};
        if (client.opened && !client.closed &&
            pd_conn_send(client.conn, &head, NULL, 0, NULL, 0, NULL, NULL) == PD_OK)
            while (!client.messages && !client.closed && pd_clock_ns() < end)
                pd_loop_turn(server.loop, 10);
        pd_alloc_fail_at(0);
        assert_true(pd_clock_ns() < end);
        assert_true(status != PD_OK || client.opened || client.closed);
        through += client.messages == 1;
        pd_loop_free(server.loop);
    }
    pd_handshake_ms = 10000;
    assert_int_equal(through, 3);
}

/* A message that is waited for and cannot be sent ends the connection, and says why. */
static void what_cannot_be_said_ends_the_connection(void **state)
{
    (void)state;
    struct pd_frame_head head = {.type = TYPE_DATA}, next = {.type = TYPE_DATA, .request = 1};
    uint8_t *words = make_bytes(1, PD_FRAME_META_MAX + 1);
    for (int way = 0; way < 4; way++) {
        struct pair *pair = pair_new(1);
        struct pd_buf meta = {0};
        pair_connect(pair);
        if (way == 0) meta.failed = 1;
        pd_buf_add(&meta, words, way == 2 ? PD_FRAME_META_MAX + 1 : 4);
        if (way == 1) pd_alloc_fail_once(1);
        pd_conn_say(pair->client.conn, &head, &meta);
        pd_alloc_fail_once(0);
        assert_null(meta.at);
        pd_conn_say(pair->client.conn, &next, NULL); /* nothing comes of it any more */
        assert_int_equal(pair->client.closed, 0);
        if (way == 3) pd_conn_close(pair->client.conn, 0);
        wait_until(pair->loop, pair->client.closed);
        pd_status why = way == 3 ? PD_OK : way == 2 ? PD_INVALID : PD_IO;
        assert_int_equal(pair->client.why, why);
        if (way < 2) assert_non_null(strstr(pair->client.text, "out of memory"));
        pair_free(pair);
    }
    free(words);
}

static void set_up_suite(const char *name)
{
    transport = name;
    unsetenv("PADDLE_PS_SECRET");
    tls_help_use(strcmp(name, "tls") == 0);
}

static int use_tcp(void **state)
{
    (void)state;
    set_up_suite("tcp");
    return 0;
}

/* Records with a key. */
static int use_sealed(void **state)
{
    (void)state;
    set_up_suite("tcp");
    setenv("PADDLE_PS_SECRET", "of these tests and of nobody else", 1);
    return 0;
}

static int use_tls(void **state)
{
    (void)state;
    set_up_suite("tls");
    return 0;
}

static int use_shm(void **state)
{
    (void)state;
    set_up_suite("shm");
    return 0;
}

static int no_spans = 0, with_spans = 1, with_borrowing = 2;

#define SUITE(use)                                                                                           \
    cmocka_unit_test_setup(a_killed_peer_is_noticed, use),                                                   \
        cmocka_unit_test_setup(says_hello_and_welcome, use),                                                 \
        {"messages_of_all_sizes_come_back", messages_of_all_sizes_come_back, use, NULL, &no_spans},          \
        {"messages_of_all_sizes_come_back_into_spans", messages_of_all_sizes_come_back, use, NULL,           \
         &with_spans},                                                                                       \
        {"messages_of_all_sizes_come_back_borrowed", messages_of_all_sizes_come_back, use, NULL,             \
         &with_borrowing},                                                                                   \
        cmocka_unit_test_setup(a_large_message_comes_through, use),                                          \
        cmocka_unit_test_setup(many_small_ones_keep_their_order, use),                                       \
        cmocka_unit_test_setup(messages_of_random_sizes_come_back, use),                                     \
        cmocka_unit_test_setup(polling_gives_the_same, use),                                                 \
        cmocka_unit_test_setup(a_busy_reader_holds_the_writer_back, use),                                    \
        cmocka_unit_test_setup(memory_may_change_on_the_way, use),                                           \
        cmocka_unit_test_setup(closing_writes_the_rest_first, use),                                          \
        cmocka_unit_test_setup(a_goodbye_loses_nothing, use),                                                \
        cmocka_unit_test_setup(closing_in_the_middle_tells_both, use),                                       \
        cmocka_unit_test_setup(an_error_of_the_handler_closes, use),                                         \
        cmocka_unit_test_setup(loops_can_be_freed_with_open_connections, use),                               \
        cmocka_unit_test_setup(short_memory_is_survived, use),                                               \
        cmocka_unit_test_setup(what_cannot_be_said_ends_the_connection, use)

int main(void)
{
    unsetenv("PADDLE_PS_SECRET");
    unsetenv("PADDLE_PS_SECRET_FILE");
    unsetenv("PADDLE_PS_TRANSPORT");
    unsetenv("PADDLE_PS_RING");
    const struct CMUnitTest tcp[] = {SUITE(use_tcp)};
    const struct CMUnitTest sealed[] = {SUITE(use_sealed)};
    const struct CMUnitTest tls[] = {SUITE(use_tls)};
    const struct CMUnitTest shm[] = {SUITE(use_shm)};
    int failed = cmocka_run_group_tests_name("tcp", tcp, NULL, NULL);
    failed += cmocka_run_group_tests_name("tcp with a secret", sealed, NULL, NULL);
    failed += cmocka_run_group_tests_name("tls", tls, NULL, NULL);
    failed += cmocka_run_group_tests_name("shm", shm, NULL, NULL);
    tls_help_end();
    return failed;
}
