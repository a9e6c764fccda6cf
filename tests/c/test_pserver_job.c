/* A whole job in one process: a server on one thread, its trainer on another, over the network, with loops, a
 * log and snapshots. Under the thread sanitizer this is what finds races between them. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <paddle/paddle.h>

#include "files_help.h"

/* libuv closes descriptors by a plain system call, which the thread sanitizer does not see: a folder that
 * gets the number of a loop that is gone looks like a race. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:pd_folder_names\n";
}

enum { PARAMS = 3, WIDTH = 5, STEPS = 60 };

static void must(pd_status status)
{
    if (status != PD_OK) fail_msg("%s: %s", pd_status_name(status), pd_error());
}

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&at, &n), 0);
    close(s);
    return ntohs(at.sin_port);
}

static void add_var(pd_program *p, const char *name, int64_t n, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(p, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(p, id, PD_FLOAT32));
    must(pd_var_set_shape(p, id, 1, &n));
    must(pd_var_set_flags(p, id, ~0u, flags));
}

static void add_texts(pd_op_builder *op, const char *name, int n, const char *const *texts)
{
    must(pd_op_add_attr(op, name, &(struct pd_attr){.type = PD_ATTR_STRINGS, .n = n, .strings = texts}));
}

static void end(pd_op_builder *op, int block)
{
    int64_t id;
    must(pd_op_insert(op, block, -1, &id));
}

static void fill(pd_program *p, const char *name, int n, float value)
{
    pd_op_builder *op;
    must(pd_op_begin(p, "fill_constant", &op));
    must(pd_op_add_arg(op, 1, "Out", name));
    must(pd_op_add_ints(op, "shape", 1, (int32_t[]){n}));
    must(pd_op_add_float(op, "value", value));
    must(pd_op_add_int(op, "dtype", PD_FLOAT32));
    end(op, 0);
}

struct job {
    char endpoint[64];
    int is_sync;
    float w[PARAMS][WIDTH]; /* what the server holds in the end */
    pd_status status;
};

static pd_program *server_program(const struct job *job)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], grad[32], entry[PARAMS][48];
    const char *entries[PARAMS];
    int32_t blocks[PARAMS];
    must(pd_program_create(&p));
    add_var(p, "rate", 1, PD_VAR_IS_PERSISTABLE);
    for (int i = 0; i < PARAMS; i++) {
        int block;
        snprintf(name, sizeof name, "w%d", i);
        snprintf(grad, sizeof grad, "w%d@GRAD", i);
        add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
        add_var(p, grad, WIDTH, 0);
        must(pd_block_create(p, 0, &block));
        must(pd_op_begin(p, "sgd", &op));
        must(pd_op_add_arg(op, 0, "Param", name));
        must(pd_op_add_arg(op, 0, "Grad", grad));
        must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
        must(pd_op_add_arg(op, 1, "ParamOut", name));
        end(op, block);
        snprintf(entry[i], sizeof entry[i], "%s:%d", grad, block);
        entries[i] = entry[i];
        blocks[i] = block;
    }
    must(pd_op_begin(p, "listen_and_serv", &op));
    must(pd_op_add_text(op, "endpoint", job->endpoint));
    must(pd_op_add_int(op, "Fanin", 1));
    must(pd_op_add_int(op, "distributed_mode", job->is_sync ? 0 : 1));
    add_texts(op, "grad_to_block_id", PARAMS, entries);
    add_texts(op, "endpoints", 1, (const char *const[]){job->endpoint});
    must(pd_op_add_attr(op, "optimize_blocks",
                        &(struct pd_attr){.type = PD_ATTR_BLOCKS, .n = PARAMS, .blocks = blocks}));
    end(op, 0);
    return p;
}

static void *serve(void *arg)
{
    struct job *job = arg;
    pd_program *startup, *program = server_program(job);
    pd_scope *scope;
    pd_executor *exe;
    char name[32];
    must(pd_program_create(&startup));
    add_var(startup, "rate", 1, PD_VAR_IS_PERSISTABLE);
    fill(startup, "rate", 1, 0.5f);
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        add_var(startup, name, WIDTH, PD_VAR_IS_PERSISTABLE);
        fill(startup, name, WIDTH, 1);
    }
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    must(pd_executor_run(exe, startup, scope, 0, NULL, NULL, 0, NULL, NULL));
    job->status = pd_executor_run(exe, program, scope, 0, NULL, NULL, 0, NULL, NULL);
    for (int i = 0; i < PARAMS; i++) {
        pd_tensor_desc desc;
        snprintf(name, sizeof name, "w%d", i);
        must(pd_value_tensor(pd_scope_find(scope, name), &desc));
        memcpy(job->w[i], desc.data, sizeof job->w[i]);
    }
    pd_executor_free(exe);
    pd_scope_release(scope);
    pd_program_free(startup);
    pd_program_free(program);
    return NULL;
}

/* Gradients are ones: w falls by 0.5 a step. */
static pd_program *trainer_program(const struct job *job)
{
    pd_program *p;
    pd_op_builder *op;
    char name[32], grad[32];
    const char *endpoint = job->endpoint;
    must(pd_program_create(&p));
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        snprintf(grad, sizeof grad, "w%d@GRAD", i);
        add_var(p, name, WIDTH, PD_VAR_IS_PERSISTABLE | PD_VAR_IS_PARAMETER);
        add_var(p, grad, WIDTH, 0);
        fill(p, grad, WIDTH, 1);
        must(pd_op_begin(p, "send", &op));
        must(pd_op_add_arg(op, 0, "X", grad));
        add_texts(op, "epmap", 1, &endpoint);
        end(op, 0);
    }
    if (job->is_sync) {
        must(pd_op_begin(p, "send_barrier", &op));
        add_texts(op, "endpoints", 1, &endpoint);
        end(op, 0);
    }
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        must(pd_op_begin(p, "recv", &op));
        must(pd_op_add_arg(op, 1, "Out", name));
        add_texts(op, "epmap", 1, &endpoint);
        end(op, 0);
    }
    return p;
}

static void run_job(int is_sync, const char *loops, const char *folder)
{
    struct job job = {.is_sync = is_sync};
    pthread_t server;
    pd_scope *scope;
    pd_executor *exe;
    snprintf(job.endpoint, sizeof job.endpoint, "127.0.0.1:%d", free_port());
    must(pd_flag_set("ps_loops", loops));
    must(pd_flag_set("ps_dir", folder));
    must(pd_flag_set("ps_log", *folder ? "write" : ""));
    must(pd_flag_set("ps_snapshot_steps", *folder ? "20" : "0"));
    assert_int_equal(pthread_create(&server, NULL, serve, &job), 0);
    pd_program *p = trainer_program(&job);
    must(pd_scope_create(NULL, &scope));
    must(pd_executor_create(&exe));
    for (int step = 1; step <= STEPS; step++) {
        must(pd_executor_run(exe, p, scope, 0, NULL, NULL, 0, NULL, NULL));
        pd_tensor_desc desc;
        must(pd_value_tensor(pd_scope_find(scope, "w2"), &desc));
        assert_true(((const float *)desc.data)[WIDTH - 1] == 1 - 0.5f * (float)step);
    }
    pd_leave_job(0, "");
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(job.status, PD_JOB_OVER);
    for (int i = 0; i < PARAMS; i++)
        assert_true(job.w[i][0] == 1 - 0.5f * STEPS);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_one_loop),
        cmocka_unit_test(test_sync_three_loops),
        cmocka_unit_test(test_async_two_loops),
        cmocka_unit_test(test_log_and_snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
