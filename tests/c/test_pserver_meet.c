/* Trainers meet at their first server: what each gives comes to all, in rounds that stay in step, beside
 * training and under several names at once; and what a communicator has queued before a barrier is with the
 * servers behind it. The second trainer is a process of its own, as one has one client. */
#include <pthread.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ps_job_help.h"

enum { PARAMS = 3, ROUNDS = 40, STEPS = 60, BIG = 300000 };

struct trainer {
    const struct ps_job *job;
    int id;
    const char *name;
};

static pd_meeting meeting_of(const struct trainer *t, const char **servers)
{
    servers[0] = t->job->endpoint[0];
    return (pd_meeting){
        .n_servers = 1, .servers = servers, .trainer = t->id, .trainers = t->job->trainers, .name = t->name};
}

/* Children say what went wrong on stderr and end with it. */
static void need(int is_so, const char *what)
{
    if (is_so) return;
    fprintf(stderr, "pid %d: %s: %s\n", (int)getpid(), what, pd_error());
    _exit(1);
}

static uint64_t number_at(const char *bytes, size_t n)
{
    uint64_t number = 0;
    memcpy(&number, bytes, n);
    return number;
}

/* u32 2, {0, n0}, {1, n1}, and as many bytes, all of one round and its trainer. */
static void check_gathered(const pd_bytes *all, int round, size_t n0, size_t n1)
{
    size_t head = 4 + 2 * 12;
    need(all->n == head + n0 + n1, "size of what was gathered");
    need(number_at(all->at, 4) == 2 && number_at(all->at + 4, 4) == 0 && number_at(all->at + 8, 8) == n0 &&
             number_at(all->at + 16, 4) == 1 && number_at(all->at + 20, 8) == n1,
         "table of what was gathered");
    for (size_t i = 0; i < n0 + n1; i++)
        need(all->at[head + i] == (char)(2 * round + (i >= n0)), "bytes of what was gathered");
}

static size_t size_of(int round, int id)
{
    return round % 40 == 7 ? (size_t)BIG + (size_t)id : (size_t)(round * 37 + id * 11) % 700;
}

static void *gather(void *arg)
{
    const struct trainer *t = arg;
    const char *servers[1];
    pd_meeting meeting = meeting_of(t, servers);
    char *mine = malloc(BIG + 1);
    for (int round = 0; round < ROUNDS; round++) {
        pd_bytes all;
        size_t n = size_of(round, t->id);
        memset(mine, 2 * round + t->id, n);
        need(pd_job_gather(&meeting, mine, n, &all, NULL, NULL) == PD_OK, "gathering");
        check_gathered(&all, round, size_of(round, 0), size_of(round, 1));
        pd_bytes_free(&all);
    }
    free(mine);
    return NULL;
}

static void *wait_at_barriers(void *arg)
{
    const struct trainer *t = arg;
    const char *servers[1];
    pd_meeting meeting = meeting_of(t, servers);
    for (int round = 0; round < ROUNDS; round++)
        need(pd_job_barrier(&meeting, NULL, NULL) == PD_OK, "barrier");
    return NULL;
}

static void *train(void *arg)
{
    const struct trainer *t = arg;
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(t->job, t->id, 1);
    need(pd_scope_create(NULL, &scope) == PD_OK && pd_executor_create(&exe) == PD_OK, "an executor");
    for (int step = 0; step < STEPS; step++)
        need(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL) == PD_OK, "a step");
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return NULL;
}

static struct served *new_served(int trainers, int is_sync)
{
    struct served *served = calloc(1, sizeof *served);
    served->job = (struct ps_job){.n_servers = 1, .trainers = trainers, .params = PARAMS, .is_sync = is_sync};
    free_endpoints(&served->job);
    return served;
}

/* Trainer 1: this program again, which does what `work` says. */
static pid_t other_trainer(const struct ps_job *job, const char *work)
{
    pid_t pid;
    char program[] = "/proc/self/exe", *words[] = {program, strdup(work), strdup(job->endpoint[0]),
                                                   strdup(job->is_sync ? "sync" : "async"), NULL};
    assert_int_equal(posix_spawn(&pid, program, NULL, NULL, words, environ), 0);
    for (int i = 1; i < 4; i++)
        free(words[i]);
    return pid;
}

static void finish(struct served *served, pthread_t server, pid_t other)
{
    int status;
    pd_leave_job(0, "");
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served->status, PD_JOB_OVER);
    free(served);
}

static void side_by_side(const struct ps_job *job, int id)
{
    struct trainer one = {job, id, "one"}, two = {job, id, "two"}, wall = {job, id, "wall"};
    pthread_t threads[4];
    need(!pthread_create(&threads[0], NULL, gather, &one) &&
             !pthread_create(&threads[1], NULL, gather, &two) &&
             !pthread_create(&threads[2], NULL, wait_at_barriers, &wall) &&
             !pthread_create(&threads[3], NULL, train, &one),
         "threads");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void beside_training(int is_sync, const char *loops, const char *transport)
{
    struct served *served = new_served(2, is_sync);
    pthread_t server;
    setenv("PADDLE_PS_TRANSPORT", transport, 1);
    must(pd_flag_set("ps_loops", loops));
    pid_t other = other_trainer(&served->job, "side by side");
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    side_by_side(&served->job, 0);
    finish(served, server, other);
}

static void test_beside_training(void **state)
{
    (void)state;
    beside_training(0, "1", "tcp");
    beside_training(1, "2", "tcp");
    beside_training(1, "1", "shm");
}

/* What trainer 0 has queued when it comes to the barrier, trainer 1 reads behind it. */
static void read_behind_the_barrier(const struct ps_job *job)
{
    struct trainer t = {job, 1, "wall"};
    const char *servers[1];
    pd_meeting meeting = meeting_of(&t, servers);
    pd_scope *scope;
    pd_executor *exe;
    need(pd_job_barrier(&meeting, NULL, NULL) == PD_OK, "barrier");
    need(pd_scope_create(NULL, &scope) == PD_OK && pd_executor_create(&exe) == PD_OK, "an executor");
    pd_program *p = trainer_program(job, 1, 0); /* its gradients are zeros */
    need(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL) == PD_OK, "a step");
    for (int i = 0; i < PARAMS; i++)
        need(weight(scope, i, 0) == 1 - 0.5f * STEPS, "a value behind the barrier");
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
}

static void test_what_is_queued_goes_before_the_barrier(void **state)
{
    (void)state;
    static const pd_communicator how = {PD_COMMUNICATOR_QUEUE, .queue = 2 * STEPS, .merge = 1,
                                        .pulls_every = 1};
    struct served *served = new_served(2, 0);
    struct trainer t = {&served->job, 0, "wall"};
    const char *servers[1];
    pthread_t server;
    pd_meeting meeting = meeting_of(&t, servers);
    setenv("PADDLE_PS_TRANSPORT", "tcp", 1);
    must(pd_flag_set("ps_loops", "1"));
    pid_t other = other_trainer(&served->job, "read behind");
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    must(pd_communicator_start(&how));
    train(&t);
    must(pd_job_barrier(&meeting, NULL, NULL));
    must(pd_communicator_stop(NULL, NULL));
    finish(served, server, other);
}

static int at_once(void *arg)
{
    (void)arg;
    return 1;
}

static void only_a_barrier(const struct ps_job *job)
{
    struct trainer t = {job, 1, "wall"};
    const char *servers[1];
    pd_meeting meeting = meeting_of(&t, servers);
    need(pd_job_barrier(&meeting, NULL, NULL) == PD_OK, "barrier");
}

/* What is wrong with a call is told before anybody is asked; one that is broken off may be called again. */
static void test_wrong_calls(void **state)
{
    (void)state;
    struct served *served = new_served(2, 1);
    struct trainer t = {&served->job, 0, "wall"};
    const char *servers[1];
    pthread_t server;
    pd_meeting meeting = meeting_of(&t, servers), wrong = meeting;
    pd_bytes all;
    must(pd_flag_set("ps_loops", "1"));
    pid_t other = other_trainer(&served->job, "barrier");
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    wrong.name = "a name that is much longer than the sixty-three bytes which a name may have";
    assert_int_equal(pd_job_barrier(&wrong, NULL, NULL), PD_INVALID);
    wrong.name = "";
    assert_int_equal(pd_job_barrier(&wrong, NULL, NULL), PD_INVALID);
    wrong = meeting;
    wrong.n_servers = 0;
    assert_int_equal(pd_job_barrier(&wrong, NULL, NULL), PD_INVALID);
    wrong = meeting;
    wrong.trainer = 2;
    assert_int_equal(pd_job_barrier(&wrong, NULL, NULL), PD_RANGE);
    assert_int_equal(pd_job_gather(&meeting, served, (1 << 20) + 1, &all, NULL, NULL), PD_RANGE);
    assert_non_null(strstr(pd_error(), "1048576 is the most"));
    assert_int_equal(pd_job_barrier(&meeting, at_once, NULL), PD_INTERRUPTED);
    must(pd_job_barrier(&meeting, NULL, NULL));
    finish(served, server, other);
}

static int be_the_other(char **words)
{
    struct ps_job job = {
        .n_servers = 1, .trainers = 2, .params = PARAMS, .is_sync = strcmp(words[3], "sync") == 0};
    snprintf(job.endpoint[0], sizeof job.endpoint[0], "%s", words[2]);
    if (strcmp(words[1], "side by side") == 0)
        side_by_side(&job, 1);
    else if (strcmp(words[1], "read behind") == 0)
        read_behind_the_barrier(&job);
    else
        only_a_barrier(&job);
    pd_leave_job(0, "");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4) return be_the_other(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_training),
        cmocka_unit_test(test_what_is_queued_goes_before_the_barrier),
        cmocka_unit_test(test_wrong_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
