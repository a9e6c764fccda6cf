/* One message of more than 4 GiB over every transport: lengths of 64 bits all the way. */
#include "net_peer.h"

#include <sys/mman.h>

/* More bytes than 32 bits count, without the memory for them: a few pages mapped again and again. Their
 * number does not divide 4 GiB, so that bytes which are lost or doubled show. */
enum { BLOCK = 700 * 12288 };
static const size_t huge = (UINT64_C(1) << 32) + BLOCK + 5;

static uint8_t *mirror_new(void)
{
    int memory = memfd_create("mirror", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, BLOCK), 0);
    uint8_t *bytes = mmap(NULL, huge + BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(bytes != MAP_FAILED);
    for (size_t at = 0; at < huge; at += BLOCK)
        assert_ptr_equal(mmap(bytes + at, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0),
                         bytes + at);
    close(memory);
    return bytes;
}

enum { SAMPLES = 2000, SAMPLE = 1000 };

/* A message that the server sends and the client takes: in one span, or in many, every other one of them a
 * sample. The two ends do not cut in the same places. */
struct huge_job {
    struct server *server;
    uint8_t *from, *to, *samples;
    struct pd_span spans[2 * SAMPLES + 1];
    int n_spans, takes_many;
    atomic_int done;
};

static void cut(struct huge_job *job, uint8_t *bytes, uint8_t *samples)
{
    size_t at = 0, step = huge / (SAMPLES + 1);
    job->n_spans = 0;
    for (size_t i = 0; i < SAMPLES; i++, at += step) {
        job->spans[job->n_spans++] = (struct pd_span){bytes + at, step - SAMPLE};
        job->spans[job->n_spans++] =
            (struct pd_span){samples ? samples + i * SAMPLE : bytes + at + step - SAMPLE, SAMPLE};
    }
    job->spans[job->n_spans++] = (struct pd_span){bytes + at, huge - at};
}

static void send_huge(void *arg)
{
    struct huge_job *job = arg;
    struct pd_frame_head head = {.type = TYPE_DATA, .request = 77};
    struct pd_span one = {job->from, huge};
    if (!job->takes_many) cut(job, job->from, NULL);
    assert_ok(pd_conn_send(job->server->peer.conn, &head, NULL, 0, job->takes_many ? &one : job->spans,
                           job->takes_many ? 1 : job->n_spans, count_sent, &job->server->peer));
    /* However fast the client reads: other connections have their turn in between. */
    assert_true(pd_conn_queued(job->server->peer.conn) > huge - (32 << 20));
}

static pd_status huge_head(struct pd_conn *conn, struct pd_message *message)
{
    static struct pd_span one;
    struct huge_job *job = pd_conn_user(conn);
    one = (struct pd_span){job->to, huge};
    if (job->takes_many) cut(job, job->to, job->samples);
    message->spans = job->takes_many ? job->spans : &one;
    message->n_spans = job->takes_many ? job->n_spans : 1;
    return message->head.payload == huge ? PD_OK : pd_fail(PD_INTERNAL, "another size");
}

static pd_status huge_done(struct pd_conn *conn, const struct pd_message *message)
{
    struct huge_job *job = pd_conn_user(conn);
    size_t step = huge / (SAMPLES + 1), last = huge - BLOCK;
    int is_right = message->head.request == 77 && message->head.payload == huge;
    for (size_t i = 0; job->takes_many && i < SAMPLES && is_right; i++)
        is_right = memcmp(job->samples + i * SAMPLE, job->from + (i + 1) * step - SAMPLE, SAMPLE) == 0;
    /* What was written last is there still: with samples taken out of it only behind the last of them. */
    if (job->takes_many) last = SAMPLES * step;
    is_right = is_right && memcmp(job->to + last, job->from + last, huge - last) == 0;
    atomic_store(&job->done, is_right ? 1 : -1);
    return PD_OK;
}

static void huge_closed(struct pd_conn *conn, pd_status why, const char *text)
{
    struct huge_job *job = pd_conn_user(conn);
    if (why != PD_OK) fprintf(stderr, "%s\n", text);
    if (!job->done) job->done = -1;
}

static const struct pd_conn_events huge_events = {NULL, huge_head, huge_done, huge_closed};

static void messages_past_4_gib_come_through(void **state)
{
    const char *transport = *(const char **)*state;
    if (!getenv("PADDLE_SOAK")) skip(); /* takes seconds */
    struct server server = {0};
    struct peer client = {0};
    struct pd_loop *loop;
    struct huge_job *job = calloc(1, sizeof *job);
    *job = (struct huge_job){.server = &server, .from = mirror_new(), .to = mirror_new()};
    job->samples = malloc((size_t)SAMPLES * SAMPLE);
    for (size_t i = 0; i < BLOCK; i++)
        job->from[i] = byte_at(i / 4096, i);
    server_open(&server, "job", 1);
    assert_ok(pd_loop_new(&loop));
    peer_connect(&client, loop, server.endpoint, transport);
    wait_until(loop, (client.opened && server.accepted) || client.closed);
    assert_string_equal(pd_conn_transport(client.conn), transport);
    pd_conn_set_user(client.conn, &huge_events, job);
    for (int i = 0; i < 2; i++) {
        int64_t begin = pd_clock_ns();
        job->done = 0;
        job->takes_many = i;
        memset(job->to, 0, BLOCK);
        assert_ok(pd_loop_post(server.loop, send_huge, job));
        wait_until(loop, job->done);
        assert_int_equal(job->done, 1);
        wait_until(loop, server.peer.sent == i + 1);
        assert_true(pd_conn_bytes(client.conn, 0) > (size_t)(i + 1) * huge);
        print_message("%s: %zu bytes in %.2f s\n", transport, huge, (double)(pd_clock_ns() - begin) / 1e9);
    }
    pd_loop_free(loop);
    server_close(&server);
    munmap(job->from, huge + BLOCK);
    munmap(job->to, huge + BLOCK);
    free(job->samples);
    free(job);
}

int main(void)
{
    static const char *tcp = "tcp", *shm = "shm";
    unsetenv("PADDLE_PS_SECRET");
    unsetenv("PADDLE_PS_SECRET_FILE");
    unsetenv("PADDLE_PS_TRANSPORT");
    unsetenv("PADDLE_PS_RING");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(messages_past_4_gib_come_through, &tcp),
        cmocka_unit_test_prestate(messages_past_4_gib_come_through, &shm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
