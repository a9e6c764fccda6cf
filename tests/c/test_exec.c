/* Tests of src/exec: runs, re-binding, shared memory, dynamic sizes, errors, interruption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/flags.h"
#include "exec/executor.h"
#include "passes/passes.h"
#include "toy_ops.h"

struct job {
    struct pd_program *program;
    struct pd_executor *executor;
    struct pd_scope *scope;
};

static int setup(void **state)
{
    static struct job job;
    assert_int_equal(pd_program_new(&toy_ops, &job.program), PD_OK);
    assert_int_equal(pd_exec_new(&job.executor), PD_OK);
    assert_int_equal(pd_scope_new(NULL, &job.scope), PD_OK);
    *state = &job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;
    pd_exec_free(job->executor);
    pd_scope_unref(job->scope);
    pd_program_unref(job->program);
    return 0;
}

static void put(struct pd_scope *scope, const char *name, int64_t n, const float *data)
{
    struct pd_value *v;
    assert_int_equal(pd_scope_get(scope, name, &v), PD_OK);
    assert_int_equal(pd_tensor_resize(&v->tensor, PD_DTYPE_FP32, 1, &n), PD_OK);
    memcpy(v->tensor.data, data, (size_t)n * sizeof *data);
}

static pd_status run(struct job *job, const char *feed, int64_t n, const float *data, const char *fetch,
                     struct pd_prepared **p)
{
    PD_TRY(pd_exec_prepare(job->executor, job->program, feed ? 1 : 0, &feed, fetch ? 1 : 0, &fetch, p));
    if (feed) PD_TRY(pd_exec_feed(*p, 0, PD_DTYPE_FP32, 1, &n, data, NULL));
    return pd_exec_run(*p, job->scope, NULL, NULL);
}

static void build_loss(struct pd_program *p)
{
    assert_int_equal(toy_var(p, "x", -1, PD_VAR_STOP_GRADIENT | PD_VAR_IS_DATA), PD_OK);
    assert_int_equal(toy_var(p, "w", -1, PD_VAR_PERSISTABLE | PD_VAR_PARAMETER | PD_VAR_TRAINABLE), PD_OK);
    assert_int_equal(toy_op(p, "toy_add", "x", "w", "a"), PD_OK);
    assert_int_equal(toy_op(p, "toy_square", "a", NULL, "s"), PD_OK);
    assert_int_equal(toy_op(p, "toy_add", "s", "w", "t"), PD_OK);
    assert_int_equal(toy_op(p, "toy_total", "t", NULL, "loss"), PD_OK);
}

static void a_step_computes_loss_and_gradient(void **state)
{
    struct job *job = *state;
    build_loss(job->program);
    const char *grad = NULL, *loss = "loss", *w = "w";
    struct pd_backward_spec spec = {.block = job->program->blocks.at[0],
                                    .n_targets = 1,
                                    .targets = &loss,
                                    .loss = 1,
                                    .n_wanted = 1,
                                    .wanted = &w};
    assert_int_equal(pd_pass_backward(&spec, &grad), PD_OK);
    struct pd_prepared *p;
    for (int64_t n = 1; n <= 4; n++) { /* another size each time */
        float x[4] = {1, 2, 3, 4}, ww[4] = {0.5f, 0.5f, 1, 1};
        put(job->scope, "w", n, ww);
        assert_int_equal(run(job, "x", n, x, "w@GRAD", &p), PD_OK);
        const struct pd_tensor *g = &pd_exec_fetched(p, 0)->tensor;
        assert_int_equal(g->meta.dim[0], n);
        for (int64_t i = 0; i < n; i++)
            assert_true(((float *)g->data)[i] == 2 * (x[i] + ww[i]) + 1);
        assert_int_equal(job->executor->plans.n, 1);
    }
}

static void temporaries_share_memory(void **state)
{
    struct job *job = *state;
    assert_int_equal(toy_var(job->program, "x", -1, PD_VAR_IS_DATA), PD_OK);
    char in[8] = "x", out[8];
    for (int i = 0; i < 20; i++) {
        out[0] = 'v', out[1] = (char)('a' + i), out[2] = 0;
        assert_int_equal(toy_op(job->program, "toy_square", in, NULL, out), PD_OK);
        strcpy(in, out);
    }
    float x[2] = {1, -1};
    struct pd_prepared *p;
    assert_int_equal(run(job, "x", 2, x, in, &p), PD_OK);
    assert_true(((float *)pd_exec_fetched(p, 0)->tensor.data)[1] == 1);
    assert_true(p->frame->chunks.n <= 2);
    assert_true(x[1] == -1); /* the caller's array is only read */
}

static void dynamic_sizes_flow_on(void **state)
{
    struct job *job = *state;
    assert_int_equal(toy_var(job->program, "x", -1, PD_VAR_IS_DATA), PD_OK);
    assert_int_equal(toy_op(job->program, "toy_keep", "x", NULL, "k"), PD_OK);
    assert_int_equal(toy_op(job->program, "toy_square", "k", NULL, "s"), PD_OK);
    assert_int_equal(toy_op(job->program, "toy_total", "s", NULL, "t"), PD_OK);
    struct pd_prepared *p;
    float a[4] = {1, -1, 2, 3}, b[4] = {-1, -1, -1, 5}, c[4] = {-1, -2, -3, -4};
    assert_int_equal(run(job, "x", 4, a, "t", &p), PD_OK);
    assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 14);
    assert_int_equal(run(job, "x", 4, b, "t", &p), PD_OK);
    assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 25);
    assert_int_equal(run(job, "x", 4, c, "t", &p), PD_OK);
    assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 0);
}

static void errors_leave_the_executor_working(void **state)
{
    struct job *job = *state;
    struct pd_prepared *p;
    float x[3] = {1, 2, 3};
    build_loss(job->program);
    assert_int_equal(run(job, "x", 3, x, "loss", &p), PD_NOT_FOUND); /* w is not in the scope */
    assert_non_null(strstr(pd_error(), "'w'"));
    put(job->scope, "w", 2, x);
    assert_int_equal(run(job, "x", 3, x, "loss", &p), PD_SHAPE);
    assert_non_null(strstr(pd_error(), "toy_add"));
    assert_int_equal(run(job, "z", 3, x, "loss", &p), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "'z'"));
    assert_int_equal(run(job, NULL, 0, NULL, "loss", &p), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "'x'"));
    assert_int_equal(run(job, "x", 3, x, "nothing", &p), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "'nothing'"));
    int64_t n = 2;
    const char *feed = "x", *fetch = "loss";
    assert_int_equal(pd_exec_prepare(job->executor, job->program, 1, &feed, 1, &fetch, &p), PD_OK);
    assert_int_equal(pd_exec_feed(p, 0, PD_DTYPE_FP64, 1, &n, x, NULL), PD_TYPE);
    assert_non_null(strstr(pd_error(), "float64"));
    assert_int_equal(run(job, "x", 2, x, "loss", &p), PD_OK);
    assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 4 + 16 + 1 + 2);
}

static void a_nan_names_its_op(void **state)
{
    struct job *job = *state;
    struct pd_prepared *p;
    assert_int_equal(toy_var(job->program, "x", -1, PD_VAR_IS_DATA), PD_OK);
    assert_int_equal(toy_op(job->program, "toy_square", "x", NULL, "s"), PD_OK);
    float x[1] = {1e30f};
    assert_int_equal(run(job, "x", 1, x, "s", &p), PD_OK);
    assert_int_equal(pd_flag_assign("check_nan_inf", "1"), PD_OK);
    assert_int_equal(run(job, "x", 1, x, "s", &p), PD_NOT_FINITE);
    assert_non_null(strstr(pd_error(), "toy_square"));
    assert_int_equal(pd_flag_assign("check_nan_inf", "0"), PD_OK);
}

static int stop_now(void *arg)
{
    ++*(int *)arg;
    return 1;
}

static void a_run_can_be_stopped(void **state)
{
    struct job *job = *state;
    assert_int_equal(toy_var(job->program, "x", -1, PD_VAR_IS_DATA), PD_OK);
    assert_int_equal(toy_op(job->program, "toy_square", "x", NULL, "s"), PD_OK);
    const char *feed = "x", *fetch = "s";
    struct pd_prepared *p;
    float x[1] = {2};
    int64_t n = 1;
    int polls = 0;
    assert_int_equal(pd_exec_prepare(job->executor, job->program, 1, &feed, 1, &fetch, &p), PD_OK);
    for (int i = 0; i < 100000000 && polls == 0; i++) {
        assert_int_equal(pd_exec_feed(p, 0, PD_DTYPE_FP32, 1, &n, x, NULL), PD_OK);
        p->frame->poll = stop_now;
        p->frame->poll_arg = &polls;
        p->frame->next_poll = 0;
        assert_int_equal(pd_frame_run(p->frame, job->scope), PD_INTERRUPTED);
    }
    assert_int_equal(polls, 1);
    assert_int_equal(run(job, "x", 1, x, "s", &p), PD_OK);
}

static void the_cache_is_bounded(void **state)
{
    struct job *job = *state;
    struct pd_prepared *p;
    float x[1] = {2};
    assert_int_equal(toy_var(job->program, "x", -1, PD_VAR_IS_DATA), PD_OK);
    for (int i = 0; i < 3 * PD_EXECUTOR_PLANS; i++) { /* each change of the Program makes a new plan */
        assert_int_equal(toy_op(job->program, "toy_square", "x", NULL, "s"), PD_OK);
        assert_int_equal(run(job, "x", 1, x, "s", &p), PD_OK);
        assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 4);
    }
    assert_true(job->executor->plans.n <= PD_EXECUTOR_PLANS);
}

static void memory_may_run_out_anywhere(void **state)
{
    struct job *job = *state;
    build_loss(job->program);
    float x[3] = {1, 2, 3};
    put(job->scope, "w", 3, x);
    for (uint64_t n = 1;; n++) {
        struct pd_executor *e = NULL;
        struct pd_prepared *p;
        const char *feed = "x", *fetch = "loss";
        int64_t rows = 3;
        pd_alloc_fail_at(n);
        pd_status status = pd_exec_new(&e);
        if (status == PD_OK) status = pd_exec_prepare(e, job->program, 1, &feed, 1, &fetch, &p);
        if (status == PD_OK) status = pd_exec_feed(p, 0, PD_DTYPE_FP32, 1, &rows, x, NULL);
        if (status == PD_OK) status = pd_exec_run(p, job->scope, NULL, NULL);
        pd_alloc_fail_at(0);
        if (status == PD_OK) assert_true(*(float *)pd_exec_fetched(p, 0)->tensor.data == 4 + 16 + 36 + 6);
        pd_exec_free(e);
        if (status == PD_OK) break;
        assert_int_equal(status, PD_NO_MEMORY);
        assert_true(n < 10000);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_step_computes_loss_and_gradient),
        TEST(temporaries_share_memory),
        TEST(dynamic_sizes_flow_on),
        TEST(errors_leave_the_executor_working),
        TEST(a_nan_names_its_op),
        TEST(a_run_can_be_stopped),
        TEST(the_cache_is_bounded),
        TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
