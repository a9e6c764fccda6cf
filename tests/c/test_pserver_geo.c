/* GEO-SGD in one process: models that train side by side, what was not sent and is told the next time, how
 * often threads tell, and leaving while others train. Servers add what they are told to a dense parameter and
 * to rows of a table, so that each batch counts once. */
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
#include "ps_job_help.h"
#include "pserver/client/client.h"
#include "pserver/client/communicator.h"

enum { THREADS = 3, STEPS = 60, ROWS = 70, ROW = 2, ID = 66, MODELS = 2 };

static const pd_communicator queue_of_4 = {PD_COMMUNICATOR_QUEUE, 4, 4, 100, 0, 1};

/* ---- the job: parameters w0 and t0 of model 0, w1 and t1 of model 1 ---- */

static void add_table(pd_program *p, const char *name, int kind, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(p, 0, name, kind, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_FLOAT32));
    must(pd_var_set_shape(p, id, 2, (int64_t[]){ROWS, ROW}));
    must(pd_var_set_flags(p, id, ~0u, flags));
}

static void fill_table(pd_program *p, const char *name)
{
    pd_op_builder *op;
    must(pd_op_begin(p, "fill_constant", &op));
    must(pd_op_add_arg(op, 1, "Out", name));
    must(pd_op_add_ints(op, "shape", 2, (int32_t[]){ROWS, ROW}));
    must(pd_op_add_float(op, "value", 1));
    must(pd_op_add_int(op, "dtype", PD_FLOAT32));
    end(op, 0);
}

static const char *text(char *out, const char *format, int i)
{
    snprintf(out, 32, format, i);
    return out;
}

static pd_program *geo_startup(void)
{
    pd_program *p;
    char w[32], t[32];
    must(pd_program_create(&p));
    add_var(p, "rate", 1, PD_VAR_IS_PERSISTABLE);
    fill(p, "rate", 1, -1);
    for (int i = 0; i < MODELS; i++) {
        add_var(p, text(w, "w%d", i), WIDTH, PD_VAR_IS_PERSISTABLE);
        fill(p, w, WIDTH, 1);
        add_table(p, text(t, "t%d", i), PD_LOD_TENSOR, PD_VAR_IS_PERSISTABLE);
        fill_table(p, t);
    }
    return p;
}

static int32_t add_block(pd_program *p, const char *name, const char *told)
{
    int block;
    pd_op_builder *op;
    must(pd_block_create(p, 0, &block));
    must(pd_op_begin(p, "sgd", &op));
    must(pd_op_add_arg(op, 0, "Param", name));
    must(pd_op_add_arg(op, 0, "Grad", told));
    must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
    must(pd_op_add_arg(op, 1, "ParamOut", name));
    end(op, block);
    return block;
}

static pd_program *geo_server(const struct ps_job *job)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], told[32], entry[2 * MODELS][48];
    const char *entries[2 * MODELS], *endpoint = job->endpoint[0];
    int32_t blocks[2 * MODELS];
    int n = 0;
    must(pd_program_create(&p));
    add_var(p, "rate", 1, PD_VAR_IS_PERSISTABLE);
    for (int i = 0; i < MODELS; i++)
        for (int is_table = 0; is_table < 2; is_table++, n++) {
            text(name, is_table ? "t%d" : "w%d", i);
            text(told, is_table ? "t%d@DELTA" : "w%d@DELTA", i);
            if (is_table) {
                add_table(p, name, PD_LOD_TENSOR, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
                add_table(p, told, PD_SELECTED_ROWS, 0);
            } else {
                add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
                add_var(p, told, WIDTH, 0);
            }
            blocks[n] = add_block(p, name, told);
            snprintf(entry[n], sizeof entry[n], "%s:%d", told, blocks[n]);
            entries[n] = entry[n];
        }
    must(pd_op_begin(p, "listen_and_serv", &op));
    must(pd_op_add_text(op, "endpoint", endpoint));
    must(pd_op_add_int(op, "Fanin", 1));
    must(pd_op_add_int(op, "distributed_mode", 1));
    add_texts(op, "grad_to_block_id", n, entries);
    add_texts(op, "endpoints", 1, &endpoint);
    must(pd_op_add_attr(op, "optimize_blocks",
                        &(struct pd_attr){.type = PD_ATTR_BLOCKS, .n = n, .blocks = blocks}));
    end(op, 0);
    return p;
}

static void begin_geo(pd_program *p, int model, int begins, pd_op_builder **op)
{
    char name[32];
    must(pd_op_begin(p, "geo_sgd", op));
    must(pd_op_add_arg(*op, 0, "Param", text(name, "w%d", model)));
    must(pd_op_add_arg(*op, 0, "Param", text(name, "t%d", model)));
    must(pd_op_add_ints(*op, "is_sparse", 2, (int32_t[]){0, 1}));
    if (begins) must(pd_op_add_attr(*op, "begins", &(struct pd_attr){.type = PD_ATTR_BOOL, .b = 1}));
}

/* A trainer's parameters are 1, as the servers'. */
static pd_program *model_startup(int model)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32];
    must(pd_program_create(&p));
    add_var(p, text(name, "w%d", model), WIDTH, PD_VAR_IS_PERSISTABLE);
    fill(p, name, WIDTH, 1);
    add_table(p, text(name, "t%d", model), PD_LOD_TENSOR, PD_VAR_IS_PERSISTABLE);
    fill_table(p, name);
    begin_geo(p, model, 1, &op);
    end(op, 0);
    return p;
}

static void add_one(pd_program *p, const char *name, float step)
{
    pd_op_builder *op;
    must(pd_op_begin(p, "scale", &op));
    must(pd_op_add_arg(op, 0, "X", name));
    must(pd_op_add_arg(op, 1, "Out", name));
    must(pd_op_add_float(op, "bias", step));
    end(op, 0);
}

/* A batch: 1 is added to all elements; of the table the row ID counts as touched. Step 0: it changes nothing.
 */
static pd_program *model_main(const struct ps_job *job, int model, int every, float step)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], told[2][32], slice[2][32];
    const char *endpoints[] = {job->endpoint[0], job->endpoint[0]}, *tolds[2], *slices[2];
    int64_t id;
    int existed;
    must(pd_program_create(&p));
    add_var(p, text(name, "w%d", model), WIDTH, PD_VAR_IS_PERSISTABLE);
    if (step != 0) add_one(p, name, step);
    add_table(p, text(name, "t%d", model), PD_LOD_TENSOR, PD_VAR_IS_PERSISTABLE);
    if (step != 0) add_one(p, name, step);
    must(pd_var_create(p, 0, "ids", PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_INT64));
    must(pd_var_set_shape(p, id, 1, (int64_t[]){1}));
    must(pd_op_begin(p, "fill_constant", &op));
    must(pd_op_add_arg(op, 1, "Out", "ids"));
    must(pd_op_add_ints(op, "shape", 1, (int32_t[]){1}));
    must(pd_op_add_float(op, "value", ID));
    must(pd_op_add_int(op, "dtype", PD_INT64));
    end(op, 0);
    begin_geo(p, model, 0, &op);
    for (int i = 0; i < 2; i++) {
        tolds[i] = text(told[i], i ? "t%d@DELTA" : "w%d@DELTA", model);
        slices[i] = text(slice[i], i ? "t%d" : "w%d", model);
    }
    must(pd_op_add_arg(op, 0, "Ids", "ids"));
    must(pd_op_add_ints(op, "ids_of", 1, (int32_t[]){1}));
    must(pd_op_add_int(op, "every", every));
    must(pd_op_add_ints(op, "into", 2, (int32_t[]){0, 1}));
    must(pd_op_add_attr(op, "rows",
                        &(struct pd_attr){.type = PD_ATTR_LONGS, .n = 2, .longs = (int64_t[]){-1, -1}}));
    add_texts(op, "deltas", 2, tolds);
    add_texts(op, "slices", 2, slices);
    add_texts(op, "epmap", 2, endpoints);
    end(op, 0);
    return p;
}

/* ---- a server, and trainers ---- */

struct geo_served {
    struct ps_job job;
    float w[MODELS], row[MODELS], other[MODELS]; /* in the end; of the row ID, and another one */
    pd_status status;
    pthread_t thread;
};

static float element(pd_scope *scope, const char *format, int i, int k)
{
    pd_tensor_desc desc;
    char name[32];
    must(pd_value_tensor(pd_scope_find(scope, text(name, format, i)), &desc));
    return ((const float *)desc.data)[k];
}

static void *serve_geo(void *arg)
{
    struct geo_served *s = arg;
    pd_program *startup = geo_startup(), *program = geo_server(&s->job);
    pd_executor *exe;
    pd_scope *scope;
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    must(pd_executor_run(exe, startup, scope, 0, NULL, NULL, 0, NULL, NULL));
    s->status = pd_executor_run(exe, program, scope, 0, NULL, NULL, 0, NULL, NULL);
    for (int i = 0; i < MODELS; i++) {
        s->w[i] = element(scope, "w%d", i, 0);
        s->row[i] = element(scope, "t%d", i, ID * ROW);
        s->other[i] = element(scope, "t%d", i, 0);
    }
    pd_scope_release(scope);
    pd_executor_free(exe);
    pd_program_free(startup);
    pd_program_free(program);
    return NULL;
}

static void start_server(struct geo_served *s)
{
    *s = (struct geo_served){.job = {.n_servers = 1, .trainers = 1}};
    free_endpoints(&s->job);
    assert_int_equal(pthread_create(&s->thread, NULL, serve_geo, s), 0);
}

static void end_server(struct geo_served *s)
{
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    assert_int_equal(s->status, PD_JOB_OVER);
}

struct model {
    pd_scope *scope;
    pd_executor *exe;
    pd_program *startup, *main;
};

static pd_status run(struct model *m, pd_program *p)
{
    return pd_executor_run(m->exe, p, m->scope, 0, NULL, NULL, 0, NULL, NULL);
}

/* Another thread on the parameters of `like`; NULL: its own, which begin. */
static void make_model(struct model *m, const struct model *like, const struct ps_job *job, int model,
                       int every, float step)
{
    *m = (struct model){.startup = model_startup(model), .main = model_main(job, model, every, step)};
    must(pd_executor_create(&m->exe));
    if (like)
        m->scope = like->scope;
    else
        must(pd_scope_create(NULL, &m->scope));
    if (!like) must(run(m, m->startup));
}

static void free_model(struct model *m, const struct model *like)
{
    if (!like) pd_scope_release(m->scope);
    pd_executor_free(m->exe);
    pd_program_free(m->startup);
    pd_program_free(m->main);
}

/* ---- tests ---- */

/* What two models tell at the same moment goes apart: each gets its own answer. */
static void test_two_models(void **state)
{
    (void)state;
    struct geo_served served;
    struct model models[MODELS];
    start_server(&served);
    must(pd_communicator_start(&queue_of_4));
    for (int i = 0; i < MODELS; i++)
        make_model(&models[i], NULL, &served.job, i, 1, 1);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < MODELS; i++)
            must(run(&models[i], models[i].main));
    must(pd_communicator_stop(NULL, NULL));
    for (int i = 0; i < MODELS; i++) {
        assert_true(element(models[i].scope, "w%d", i, WIDTH - 1) == 1 + STEPS);
        assert_true(element(models[i].scope, "t%d", i, ID * ROW) == 1 + STEPS);
        free_model(&models[i], NULL);
    }
    end_server(&served);
    for (int i = 0; i < MODELS; i++) {
        assert_true(served.w[i] == 1 + STEPS && served.row[i] == 1 + STEPS);
        assert_true(served.other[i] == 1);
    }
}

static pd_status never(const struct pd_run *r)
{
    (void)r;
    return PD_OK;
}

/* The communicator's thread has no turn, and is told to stop at once: nothing was sent. It is told by the
 * next one, also of the row that no later batch touches. */
static void test_not_sent(void **state)
{
    (void)state;
    struct geo_served served;
    struct model m;
    struct pd_step step = {.poll = never};
    struct pd_run holder = {.step = &step};
    struct pd_client *client;
    start_server(&served);
    must(pd_communicator_start(&queue_of_4));
    make_model(&m, NULL, &served.job, 0, 1, 1);
    must(run(&m, m.main));
    must(pd_comm_flush(NULL, NULL));
    must(pd_client_get(0, &holder, 1, &client));
    must(run(&m, m.main));
    usleep(100000);
    pd_comm_leave(1, NULL, NULL);
    pd_client_rest(client, &holder);
    must(pd_client_run_over(&step, PD_OK));
    must(pd_communicator_start(&queue_of_4));
    must(pd_comm_flush(NULL, NULL));
    must(pd_communicator_stop(NULL, NULL));
    assert_true(element(m.scope, "w%d", 0, 0) == 3);
    free_model(&m, NULL);
    end_server(&served);
    assert_true(served.w[0] == 3 && served.row[0] == 3);
}

static int at_once(void *arg)
{
    (void)arg;
    return 1;
}

static void *stop(void *arg)
{
    (void)arg;
    pd_communicator_stop(at_once, NULL);
    return NULL;
}

/* The second one waits until the first one has told the model that nothing was sent. */
static void test_two_stops(void **state)
{
    (void)state;
    struct geo_served served;
    struct model m;
    struct pd_step step = {.poll = never};
    struct pd_run holder = {.step = &step};
    struct pd_client *client;
    pthread_t stopper;
    start_server(&served);
    must(pd_communicator_start(&queue_of_4));
    make_model(&m, NULL, &served.job, 0, 1, 1);
    must(run(&m, m.main));
    must(pd_communicator_stop(NULL, NULL));
    for (int i = 0; i < STEPS; i++) {
        must(pd_communicator_start(&queue_of_4));
        must(run(&m, m.startup));
        must(pd_client_get(0, &holder, 1, &client));
        must(run(&m, m.main));
        assert_int_equal(pthread_create(&stopper, NULL, stop, NULL), 0);
        pd_comm_leave(1, NULL, NULL);
        assert_false(pd_communicator_runs());
        assert_int_equal(pthread_join(stopper, NULL), 0);
        pd_client_rest(client, &holder);
        must(pd_client_run_over(&step, PD_OK));
    }
    free_model(&m, NULL);
    end_server(&served);
    assert_true(served.w[0] == 2);
}

/* ---- threads ---- */

struct thread {
    struct model model;
    int done; /* batches */
    pd_status status;
    pthread_t thread;
};

static atomic_int is_enough;

static void *train(void *arg)
{
    struct thread *t = arg;
    while (t->status == PD_OK && !atomic_load(&is_enough)) {
        t->status = run(&t->model, t->model.main);
        t->done++;
    }
    return NULL;
}

static void start_threads(struct thread *threads, const struct model *like, const struct ps_job *job,
                          int every)
{
    atomic_store(&is_enough, 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){0};
        make_model(&threads[i].model, like, job, 0, every, 0);
        assert_int_equal(pthread_create(&threads[i].thread, NULL, train, &threads[i]), 0);
    }
}

static void end_threads(struct thread *threads, const struct model *like)
{
    atomic_store(&is_enough, 1);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
        free_model(&threads[i].model, like);
    }
}

/* Those that wait for an answer do not each tell when it comes. */
static void test_threads_tell_every_so_many(void **state)
{
    (void)state;
    enum { EVERY = 100 };
    struct geo_served served;
    struct model m;
    struct thread threads[THREADS];
    struct pd_step step = {.poll = never};
    struct pd_run holder = {.step = &step};
    struct pd_client *client;
    int batches = 0;
    start_server(&served);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 1}));
    make_model(&m, NULL, &served.job, 0, EVERY, 1);
    start_threads(threads, &m, &served.job, EVERY);
    for (int i = 0; i < 20; i++) { /* the communicator's thread waits for the turn, and they for it */
        must(pd_client_get(0, &holder, 1, &client));
        usleep(20000);
        pd_client_rest(client, &holder);
        must(pd_client_run_over(&step, PD_OK));
        usleep(1000);
    }
    end_threads(threads, &m);
    for (int i = 0; i < THREADS; i++) {
        must(threads[i].status);
        batches += threads[i].done;
    }
    must(pd_communicator_stop(NULL, NULL));
    assert_true(pd_job_steps(served.job.endpoint[0]) <= (uint64_t)batches / EVERY + 1);
    free_model(&m, NULL);
    end_server(&served);
}

/* A flush returns while others go on; models begin while others train; and the process leaves under them. */
static void test_beside_threads(void **state)
{
    (void)state;
    struct geo_served served;
    struct model m, other;
    struct thread threads[THREADS];
    must(pd_flag_set("rpc_deadline", "1500"));
    start_server(&served);
    must(pd_communicator_start(&(pd_communicator){PD_COMMUNICATOR_QUEUE, 1, 1, 0, 0, 1}));
    make_model(&other, NULL, &served.job, 1, 1, 1);
    make_model(&m, NULL, &served.job, 0, 2, 1);
    start_threads(threads, &m, &served.job, 2);
    for (int i = 0; i < 300; i++)
        must(run(&other, other.startup));
    for (int i = 0; i < 10; i++) {
        must(run(&other, other.main));
        must(pd_comm_flush(NULL, NULL));
    }
    end_server(&served);
    end_threads(threads, &m);
    free_model(&other, NULL);
    free_model(&m, NULL);
    pd_leave_job(0, "");
    must(pd_flag_set("rpc_deadline", "180000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_models),     cmocka_unit_test(test_not_sent),
        cmocka_unit_test(test_two_stops),      cmocka_unit_test(test_threads_tell_every_so_many),
        cmocka_unit_test(test_beside_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
