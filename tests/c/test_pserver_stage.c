/* Parts that are applied as soon as they arrive, and share their memory: several in a message, the same one
 * twice, a message that breaks off, a snapshot in the middle of a push. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <paddle/paddle.h>

#include "exec/executor.h"
#include "pserver/proto.h"
#include "pserver/shard.h"

enum { PART = PD_PS_PART / sizeof(float), LAST = 1000, NUMEL = 2 * PART + LAST };

struct world {
    pd_program *program;
    pd_scope *scope;
    pd_executor *executor;
    pd_value *param;
    struct pd_shard *shard;
    int unit;
    uint64_t answered;
};

static void must(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

static void add_var(struct world *w, const char *name, int64_t n, float value, unsigned flags)
{
    int64_t id;
    int existed;
    must(pd_var_create(w->program, 0, name, PD_LOD_TENSOR, &id, &existed));
    must(pd_var_set_dtype(w->program, id, PD_FLOAT32));
    must(pd_var_set_shape(w->program, id, 1, &n));
    must(pd_var_set_flags(w->program, id, flags, flags));
    if (!flags) return;
    pd_value *held;
    pd_tensor_desc tensor;
    must(pd_scope_var(w->scope, name, &held));
    must(pd_value_set_tensor(held, PD_FLOAT32, 1, &n, NULL));
    must(pd_value_tensor(held, &tensor));
    for (int64_t i = 0; i < n; i++)
        ((float *)tensor.data)[i] = value;
}

static pd_status begin_step(void *arg, uint64_t step)
{
    (void)arg, (void)step;
    return PD_OK;
}

static pd_status run_blocks(void *arg, struct pd_shard *shard)
{
    (void)arg, (void)shard;
    return PD_OK;
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    (void)trainer, (void)request;
    ((struct world *)arg)->answered = step;
}

/* w falls by the gradient. Nobody is there yet. */
static void build(struct world *w, int is_sync, int trainers)
{
    int block;
    int64_t id;
    pd_op_builder *op;
    pd_prepared *plan;
    memset(w, 0, sizeof *w);
    must(pd_program_create(&w->program));
    must(pd_scope_create(NULL, &w->scope));
    add_var(w, "w", NUMEL, 1, PD_VAR_IS_PERSISTABLE);
    add_var(w, "rate", 1, 1, PD_VAR_IS_PERSISTABLE);
    add_var(w, "w@GRAD", NUMEL, 0, 0);
    must(pd_block_create(w->program, 0, &block));
    must(pd_op_begin(w->program, "sgd", &op));
    must(pd_op_add_arg(op, 0, "Param", "w"));
    must(pd_op_add_arg(op, 0, "Grad", "w@GRAD"));
    must(pd_op_add_arg(op, 0, "LearningRate", "rate"));
    must(pd_op_add_arg(op, 1, "ParamOut", "w"));
    must(pd_op_insert(op, block, -1, &id));
    must(pd_executor_create(&w->executor));
    must(pd_executor_prepare(w->executor, w->program, 0, NULL, 0, NULL, &plan));
    plan->frame->scope = w->scope;
    w->param = pd_scope_find(w->scope, "w");

    struct pd_shard_config config = {
        .trainers = trainers,
        .is_sync = is_sync,
        .hooks = {.begin_step = begin_step, .run_blocks = run_blocks, .answer = answer, .arg = w}};
    struct pd_unit_spec spec = {.grad = "w@GRAD", .block = block, .param = w->param};
    must(pd_shard_new(&config, &w->shard));
    must(pd_rule_new(plan->frame, block, "w@GRAD", &spec.rule));
    assert_non_null(spec.rule);
    must(pd_shard_add(w->shard, &spec, &w->unit));
}

static void make(struct world *w, int is_sync, int trainers)
{
    build(w, is_sync, trainers);
    must(pd_shard_join(w->shard, 0, 7));
}

static void drop(struct world *w)
{
    pd_shard_free(w->shard);
    pd_executor_free(w->executor);
    pd_scope_release(w->scope);
    pd_program_free(w->program);
}

/* All parts of a message are placed before the first of them has arrived. */
static void message_of(struct world *w, int trainer, uint64_t step, int n, const uint32_t *parts, float value,
                       int is_whole)
{
    struct pd_span at[8][2];
    int spans;
    for (int i = 0; i < n; i++) {
        must(pd_shard_place(w->shard, trainer, step, (uint32_t)w->unit, parts[i], 0, at[i], &spans));
        assert_int_equal(spans, 1);
        assert_int_equal(at[i][0].n, (parts[i] == 2 ? LAST : PART) * sizeof(float));
    }
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < at[i][0].n / sizeof(float); k++)
            ((float *)at[i][0].at)[k] = value + (float)parts[i];
    for (int i = 0; is_whole && i < n; i++)
        must(pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->unit, parts[i], 0));
}

static void message(struct world *w, uint64_t step, int n, const uint32_t *parts, float value, int is_whole)
{
    message_of(w, 0, step, n, parts, value, is_whole);
}

static void expect(const struct world *w, const float values[3])
{
    pd_tensor_desc tensor;
    must(pd_value_tensor(w->param, &tensor));
    for (int64_t i = 0; i < NUMEL; i++)
        if (((float *)tensor.data)[i] != values[i / PART])
            fail_msg("w[%lld] is %f, expected %f", (long long)i, (double)((float *)tensor.data)[i],
                     (double)values[i / PART]);
}

static void both(void (*test)(struct world *w))
{
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct world w;
        make(&w, is_sync, 1);
        test(&w);
        drop(&w);
    }
}

static void one_by_one(struct world *w)
{
    for (uint32_t step = 1; step <= 3; step++) {
        for (uint32_t part = 0; part < 3; part++)
            message(w, step, 1, &part, 1, 1);
        must(pd_shard_end(w->shard, 0, step, step));
        assert_int_equal(w->answered, step);
    }
    expect(w, (float[]){-2, -5, -8});
}

static void more_than_there_is_room_for(struct world *w)
{
    message(w, 1, 3, (uint32_t[]){2, 0, 1}, 1, 1);
    must(pd_shard_end(w->shard, 0, 1, 1));
    expect(w, (float[]){0, -1, -2});
    message(w, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(w->shard, 0, 2, 2));
    expect(w, (float[]){-1, -3, -5});
}

static void the_same_part_twice(struct world *w)
{
    message(w, 1, 3, (uint32_t[]){2, 2, 2}, 1, 1);
    expect(w, (float[]){1, 1, -2});
    assert_int_equal(pd_shard_repeated(w->shard), 2);
    message(w, 1, 2, (uint32_t[]){2, 0}, 1, 1); /* once more, and a new one */
    expect(w, (float[]){0, 1, -2});
    assert_int_equal(pd_shard_repeated(w->shard), 3);
}

static void a_message_that_breaks_off(struct world *w)
{
    for (int i = 0; i < 5; i++) {
        message(w, 1, 2, (uint32_t[]){2, 0}, 100, 0);
        must(pd_shard_join(w->shard, 0, 7)); /* it comes back */
    }
    expect(w, (float[]){1, 1, 1});
    message(w, 1, 2, (uint32_t[]){0, 2}, 1, 1);
    message(w, 1, 1, (uint32_t[]){1}, 1, 1);
    must(pd_shard_end(w->shard, 0, 1, 1));
    assert_int_equal(w->answered, 1);
    expect(w, (float[]){0, -1, -2});
}

static void bytes_that_stay_where_they_are(struct world *w)
{
    static float lent[PART];
    struct pd_span at[2];
    int spans;
    for (int i = 0; i < PART; i++)
        lent[i] = 3;
    for (uint32_t part = 0; part < 3; part++) {
        assert_int_equal(pd_shard_may_lend(w->shard, 0), 0);
        must(pd_shard_place(w->shard, 0, 1, (uint32_t)w->unit, part, 0, at, &spans));
        assert_int_equal(pd_shard_may_lend(w->shard, 0), sizeof(float));
        memset(at[0].at, 0, at[0].n);
        pd_shard_lend(w->shard, 0, lent);
        must(pd_shard_arrived(w->shard, 0, 1, (uint32_t)w->unit, part, 0));
    }
    must(pd_shard_end(w->shard, 0, 1, 1));
    expect(w, (float[]){-2, -2, -2});
    message(w, 2, 2, (uint32_t[]){2, 0}, 1, 0);
    must(pd_shard_join(w->shard, 0, 7));
    message(w, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1); /* the place of the last one is forgotten */
    must(pd_shard_end(w->shard, 0, 2, 2));
    expect(w, (float[]){-3, -4, -5});
}

#define CASE(name)                                                                                           \
    static void test_##name(void **state)                                                                    \
    {                                                                                                        \
        (void)state;                                                                                         \
        both(name);                                                                                          \
    }
CASE(one_by_one)
CASE(more_than_there_is_room_for)
CASE(the_same_part_twice)
CASE(a_message_that_breaks_off)
CASE(bytes_that_stay_where_they_are)

/* Parts of the step are applied: one that joins now would count in some of it only. It waits in the next. */
static void test_who_joins_in_the_middle_of_a_step(void **state)
{
    struct world w;
    (void)state;
    for (int stays = 0; stays < 2; stays++) {
        make(&w, 1, 2);
        must(pd_shard_join(w.shard, 1, 8));
        must(pd_shard_leave(w.shard, 1, PD_TRAINER_DONE));
        message_of(&w, 0, 1, 1, (uint32_t[]){0}, 1, 1);
        expect(&w, (float[]){0, 1, 1});
        must(pd_shard_join(w.shard, 1, 9));
        assert_int_equal(pd_shard_trainer_step(w.shard, 1), 1);
        message_of(&w, 1, 2, 3, (uint32_t[]){0, 1, 2}, 3, 1);
        must(pd_shard_end(w.shard, 1, 2, 1));
        expect(&w, (float[]){0, 1, 1});
        if (!stays) { /* the step is over when nobody is left in it */
            must(pd_shard_leave(w.shard, 0, PD_TRAINER_LOST));
            assert_int_equal(pd_shard_step(w.shard), 2);
            expect(&w, (float[]){-3, -3, -4});
            drop(&w);
            continue;
        }
        message_of(&w, 0, 1, 2, (uint32_t[]){1, 2}, 1, 1);
        must(pd_shard_end(w.shard, 0, 1, 1));
        assert_int_equal(pd_shard_step(w.shard), 1);
        expect(&w, (float[]){0, -1, -2});
        message_of(&w, 0, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
        must(pd_shard_end(w.shard, 0, 2, 2));
        assert_int_equal(pd_shard_step(w.shard), 2);
        expect(&w, (float[]){-2, -4, -6});
        drop(&w);
    }
}

/* Async: a trainer that was taken for lost sends its push again. */
static void test_who_was_lost_and_was_not(void **state)
{
    struct world w;
    (void)state;
    make(&w, 0, 2);
    message(&w, 1, 2, (uint32_t[]){0, 1}, 1, 1);
    must(pd_shard_leave(w.shard, 0, PD_TRAINER_LOST));
    must(pd_shard_join(w.shard, 0, 7));
    message(&w, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(w.shard, 0, 1, 1));
    expect(&w, (float[]){0, -1, -2});
    must(pd_shard_leave(w.shard, 0, PD_TRAINER_LOST));
    must(pd_shard_join(w.shard, 0, 9)); /* another process: it has given nothing yet */
    message(&w, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(w.shard, 0, 2, 2));
    expect(&w, (float[]){-1, -3, -5});
    assert_int_equal(w.answered, 2);
    pd_shard_hold(w.shard); /* the server ends: nobody hears of what its last snapshot does not have */
    message(&w, 3, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(w.shard, 0, 3, 3));
    must(pd_shard_end(w.shard, 0, 3, 3));
    expect(&w, (float[]){-2, -5, -8});
    assert_int_equal(w.answered, 2);
    drop(&w);
}

/* As after a restart: the values and the steps of the snapshot, and what it says of open pushes. */
static void restart(struct world *w, const struct world *from, const char *open)
{
    pd_tensor_desc to, of;
    build(w, 0, 3);
    must(pd_value_tensor(w->param, &to));
    must(pd_value_tensor(from->param, &of));
    memcpy(to.data, of.data, NUMEL * sizeof(float));
    for (int t = 0; t < 3; t++)
        pd_shard_set_trainer_step(w->shard, t, pd_shard_trainer_step(from->shard, t));
    must(pd_shard_read_open(w->shard, open));
}

static void test_a_snapshot_in_the_middle_of_pushes(void **state)
{
    struct world w, again;
    struct pd_buf open = {0}, same = {0};
    (void)state;
    make(&w, 0, 3);
    must(pd_shard_join(w.shard, 1, 8));
    must(pd_shard_join(w.shard, 2, 9));
    pd_shard_write_open(w.shard, &open);
    assert_int_equal(open.n, 0);
    message_of(&w, 0, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(w.shard, 0, 1, 1));
    expect(&w, (float[]){0, -1, -2});
    message_of(&w, 0, 2, 2, (uint32_t[]){0, 2}, 1, 1);
    message_of(&w, 2, 1, 2, (uint32_t[]){1, 2}, 1, 1);
    message_of(&w, 1, 1, 1, (uint32_t[]){0}, 1, 0); /* has not arrived */
    expect(&w, (float[]){-1, -3, -8});
    pd_shard_write_open(w.shard, &open);
    assert_string_equal(open.at, "0 7 2 0:0,2;2 9 1 0:1-2");

    restart(&again, &w, open.at);
    pd_shard_write_open(again.shard, &same); /* killed again before anybody came */
    assert_string_equal(same.at, open.at);
    must(pd_shard_join(again.shard, 0, 7));
    must(pd_shard_join(again.shard, 1, 8));
    must(pd_shard_join(again.shard, 2, 77)); /* another process: it begins anew */
    message_of(&again, 0, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 0, 2, 2));
    expect(&again, (float[]){-1, -5, -8});
    assert_int_equal(pd_shard_repeated(again.shard), 2);
    message_of(&again, 2, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 2, 1, 1));
    expect(&again, (float[]){-2, -7, -11});
    message_of(&again, 1, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 1, 1, 1));
    expect(&again, (float[]){-3, -9, -14});
    assert_int_equal(pd_shard_repeated(again.shard), 2);
    pd_buf_free(&same);
    pd_shard_write_open(again.shard, &same);
    assert_int_equal(same.n, 0);
    drop(&again);

    /* What no server of this job can have written. */
    static const char *const wrong[] = {
        "x",
        "0",
        "0 7",
        "0 7 1",
        "0 7 1 ",
        "0 7 1 0",
        "0 7 1 0:",
        "0 7 1 0:3",
        "0 7 1 0:0-3",
        "0 7 1 0:2-1",
        "0 7 1 0:1-1",
        "0 7 1 0:1,0",
        "0 7 1 0:0,0",
        "0 7 1 0:0,",
        "0 7 1 1:0",
        "0 7 1 -1:0",
        "3 7 1 0:0",
        "-1 7 1 0:0",
        "0 7 2 0:0",
        "0 7 0 0:0",
        "0 7 1 0:0;",
        "0 7 1 0:0 ",
        "0 7 1 0:0x",
        "1 7 1 0:0;0 7 1 0:0",
        "0 7 1 0:0;0 7 1 0:1",
        "0 7 1 0:0 0:1",
        "0 7 18446744073709551617 0:0",
        "4294967296 7 1 0:0",
        "0 7 1 4294967296:0",
        "0 7 1 0:4294967296",
        "0 18446744073709551616 1 0:0",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        build(&again, 0, 3);
        if (pd_shard_read_open(again.shard, wrong[i]) != PD_FORMAT) fail_msg("'%s' is taken", wrong[i]);
        assert_non_null(strstr(pd_error(), "is it another job's?"));
        drop(&again);
    }
    build(&again, 0, 3);
    must(pd_shard_read_open(again.shard, NULL));
    must(pd_shard_read_open(again.shard, ""));
    drop(&again);
    pd_buf_free(&open);
    pd_buf_free(&same);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_more_than_there_is_room_for),
        cmocka_unit_test(test_the_same_part_twice),
        cmocka_unit_test(test_a_message_that_breaks_off),
        cmocka_unit_test(test_bytes_that_stay_where_they_are),
        cmocka_unit_test(test_who_joins_in_the_middle_of_a_step),
        cmocka_unit_test(test_who_was_lost_and_was_not),
        cmocka_unit_test(test_a_snapshot_in_the_middle_of_pushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
