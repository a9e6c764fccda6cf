/* Names that take long to look up: nobody is held up, and who gives up is told the name. This program's own
 * getaddrinfo knows names that end with ".test" and answers for "slow.test" when it is let. */
#include "net_peer.h"

#include <dlfcn.h>
#include <netdb.h>
#include <sys/wait.h>

typedef int lookup_fn(const char *host, const char *port, const struct addrinfo *hints,
                      struct addrinfo **out);

static atomic_int slow_asked, slow_answered, slow_may_answer;

static void wait_for(atomic_int *value, int wanted)
{
    int64_t end = pd_clock_ns() + PATIENCE_S * INT64_C(1000000000);
    while (atomic_load(value) < wanted) {
        if (pd_clock_ns() > end) fail_msg("still waiting");
        usleep(1000);
    }
}

int getaddrinfo(const char *restrict host, const char *restrict port, const struct addrinfo *restrict hints,
                struct addrinfo **restrict out)
{
    static lookup_fn *real;
    if (!real) real = (lookup_fn *)dlsym(RTLD_NEXT, "getaddrinfo");
    size_t n = strlen(host);
    if (n < 5 || strcmp(host + n - 5, ".test") != 0 || (hints->ai_flags & AI_NUMERICHOST))
        return real(host, port, hints, out);
    if (strcmp(host, "both.test") == 0) {
        int rc = real("::1", port, hints, out);
        return rc ? rc : real("127.0.0.1", port, hints, &(*out)->ai_next);
    }
    if (strcmp(host, "slow.test") != 0) return EAI_NONAME;
    slow_asked++;
    wait_for(&slow_may_answer, 1);
    int rc = real("127.0.0.1", port, hints, out);
    slow_answered++;
    return rc;
}

static int forget(void **state)
{
    (void)state;
    slow_asked = slow_answered = slow_may_answer = 0;
    return 0;
}

static void open_name(struct peer *peer, struct pd_loop *loop, const char *name, int port, int connect_ms)
{
    struct pd_hello hello = {.role = PD_ROLE_TRAINER, .id = 3};
    struct pd_conn_options options = {.transport = "tcp", .connect_ms = connect_ms};
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "%s:%d", name, port);
    assert_ok(pd_conn_open(loop, endpoint, &hello, &options, &peer_events, peer, &peer->conn));
}

static void a_loop_goes_on_while_a_name_is_looked_up(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer slow = {0}, quick = {0};
    struct pd_loop *loop;
    server_open(&server, "", 1);
    assert_ok(pd_loop_new(&loop));
    open_name(&slow, loop, "slow.test", server.port, 0);
    open_name(&quick, loop, "127.0.0.1", server.port, 0);
    wait_until(loop, quick.opened || quick.closed);
    assert_true(quick.opened);
    assert_false(slow.opened || slow.closed);
    slow_may_answer = 1;
    wait_until(loop, slow.opened || slow.closed);
    if (!slow.opened) fail_msg("not connected: %s", slow.text);
    pd_loop_free(loop);
    server_close(&server);
}

static void giving_up_names_the_host_and_the_next_try_gets_the_answer(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer first = {0}, second = {0};
    struct pd_loop *loop;
    server_open(&server, "", 1);
    assert_ok(pd_loop_new(&loop));
    open_name(&first, loop, "slow.test", server.port, 50);
    wait_until(loop, first.closed);
    assert_int_equal(first.why, PD_NOT_FOUND);
    assert_non_null(strstr(first.text, "slow.test:"));
    assert_non_null(strstr(first.text, "was not found within 1 s"));
    open_name(&second, loop, "slow.test", server.port, 0);
    wait_for(&slow_asked, 1);
    slow_may_answer = 1;
    wait_until(loop, second.opened || second.closed);
    if (!second.opened) fail_msg("not connected: %s", second.text);
    assert_int_equal(slow_asked, 1);
    pd_loop_free(loop);
    server_close(&server);
}

/* The time to connect starts after the lookup: both together take more than either may. Each has seconds to
 * spare, for machines that stand still for a while. */
static void a_late_answer_leaves_time_to_connect(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer peer = {0};
    struct pd_loop *loop;
    server_open(&server, "", 0);
    assert_ok(pd_loop_new(&loop));
    open_name(&peer, loop, "slow.test", server.port, 6000);
    int64_t begin = pd_clock_ns();
    while (pd_clock_ns() - begin < INT64_C(3000000000))
        pd_loop_turn(loop, 20);
    slow_may_answer = 1;
    while (pd_clock_ns() - begin < INT64_C(6200000000)) /* the server does not answer before */
        pd_loop_turn(loop, 20);
    assert_ok(pd_loop_start(server.loop, "server"));
    wait_until(loop, peer.opened || peer.closed);
    if (!peer.opened) fail_msg("not connected: %s", peer.text);
    pd_loop_free(loop);
    server_close(&server);
}

static void the_end_does_not_wait_for_the_answer(void **state)
{
    (void)state;
    struct peer closed = {0}, freed = {0};
    struct pd_loop *loop;
    assert_ok(pd_loop_new(&loop));
    open_name(&closed, loop, "slow.test", 1, 0);
    open_name(&freed, loop, "slow.test", 1, 0);
    wait_for(&slow_asked, 1);
    pd_conn_close(closed.conn, 0);
    wait_until(loop, closed.closed);
    assert_int_equal(closed.why, PD_OK);
    pd_loop_free(loop);
    assert_true(freed.closed);
    assert_int_equal(freed.why, PD_OK);
    assert_int_equal(slow_answered, 0);
    /* An answer that is on its way to a loop that goes. */
    for (int i = 0; i < 50; i++) {
        struct peer late = {0};
        assert_ok(pd_loop_new(&loop));
        open_name(&late, loop, "slow.test", 1, 0);
        slow_may_answer = 1;
        if (i % 2) wait_for(&slow_answered, 1);
        pd_loop_free(loop);
        assert_true(late.closed);
    }
    wait_for(&slow_answered, 1);
}

static void every_address_of_a_name_is_tried(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer both = {0}, none = {0};
    struct pd_loop *loop;
    server_open(&server, "", 1); /* IPv4 only */
    assert_ok(pd_loop_new(&loop));
    open_name(&both, loop, "both.test", server.port, 0);
    open_name(&none, loop, "none.test", server.port, 0);
    wait_until(loop, none.closed && (both.opened || both.closed));
    if (!both.opened) fail_msg("not connected: %s", both.text);
    assert_int_equal(none.why, PD_NOT_FOUND);
    assert_non_null(strstr(none.text, "the name 'none.test' is not known"));
    pd_loop_free(loop);
    server_close(&server);
}

/* A forked process has no thread that looks the name up, so it asks itself. */
static int looks_up_too(int port)
{
    struct peer peer = {0};
    struct pd_loop *loop;
    slow_may_answer = 1;
    if (pd_loop_new(&loop) != PD_OK) return 1;
    open_name(&peer, loop, "slow.test", port, 0);
    for (int i = 0; i < 500 && !peer.opened && !peer.closed; i++)
        pd_loop_turn(loop, 20);
    return peer.opened ? 0 : 2;
}

static void a_forked_process_asks_itself(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it does not let a forked process start threads */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    skip();
#endif
#endif
    struct server server = {0};
    struct peer peer = {0};
    struct pd_loop *loop;
    int status;
    server_open(&server, "", 1);
    assert_ok(pd_loop_new(&loop));
    open_name(&peer, loop, "slow.test", server.port, 0);
    wait_for(&slow_asked, 1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(looks_up_too(server.port));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    slow_may_answer = 1;
    wait_until(loop, peer.opened);
    pd_loop_free(loop);
    server_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_loop_goes_on_while_a_name_is_looked_up, forget),
        cmocka_unit_test_setup(giving_up_names_the_host_and_the_next_try_gets_the_answer, forget),
        cmocka_unit_test_setup(a_late_answer_leaves_time_to_connect, forget),
        cmocka_unit_test_setup(every_address_of_a_name_is_tried, forget),
        cmocka_unit_test_setup(a_forked_process_asks_itself, forget),
        /* The last: its lookups go on. */
        cmocka_unit_test_setup(the_end_does_not_wait_for_the_answer, forget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
