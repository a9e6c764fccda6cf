/* The handshake, and everything that is not one: other versions, jobs and secrets, garbage, promises of huge
 * messages, silence. */
#include "net_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "net/endpoint.h"
#include "net/hello_inside.h"
#include "net/seal.h"
#include "net/transport.h"

static int forget_settings(void **state)
{
    (void)state;
    unsetenv("PADDLE_PS_SECRET");
    unsetenv("PADDLE_PS_SECRET_FILE");
    unsetenv("PADDLE_PS_TRANSPORT");
    unsetenv("PADDLE_PS_RING");
    pd_handshake_ms = 10000;
    return 0;
}

/* A client that comes to nothing; returns why. */
static struct peer *try(const char *endpoint, const char *job, const char *transport, int connect_ms)
{
    struct peer *peer = calloc(1, sizeof *peer);
    struct pd_loop *loop;
    struct pd_hello hello = {.role = PD_ROLE_TRAINER, .id = 3};
    struct pd_conn_options options = {.transport = transport, .connect_ms = connect_ms};
    snprintf(hello.job, sizeof hello.job, "%s", job);
    assert_ok(pd_loop_new(&loop));
    assert_ok(pd_conn_open(loop, endpoint, &hello, &options, &peer_events, peer, &peer->conn));
    wait_until(loop, peer->opened || peer->closed);
    pd_loop_free(loop);
    return peer;
}

static void assert_fails(const char *endpoint, const char *job, const char *transport, pd_status why,
                         const char *a, const char *b)
{
    struct peer *peer = try(endpoint, job, transport, 0);
    if (peer->opened) fail_msg("a connection that must fail is open");
    if (peer->why != why) fail_msg("%s: %s", pd_status_name(peer->why), peer->text);
    assert_holds(peer->text, a);
    assert_holds(peer->text, b);
    free(peer);
}

static void assert_works(const char *endpoint, const char *job, const char *transport)
{
    struct peer *peer = try(endpoint, job, transport, 0);
    if (!peer->opened) fail_msg("not connected: %s", peer->text);
    free(peer);
}

static void jobs_must_fit(void **state)
{
    (void)state;
    struct server server = {0};
    server_open(&server, "blue", 1);
    assert_fails(server.endpoint, "red", NULL, PD_INVALID, "job 'red'", "job 'blue'");
    assert_works(server.endpoint, "blue", NULL);
    assert_fails(server.endpoint, "", NULL, PD_INVALID, "job ''", "job 'blue'");
    server_close(&server);
    memset(&server, 0, sizeof server);
    server_open(&server, "", 1);
    assert_fails(server.endpoint, "any", NULL, PD_INVALID, "job 'any'", "job ''");
    assert_works(server.endpoint, "", NULL);
    server_close(&server);
}

static void a_greeting_can_refuse(void **state)
{
    (void)state;
    struct server server = {.refusal = "trainer 3 is here already"};
    server_open(&server, "", 1);
    assert_fails(server.endpoint, "", NULL, PD_EXISTS, "refused this process", "trainer 3 is here already");
    server_close(&server);
}

static void secrets_must_fit(void **state)
{
    (void)state;
    struct server open = {0}, locked = {0};
    server_open(&open, "", 1);
    setenv("PADDLE_PS_SECRET", "sesame", 1);
    server_open(&locked, "", 2);
    assert_works(locked.endpoint, "", "tcp");
    assert_works(locked.endpoint, "", "shm");
    assert_fails(open.endpoint, "", NULL, PD_INVALID, "the server has no secret", "this process has one");
    setenv("PADDLE_PS_SECRET", "simsim", 1);
    assert_fails(locked.endpoint, "", NULL, PD_INVALID, "refused", "secret is not the server's");
    unsetenv("PADDLE_PS_SECRET");
    assert_fails(locked.endpoint, "", NULL, PD_INVALID, "the server needs a secret", "the client has none");
    server_close(&open);
    server_close(&locked);
}

static void a_secret_can_come_from_a_file(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer peer = {0};
    struct pd_loop *loop;
    char path[] = "secret-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    setenv("PADDLE_PS_SECRET", "from a file", 1);
    server_open(&server, "", 1);
    unsetenv("PADDLE_PS_SECRET");
    setenv("PADDLE_PS_SECRET_FILE", path, 1);
    assert_ok(pd_loop_new(&loop));
    struct pd_hello hello = {.role = PD_ROLE_TOOL};
    assert_int_equal(pd_conn_open(loop, server.endpoint, &hello, NULL, &peer_events, &peer, &peer.conn),
                     PD_INVALID);
    assert_holds(pd_error(), "is empty");
    assert_int_equal(write(file, "from a file \n\n", 14), 14);
    close(file);
    assert_works(server.endpoint, "", NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(pd_conn_open(loop, server.endpoint, &hello, NULL, &peer_events, &peer, &peer.conn),
                     PD_IO);
    assert_holds(pd_error(), path);
    pd_loop_free(loop);
    server_close(&server);
}

static void transports_can_be_forced(void **state)
{
    (void)state;
    struct server any = {0}, tcp = {0}, shm = {0};
    server_open(&any, "", 1);
    setenv("PADDLE_PS_TRANSPORT", "tcp", 1);
    server_open(&tcp, "", 1);
    assert_works(any.endpoint, "", NULL);
    setenv("PADDLE_PS_TRANSPORT", "shm", 1);
    server_open(&shm, "", 1);
    assert_works(shm.endpoint, "", NULL);
    assert_fails(tcp.endpoint, "", NULL, PD_UNSUPPORTED, "shared memory was asked for", "does not offer it");
    assert_fails(shm.endpoint, "", "tcp", PD_UNSUPPORTED, "shared memory only", "was told to use TCP");
    unsetenv("PADDLE_PS_TRANSPORT");
    assert_works(tcp.endpoint, "", NULL);
    setenv("PADDLE_PS_TRANSPORT", "pigeon", 1);
    struct pd_loop *loop;
    struct peer peer = {0};
    struct pd_hello hello = {.role = PD_ROLE_TOOL};
    assert_ok(pd_loop_new(&loop));
    assert_int_equal(pd_conn_open(loop, tcp.endpoint, &hello, NULL, &peer_events, &peer, &peer.conn),
                     PD_INVALID);
    assert_holds(pd_error(), "pigeon");
    pd_loop_free(loop);
    server_close(&any);
    server_close(&tcp);
    server_close(&shm);
}

/* Records out and in, with checksums, of a socket whose handshake is through. */
static struct pd_seal *seals[4096][2];

static void raw_sealed(int s, int is_so)
{
    for (int i = 0; i < 2; i++) {
        pd_seal_free(seals[s][i]);
        seals[s][i] = NULL;
        if (is_so) assert_ok(pd_seal_new(NULL, &seals[s][i]));
    }
}

/* A blocking socket without any of our code, for what a client must not do. */
static int raw_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 30};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    assert_int_equal(connect(s, (struct sockaddr *)&address, sizeof address), 0);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    raw_sealed(s, 0);
    return s;
}

static void raw_send(int s, const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t wrote = send(s, (const char *)bytes + done, n - done, MSG_NOSIGNAL);
        if (wrote <= 0) return; /* the server has had enough, which the caller sees by reading */
        done += (size_t)wrote;
    }
}

/* 1: all n bytes; 0: the server closed first. */
static int raw_read(int s, void *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = recv(s, (char *)out + done, n - done, 0);
        if (got < 0 && errno == EAGAIN) fail_msg("no answer");
        if (got <= 0) return 0;
        done += (size_t)got;
    }
    return 1;
}

static void raw_send_record(int s, const void *bytes, size_t n)
{
    uint32_t word = pd_record_word((uint32_t)n);
    uint8_t head[8 + PD_SEAL_TAG] = {(uint8_t)word, (uint8_t)(word >> 8), (uint8_t)(word >> 16),
                                     (uint8_t)(word >> 24)};
    struct iovec part = {(void *)bytes, n};
    assert_ok(pd_seal_next(seals[s][0], head, &part, n, head + 4));
    raw_send(s, head, 4 + PD_SEAL_SUM);
    raw_send(s, bytes, n);
}

/* A message in a record of its own. */
static int raw_record(int s, struct pd_frame_head *head, uint8_t *meta)
{
    uint8_t start[4 + PD_SEAL_SUM], bytes[PD_FRAME_HEAD + PD_HELLO_META_MAX], right[PD_SEAL_TAG];
    if (!raw_read(s, start, sizeof start)) return 0;
    size_t n = start[0] | (size_t)start[1] << 8 | (size_t)(start[2] & 3) << 16;
    assert_true(n >= PD_FRAME_HEAD && n <= sizeof bytes);
    if (!raw_read(s, bytes, n)) return 0;
    struct iovec part = {bytes, n};
    assert_ok(pd_seal_next(seals[s][1], start, &part, n, right));
    assert_memory_equal(right, start + 4, PD_SEAL_SUM);
    assert_ok(pd_frame_unpack(bytes, head));
    assert_int_equal(n, PD_FRAME_HEAD + head->meta);
    memcpy(meta, bytes + PD_FRAME_HEAD, head->meta);
    return 1;
}

static int raw_frame(int s, struct pd_frame_head *head, uint8_t *meta)
{
    uint8_t bytes[PD_FRAME_HEAD];
    if (seals[s][1]) return raw_record(s, head, meta);
    if (!raw_read(s, bytes, sizeof bytes)) return 0;
    assert_ok(pd_frame_unpack(bytes, head));
    assert_true(head->meta <= PD_HELLO_META_MAX);
    return raw_read(s, meta, head->meta);
}

static void raw_send_frame(int s, const struct pd_frame_head *head, const void *meta)
{
    uint8_t bytes[PD_FRAME_HEAD + PD_HELLO_META_MAX];
    struct pd_frame_head full = *head;
    if (head->type < 16) full.step = pd_frame_sum(head, meta);
    pd_frame_pack(&full, bytes);
    if (meta) memcpy(bytes + PD_FRAME_HEAD, meta, head->meta);
    (seals[s][0] ? raw_send_record : raw_send)(s, bytes, PD_FRAME_HEAD + head->meta);
}

static void assert_closed(int s)
{
    char byte;
    assert_int_equal(raw_read(s, &byte, 1), 0);
    close(s);
}

static void raw_hello(int s, struct pd_hello_message *message)
{
    struct pd_buf meta = {0};
    message->hello.role = PD_ROLE_TRAINER;
    uint16_t version = message->hello.version;
    assert_ok(pd_hello_fill(message, 0));
    if (version) message->hello.version = version;
    if (!message->hello.wants_shm) message->hello.boot[0] = 0;
    pd_hello_pack(message, &meta);
    struct pd_frame_head head = {.type = PD_HELLO, .meta = (uint32_t)meta.n};
    raw_send_frame(s, &head, meta.at);
    pd_buf_free(&meta);
}

/* The whole handshake by hand. */
static int raw_open(int port, int wants_shm)
{
    struct pd_hello_message hello = {.hello.wants_shm = (uint8_t)wants_shm};
    struct pd_frame_head head;
    uint8_t meta[PD_HELLO_META_MAX];
    uint8_t no_proof = 0;
    int s = raw_connect(port);
    raw_hello(s, &hello);
    assert_true(raw_frame(s, &head, meta));
    assert_int_equal(head.type, PD_CHALLENGE);
    head = (struct pd_frame_head){.type = PD_PROOF, .meta = 1};
    raw_send_frame(s, &head, &no_proof);
    assert_true(raw_frame(s, &head, meta));
    assert_int_equal(head.type, PD_WELCOME);
    raw_sealed(s, 1);
    return s;
}

static void assert_refused(int s, const char *a, const char *b)
{
    struct pd_frame_head head;
    uint8_t meta[PD_HELLO_META_MAX];
    char text[1100];
    assert_true(raw_frame(s, &head, meta));
    assert_int_equal(head.type, PD_REFUSED);
    assert_ok(pd_refused_unpack(meta, head.meta, text, sizeof text));
    assert_holds(text, a);
    assert_holds(text, b);
    assert_closed(s);
}

/* A client that cannot fetch the shared memory goes on over TCP, unless the server was told not to. */
static void a_server_of_shared_memory_takes_no_tcp(void **state)
{
    (void)state;
    struct server any = {0}, shm = {0};
    struct pd_frame_head to_tcp = {.type = PD_SWITCH, .meta = 1}, echo = {.type = TYPE_ECHO}, head;
    uint8_t zero = 0;
    uint8_t meta[PD_HELLO_META_MAX];
    server_open(&any, "", 1);
    setenv("PADDLE_PS_TRANSPORT", "shm", 1);
    server_open(&shm, "", 2);
    int s = raw_open(any.port, 1);
    raw_send_frame(s, &to_tcp, &zero);
    raw_send_frame(s, &echo, NULL);
    assert_true(raw_frame(s, &head, meta));
    assert_int_equal(head.type, TYPE_DATA);
    close(s);
    s = raw_open(shm.port, 1);
    raw_send_frame(s, &to_tcp, &zero);
    raw_send_frame(s, &echo, NULL);
    assert_refused(s, "shared memory only", "another container");
    assert_int_equal(shm.accepted, 0);
    server_close(&any);
    server_close(&shm);
}

/* Past 64 connections over shared memory a server takes TCP, unless it was told not to. */
static void many_share_memory_where_they_must(void **state)
{
    (void)state;
    enum { MANY = 66 };
    static const char *const settings[] = {"auto", "shm"};
    for (int i = 0; i < 2; i++) {
        struct server server = {0};
        struct peer *peers = calloc(MANY, sizeof *peers);
        struct pd_loop *loop;
        int over_tcp = 0;
        setenv("PADDLE_PS_TRANSPORT", settings[i], 1);
        server_open(&server, "job", 1);
        unsetenv("PADDLE_PS_TRANSPORT");
        assert_ok(pd_loop_new(&loop));
        for (int k = 0; k < MANY; k++) {
            peer_connect_ring(&peers[k], loop, server.endpoint, "auto", 64 << 10);
            wait_until(loop, peers[k].closed || (peers[k].opened && server.accepted == k + 1));
            if (peers[k].closed) fail_msg("not connected: %s", peers[k].text);
            over_tcp += strcmp(pd_conn_transport(peers[k].conn), "tcp") == 0;
        }
        assert_int_equal(over_tcp, i == 0 ? MANY - 64 : 0);
        pd_loop_free(loop);
        server_close(&server);
        free(peers);
    }
}

/* A client that goes over to TCP takes itself for connected when the refusal comes. */
static void a_refusal_after_the_handshake_is_told(void **state)
{
    (void)state;
    struct pd_loop *loop;
    struct peer peer = {0};
    char endpoint[64];
    uint8_t meta[PD_HELLO_META_MAX];
    struct pd_buf challenge = {0}, welcome = {0}, refusal = {0};
    struct pd_frame_head head;
    int port, door = listening(&port);
    pd_challenge_pack(&(struct pd_challenge){0}, &challenge);
    pd_welcome_pack(&(struct pd_welcome_message){.shm_name = "paddle-nobody", .ring = 1 << 20}, &welcome);
    pd_proof_pack(&(struct pd_proof){0}, &welcome);
    pd_refused_pack("not like this", &refusal);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
    assert_ok(pd_loop_new(&loop));
    peer_connect(&peer, loop, endpoint, "auto");
    int s = accept(door, NULL, NULL);
    assert_true(s >= 0);
    raw_sealed(s, 0);
    raw_send_frame(s, &(struct pd_frame_head){.type = PD_CHALLENGE, .meta = (uint32_t)challenge.n},
                   challenge.at);
    raw_send_frame(s, &(struct pd_frame_head){.type = PD_WELCOME, .meta = (uint32_t)welcome.n}, welcome.at);
    wait_until(loop, peer.opened || peer.closed);
    assert_true(peer.opened);
    for (int type = PD_HELLO; type != PD_PROOF; type = head.type)
        assert_true(raw_frame(s, &head, meta));
    raw_sealed(s, 1);
    assert_true(raw_frame(s, &head, meta));
    assert_int_equal(head.type, PD_SWITCH);
    assert_int_equal(meta[0], 0);
    raw_send_frame(
        s, &(struct pd_frame_head){.type = PD_REFUSED, .meta = (uint32_t)refusal.n, .extra = PD_UNSUPPORTED},
        refusal.at);
    wait_until(loop, peer.closed);
    assert_int_equal(peer.why, PD_UNSUPPORTED);
    assert_holds(peer.text, "refused this process: not like this");
    assert_int_equal(peer.messages, 0);
    pd_buf_free(&challenge);
    pd_buf_free(&welcome);
    pd_buf_free(&refusal);
    raw_sealed(s, 0);
    close(s);
    close(door);
    pd_loop_free(loop);
}

static void another_version_is_told(void **state)
{
    (void)state;
    struct server server = {0};
    struct pd_hello_message hello = {.hello.version = 9};
    uint8_t bytes[PD_FRAME_HEAD + 100] = {0};
    server_open(&server, "", 1);
    int s = raw_connect(server.port);
    raw_hello(s, &hello); /* in the message */
    assert_refused(s, "version 9", "version 3");
    struct pd_frame_head head = {.type = PD_HELLO, .meta = 100};
    pd_frame_pack(&head, bytes);
    bytes[4] = 4; /* in the frame, where the rest may look different */
    s = raw_connect(server.port);
    raw_send(s, bytes, sizeof bytes);
    assert_refused(s, "version 4", "version 3");
    server_close(&server);
}

static void a_server_of_another_kind_is_told(void **state)
{
    (void)state;
    struct pd_loop *loop;
    char endpoint[64];
    uint8_t answers[3][PD_FRAME_HEAD + 8];
    static const char *const texts[3][2] = {
        {"version 5", "against 3"}, {"no message of ours", "48 54 54 50"}, {"type 4", "not expected"}};
    int port, door = listening(&port);
    struct pd_frame_head head = {.type = PD_CHALLENGE, .meta = 8}, welcome = {.type = PD_WELCOME, .meta = 8};
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
    memset(answers, 0, sizeof answers);
    pd_frame_pack(&head, answers[0]);
    answers[0][4] = 5;
    memcpy(answers[1], "HTTP/1.1 400 Bad Request\r\nServer: other\r\n\r\n        ", 48);
    welcome.step = pd_frame_sum(&welcome, answers[2] + PD_FRAME_HEAD);
    pd_frame_pack(&welcome, answers[2]);
    assert_ok(pd_loop_new(&loop));
    for (int i = 0; i < 3; i++) {
        struct peer peer = {0};
        peer_connect(&peer, loop, endpoint, "tcp");
        pd_loop_turn(loop, 100);
        int s = accept(door, NULL, NULL);
        assert_true(s >= 0);
        raw_send(s, answers[i], sizeof answers[i]);
        wait_until(loop, peer.closed);
        assert_holds(peer.text, texts[i][0]);
        assert_holds(peer.text, texts[i][1]);
        assert_holds(peer.text, endpoint);
        close(s);
    }
    /* One that takes the connection and says nothing. */
    struct peer *silent = try(endpoint, "", "tcp", 200);
    assert_int_equal(silent->why, PD_IO);
    assert_holds(silent->text, "did not finish the handshake");
    free(silent);
    pd_loop_free(loop);
    close(door);
}

static void slow_guests_are_sent_away(void **state)
{
    (void)state;
    struct server server = {0};
    struct pd_hello_message hello = {0};
    struct pd_frame_head head;
    uint8_t meta[PD_HELLO_META_MAX];
    pd_handshake_ms = 300;
    server_open(&server, "", 1);
    int silent = raw_connect(server.port), half = raw_connect(server.port), mute = raw_connect(server.port);
    raw_send(half, "CPDL", 4);
    raw_hello(mute, &hello);
    assert_true(raw_frame(mute, &head, meta));
    assert_int_equal(head.type, PD_CHALLENGE);
    assert_refused(silent, "did not finish", "handshake");
    assert_refused(half, "did not finish", "handshake");
    assert_refused(mute, "did not finish", "handshake");
    server_close(&server);
}

/* Whatever comes, a connection that works goes on working. */
static void garbage_disturbs_nobody(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer good = {0};
    struct pd_loop *loop;
    uint64_t random = 88172645463325252u;
    server_open(&server, "job", 1);
    assert_ok(pd_loop_new(&loop));
    peer_connect(&good, loop, server.endpoint, "tcp");
    wait_until(loop, good.opened);
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[300];
        struct pd_frame_head head = {.type = (uint16_t)(i % 8), .meta = (uint32_t)i};
        for (size_t k = 0; k < sizeof bytes; k++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            bytes[k] = (uint8_t)random;
        }
        if (i % 3) pd_frame_pack(&head, bytes);
        if (i % 3 == 2) bytes[random % PD_FRAME_HEAD] ^= (uint8_t)(1 + random % 255);
        int s = raw_connect(server.port);
        raw_send(s, bytes, i % 5 ? sizeof bytes : (size_t)(random % sizeof bytes));
        close(s);
        struct pd_frame_head ping = {.type = TYPE_ECHO, .request = (uint64_t)i};
        assert_ok(pd_conn_send(good.conn, &ping, NULL, 0, NULL, 0, NULL, NULL));
        wait_until(loop, good.messages == i + 1);
    }
    assert_int_equal(good.closed + good.bad + server.peer.bad, 0);
    pd_loop_free(loop);
    server_close(&server);
}

static void promises_take_no_memory(void **state)
{
    (void)state;
    struct server server = {0};
    int open[32];
    server_open(&server, "", 1);
    int s = raw_open(server.port, 0);
    close(s);
    long before = resident_kb();
    for (int i = 0; i < 32; i++) {
        struct pd_frame_head head = {.type = TYPE_DATA};
        uint8_t bytes[PD_FRAME_HEAD];
        if (i % 2)
            head.payload = UINT64_C(200) << 20;
        else
            head.meta = PD_FRAME_META_MAX;
        open[i] = raw_open(server.port, 0);
        pd_frame_pack(&head, bytes);
        raw_send_record(open[i], bytes, sizeof bytes);
        raw_send_record(open[i], "some", 4);
    }
    assert_works(server.endpoint, "", NULL);        /* so all of it was read */
    assert_true(resident_kb() - before < 24 << 10); /* 16 x 1 MiB is promised, and not even touched */
    for (int i = 0; i < 32; i++)
        close(open[i]);
    /* More than anybody may promise: closed at once. */
    struct pd_frame_head bad[] = {{.type = TYPE_DATA, .payload = UINT64_C(1) << 62},
                                  {.type = TYPE_DATA, .meta = PD_FRAME_META_MAX + 1},
                                  {.type = TYPE_DATA, .payload = UINT64_MAX},
                                  {.type = PD_HELLO}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t bytes[PD_FRAME_HEAD];
        s = raw_open(server.port, 0);
        pd_frame_pack(&bad[i], bytes);
        raw_send_record(s, bytes, sizeof bytes);
        assert_closed(s);
    }
    server_close(&server);
}

/* More silent connections than a server keeps: one that talks still gets in. */
static void a_crowd_at_the_door_lets_others_in(void **state)
{
    (void)state;
    enum { CROWD = 1100 };
    struct rlimit limit, old;
    getrlimit(RLIMIT_NOFILE, &old);
    limit = old;
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 2 * CROWD + 200) {
        setrlimit(RLIMIT_NOFILE, &old);
        skip();
    }
    struct server server = {0};
    static int crowd[CROWD];
    server_open(&server, "", 1);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = raw_connect(server.port);
    assert_works(server.endpoint, "", NULL);
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    server_close(&server);
    setrlimit(RLIMIT_NOFILE, &old);
}

static void unreachable_servers_are_explained(void **state)
{
    (void)state;
    char endpoint[64];
    int port, door = listening(&port);
    close(door);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
    assert_fails(endpoint, "", NULL, PD_IO, "refused: is the server running?", endpoint);
    assert_fails("1", "", NULL, PD_IO, "connection to 1 refused", "running");
    assert_fails("no-such-host.invalid:6174", "", NULL, PD_NOT_FOUND, "no-such-host.invalid", "not known");
}

static int has_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int s = socket(AF_INET6, SOCK_STREAM, 0);
    int works = s >= 0 && bind(s, (struct sockaddr *)&address, sizeof address) == 0;
    if (s >= 0) close(s);
    return works;
}

static void listens_on(const char *where, const char *const *from)
{
    struct server server = {0};
    struct pd_loop *loop;
    assert_ok(pd_loop_new(&loop));
    server.loop = loop;
    assert_ok(pd_listener_open(loop, where, "", &server_events, &server, &server.port, &server.listener));
    assert_ok(pd_loop_start(loop, "server"));
    for (; *from; from++) {
        char endpoint[128];
        snprintf(endpoint, sizeof endpoint, "%s:%d", *from, server.port);
        assert_works(endpoint, "", NULL);
    }
    server_close(&server);
}

static void names_and_both_kinds_of_addresses_work(void **state)
{
    (void)state;
    static const char *const four[] = {"127.0.0.1", "", NULL}, *const six[] = {"[::1]", NULL},
                             *const both[] = {"127.0.0.1", "localhost", "[::1]", NULL};
    listens_on("127.0.0.1:0", four);
    listens_on("0", four);
    listens_on("localhost:0", four);
    if (!has_ipv6()) return;
    listens_on("[::1]:0", six);
    listens_on(":0", both);
}

static void listeners_close_and_connections_stay(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer client = {0};
    server_open(&server, "job", 0);
    peer_connect(&client, server.loop, server.endpoint, "shm");
    wait_until(server.loop, client.opened && server.accepted);
    int guest = raw_connect(server.port);
    pd_loop_turn(server.loop, 50);
    pd_listener_close(server.listener);
    struct pd_frame_head ping = {.type = TYPE_ECHO};
    assert_ok(pd_conn_send(client.conn, &ping, NULL, 0, NULL, 0, NULL, NULL));
    wait_until(server.loop, client.messages == 1);
    assert_closed(guest);
    assert_fails(server.endpoint, "", NULL, PD_IO, "refused", "running");
    server_close(&server);
}

/* In a network of its own with one port only, a client that connects to that port gets it itself. */
static int connects_to_itself(void)
{
    struct ifreq request = {0};
    struct peer peer = {0};
    struct pd_loop *loop;
    int file = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    if (file < 0 || write(file, "40000 40000", 11) != 11 || ioctl(s, SIOCSIFFLAGS, &request) < 0) return 77;
    /* A plain socket does find itself here. */
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(40000), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger at_once = {1, 0};
    int plain = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(plain, (struct sockaddr *)&address, sizeof address) < 0) return 5;
    setsockopt(plain, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(plain);
    struct pd_hello hello = {.role = PD_ROLE_TOOL};
    if (pd_loop_new(&loop) != PD_OK) return 1;
    if (pd_conn_open(loop, "127.0.0.1:40000", &hello, NULL, &peer_events, &peer, &peer.conn) != PD_OK)
        return 2;
    for (int i = 0; i < 100 && !peer.closed; i++)
        pd_loop_turn(loop, 100);
    if (!peer.closed || peer.opened) return 3;
    if (peer.why != PD_IO || !strstr(peer.text, "refused: is the server running?")) return 4;
    pd_loop_free(loop);
    return 0;
}

static void a_socket_that_found_itself_is_refused(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ? 77
                                                                                     : connects_to_itself());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_socket_that_found_itself_is_refused, forget_settings),
        cmocka_unit_test_setup(jobs_must_fit, forget_settings),
        cmocka_unit_test_setup(a_greeting_can_refuse, forget_settings),
        cmocka_unit_test_setup(secrets_must_fit, forget_settings),
        cmocka_unit_test_setup(a_secret_can_come_from_a_file, forget_settings),
        cmocka_unit_test_setup(transports_can_be_forced, forget_settings),
        cmocka_unit_test_setup(a_server_of_shared_memory_takes_no_tcp, forget_settings),
        cmocka_unit_test_setup(many_share_memory_where_they_must, forget_settings),
        cmocka_unit_test_setup(a_refusal_after_the_handshake_is_told, forget_settings),
        cmocka_unit_test_setup(another_version_is_told, forget_settings),
        cmocka_unit_test_setup(a_server_of_another_kind_is_told, forget_settings),
        cmocka_unit_test_setup(slow_guests_are_sent_away, forget_settings),
        cmocka_unit_test_setup(garbage_disturbs_nobody, forget_settings),
        cmocka_unit_test_setup(promises_take_no_memory, forget_settings),
        cmocka_unit_test_setup(a_crowd_at_the_door_lets_others_in, forget_settings),
        cmocka_unit_test_setup(unreachable_servers_are_explained, forget_settings),
        cmocka_unit_test_setup(names_and_both_kinds_of_addresses_work, forget_settings),
        cmocka_unit_test_setup(listeners_close_and_connections_stay, forget_settings),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int s = 0; s < (int)(sizeof seals / sizeof *seals); s++)
        raw_sealed(s, 0);
    return failed;
}
