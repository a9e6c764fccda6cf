/* The door for those who watch: answers at once and later, from any thread; a close with people inside. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "net/http.h"
#include "net_peer.h"

enum { SAID = 4096, WAITERS = 16, ROUNDS = 50 };

/* ---- a site: /now is answered at once, /later by another thread, /never by nobody ---- */

struct site {
    struct pd_http *http;
    pthread_t thread;
    pthread_mutex_t lock;
    uint64_t tickets[1024];
    int n;
    _Atomic int ends, waits, asked;
};

static void fill(struct pd_http_answer *out, const char *path)
{
    *out = (struct pd_http_answer){.status = 200, .type = "text/plain"};
    pd_buf_printf(&out->body, "this is %s", path);
}

static int get(void *arg, const char *path, uint64_t ticket, struct pd_http_answer *out)
{
    struct site *s = arg;
    atomic_fetch_add(&s->asked, 1);
    if (strcmp(path, "/never") == 0) {
        atomic_fetch_add(&s->waits, 1);
        return 0;
    }
    if (strcmp(path, "/later") != 0) {
        fill(out, path);
        return 1;
    }
    pthread_mutex_lock(&s->lock);
    s->tickets[s->n++] = ticket;
    pthread_mutex_unlock(&s->lock);
    return 0;
}

static void *answer_later(void *arg)
{
    struct site *s = arg;
    while (!atomic_load(&s->ends)) {
        pthread_mutex_lock(&s->lock);
        uint64_t ticket = s->n ? s->tickets[--s->n] : 0;
        pthread_mutex_unlock(&s->lock);
        if (ticket) {
            struct pd_http_answer answer, again;
            fill(&answer, "/later");
            pd_http_reply(s->http, ticket, &answer);
            fill(&again, "/twice"); /* nobody waits for it any more */
            pd_http_reply(s->http, ticket, &again);
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        }
    }
    return NULL;
}

static void open_site(struct site *s)
{
    struct pd_http_site site = {.get = get, .arg = s};
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->lock, NULL);
    assert_ok(pd_http_open("0", "it", &site, &s->http));
    assert_int_equal(pthread_create(&s->thread, NULL, answer_later, s), 0);
}

static void close_site(struct site *s)
{
    pd_http_close(s->http);
    atomic_store(&s->ends, 1);
    pthread_join(s->thread, NULL);
    pd_http_free(s->http);
    pthread_mutex_destroy(&s->lock);
}

/* ---- visitors ---- */

static int visit(const struct site *s, const char *request)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *port = strrchr(pd_http_url(s->http), ':') + 1;
    to.sin_port = htons((uint16_t)atoi(port));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    return fd;
}

/* All that comes until the connection is closed. */
static void hear(int fd, char said[SAID])
{
    size_t n = 0;
    ssize_t more;
    while (n < SAID - 1 && (more = recv(fd, said + n, SAID - 1 - n, 0)) > 0)
        n += (size_t)more;
    said[n] = 0;
    close(fd);
}

static void ask(const struct site *s, const char *path, char said[SAID])
{
    char request[256];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
             path);
    hear(visit(s, request), said);
}

static void *ask_often(void *arg)
{
    char said[SAID];
    for (int i = 0; i < ROUNDS; i++) {
        ask(arg, i % 2 ? "/now" : "/later", said);
        assert_non_null(strstr(said, "HTTP/1.1 200 OK\r\n"));
        assert_non_null(strstr(said, i % 2 ? "\r\n\r\nthis is /now" : "\r\n\r\nthis is /later"));
    }
    return NULL;
}

/* ---- tests ---- */

static void test_answers_now_and_later(void **state)
{
    struct site s;
    char said[SAID];
    (void)state;
    open_site(&s);
    assert_int_equal(strncmp(pd_http_url(s.http), "http://127.0.0.1:", 17), 0);
    ask(&s, "/now?and=more", said);
    assert_non_null(strstr(said, "this is /now"));
    ask(&s, "/later", said);
    assert_non_null(strstr(said, "this is /later"));
    hear(visit(&s, "HEAD /later HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), said);
    assert_non_null(strstr(said, "Content-Length: 14"));
    assert_null(strstr(said, "this is"));
    hear(
        visit(&s, "PUT /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"),
        said);
    assert_non_null(strstr(said, "HTTP/1.1 405"));
    close_site(&s);
}

/* What is for this machine is asked for by an address, or as localhost. */
static void test_who_is_meant(void **state)
{
    static const char *const good[] = {"localhost", "LocalHost:80", "127.0.0.1:8080", "[::1]", "[::1]:80"};
    static const char *const bad[] = {
        "any.name", "localhost.name", "[name]", "[::1", "1.2.3.4.name", "10", ":80", ""};
    struct site s;
    char said[SAID], request[100];
    (void)state;
    open_site(&s);
    for (size_t i = 0; i < sizeof good / sizeof good[0] + sizeof bad / sizeof bad[0]; i++) {
        int is_good = i < sizeof good / sizeof good[0];
        const char *host = is_good ? good[i] : bad[i - sizeof good / sizeof good[0]];
        snprintf(request, sizeof request, "GET /now HTTP/1.0\r\nHost: %s\r\n\r\n", host);
        hear(visit(&s, request), said);
        if (!strstr(said, is_good ? " 200 OK\r\n" : " 421 ")) fail_msg("'%s': %s", host, said);
    }
    hear(visit(&s, "GET /now HTTP/1.0\r\n\r\n"), said);
    assert_non_null(strstr(said, " 421 "));
    assert_null(strstr(said, "this is"));
    close_site(&s);
}

static void test_many_at_once(void **state)
{
    struct site s;
    pthread_t threads[WAITERS];
    (void)state;
    open_site(&s);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &s), 0);
    for (int i = 0; i < WAITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.asked), WAITERS * ROUNDS);
    close_site(&s);
}

/* Who waits hears that it ends, and who has hung up meanwhile is no trouble. */
static void test_a_close_with_people_inside(void **state)
{
    struct site s;
    char said[SAID];
    int fds[WAITERS];
    (void)state;
    open_site(&s);
    for (int i = 0; i < WAITERS; i++)
        fds[i] = visit(&s, "GET /never HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    while (atomic_load(&s.waits) < WAITERS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    close(fds[0]);
    close_site(&s);
    for (int i = 1; i < WAITERS; i++) {
        hear(fds[i], said);
        assert_non_null(strstr(said, "HTTP/1.1 503"));
    }
}

static void test_addresses(void **state)
{
    struct pd_http_site site = {.get = get};
    struct pd_http *http;
    (void)state;
    assert_int_equal(pd_http_open("nonsense", "FLAGS_it", &site, &http), PD_INVALID);
    assert_non_null(strstr(pd_error(), "FLAGS_it=nonsense: give PORT"));
    struct site s;
    open_site(&s);
    const char *port = strrchr(pd_http_url(s.http), ':') + 1;
    char taken[16];
    snprintf(taken, sizeof taken, "%d", atoi(port));
    assert_int_equal(pd_http_open(taken, "FLAGS_it", &site, &http), PD_EXISTS);
    close_site(&s);
    assert_ok(pd_http_open(taken, "FLAGS_it", &site, &http)); /* it is free again at once */
    pd_http_free(http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_now_and_later),
        cmocka_unit_test(test_who_is_meant),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_a_close_with_people_inside),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
