/* What comes in pieces: this program's own readv gives a few bytes at a time, and now and then none. Messages
 * of all sizes around those of records and of the loop's memory come whole, with a secret and without. */
#include "net_peer.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static atomic_int piece; /* 0: as much as there is */
static __thread int calls;

ssize_t readv(int fd, const struct iovec *parts, int n)
{
    struct iovec some[64];
    size_t left = (size_t)piece;
    int count = 0;
    if (!piece) return syscall(SYS_readv, fd, parts, n);
    if (calls++ % 2) {
        errno = EAGAIN;
        return -1;
    }
    for (; count < n && count < 64 && left; count++) {
        some[count] = parts[count];
        if (some[count].iov_len > left) some[count].iov_len = left;
        left -= some[count].iov_len;
    }
    return syscall(SYS_readv, fd, some, count);
}

static void use(const char *secret)
{
    setenv("PADDLE_PS_TRANSPORT", "tcp", 1);
    if (secret)
        setenv("PADDLE_PS_SECRET", secret, 1);
    else
        unsetenv("PADDLE_PS_SECRET");
    piece = 0;
}

static void all_sizes_come_whole(const char *how)
{
    static const size_t sizes[] = {300000, 0,      1,      5000,   32768,  32769,  33000,  65536,
                                   131071, 131072, 131073, 150000, 163840, 163841, 300000, 330000};
    static const int pieces[] = {20000, 8000, 1500, 20100, 19000, 9001};
    for (int p = 0; p < 6; p++) {
        struct server server = {0};
        struct peer client = {0};
        struct pd_loop *loop;
        server_open(&server, "job", 1);
        assert_ok(pd_loop_new(&loop));
        peer_connect(&client, loop, server.endpoint, "tcp");
        wait_until(loop, client.opened || client.closed);
        if (client.closed) fail_msg("%s: not connected: %s", how, client.text);
        assert_string_equal(pd_conn_transport(client.conn), "tcp");
        piece = pieces[p];
        for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
            uint8_t *bytes = make_bytes((uint64_t)i, sizes[i]);
            struct pd_frame_head head = {.type = TYPE_ECHO, .request = (uint64_t)i};
            struct pd_span span = {bytes, sizes[i]};
            assert_ok(pd_conn_send(client.conn, &head, NULL, 0, &span, 1, count_sent, &client));
            wait_until(loop, client.messages == i + 1 || client.closed);
            free(bytes);
            if (client.closed)
                fail_msg("%s, pieces of %d, a payload of %zu: %s", how, pieces[p], sizes[i], client.text);
        }
        piece = 0;
        pd_loop_free(loop);
        server_close(&server);
        assert_int_equal(client.bad + server.peer.bad, 0);
    }
}

static void plain(void **state)
{
    (void)state;
    use(NULL);
    all_sizes_come_whole("plain");
}

static void sealed(void **state)
{
    (void)state;
    use("of these tests and of nobody else");
    all_sizes_come_whole("sealed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain), cmocka_unit_test(sealed)};
    unsetenv("PADDLE_PS_SECRET_FILE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
