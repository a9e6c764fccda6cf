/* A server that is started with nothing but a port, and a trainer that brings it its Programs and trains. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "files_help.h"
#include "ps_job_help.h"

enum { PARAMS = 2, STEPS = 20 };

struct empty {
    struct ps_job job;
    pd_status status;
    char text[512];
};

static void *serve_empty(void *arg)
{
    struct empty *e = arg;
    e->status = pd_serve(e->job.endpoint[0], NULL, NULL);
    snprintf(e->text, sizeof e->text, "%s", pd_error());
    return NULL;
}

static pthread_t start(struct empty *e)
{
    pthread_t server;
    assert_int_equal(pthread_create(&server, NULL, serve_empty, e), 0);
    return server;
}

static void begin(struct empty *e, const char *folder)
{
    *e = (struct empty){.job = {.n_servers = 1, .trainers = 1, .params = PARAMS, .is_sync = 1}};
    free_endpoints(&e->job);
    must(pd_flag_set("ps_loops", "1"));
    must(pd_flag_set("ps_dir", folder));
    must(pd_flag_set("ps_log", *folder ? "write" : ""));
}

static pd_status bring(const struct ps_job *job, const char *endpoint)
{
    pd_program *startup = server_startup(job, 0), *program = server_program(job, 0);
    pd_status status = pd_serve_bring(endpoint, startup, program, NULL, NULL);
    pd_program_free(startup);
    pd_program_free(program);
    return status;
}

/* Gradients are ones, at a rate of 0.5, from 1 on. */
static void train(const struct ps_job *job, int from, int to)
{
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = from; step <= to; step++) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        assert_true(weight(scope, PARAMS - 1, WIDTH - 1) == 1 - 0.5f * (float)step);
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
}

static void end_job(struct empty *e, pthread_t server)
{
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    if (e->status != PD_JOB_OVER) fail_msg("%s", e->text);
}

static void test_a_program_is_brought(void **state)
{
    (void)state;
    struct empty e;
    begin(&e, "");
    pthread_t server = start(&e);
    must(bring(&e.job, e.job.endpoint[0]));
    must(bring(&e.job, e.job.endpoint[0])); /* it has it: fine */
    train(&e.job, 1, STEPS);
    end_job(&e, server);
}

static void *train_all(void *arg)
{
    train(arg, 1, STEPS);
    return NULL;
}

/* The trainer's steps are there before the server, and before its Program. */
static void test_in_any_order(void **state)
{
    (void)state;
    struct empty e;
    pthread_t trainer;
    begin(&e, "");
    assert_int_equal(pthread_create(&trainer, NULL, train_all, &e.job), 0);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    pthread_t server = start(&e);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    must(bring(&e.job, e.job.endpoint[0]));
    assert_int_equal(pthread_join(trainer, NULL), 0);
    end_job(&e, server);
}

static void test_it_is_kept(void **state)
{
    (void)state;
    struct empty e;
    char *folder = make_folder();
    begin(&e, folder);
    pthread_t server = start(&e);
    must(bring(&e.job, e.job.endpoint[0]));
    train(&e.job, 1, STEPS);
    raise(SIGTERM);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(e.status, PD_JOB_OVER);
    server = start(&e); /* nobody brings anything */
    train(&e.job, STEPS + 1, 2 * STEPS);
    end_job(&e, server);
    drop_folder(folder);
}

/* It writes a file: a server must not do that for others. */
static pd_program *with_save(const struct ps_job *job)
{
    pd_program *p = server_startup(job, 0);
    pd_op_builder *op;
    must(pd_op_begin(p, "save", &op));
    must(pd_op_add_arg(op, 0, "X", "w0"));
    must(pd_op_add_text(op, "file_path", "/nonexistent/w0"));
    end(op, 0);
    return p;
}

static void test_what_reaches_outside_is_refused(void **state)
{
    (void)state;
    struct empty e;
    begin(&e, "");
    pthread_t server = start(&e);
    pd_program *startup = with_save(&e.job), *program = server_program(&e.job, 0);
    assert_error(pd_serve_bring(e.job.endpoint[0], startup, program, NULL, NULL), PD_UNSUPPORTED,
                 "op 'save'");
    pd_program_free(startup);
    startup = server_startup(&e.job, 0);
    assert_error(pd_serve_bring(e.job.endpoint[0], startup, startup, NULL, NULL), PD_INVALID,
                 "has no listen_and_serv");
    struct ps_job other = e.job;
    snprintf(other.endpoint[0], sizeof other.endpoint[0], "127.0.0.1:1");
    assert_error(bring(&other, e.job.endpoint[0]), PD_INVALID, "is for the server at 127.0.0.1:1");
    pd_program_free(startup);
    pd_program_free(program);
    must(bring(&e.job, e.job.endpoint[0])); /* it is still there for the right one */
    train(&e.job, 1, STEPS);
    end_job(&e, server);
}

static void test_nobody_comes(void **state)
{
    (void)state;
    struct empty e;
    begin(&e, "");
    must(pd_flag_set("ps_wait_trainers", "0"));
    must(pd_flag_set("rpc_deadline", "300"));
    assert_int_equal(pthread_join(start(&e), NULL), 0);
    assert_int_equal(e.status, PD_UNAVAILABLE);
    assert_non_null(strstr(e.text, "nobody brought the server"));
    assert_error(bring(&e.job, e.job.endpoint[0]), PD_UNAVAILABLE, "Is the server running at that address?");
    must(pd_flag_set("ps_wait_trainers", "1800"));
    must(pd_flag_set("rpc_deadline", "180000"));
}

/* What is at a path of the server's HTTP port, from the status line on; empty: nobody answers there now. */
static const char *look(int port, const char *path, char said[1 << 16])
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[128];
    size_t n = 0;
    ssize_t more;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_port = htons((uint16_t)port);
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
             path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, request, strlen(request), MSG_NOSIGNAL) > 0)
        while (n < (1 << 16) - 1 && (more = recv(fd, said + n, (1 << 16) - 1 - n, 0)) > 0)
            n += (size_t)more;
    said[n] = 0;
    close(fd);
    return said;
}

static void look_until(int port, const char *path, const char *text)
{
    char said[1 << 16] = "";
    for (int i = 0; i < 20000 && !strstr(look(port, path, said), text); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (!strstr(said, text)) fail_msg("%s says %s", path, said);
}

static void test_it_can_be_watched_from_its_start(void **state)
{
    (void)state;
    struct empty e = {.job = {.n_servers = 2}};
    char said[1 << 16], port[16];
    free_endpoints(&e.job);
    int http = atoi(strrchr(e.job.endpoint[1], ':') + 1);
    snprintf(port, sizeof port, "%d", http);
    begin(&e, "");
    must(pd_flag_set("ps_http", port));
    pthread_t server = start(&e);
    look_until(http, "/readyz", "HTTP/1.1 503");
    assert_non_null(strstr(look(http, "/readyz", said), "it waits for trainer 0 to bring its Program"));
    assert_non_null(strstr(look(http, "/healthz", said), "HTTP/1.1 200"));
    assert_non_null(strstr(look(http, "/metrics", said), "\nps_ready 0\n"));
    assert_non_null(strstr(look(http, "/status.json", said), "HTTP/1.1 503"));
    must(bring(&e.job, e.job.endpoint[0]));
    train(&e.job, 1, STEPS);
    look_until(http, "/readyz", "HTTP/1.1 200");
    look_until(http, "/metrics", "\nps_step 20\n");
    assert_non_null(strstr(look(http, "/status.json", said), "\"step\": 20,"));
    end_job(&e, server);
    assert_string_equal(look(http, "/healthz", said), "");
    must(pd_flag_set("ps_http", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_is_brought), cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_it_is_kept),           cmocka_unit_test(test_what_reaches_outside_is_refused),
        cmocka_unit_test(test_nobody_comes),         cmocka_unit_test(test_it_can_be_watched_from_its_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
