/* Shared memory on a system that has no more memory to give: nobody is killed by touching it. This program's
 * own fallocate stands for such a system. */
#include "net_peer.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "base/log.h"
#include "net/shm_ring.h"

static atomic_llong memory_left; /* bytes */

int fallocate(int fd, int mode, off_t from, off_t n)
{
    struct stat before, after;
    assert_int_equal(mode, 0);
    assert_int_equal(fstat(fd, &before), 0);
    if (atomic_fetch_sub(&memory_left, n) < n) {
        atomic_fetch_add(&memory_left, n);
        errno = ENOSPC;
        return -1;
    }
    /* As the real one does it, one page after the other. */
    for (off_t at = from; at < from + n; at += 4096)
        assert_int_equal(pwrite(fd, "", 1, at), 1);
    assert_int_equal(fstat(fd, &after), 0);
    assert_true(after.st_size == before.st_size);
    return 0;
}

static int set_memory(void **state)
{
    (void)state;
    unsetenv("PADDLE_PS_TRANSPORT");
    memory_left = (long long)1 << 40;
    return 0;
}

/* Bytes that the one ring memory of this process has taken from the system. */
static long long taken(void)
{
    long long sum = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], target[256];
        struct stat stat_of;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        if (!strstr(target, "memfd:paddle-ring") || fstat(atoi(entry->d_name), &stat_of) != 0) continue;
        if (stat_of.st_blocks * 512LL > sum) sum = stat_of.st_blocks * 512LL;
    }
    closedir(folder);
    return sum;
}

static void send_many(struct peer *client, struct pd_loop *loop, int n)
{
    static const size_t sizes[] = {0, 1, 5000, 16384, 40000, 300000, 100, 1 << 20, 70000};
    for (int i = 0; i < n; i++) {
        size_t size = sizes[i % 9];
        uint8_t *bytes = make_bytes((uint64_t)i, size);
        struct pd_frame_head head = {.type = TYPE_ECHO, .request = (uint64_t)i};
        struct pd_span span = {bytes, size};
        int before = client->sent;
        assert_ok(pd_conn_send(client->conn, &head, NULL, 0, &span, 1, count_sent, client));
        wait_until(loop, client->sent > before);
        free(bytes);
    }
    wait_until(loop, client->messages == n);
}

static void connect_shm(struct server *server, struct peer *client, struct pd_loop **loop)
{
    server_open(server, "job", 1);
    assert_ok(pd_loop_new(loop));
    peer_connect(client, *loop, server->endpoint, "shm");
    wait_until(*loop, client->opened || client->closed);
    if (client->closed) fail_msg("not connected: %s", client->text);
}

/* The memory of a ring is asked for as it is used. */
static void idle_rings_take_little(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer client = {0};
    struct pd_loop *loop;
    connect_shm(&server, &client, &loop);
    assert_in_range(taken(), 1, 64 << 10);
    send_many(&client, loop, 27);
    assert_int_equal(taken(), 4096 + 2 * (256 << 10));
    pd_loop_free(loop);
    server_close(&server);
    assert_int_equal(client.bad + server.peer.bad, 0);
}

static void a_ring_without_more_memory_goes_on_as_a_smaller_one(void **state)
{
    (void)state;
    static const long long more[] = {0, 16 << 10, 100 << 10};
    for (int i = 0; i < 3; i++) {
        struct server server = {0};
        struct peer client = {0};
        struct pd_loop *loop;
        set_memory(NULL);
        connect_shm(&server, &client, &loop);
        memory_left = more[i];
        send_many(&client, loop, 45);
        assert_in_range(taken(), 1, 4096 + 2 * PD_RING_FIRST + more[i]);
        assert_string_equal(pd_conn_transport(client.conn), "shm");
        pd_loop_free(loop);
        server_close(&server);
        assert_int_equal(client.bad + server.peer.bad, 0);
    }
}

static atomic_int warnings;

static void count_warnings(void *arg, enum pd_log_level level, const char *text)
{
    (void)arg;
    if (level == PD_LOG_WARNING && strstr(text, "goes on over TCP") && strstr(text, "no memory left"))
        warnings++;
}

static void without_any_memory_tcp_is_used(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer clients[3] = {{0}};
    struct pd_loop *loop;
    memory_left = PD_RING_FIRST;
    pd_log_set(count_warnings, NULL);
    server_open(&server, "job", 1);
    assert_ok(pd_loop_new(&loop));
    for (int i = 0; i < 3; i++) {
        peer_connect(&clients[i], loop, server.endpoint, "auto");
        wait_until(loop, clients[i].opened || clients[i].closed);
        if (clients[i].closed) fail_msg("not connected: %s", clients[i].text);
        assert_string_equal(pd_conn_transport(clients[i].conn), "tcp");
    }
    pd_loop_free(loop);
    server_close(&server);
    pd_log_set(NULL, NULL);
    assert_int_equal(warnings, 1);
}

static void a_server_of_shared_memory_only_says_that_it_has_none(void **state)
{
    (void)state;
    struct server server = {0};
    struct peer client = {0};
    struct pd_loop *loop;
    memory_left = 0;
    setenv("PADDLE_PS_TRANSPORT", "shm", 1);
    server_open(&server, "job", 1);
    assert_ok(pd_loop_new(&loop));
    peer_connect(&client, loop, server.endpoint, NULL);
    wait_until(loop, client.opened || client.closed);
    assert_true(client.closed);
    assert_int_equal(client.why, PD_NO_MEMORY);
    if (!strstr(client.text,
                "refused this process: the server was told to use shared memory only, and cannot "
                "make any: the system has no memory left"))
        fail_msg("%s", client.text);
    pd_loop_free(loop);
    server_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(idle_rings_take_little, set_memory),
        cmocka_unit_test_setup(a_ring_without_more_memory_goes_on_as_a_smaller_one, set_memory),
        cmocka_unit_test_setup(without_any_memory_tcp_is_used, set_memory),
        cmocka_unit_test_setup(a_server_of_shared_memory_only_says_that_it_has_none, set_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
