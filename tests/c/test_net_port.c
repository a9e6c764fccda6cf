/* A server's port that something else has: what it is, and what to do, stand in the error. */
#include "net_peer.h"

static void a_taken_port_names_its_holder(void **state)
{
    (void)state;
    struct server server = {0};
    struct pd_loop *loop;
    struct pd_listener *listener;
    int port;
    char pid[32];
    server_open(&server, "", 1);
    assert_ok(pd_loop_new(&loop));
    assert_int_equal(pd_listener_open(loop, server.endpoint, "", &server_events, &server, &port, &listener),
                     PD_EXISTS);
    snprintf(pid, sizeof pid, "process %d", (int)getpid());
    assert_holds(pd_error(), "is taken");
    assert_holds(pd_error(), pid);
    assert_holds(pd_error(), "test_net_port");
    assert_int_equal(pd_listener_open(loop, "192.0.2.1:0", "", &server_events, &server, &port, &listener),
                     PD_IO);
    assert_holds(pd_error(), "does not have that address");
    /* A closed listener leaves its connections alone, and its port free. */
    pd_loop_free(loop);
    server_close(&server);
}

static int port_at(int s, int (*which)(int, struct sockaddr *, socklen_t *))
{
    struct sockaddr_in address;
    socklen_t n = sizeof address;
    assert_int_equal(which(s, (struct sockaddr *)&address, &n), 0);
    return ntohs(address.sin_port);
}

static pd_status listen_at(struct pd_loop *loop, int port)
{
    struct pd_listener *listener;
    struct server server = {0};
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", port);
    return pd_listener_open(loop, endpoint, "", &server_events, &server, &port, &listener);
}

/* The system gives a socket that connects a port, which may be the one that a server wants. */
static void the_port_of_a_connection_is_free_or_explained(void **state)
{
    (void)state;
    struct pd_loop *loop;
    static struct peer peers[300];
    char pid[64], endpoint[64];
    int at, door = listening(&at), accepted, is_free = 0;
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", at);
    assert_ok(pd_loop_new(&loop));
    /* Another process may have the same port, or have had it a moment ago: on a machine with many tests most
     * ports have such traces of theirs. */
    for (int i = 0; i < 300 && !is_free; i++) {
        peer_connect(&peers[i], loop, endpoint, "tcp");
        pd_loop_turn(loop, 10);
        accepted = accept(door, NULL, NULL);
        is_free = listen_at(loop, port_at(accepted, getpeername)) == PD_OK;
        close(accepted);
    }
    assert_true(is_free);

    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, to = from;
    int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)at);
    assert_int_equal(bind(plain, (struct sockaddr *)&from, sizeof from), 0); /* a port of its own */
    assert_int_equal(connect(plain, (struct sockaddr *)&to, sizeof to), 0);
    int port = port_at(plain, getsockname);
    accepted = accept(door, NULL, NULL);
    assert_int_equal(listen_at(loop, port), PD_EXISTS);
    snprintf(pid, sizeof pid, "is taken by an open connection of process %d, ", (int)getpid());
    assert_holds(pd_error(), pid);
    assert_holds(pd_error(), "Stop that process, or use a port below ");
    close(plain); /* first: the port stays with this end */
    assert_int_equal(read(accepted, pid, 1), 0);
    close(accepted);
    assert_int_equal(listen_at(loop, port), PD_EXISTS);
    assert_holds(pd_error(), "is taken by a connection that has ended (TIME_WAIT): ports from ");
    assert_holds(pd_error(), " are for outgoing connections. Wait a minute, or use a port below ");
    close(door);
    pd_loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_port_names_its_holder),
        cmocka_unit_test(the_port_of_a_connection_is_free_or_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
