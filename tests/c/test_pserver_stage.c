/* Parts that are applied as soon as they arrive, and share their memory: several in a message, the same one
 * twice, a message that breaks off, a snapshot in the middle of a push. */
#include "shard_world.h"

static void make(struct world *w, int is_sync, int trainers)
{
    build(w, is_sync, 0, trainers);
    must(pd_shard_join(w->shard, 0, 7));
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

/* The only trainer leaves a step of which parts are applied, and it, or the next process, comes again: it
 * waits in the step after, which is not applied at once. */
static void test_who_joins_a_step_that_nobody_is_in(void **state)
{
    struct world w;
    (void)state;
    for (uint64_t as = 7; as < 9; as++) {
        make(&w, 1, 1);
        message(&w, 1, 1, (uint32_t[]){0}, 1, 1);
        must(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE));
        must(pd_shard_join(w.shard, 0, as));
        assert_int_equal(pd_shard_trainer_step(w.shard, 0), 1);
        for (uint32_t part = 0; part < 3; part++) {
            message(&w, 2, 1, &part, 1, 1);
            assert_int_equal(pd_shard_may_lend(w.shard, 0), 0);
        }
        must(pd_shard_end(w.shard, 0, 2, 1));
        assert_int_equal(pd_shard_step(w.shard), 2);
        expect(&w, (float[]){-1, -1, -2});
        message(&w, 3, 3, (uint32_t[]){0, 1, 2}, 1, 1);
        must(pd_shard_end(w.shard, 0, 3, 2));
        expect(&w, (float[]){-2, -3, -5});
        drop(&w);
    }
}

/* The snapshot of a step is cut later than the step ends: until then a trainer that comes back may give the
 * next one, and nothing of it may be in the snapshot. */
static void test_nothing_changes_until_the_step_before_is_kept(void **state)
{
    struct world w;
    (void)state;
    for (int trainers = 1; trainers <= 2; trainers++) {
        make(&w, 1, trainers);
        for (int t = 1; t < trainers; t++)
            must(pd_shard_join(w.shard, t, 8));
        for (int t = 0; t < trainers; t++) {
            message_of(&w, t, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
            must(pd_shard_end(w.shard, t, 1, 1));
        }
        expect(&w, (float[]){0, -1, -2});
        pd_shard_hold(w.shard);
        must(pd_shard_join(w.shard, 0, 9)); /* another process */
        for (int t = 0; t < trainers; t++) {
            message_of(&w, t, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
            expect(&w, (float[]){0, -1, -2});
            must(pd_shard_end(w.shard, t, 2, 2));
        }
        expect(&w, (float[]){0, -1, -2});
        assert_int_equal(pd_shard_step(w.shard), 1);
        must(pd_shard_release(w.shard));
        assert_int_equal(pd_shard_step(w.shard), 2);
        expect(&w, (float[]){-1, -3, -5});
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

/* One part of this value. */
static pd_status part_of(struct world *w, uint64_t step, uint32_t part, float value)
{
    struct pd_span at[2];
    int spans;
    must(pd_shard_place(w->shard, 0, step, (uint32_t)w->unit, part, 0, at, &spans));
    for (size_t k = 0; k < at[0].n / sizeof(float); k++)
        ((float *)at[0].at)[k] = 1;
    ((float *)at[0].at)[at[0].n / sizeof(float) - 1] = value;
    return pd_shard_arrived(w->shard, 0, step, (uint32_t)w->unit, part, 0);
}

/* Sync, checked: what an update makes of finite parts is no fault of the one that came last. */
static void test_an_update_that_is_not_finite(void **state)
{
    struct world w;
    struct pd_span at[2];
    int spans;
    (void)state;
    build_as(&w, (struct pd_shard_config){.trainers = 2, .is_sync = 1, .is_checked = 1});
    for (int i = 0; i < 2; i++)
        must(pd_shard_join(w.shard, i, 7));
    assert_int_equal(part_of(&w, 1, 0, __builtin_nanf("")), PD_NOT_FINITE);
    assert_false(pd_shard_has_failed(w.shard));
    must(part_of(&w, 1, 0, 3e38f));
    must(pd_shard_place(w.shard, 1, 1, (uint32_t)w.unit, 0, 0, at, &spans));
    for (size_t k = 0; k < at[0].n / sizeof(float); k++)
        ((float *)at[0].at)[k] = 3e38f;
    assert_int_equal(pd_shard_arrived(w.shard, 1, 1, (uint32_t)w.unit, 0, 0), PD_NOT_FINITE);
    assert_non_null(strstr(pd_error(), "op 'sgd' made NaN or Inf of finite gradients"));
    assert_true(pd_shard_has_failed(w.shard));
    drop(&w);
}

/* Async, checked: nothing of a push is applied before all of it was found good. */
static void test_a_push_that_is_checked(void **state)
{
    struct world w;
    struct pd_buf open = {0};
    (void)state;
    build_as(&w, (struct pd_shard_config){.trainers = 2, .is_checked = 1});
    must(pd_shard_join(w.shard, 0, 7));
    message(&w, 1, 2, (uint32_t[]){0, 1}, 1, 1);
    assert_int_equal(pd_shard_may_lend(w.shard, 0), 0);
    pd_shard_write_open(w.shard, &open); /* a snapshot here has nothing of it */
    assert_int_equal(open.n, 0);
    message(&w, 1, 2, (uint32_t[]){2, 1}, 1, 1);
    assert_int_equal(pd_shard_repeated(w.shard), 1);
    expect(&w, (float[]){1, 1, 1});
    must(pd_shard_end(w.shard, 0, 1, 1));
    assert_int_equal(w.answered, 1);
    expect(&w, (float[]){0, -1, -2});

    must(part_of(&w, 2, 0, 1));
    must(part_of(&w, 2, 1, 1));
    assert_int_equal(part_of(&w, 2, 2, __builtin_nanf("")), PD_NOT_FINITE);
    assert_non_null(strstr(pd_error(), "trainer 0 pushes NaN or Inf in 'w@GRAD' in step 2"));
    expect(&w, (float[]){0, -1, -2});
    message(&w, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1); /* it would begin anew */
    assert_int_equal(pd_shard_repeated(w.shard), 1);
    must(pd_shard_end(w.shard, 0, 2, 2));
    expect(&w, (float[]){-1, -3, -5});

    must(part_of(&w, 3, 0, 1));
    assert_int_equal(part_of(&w, 3, 1, __builtin_inff()), PD_NOT_FINITE);
    must(pd_shard_end(w.shard, 0, 3, 3)); /* no client does that: it ends a step that has nothing */
    expect(&w, (float[]){-1, -3, -5});

    message(&w, 4, 2, (uint32_t[]){0, 2}, 1, 1);
    must(pd_shard_leave(w.shard, 0, PD_TRAINER_LOST)); /* it takes along what it gave */
    must(pd_shard_join(w.shard, 0, 7));
    message(&w, 4, 1, (uint32_t[]){1}, 1, 1);
    must(pd_shard_end(w.shard, 0, 4, 4));
    expect(&w, (float[]){-1, -5, -5});
    pd_buf_free(&open);
    drop(&w);
}

/* The server had not checked before it was started again: what is in the snapshot stays, and counts once. */
static void test_a_push_that_is_checked_from_its_middle_on(void **state)
{
    struct world w;
    (void)state;
    build_as(&w, (struct pd_shard_config){.trainers = 2, .is_checked = 1});
    must(pd_shard_read_open(w.shard, "0 1 0:0,2"));
    must(pd_shard_join(w.shard, 0, 7));
    message(&w, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    assert_int_equal(pd_shard_repeated(w.shard), 2);
    must(pd_shard_end(w.shard, 0, 1, 1));
    expect(&w, (float[]){1, -1, 1});
    message(&w, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    expect(&w, (float[]){1, -1, 1});
    must(pd_shard_end(w.shard, 0, 2, 2));
    expect(&w, (float[]){0, -3, -2});
    drop(&w);
}

/* As after a restart: the values and the steps of the snapshot, and what it says of open pushes. */
static void restart(struct world *w, const struct world *from, const char *open)
{
    pd_tensor_desc to, of;
    build(w, 0, 0, 3);
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
    assert_string_equal(open.at, "0 2 0:0,2;2 1 0:1-2");

    restart(&again, &w, open.at);
    pd_shard_write_open(again.shard, &same); /* killed again before anybody came */
    assert_string_equal(same.at, open.at);
    must(pd_shard_join(again.shard, 0, 7));
    must(pd_shard_join(again.shard, 1, 8));
    must(pd_shard_join(again.shard, 2, 77)); /* another process: what the first gave is there */
    message_of(&again, 0, 2, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 0, 2, 2));
    expect(&again, (float[]){-1, -5, -8});
    assert_int_equal(pd_shard_repeated(again.shard), 2);
    message_of(&again, 2, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 2, 1, 1));
    expect(&again, (float[]){-2, -5, -8});
    assert_int_equal(pd_shard_repeated(again.shard), 4);
    message_of(&again, 1, 1, 3, (uint32_t[]){0, 1, 2}, 1, 1);
    must(pd_shard_end(again.shard, 1, 1, 1));
    expect(&again, (float[]){-3, -7, -11});
    assert_int_equal(pd_shard_repeated(again.shard), 4);
    pd_buf_free(&same);
    pd_shard_write_open(again.shard, &same);
    assert_int_equal(same.n, 0);
    drop(&again);

    /* What no server of this job can have written. */
    static const char *const wrong[] = {
        "x",
        "0",
        "0 1",
        "0 1 ",
        "0 1 0",
        "0 1 0:",
        "0 1 0:3",
        "0 1 0:0-3",
        "0 1 0:2-1",
        "0 1 0:1-1",
        "0 1 0:1,0",
        "0 1 0:0,0",
        "0 1 0:0,",
        "0 1 1:0",
        "0 1 -1:0",
        "3 1 0:0",
        "-1 1 0:0",
        "0 2 0:0",
        "0 0 0:0",
        "0 1 0:0;",
        "0 1 0:0 ",
        "0 1 0:0x",
        "1 1 0:0;0 1 0:0",
        "0 1 0:0;0 1 0:1",
        "0 1 0:0 0:1",
        "0 18446744073709551617 0:0",
        "4294967296 1 0:0",
        "0 1 4294967296:0",
        "0 1 0:4294967296",
        "0 18446744073709551616 0:0",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        build(&again, 0, 0, 3);
        if (pd_shard_read_open(again.shard, wrong[i]) != PD_FORMAT) fail_msg("'%s' is taken", wrong[i]);
        assert_non_null(strstr(pd_error(), "stands at character"));
        drop(&again);
    }
    build(&again, 0, 0, 3);
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
        cmocka_unit_test(test_who_joins_a_step_that_nobody_is_in),
        cmocka_unit_test(test_nothing_changes_until_the_step_before_is_kept),
        cmocka_unit_test(test_who_was_lost_and_was_not),
        cmocka_unit_test(test_an_update_that_is_not_finite),
        cmocka_unit_test(test_a_push_that_is_checked),
        cmocka_unit_test(test_a_push_that_is_checked_from_its_middle_on),
        cmocka_unit_test(test_a_snapshot_in_the_middle_of_pushes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
