/* The communicator: steps of several threads that a thread of its own exchanges, each of which counts once;
 * what is told when it is stopped; and the copies of steps that it keeps. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/wait.h"
#include "exec/workers.h"
#include "ps_job_help.h"
#include "pserver/client/communicator.h"
#include "pserver/client/step_copy.h"

enum { PARAMS = 3, STEPS = 150, THREADS = 3 };

static pthread_t start_server(struct served *served, int trainers, int is_sync)
{
    pthread_t server;
    *served =
        (struct served){.job = {.n_servers = 1, .trainers = trainers, .params = PARAMS, .is_sync = is_sync}};
    free_endpoints(&served->job);
    assert_int_equal(pthread_create(&server, NULL, serve, served), 0);
    return server;
}

static pd_status train(const struct ps_job *job, int steps)
{
    pd_scope *scope;
    pd_executor *exe;
    pd_program *p = trainer_program(job, 0, 1);
    pd_status status = PD_OK;
    float last = 1;
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = 0; step < steps && status == PD_OK; step++) {
        status = pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL);
        if (status != PD_OK) break;
        float w = weight(scope, 0, 0);
        if (w > last) status = pd_fail(PD_INVALID, "step %d: an older value, %g after %g", step, w, last);
        last = w;
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(p);
    return status;
}

static void *train_thread(void *arg)
{
    must(train(arg, STEPS));
    return NULL;
}

static void threads_of(const pd_communicator *how)
{
    struct served served;
    pthread_t threads[THREADS], server = start_server(&served, 1, 0);
    must(pd_communicator_start(how));
    assert_true(pd_communicator_runs());
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_thread, &served.job), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    must(pd_communicator_stop(NULL, NULL));
    assert_false(pd_communicator_runs());
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    for (int i = 0; i < PARAMS; i++)
        assert_true(served.w[i] == 1 - 0.5f * THREADS * STEPS);
}

static void test_each_step_counts_once(void **state)
{
    (void)state;
    static const pd_communicator hows[] = {
        {PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 1},
        {PD_COMMUNICATOR_QUEUE, 5, 3, 0, 0, 2},
        {PD_COMMUNICATOR_ROUNDS, 1, 1, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++)
        threads_of(&hows[i]);
}

/* With recv ops of their own, of which the first batch of each thread has the turn while others queue. */
static void test_unfused(void **state)
{
    (void)state;
    must(pd_flag_set("fuse_ops", "0"));
    for (int i = 0; i < 4; i++)
        threads_of(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 2, 1, 0, 0, 1});
    must(pd_flag_set("fuse_ops", "1"));
}

/* What one scope has taken is there for the other one as well. */
static void test_two_scopes(void **state)
{
    (void)state;
    struct served served;
    pthread_t server = start_server(&served, 1, 0);
    pd_program *p = trainer_program(&served.job, 0, 1);
    pd_scope *scopes[2];
    pd_executor *exe;
    must(pd_executor_create(&exe));
    for (int i = 0; i < 2; i++)
        must(pd_scope_create(NULL, &scopes[i]));
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 2, 1, 0, 0, 1}));
    for (int step = 0; step < 2 * STEPS; step++)
        must(pd_executor_run(exe, p, scopes[step % 2], 0, NULL, NULL, 0, NULL, NULL));
    must(pd_comm_flush(NULL, NULL));
    for (int i = 0; i < 2; i++) {
        must(pd_executor_run(exe, p, scopes[i], 0, NULL, NULL, 0, NULL, NULL));
        assert_true(weight(scopes[i], 0, 0) <= 1 - 0.5f * 2 * STEPS);
    }
    must(pd_communicator_stop(NULL, NULL));
    for (int i = 0; i < 2; i++)
        pd_scope_release(scopes[i]);
    pd_executor_free(exe);
    pd_program_free(p);
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
}

static int at_once(void *arg)
{
    (void)arg;
    return 1;
}

/* The job has a second trainer, which does not come: what is queued stays where it is. */
static void test_stopped_at_once(void **state)
{
    (void)state;
    struct served served;
    pthread_t server = start_server(&served, 2, 1);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 4, 1, 0, 0, 1}));
    pd_comm_began();
    must(train(&served.job, 3));
    assert_int_equal(pd_communicator_stop(at_once, NULL), PD_INTERRUPTED);
    assert_non_null(strstr(pd_error(), "steps were not sent to the servers"));
    must(pd_communicator_stop(NULL, NULL));
    pd_leave_job(1, "the test is over");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(served.status, PD_UNAVAILABLE);
}

/* ---- a flush beside others ---- */

static atomic_int is_enough;

static void *train_on(void *arg)
{
    while (!atomic_load(&is_enough))
        must(train(arg, 4 * STEPS));
    return NULL;
}

/* A flush, seen by its poll: that is called again only where what was seen the last time was not enough. So
 * no bound depends on how long a thread waits for a core. */
struct flushing {
    const char *endpoint;
    uint64_t before, seen, most; /* steps; most: that a poll has seen, and another one came behind it */
};

static int poll_flush(void *arg)
{
    struct flushing *f = arg;
    f->most = f->seen;
    f->seen = pd_job_steps(f->endpoint);
    return f->most - f->before >= 100;
}

/* It waits for what was queued before, not for what others go on queueing. */
static void test_flush_beside_others(void **state)
{
    (void)state;
    struct served served;
    pthread_t threads[THREADS], server = start_server(&served, 1, 0);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 16, 1, 0, 0, 1}));
    must(train(&served.job, 1));
    atomic_store(&is_enough, 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_on, &served.job), 0);
    for (int i = 0; i < 10; i++) {
        const char *endpoint = served.job.endpoint[0];
        uint64_t begun = pd_job_steps(endpoint);
        while (pd_job_steps(endpoint) < begun + 20) /* they are at it */
            usleep(1000);
        uint64_t before = pd_job_steps(endpoint);
        struct flushing f = {endpoint, before, before, before};
        must(pd_comm_flush(poll_flush, &f));
        assert_true(f.most - before < 100);
    }
    atomic_store(&is_enough, 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    must(pd_communicator_stop(NULL, NULL));
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
}

/* ---- rounds of workers ---- */

/* Workers that have no feeds. */
struct crew {
    struct pd_workers workers;
    int steps;       /* of each */
    int held, after; /* a worker that gets no more than so many batches until let_go; -1: none */
    atomic_int let_go, waits;
    pd_status status;
    char error[256];
    pthread_t thread;
};

static pd_status next_batch(void *arg, int worker, struct pd_value *const **values, int64_t *samples)
{
    static struct pd_value *const none[1];
    struct crew *c = arg;
    static _Thread_local int done;
    static _Thread_local struct crew *whose;
    if (whose != c) whose = c, done = 0;
    while (worker == c->held && done == c->after && !atomic_load(&c->let_go)) {
        atomic_store(&c->waits, 1);
        usleep(1000);
    }
    *values = done++ < c->steps ? none : NULL;
    *samples = 1;
    return PD_OK;
}

static void let_go(void *arg)
{
    struct crew *c = arg;
    atomic_store(&c->let_go, 1);
}

static void *run_crew(void *arg)
{
    struct crew *c = arg;
    c->status = pd_workers_run(&c->workers);
    snprintf(c->error, sizeof c->error, "%s", pd_error());
    return NULL;
}

/* It brings nothing back: threads would race for the parameters of their scope. */
static pd_program *sends_only(const struct ps_job *job)
{
    pd_program *p;
    pd_op_builder *op;
    const char *endpoint = job->endpoint[0];
    must(pd_program_create(&p));
    add_var(p, "w0@GRAD", WIDTH, 0);
    fill(p, "w0@GRAD", WIDTH, 1);
    must(pd_op_begin(p, "send", &op));
    must(pd_op_add_arg(op, 0, "X", "w0@GRAD"));
    add_texts(op, "epmap", 1, &endpoint);
    end(op, 0);
    must(pd_op_begin(p, "send_barrier", &op));
    add_texts(op, "endpoints", 1, &endpoint);
    end(op, 0);
    return p;
}

static void start_crew(struct crew *c, pd_program *p, int n, int steps, int held, int after)
{
    *c = (struct crew){.workers = {.program = p, .n = n, .next = next_batch, .stop = let_go, .arg = c},
                       .steps = steps,
                       .held = held,
                       .after = after};
    must(pd_scope_create(NULL, &c->workers.scope));
    assert_int_equal(pthread_create(&c->thread, NULL, run_crew, c), 0);
}

static void end_crew(struct crew *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    pd_scope_release(c->workers.scope);
    pd_program_free(c->workers.program);
}

/* Each round is one step, the average; workers that send nothing, as those of infer_from_dataset, are none of
 * it. */
static void test_rounds_beside_others(void **state)
{
    (void)state;
    struct served served;
    struct crew crew, others;
    pthread_t server = start_server(&served, 1, 0);
    pd_program *sends_nothing;
    must(pd_program_create(&sends_nothing));
    add_var(sends_nothing, "a", 2, 0);
    fill(sends_nothing, "a", 2, 1);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_ROUNDS, 1, 1, 0, 0, 1}));
    start_crew(&others, sends_nothing, 1, 1, 0, 0);
    while (!atomic_load(&others.waits))
        usleep(1000);
    start_crew(&crew, sends_only(&served.job), THREADS, STEPS, -1, 0);
    end_crew(&crew);
    must(crew.status);
    assert_false(atomic_load(&others.let_go));
    let_go(&others);
    end_crew(&others);
    must(pd_communicator_stop(NULL, NULL));
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_true(served.w[0] <= 1 - 0.5f * STEPS && served.w[0] >= 1 - 0.5f * STEPS * THREADS);
}

/* Two crews side by side train models of their own on servers of their own: what one
 * round gives is a step on each server, and neither model's gradient is divided by the other's workers. */
static void test_rounds_of_two_jobs(void **state)
{
    (void)state;
    struct served served[2];
    struct crew crews[2];
    pthread_t servers[2];
    for (int i = 0; i < 2; i++)
        servers[i] = start_server(&served[i], 1, 0);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_ROUNDS, 1, 1, 0, 0, 1}));
    for (int i = 0; i < 2; i++)
        start_crew(&crews[i], sends_only(&served[i].job), 2, STEPS, -1, 0);
    for (int i = 0; i < 2; i++)
        end_crew(&crews[i]);
    for (int i = 0; i < 2; i++)
        must(crews[i].status);
    must(pd_communicator_stop(NULL, NULL));
    pd_leave_job(0, "");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(servers[i], NULL), 0);
        /* A step of a round takes half of a gradient of 1 away, however many gave it. */
        assert_true(served[i].w[0] <= 1 - 0.5f * STEPS && served[i].w[0] >= 1 - 0.5f * STEPS * 2);
    }
}

/* Counts what is told of rounds that wait. */
static void hear(void *arg, enum pd_log_level level, const char *text)
{
    if (level == PD_LOG_WARNING && strstr(text, "a round of worker threads has waited") &&
        strstr(text, "1 of 2 have given"))
        atomic_fetch_add((atomic_int *)arg, 1);
}

/* The second round of two workers, of which one does not come: that is told, and who waits in it hears that
 * it was dropped. */
static void test_dropped_round(void **state)
{
    (void)state;
    struct served served;
    struct crew crew;
    atomic_int told = 0;
    must(pd_flag_set("ps_notice", "100")); /* while no other thread is there */
    pthread_t server = start_server(&served, 1, 0);
    pd_log_set(hear, &told);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_ROUNDS, 1, 1, 0, 0, 1}));
    start_crew(&crew, sends_only(&served.job), 2, 5, 1, 1);
    while (!atomic_load(&crew.waits))
        usleep(1000);
    while (!atomic_load(&told)) /* the other one waits in the round */
        usleep(1000);
    pd_log_set(NULL, NULL);
    pd_comm_leave(1, NULL, NULL);
    /* Another start is no answer to who waits for the first. */
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_ROUNDS, 1, 1, 0, 0, 1}));
    end_crew(&crew);
    assert_int_equal(crew.status, PD_INTERRUPTED);
    assert_non_null(strstr(crew.error, "gradients that it had queued were not sent"));
    must(pd_communicator_stop(NULL, NULL));
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_true(served.w[0] == 0.5f || served.w[0] == 0); /* the other one may go on, alone */
    must(pd_flag_set("ps_notice", "3000"));
}

static void test_settings(void **state)
{
    (void)state;
    static const pd_communicator wrong[] = {{9, 1, 1, 0, 0, 1},
                                            {PD_COMMUNICATOR_QUEUE, 0, 1, 0, 0, 1},
                                            {PD_COMMUNICATOR_QUEUE, 1, 0, 0, 0, 1},
                                            {PD_COMMUNICATOR_QUEUE, 1, 1, -1, 0, 1},
                                            {PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_not_equal(pd_communicator_start(&wrong[i]), PD_OK);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 1}));
    assert_int_equal(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 1}),
                     PD_INVALID);
    must(pd_communicator_stop(NULL, NULL));
    must(pd_communicator_stop(NULL, NULL));
}

/* ---- copies ---- */

static pd_status fill_copy(struct pd_step_copy *copy, float value)
{
    float data[6];
    for (int i = 0; i < 6; i++)
        data[i] = value;
    pd_step_copy_clear(copy);
    PD_TRY(pd_step_copy_dense(copy, 7, PD_DTYPE_FP32, data, sizeof data, sizeof *data));
    PD_TRY(pd_step_copy_rows(copy, 8, PD_DTYPE_FP32, 3, (int64_t[]){4, 0, 4}, data, 2 * sizeof *data, 1));
    PD_TRY(pd_step_copy_brings(copy, 9));
    return pd_step_copy_ends(copy, 2, (const char *const[]){"a:1", "b:2"});
}

static pd_status merged(struct pd_step_copy **out)
{
    struct pd_step_copy *other = NULL;
    *out = NULL;
    pd_status status = pd_step_copy_new(out);
    if (status == PD_OK) status = pd_step_copy_new(&other);
    if (status == PD_OK) status = fill_copy(*out, 1);
    if (status == PD_OK) status = fill_copy(other, 3);
    if (status == PD_OK) status = pd_step_copy_add(*out, other);
    if (status == PD_OK) pd_step_copy_average(*out);
    pd_step_copy_free(other);
    return status;
}

static void test_copies_are_merged(void **state)
{
    (void)state;
    struct pd_step_copy *copy;
    must(merged(&copy));
    const struct pd_copied *dense = copy->items.at[0], *rows = copy->items.at[1];
    assert_int_equal(copy->n, 2);
    assert_int_equal(copy->endpoints.n, 2);
    for (int i = 0; i < 6; i++)
        assert_true(((float *)dense->data)[i] == 2);
    assert_int_equal(rows->rows.n, 6);
    assert_true(rows->rows.at[3] == 4 && rows->rows.at[4] == 0);
    assert_true(((float *)rows->data)[5] == 0.5f && ((float *)rows->data)[6] == 1.5f);
    assert_int_equal(rows->brings, 9);
    float one = 1;
    int64_t whole = 1;
    struct pd_step_copy *other;
    must(pd_step_copy_new(&other));
    must(pd_step_copy_dense(other, 7, PD_DTYPE_FP32, &one, sizeof one, sizeof one));
    assert_int_equal(pd_step_copy_add(copy, other), PD_SHAPE);
    pd_step_copy_clear(other);
    must(pd_step_copy_dense(other, 7, PD_DTYPE_INT64, &whole, sizeof whole, sizeof whole));
    assert_int_equal(pd_step_copy_add(copy, other), PD_TYPE);
    pd_step_copy_free(other);
    pd_step_copy_free(copy);
}

/* Of two steps, one has a gradient that the other one has not: that is its own average. */
static void test_averages_are_of_those_who_gave(void **state)
{
    (void)state;
    float first = 6, second = 2;
    struct pd_step_copy *copy, *other;
    must(pd_step_copy_new(&copy));
    must(pd_step_copy_new(&other));
    must(pd_step_copy_dense(copy, 1, PD_DTYPE_FP32, &first, sizeof first, sizeof first));
    must(pd_step_copy_dense(other, 1, PD_DTYPE_FP32, &second, sizeof second, sizeof second));
    must(pd_step_copy_dense(other, 2, PD_DTYPE_FP32, &second, sizeof second, sizeof second));
    must(pd_step_copy_ends(copy, 2, (const char *const[]){"a:1", "b:2"}));
    must(pd_step_copy_ends(other, 1, (const char *const[]){"b:2"}));
    assert_false(pd_step_copy_ends_as(copy, other));
    must(pd_step_copy_ends(other, 1, (const char *const[]){"a:1"}));
    assert_true(pd_step_copy_ends_as(copy, other));
    must(pd_step_copy_add(copy, other));
    pd_step_copy_average(copy);
    assert_int_equal(copy->n, 2);
    assert_true(*(float *)copy->items.at[0]->data == 4 && *(float *)copy->items.at[1]->data == 2);
    pd_step_copy_free(other);
    pd_step_copy_free(copy);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct pd_step_copy *copy;
    uint64_t before = pd_alloc_count();
    must(merged(&copy));
    uint64_t n = pd_alloc_count() - before;
    pd_step_copy_free(copy);
    assert_true(n > 8);
    for (uint64_t i = 1; i <= n; i++) {
        pd_alloc_fail_once(i);
        assert_int_equal(merged(&copy), PD_NO_MEMORY);
        pd_alloc_fail_once(0);
        pd_step_copy_free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_step_counts_once),
        cmocka_unit_test(test_unfused),
        cmocka_unit_test(test_two_scopes),
        cmocka_unit_test(test_stopped_at_once),
        cmocka_unit_test(test_flush_beside_others),
        cmocka_unit_test(test_rounds_beside_others),
        cmocka_unit_test(test_rounds_of_two_jobs),
        cmocka_unit_test(test_dropped_round),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_copies_are_merged),
        cmocka_unit_test(test_averages_are_of_those_who_gave),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
