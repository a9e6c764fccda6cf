/* Several threads of one trainer use its client at the same time: one trains, others ask for values, for
 * rows, and have servers write files. Each gets what it asked for, a step that is waited for holds nobody up,
 * and connections that are broken under all of them lose nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "files_help.h"
#include "ps_job_help.h"
#include "pserver/client/client.h"

enum { PARAMS = 3, STEPS = 200, ROUNDS = 200, SAVES = 10 };

static pthread_t start_server(struct served *served, int trainers, const char *loops)
{
    pthread_t server;
    *served = (struct served){.job = {.n_servers = 1, .trainers = trainers, .params = PARAMS, .is_sync = 1}};
    free_endpoints(&served->job);
    must(pd_flag_set("ps_loops", loops));
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    return server;
}

static void *train(void *arg)
{
    const struct ps_job *job = arg;
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = 1; step <= STEPS; step++) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        assert_true(weight(scope, 2, WIDTH - 1) == 1 - 0.5f * (float)step);
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return NULL;
}

static pd_status no_interruption(const struct pd_run *run)
{
    (void)run;
    return PD_OK;
}

/* An op's run, for the calls of a client. */
struct use {
    struct pd_step step;
    struct pd_run run;
    struct pd_client *client;
    int numbers[PARAMS];
};

static void begin_use(struct use *u, const struct ps_job *job)
{
    char name[32];
    *u = (struct use){.step = {.poll = no_interruption}};
    u->run.step = &u->step;
    assert_ok(pd_client_get(0, &u->run, 0, &u->client));
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        assert_ok(pd_client_name(u->client, &u->run, job->endpoint[0], 1, name, NULL, &u->numbers[i]));
    }
}

static void end_use(struct use *u)
{
    pd_client_rest(u->client, &u->run);
    assert_ok(pd_client_run_over(&u->step, PD_OK));
}

/* A value of some step, the same in all elements, that never goes back up. */
static float check_value(const float *w, float before)
{
    for (int k = 0; k < WIDTH; k++)
        assert_true(w[k] == w[0]);
    assert_true(w[0] <= before && w[0] >= 1 - 0.5f * STEPS && w[0] * 2 == (float)(int)(w[0] * 2));
    return w[0];
}

static void *ask_values(void *arg)
{
    struct use u;
    float w[PARAMS][WIDTH], last[PARAMS] = {1, 1, 1};
    begin_use(&u, arg);
    for (int round = 0; round < ROUNDS; round++) {
        PD_ASK(ask);
        for (int i = 0; i < PARAMS; i++)
            assert_ok(pd_ask_value(u.client, &ask, u.numbers[i], w[i], sizeof w[i]));
        assert_ok(pd_ask_wait(u.client, &u.run, &ask, "values"));
        for (int i = 0; i < PARAMS; i++)
            last[i] = check_value(w[i], last[i]);
    }
    end_use(&u);
    return NULL;
}

static void *ask_rows(void *arg)
{
    static const int64_t rows[] = {4, 0, 2, 2, 1};
    struct use u;
    float some[PARAMS][5], last[PARAMS] = {1, 1, 1};
    begin_use(&u, arg);
    for (int round = 0; round < ROUNDS; round++) {
        PD_ASK(ask);
        for (int i = 0; i < PARAMS; i++)
            assert_ok(pd_ask_rows(u.client, &ask, u.numbers[i], 5, rows, sizeof(float), some[i]));
        assert_ok(pd_ask_wait(u.client, &u.run, &ask, "rows"));
        for (int i = 0; i < PARAMS; i++)
            last[i] = check_value(some[i], last[i]);
    }
    end_use(&u);
    return NULL;
}

struct saving {
    const struct ps_job *job;
    const char *folder;
};

static void save(struct use *u, const char *folder)
{
    struct pd_client_save parts[PARAMS], number = {.folder = ""};
    PD_ASK(first);
    assert_ok(pd_ask_save(u->client, &first, u->numbers[0], &number));
    assert_ok(pd_ask_wait(u->client, &u->run, &first, "a number"));
    for (int turn = 0; turn < 2; turn++) {
        PD_ASK(ask);
        for (int i = 0; i < PARAMS; i++) {
            parts[i] = (struct pd_client_save){folder, 0, 1, number.save, turn};
            assert_ok(pd_ask_save(u->client, &ask, u->numbers[i], &parts[i]));
        }
        assert_ok(pd_ask_wait(u->client, &u->run, &ask, "saving"));
    }
}

static void *ask_saves(void *arg)
{
    const struct saving *s = arg;
    struct use u;
    begin_use(&u, s->job);
    for (int round = 0; round < SAVES; round++)
        save(&u, s->folder);
    end_use(&u);
    return NULL;
}

static void check_saved(const char *folder)
{
    for (int i = 0; i < PARAMS; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/w%d_0", folder, i);
        if (access(path, R_OK) != 0) fail_msg("%s is not there", path);
    }
}

static void all_at_once(const char *loops, const char *transport)
{
    struct served served;
    pthread_t threads[4], server;
    setenv("PADDLE_PS_TRANSPORT", transport, 1);
    char *folder = make_folder();
    must(pd_flag_set("ps_save_root", folder));
    server = start_server(&served, 1, loops);
    struct saving saving = {&served.job, folder};
    must(pthread_create(&threads[0], NULL, train, &served.job) ? PD_NO_MEMORY : PD_OK);
    must(pthread_create(&threads[1], NULL, ask_values, &served.job) ? PD_NO_MEMORY : PD_OK);
    must(pthread_create(&threads[2], NULL, ask_rows, &served.job) ? PD_NO_MEMORY : PD_OK);
    must(pthread_create(&threads[3], NULL, ask_saves, &saving) ? PD_NO_MEMORY : PD_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    check_saved(folder);
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served.status, PD_JOB_OVER);
    for (int i = 0; i < PARAMS; i++)
        assert_true(served.w[i] == 1 - 0.5f * STEPS);
    drop_folder(folder);
}

static void test_side_by_side(void **state)
{
    (void)state;
    all_at_once("1", "tcp");
    all_at_once("2", "tcp");
    all_at_once("2", "shm");
}

struct one_step {
    const struct ps_job *job;
    pd_status status;
};

static void *wait_in_step(void *arg)
{
    struct one_step *one = arg;
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(one->job, 0, 1);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    one->status = pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL);
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return NULL;
}

/* The job has two trainers, and the second does not come: the step of this one is not applied. */
static void test_a_step_that_waits_holds_nobody_up(void **state)
{
    (void)state;
    struct served served;
    struct use u;
    float w[WIDTH];
    pthread_t server = start_server(&served, 2, "1"), trainer;
    struct one_step one = {&served.job, PD_OK};
    begin_use(&u, &served.job);
    assert_int_equal(pthread_create(&trainer, NULL, wait_in_step, &one), 0);
    for (int round = 0; round < ROUNDS; round++) {
        PD_ASK(ask);
        assert_ok(pd_ask_value(u.client, &ask, u.numbers[0], w, sizeof w));
        assert_ok(pd_ask_wait(u.client, &u.run, &ask, "a value"));
        assert_true(w[0] == 1);
    }
    end_use(&u);
    pd_leave_job(1, "nobody else comes");
    assert_int_equal(pthread_join(trainer, NULL), 0);
    assert_int_equal(one.status, PD_UNAVAILABLE);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served.status, PD_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_a_step_that_waits_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
