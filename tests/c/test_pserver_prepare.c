/* A gated shard keeps a step before it says that it is whole, and does it again after a restart: with a dense
 * parameter, with rows, and with one that runs through the engine, which here is a sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <paddle/paddle.h>

#include "exec/executor.h"
#include "pserver/shard/shard.h"

enum { TRAINERS = 2, WIDTH = 4, HEIGHT = 3, DENSE = 0, ROWS = 1, ENGINE = 2 };

struct record {
    struct pd_change change;
    size_t n;
    char payload[64];
};

struct world {
    pd_program *program;
    pd_scope *scope;
    pd_executor *executor;
    struct pd_shard *shard;
    float sum; /* of the averages that came to it */
    struct record log[64];
    int n_log, committed; /* records; those that a killed process leaves */
    int is_deaf;          /* there is a log, but nothing is kept */
    uint64_t whole, applied, answered;
    int wholes;
};

static void must(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

/* ---- what the shard asks for ---- */

static pd_status begin_step(void *arg, uint64_t step)
{
    (void)arg, (void)step;
    return PD_OK;
}

static pd_status run_blocks(void *arg, struct pd_shard *shard)
{
    struct world *w = arg;
    float sum = 0;
    int n = 0;
    for (int t = 0; t < TRAINERS; t++) {
        const struct pd_given *g = pd_shard_takes_part(shard, t) ? pd_shard_given(shard, ENGINE, t) : NULL;
        n += pd_shard_takes_part(shard, t);
        if (g) sum += ((const float *)g->data)[0];
    }
    w->sum += sum / (float)n;
    return PD_OK;
}

static pd_status log_change(void *arg, const struct pd_change *change, const struct pd_span *spans, int n)
{
    struct world *w = arg;
    struct record *r = &w->log[w->n_log++];
    assert_true(w->n_log <= 64);
    *r = (struct record){.change = *change};
    for (int i = 0; i < n; i++) {
        assert_true(r->n + spans[i].n <= sizeof r->payload);
        if (spans[i].n) memcpy(r->payload + r->n, spans[i].at, spans[i].n);
        r->n += spans[i].n;
    }
    return PD_OK;
}

static int keeps(void *arg)
{
    return !((struct world *)arg)->is_deaf;
}

static pd_status commit(void *arg, int trainer, uint64_t step)
{
    struct world *w = arg;
    (void)trainer, (void)step;
    w->committed = w->n_log;
    return PD_OK;
}

static void whole(void *arg, uint64_t step)
{
    struct world *w = arg;
    if (!w->is_deaf) { /* it is safe by now */
        assert_int_equal(w->log[w->committed - 1].change.kind, PD_CHANGE_READY);
        assert_int_equal(w->committed, w->n_log);
    }
    w->whole = step;
    w->wholes++;
}

static int applied(void *arg, uint64_t step)
{
    ((struct world *)arg)->applied = step;
    return 0;
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    (void)trainer, (void)request;
    ((struct world *)arg)->answered = step;
}

/* ---- a shard with three parameters ---- */

static void add_var(struct world *w, const char *name, int rank, const int64_t *dims, float value)
{
    int64_t id, n = 1;
    int existed;
    pd_value *held;
    pd_tensor_desc tensor;
    must(pd_var_create(w->program, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(w->program, id, PD_FLOAT32));
    must(pd_var_set_shape(w->program, id, rank, dims));
    must(pd_var_set_flags(w->program, id, PD_VAR_IS_PERSISTABLE, PD_VAR_IS_PERSISTABLE));
    must(pd_scope_var(w->scope, name, &held));
    must(pd_value_set_tensor(held, PD_FLOAT32, rank, dims, NULL));
    must(pd_value_tensor(held, &tensor));
    for (int i = 0; i < rank; i++)
        n *= dims[i];
    for (int64_t i = 0; i < n; i++)
        ((float *)tensor.data)[i] = value;
}

static void add_unit(struct world *w, struct pd_frame *frame, int block, const char *param, const char *grad,
                     int is_rows)
{
    struct pd_unit_spec spec = {.grad = grad, .block = block, .is_rows = is_rows};
    struct pd_rule *rule = NULL;
    int number;
    if (frame) {
        struct pd_engine engine = pd_engine_of(frame, NULL);
        must(pd_rule_new(&engine, block, grad, &rule));
    }
    assert_true(!frame || rule);
    must(pd_table_of_value(param, pd_scope_find(w->scope, param), rule, &spec.table));
    must(pd_shard_add(w->shard, &spec, &number));
}

static int add_sgd(struct world *w, const char *param, const char *grad)
{
    int block;
    int64_t id;
    pd_op_builder *op;
    must(pd_block_create(w->program, 0, &block));
    must(pd_op_begin(w->program, "sgd", &op));
    must(pd_op_add_arg(op, 0, "Param", param));
    must(pd_op_add_arg(op, 0, "Grad", grad));
    must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
    must(pd_op_add_arg(op, 1, "ParamOut", param));
    must(pd_op_insert(op, block, -1, &id));
    return block;
}

/* Parameters are 0 and fall by the averaged gradient. */
static struct world *make(void)
{
    struct world *w = calloc(1, sizeof *w);
    pd_prepared *plan;
    must(pd_program_create(&w->program));
    must(pd_scope_create(NULL, &w->scope));
    add_var(w, "rate", 1, (int64_t[]){1}, 1);
    add_var(w, "w", 1, (int64_t[]){WIDTH}, 0);
    add_var(w, "w@GRAD", 1, (int64_t[]){WIDTH}, 0);
    add_var(w, "t", 2, (int64_t[]){HEIGHT, WIDTH}, 0);
    add_var(w, "t@GRAD", 2, (int64_t[]){HEIGHT, WIDTH}, 0);
    add_var(w, "v", 1, (int64_t[]){1}, 0);
    int dense = add_sgd(w, "w", "w@GRAD"), rows = add_sgd(w, "t", "t@GRAD");
    must(pd_executor_create(&w->executor));
    must(pd_executor_prepare(w->executor, w->program, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = w->scope;
    struct pd_shard_config config = {.trainers = TRAINERS,
                                     .is_sync = 1,
                                     .is_gated = 1,
                                     .hooks = {.begin_step = begin_step,
                                               .run_blocks = run_blocks,
                                               .log = log_change,
                                               .keeps = keeps,
                                               .commit = commit,
                                               .whole = whole,
                                               .applied = applied,
                                               .answer = answer,
                                               .arg = w}};
    must(pd_shard_new(&config, &w->shard));
    add_unit(w, plan->frame, dense, "w", "w@GRAD", 0);
    add_unit(w, plan->frame, rows, "t", "t@GRAD", 1);
    add_unit(w, NULL, 0, "v", "v@GRAD", 0);
    return w;
}

static void drop(struct world *w)
{
    pd_shard_free(w->shard);
    pd_executor_free(w->executor);
    pd_scope_release(w->scope);
    pd_program_free(w->program);
    free(w);
}

static void join_all(struct world *w)
{
    for (int t = 0; t < TRAINERS; t++)
        must(pd_shard_join(w->shard, t, 100 + (uint64_t)t));
}

static void push(struct world *w, int trainer, uint64_t step, uint32_t unit, float value)
{
    struct pd_span at[2];
    int n, is_rows = unit == ROWS;
    must(pd_shard_place(w->shard, trainer, step, unit, 0, (uint64_t)is_rows, at, &n));
    assert_int_equal(n, is_rows ? 2 : 1);
    if (is_rows) *(int64_t *)at[0].at = 1;
    for (size_t i = 0; i < at[n - 1].n / sizeof(float); i++)
        ((float *)at[n - 1].at)[i] = value;
    must(pd_shard_arrived(w->shard, trainer, step, unit, 0, (uint64_t)is_rows));
}

static void push_all(struct world *w, int trainer, uint64_t step, float value)
{
    for (uint32_t u = DENSE; u <= ENGINE; u++)
        push(w, trainer, step, u, value);
    must(pd_shard_end(w->shard, trainer, step, step));
}

static float value_of(struct world *w, const char *name, int at)
{
    pd_tensor_desc tensor;
    must(pd_value_tensor(pd_scope_find(w->scope, name), &tensor));
    return ((const float *)tensor.data)[at];
}

/* By how much all three have changed. */
static void expect(struct world *w, uint64_t step, float fallen)
{
    assert_int_equal(pd_shard_step(w->shard), step);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(value_of(w, "w", i) == -fallen);
        assert_true(value_of(w, "t", i) == 0);
        assert_true(value_of(w, "t", WIDTH + i) == -fallen);
    }
    assert_true(w->sum == fallen);
}

static void expect_kinds(const struct world *w, int from, int n, const int *kinds)
{
    assert_int_equal(w->n_log - from, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(w->log[from + i].change.kind, kinds[i]);
}

/* A shard that takes up what another had committed from record `from` on. */
static struct world *restart(const struct world *before, int from, int is_taken)
{
    struct world *w = make();
    int n = before->committed - from;
    struct pd_kept_change *changes = pd_calloc((size_t)n, sizeof *changes);
    assert_true(n > 0 && changes);
    for (int i = 0; i < n; i++) {
        const struct record *r = &before->log[from + i];
        changes[i] = (struct pd_kept_change){r->change, pd_malloc_aligned(r->n), r->n};
        if (r->n) memcpy(changes[i].payload, r->payload, r->n);
    }
    assert_int_equal(pd_shard_set_prepared(w->shard, changes, n), is_taken);
    for (int i = 0; !is_taken && i < n; i++)
        pd_free_aligned(changes[i].payload);
    if (!is_taken) pd_free(changes);
    return w;
}

/* PREPARE; a part, rows, what each trainer gave to the engine; READY. */
static const int group[] = {PD_CHANGE_PREPARE, PD_CHANGE_PART,  PD_CHANGE_ROWS,
                            PD_CHANGE_GIVEN,   PD_CHANGE_GIVEN, PD_CHANGE_READY};
enum { GROUP = 6 };

/* ---- tests ---- */

static void test_a_whole_step_is_kept_once(void **state)
{
    (void)state;
    struct world *w = make();
    join_all(w);
    push_all(w, 0, 1, 2);
    assert_int_equal(w->n_log, 0);
    push_all(w, 1, 1, 4);
    assert_int_equal(w->whole, 1);
    expect_kinds(w, 0, GROUP, group);
    expect(w, 0, 0);
    must(pd_shard_join(w->shard, 0, 100)); /* the same process, on a new connection */
    must(pd_shard_end(w->shard, 0, 1, 7));
    assert_int_equal(w->wholes, 2);
    assert_int_equal(w->n_log, GROUP);
    must(pd_shard_allow(w->shard, 1));
    expect_kinds(w, GROUP, 1, (int[]){PD_CHANGE_END});
    assert_int_equal(w->committed, GROUP + 1);
    assert_int_equal(w->log[GROUP].n, TRAINERS * sizeof(int32_t));
    assert_memory_equal(w->log[GROUP].payload, w->log[GROUP - 1].payload, TRAINERS * sizeof(int32_t));
    expect(w, 1, 3);
    assert_int_equal(w->answered, 1);
    drop(w);
}

static void test_without_a_log_nothing_is_kept(void **state)
{
    (void)state;
    struct world *w = make();
    w->is_deaf = 1;
    join_all(w);
    push_all(w, 0, 1, 2);
    push_all(w, 1, 1, 4);
    assert_int_equal(w->whole, 1);
    must(pd_shard_allow(w->shard, 1));
    expect(w, 1, 3);
    assert_int_equal(w->n_log, 0);
    drop(w);
}

/* Both have given to step 1, the server was killed after READY, and is here again. */
static struct world *killed_when_ready(void)
{
    struct world *before = make();
    join_all(before);
    push_all(before, 0, 1, 2);
    push_all(before, 1, 1, 4);
    struct world *w = restart(before, 1, 1);
    drop(before);
    return w;
}

/* Killed after READY; one of those who gave to the step never comes back. */
static void test_what_was_kept_is_applied_when_it_is_allowed(void **state)
{
    (void)state;
    struct world *w = killed_when_ready();
    assert_int_equal(pd_shard_prepared(w->shard), 1);
    must(pd_shard_allow(w->shard, 0));
    expect(w, 0, 0);
    must(pd_shard_allow(w->shard, 1));
    expect(w, 1, 3);
    assert_int_equal(w->applied, 1);
    assert_int_equal(pd_shard_prepared(w->shard), 0);
    expect_kinds(w, 0, 1, (int[]){PD_CHANGE_END});
    assert_int_equal(w->log[0].n, TRAINERS * sizeof(int32_t));
    for (int t = 0; t < TRAINERS; t++) {
        assert_int_equal(pd_shard_trainer(w->shard, t), PD_TRAINER_ABSENT);
        assert_int_equal(pd_shard_counted(w->shard, t), 1);
    }
    must(pd_shard_join(w->shard, 0, 100)); /* it asks for its answer, and goes on alone */
    must(pd_shard_leave(w->shard, 1, PD_TRAINER_LOST));
    must(pd_shard_end(w->shard, 0, 1, 9));
    assert_int_equal(w->answered, 1);
    push_all(w, 0, 2, 5);
    must(pd_shard_allow(w->shard, 2));
    expect(w, 2, 8);
    drop(w);
}

/* The order has let somebody in without allowing it: nobody has applied it, and it is given anew. */
static void test_who_joins_first_starts_it_anew(void **state)
{
    (void)state;
    struct world *w = killed_when_ready();
    must(pd_shard_join(w->shard, 0, 100));
    assert_int_equal(pd_shard_prepared(w->shard), 0);
    must(pd_shard_leave(w->shard, 1, PD_TRAINER_LOST));
    must(pd_shard_allow(w->shard, 1));
    expect(w, 0, 0);
    push_all(w, 0, 1, 2);
    expect(w, 1, 2);
    /* What the file has of it is void before it is logged again. */
    expect_kinds(w, 0, 5,
                 (int[]){PD_CHANGE_PREPARE, PD_CHANGE_PART, PD_CHANGE_ROWS, PD_CHANGE_GIVEN, PD_CHANGE_END});
    drop(w);
}

static void test_changes_of_who_takes_part_make_it_void(void **state)
{
    (void)state;
    struct world *w = make(), *after;
    join_all(w);
    push_all(w, 0, 1, 2);
    push_all(w, 1, 1, 4);
    must(pd_shard_join(w->shard, 1, 555)); /* another process */
    assert_int_equal(w->n_log, GROUP);
    push_all(w, 1, 1, 6);
    expect_kinds(w, GROUP, GROUP, group);
    must(pd_shard_leave(w->shard, 1, PD_TRAINER_LOST));
    expect_kinds(
        w, 2 * GROUP, 5,
        (int[]){PD_CHANGE_PREPARE, PD_CHANGE_PART, PD_CHANGE_ROWS, PD_CHANGE_GIVEN, PD_CHANGE_READY});
    after = restart(w, 2 * GROUP + 1, 1);
    must(pd_shard_allow(after->shard, 1));
    expect(after, 1, 2);
    assert_int_equal(after->log[0].n, sizeof(int32_t));
    assert_int_equal(pd_shard_counted(after->shard, 1), 0);
    drop(after);
    must(pd_shard_allow(w->shard, 1));
    assert_int_equal(w->n_log, 2 * GROUP + 6);
    expect(w, 1, 2);
    drop(w);
}

static void test_what_comes_after_the_end_makes_it_void(void **state)
{
    (void)state;
    struct world *w = make();
    join_all(w);
    push_all(w, 0, 1, 2);
    push(w, 1, 1, DENSE, 4);
    must(pd_shard_end(w->shard, 1, 1, 1));
    assert_int_equal(w->log[w->n_log - 1].change.kind, PD_CHANGE_READY);
    int n = w->n_log;
    push(w, 1, 1, ROWS, 4);
    push(w, 1, 1, ENGINE, 4);
    must(pd_shard_allow(w->shard, 1));
    expect(w, 1, 3);
    assert_int_equal(w->log[n].change.kind, PD_CHANGE_PREPARE);
    assert_int_equal(w->n_log, n + GROUP); /* END in the place of READY */
    drop(w);
}

static void test_only_the_next_whole_step_is_taken_up(void **state)
{
    (void)state;
    struct world *before = make();
    join_all(before);
    for (uint64_t step = 1; step <= 2; step++) {
        push_all(before, 0, step, 2);
        push_all(before, 1, step, 4);
        if (step == 1) must(pd_shard_allow(before->shard, 1));
    }
    drop(restart(before, GROUP + 2, 0)); /* of step 2, where step 0 was the last */
    before->committed--;                 /* without READY */
    drop(restart(before, GROUP + 2, 0));
    before->committed = GROUP;
    struct world *w = restart(before, 1, 1);
    pd_shard_set_step(w->shard, 1); /* a snapshot has it */
    assert_int_equal(pd_shard_prepared(w->shard), 0);
    drop(w);
    drop(before);
}

/* All have passed, or are gone but for one who comes later: there is nothing in it, and it is over. */
static void test_a_step_of_nobody(void **state)
{
    (void)state;
    struct world *before = make(), *w;
    join_all(before);
    for (int t = 0; t < TRAINERS; t++) {
        pd_shard_pass(before->shard, t, 1);
        must(pd_shard_end(before->shard, t, 1, 1));
    }
    expect_kinds(before, 0, 2, (int[]){PD_CHANGE_PREPARE, PD_CHANGE_READY});
    w = restart(before, 1, 1);
    drop(before);
    must(pd_shard_allow(w->shard, 1));
    expect(w, 1, 0);
    drop(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_step_is_kept_once),
        cmocka_unit_test(test_without_a_log_nothing_is_kept),
        cmocka_unit_test(test_what_was_kept_is_applied_when_it_is_allowed),
        cmocka_unit_test(test_who_joins_first_starts_it_anew),
        cmocka_unit_test(test_changes_of_who_takes_part_make_it_void),
        cmocka_unit_test(test_what_comes_after_the_end_makes_it_void),
        cmocka_unit_test(test_only_the_next_whole_step_is_taken_up),
        cmocka_unit_test(test_a_step_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
