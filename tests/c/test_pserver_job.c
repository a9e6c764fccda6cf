/* A whole job in one process: a server on one thread, its trainer on another or on several, over the network,
 * with loops, a log and snapshots. Under the thread sanitizer this is what finds races between them. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "files_help.h"
#include "ps_job_help.h"

enum { PARAMS = 3, STEPS = 60, THREADS = 3 };

static pthread_t start_server_at(struct served *served, const char *endpoint, int is_sync, const char *loops,
                                 const char *folder)
{
    pthread_t server;
    *served = (struct served){.job = {.n_servers = 1, .trainers = 1, .params = PARAMS, .is_sync = is_sync}};
    free_endpoints(&served->job);
    if (endpoint) snprintf(served->job.endpoint[0], sizeof served->job.endpoint[0], "%s", endpoint);
    must(pd_flag_set("ps_loops", loops));
    must(pd_flag_set("ps_dir", folder));
    must(pd_flag_set("ps_log", *folder ? "write" : ""));
    must(pd_flag_set("ps_snapshot_steps", *folder ? "20" : "0"));
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    return server;
}

static pthread_t start_server(struct served *served, int is_sync, const char *loops, const char *folder)
{
    return start_server_at(served, NULL, is_sync, loops, folder);
}

static void end_job(const struct served *served, pthread_t server, int steps)
{
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served->status, PD_JOB_OVER);
    for (int i = 0; i < PARAMS; i++)
        assert_true(served->w[i] == 1 - 0.5f * (float)steps);
}

/* Gradients are ones: w falls by 0.5 a step. */
static void run_job(int is_sync, const char *loops, const char *folder)
{
    struct served served;
    pd_scope *scope;
    pd_executor *exe;
    pthread_t server = start_server(&served, is_sync, loops, folder);
    pd_program *p = trainer_program(&served.job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = 1; step <= STEPS; step++) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        assert_true(weight(scope, 2, WIDTH - 1) == 1 - 0.5f * (float)step);
    }
    end_job(&served, server, STEPS);
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
}

static void test_sync_one_loop(void **state)
{
    (void)state;
    run_job(1, "1", "");
}

static void test_sync_three_loops(void **state)
{
    (void)state;
    run_job(1, "3", "");
}

static void test_async_two_loops(void **state)
{
    (void)state;
    run_job(0, "2", "");
}

static void test_log_and_snapshots(void **state)
{
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        char *folder = make_folder();
        run_job(is_sync, "2", folder);
        drop_folder(folder);
    }
}

static void *train(void *arg)
{
    const struct ps_job *job = arg;
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (uint64_t step = 1; step <= STEPS; step++) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        assert_true(pd_job_steps(job->endpoint[0]) >= step);
        assert_int_equal(pd_job_id(), 0);
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return NULL;
}

/* Threads of one trainer: each run is a step of its own. */
static void test_threads_of_a_trainer(void **state)
{
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct served served;
        pthread_t server = start_server(&served, is_sync, "2", ""), threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, train, &served.job), 0);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(pd_job_steps(served.job.endpoint[0]), THREADS * STEPS);
        assert_true(pd_job_key(served.job.endpoint[0]) != 0);
        end_job(&served, server, THREADS * STEPS);
    }
}

/* A server whose port the system chooses: asked in its process, it tells which, as long as it listens. */
static void test_port_of_a_server(void **state)
{
    (void)state;
    struct served served;
    struct ps_job job;
    pthread_t server = start_server_at(&served, "127.0.0.1:0", 0, "1", ""), trainer;
    int port;
    while (!(port = pd_serve_port("127.0.0.1:0")))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(pd_serve_port("127.0.0.1:1"), 0);
    job = served.job;
    snprintf(job.endpoint[0], sizeof job.endpoint[0], "127.0.0.1:%d", port);
    assert_int_equal(pthread_create(&trainer, NULL, train, &job), 0);
    assert_int_equal(pthread_join(trainer, NULL), 0);
    assert_int_equal(pd_serve_port("127.0.0.1:0"), port);
    end_job(&served, server, STEPS);
    assert_int_equal(pd_serve_port("127.0.0.1:0"), 0);
}

/* Asked to end while trainers train, a server brings the step to its end, keeps it and goes; started again it
 * goes on from there. */
static void test_asked_to_end_and_started_again(void **state)
{
    (void)state;
    struct served served;
    char *folder = make_folder();
    pthread_t trainer, server = start_server(&served, 1, "2", folder);
    assert_int_equal(pthread_create(&trainer, NULL, train, &served.job), 0);
    while (pd_job_steps(served.job.endpoint[0]) < 5)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    raise(SIGTERM);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served.status, PD_JOB_OVER);
    assert_int_equal(pthread_create(&server, NULL, serve, &served), 0);
    assert_int_equal(pthread_join(trainer, NULL), 0);
    end_job(&served, server, STEPS);
    drop_folder(folder);
}

/* A step in which one request for memory fails, of whatever thread. What the step was: OK, or an error. */
static pd_status short_step(pd_executor *exe, pd_program *p, pd_scope *scope, uint64_t n, uint64_t *asked)
{
    uint64_t before = pd_alloc_count();
    pd_alloc_fail_once(n);
    pd_status status = pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL);
    *asked = pd_alloc_count() - before;
    pd_alloc_fail_once(0);
    return status;
}

/* Of three steps the second is short of memory. Returns what came of that. */
static pd_status run_short_job(uint64_t n, uint64_t *asked)
{
    struct served served;
    pd_scope *scope;
    pd_executor *exe;
    pthread_t server = start_server(&served, 1, "2", "");
    pd_program *p = trainer_program(&served.job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
    pd_status status = short_step(exe, p, scope, n, asked);
    if (status == PD_OK) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        assert_true(weight(scope, 2, WIDTH - 1) == 1 - 0.5f * 3);
        end_job(&served, server, 3);
    } else {
        if (strstr(pd_error(), "not done after")) fail_msg("request %d: %s", (int)n, pd_error());
        pd_leave_job(1, "a step failed");
        assert_int_equal(pthread_join(server, NULL), 0);
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return status;
}

/* Nobody waits for a message that could not be made: a step is done, or it fails and says why. */
static void test_short_memory_is_told_or_mended(void **state)
{
    (void)state;
    int mended = 0;
    uint64_t most, asked;
    must(pd_flag_set("rpc_deadline", "20000"));
    assert_int_equal(run_short_job(0, &most), PD_OK); /* with all its memory */
    for (uint64_t n = 1; n <= most; n++)
        mended += run_short_job(n, &asked) == PD_OK;
    assert_true(mended > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_one_loop),
        cmocka_unit_test(test_sync_three_loops),
        cmocka_unit_test(test_async_two_loops),
        cmocka_unit_test(test_log_and_snapshots),
        cmocka_unit_test(test_threads_of_a_trainer),
        cmocka_unit_test(test_port_of_a_server),
        cmocka_unit_test(test_asked_to_end_and_started_again),
        cmocka_unit_test(test_short_memory_is_told_or_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
