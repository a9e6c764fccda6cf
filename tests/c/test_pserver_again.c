/* The log done again gives what was there: Adam's powers of beta advance once a step, with the last part that
 * is applied, in whatever order parts come, in the replay as when they were live. */
#include "shard_world.h"

#include "base/alloc.h"
#include "base/vec.h"

static PD_VEC(struct pd_kept_change) logged;

static pd_status log_change(void *arg, const struct pd_change *change, const struct pd_span *spans, int n)
{
    struct pd_kept_change kept = {.change = *change};
    (void)arg;
    for (int i = 0; i < n; i++)
        kept.n += spans[i].n;
    kept.payload = pd_malloc_aligned(kept.n + 1);
    assert_non_null(kept.payload);
    char *at = kept.payload;
    for (int i = 0; i < n; at += spans[i++].n)
        if (spans[i].n) memcpy(at, spans[i].at, spans[i].n);
    assert_true(pd_vec_push(&logged, kept));
    return PD_OK;
}

static pd_status commit(void *arg, int trainer, uint64_t step)
{
    (void)arg, (void)trainer, (void)step;
    return PD_OK;
}

static void forget(void)
{
    for (int i = 0; i < logged.n; i++)
        pd_free_aligned(logged.at[i].payload);
    logged.n = 0;
}

static const char *const states[] = {"w", "m1", "m2", "b1", "b2"};

static void make(struct world *w, int is_sync, int trainers)
{
    static const struct world_arg args[] = {
        {0, "Param", "w"},       {0, "Grad", "w@GRAD"},    {0, "LearningRate", "rate"},
        {0, "Moment1", "m1"},    {0, "Moment2", "m2"},     {0, "Beta1Pow", "b1"},
        {0, "Beta2Pow", "b2"},   {1, "ParamOut", "w"},     {1, "Moment1Out", "m1"},
        {1, "Moment2Out", "m2"}, {1, "Beta1PowOut", "b1"}, {1, "Beta2PowOut", "b2"}};
    struct pd_shard_config config = {.trainers = trainers, .is_sync = is_sync};
    config.hooks.log = log_change;
    config.hooks.commit = commit;
    open_world(w);
    add_var(w, "rate", 1, 0.1f, PD_VAR_IS_PERSISTABLE);
    add_var(w, "m1", NUMEL, 0, PD_VAR_IS_PERSISTABLE);
    add_var(w, "m2", NUMEL, 0, PD_VAR_IS_PERSISTABLE);
    add_var(w, "b1", 1, 0.9f, PD_VAR_IS_PERSISTABLE);
    add_var(w, "b2", 1, 0.999f, PD_VAR_IS_PERSISTABLE);
    build_of(w, config, "adam", (int)(sizeof args / sizeof *args), args);
}

/* The same, with all that trainers have joined. */
static void begin(struct world *w, int is_sync, int trainers)
{
    forget();
    make(w, is_sync, trainers);
    for (int t = 0; t < trainers; t++)
        must(pd_shard_join(w->shard, t, 7 + (uint64_t)t));
}

static void give(struct world *w, int trainer, uint64_t step, int n, const uint32_t *parts)
{
    for (int i = 0; i < n; i++) {
        struct pd_span at[2];
        int spans;
        must(pd_shard_place(w->shard, trainer, step, (uint32_t)w->unit, parts[i], 0, at, &spans));
        for (size_t k = 0; k < at[0].n / sizeof(float); k++)
            ((float *)at[0].at)[k] = 0.5f * (float)step + (float)trainer;
        must(pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->unit, parts[i], 0));
    }
}

static pd_tensor_desc state_of(const struct world *w, const char *name)
{
    pd_tensor_desc tensor;
    must(pd_value_tensor(pd_scope_find(w->scope, name), &tensor));
    return tensor;
}

static size_t bytes_of(int state)
{
    return (state < 3 ? NUMEL : 1) * sizeof(float);
}

/* A snapshot as another server finds it: values, the steps of trainers, what is open. The log begins here. */
static void cut(const struct world *w, struct world *again, int is_sync, int trainers)
{
    struct pd_buf open = {0};
    make(again, is_sync, trainers);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        memcpy(state_of(again, states[i]).data, state_of(w, states[i]).data, bytes_of((int)i));
    pd_shard_set_step(again->shard, pd_shard_step(w->shard));
    for (int t = 0; !is_sync && t < trainers; t++)
        pd_shard_set_trainer_step(again->shard, t, pd_shard_trainer_step(w->shard, t));
    pd_shard_write_open(w->shard, &open);
    assert_true(open.n > 0);
    must(pd_shard_read_open(again->shard, open.at));
    pd_buf_free(&open);
    forget();
}

/* Does the log again on `again`, which must come to the same, bit by bit. */
static void compare(struct world *w, struct world *again)
{
    int n = logged.n;
    for (int i = 0; i < n; i++)
        must(pd_shard_redo(again->shard, &logged.at[i].change, logged.at[i].payload, logged.at[i].n));
    assert_int_equal(logged.n, n);
    assert_int_equal(pd_shard_step(again->shard), pd_shard_step(w->shard));
    for (size_t i = sizeof states / sizeof *states; i-- > 0;) {
        const float *live = state_of(w, states[i]).data, *then = state_of(again, states[i]).data;
        for (size_t k = 0; k < bytes_of((int)i) / sizeof(float); k++)
            if (memcmp(&live[k], &then[k], sizeof(float)) != 0)
                fail_msg("%s[%zu] is %.9g after the replay, and was %.9g", states[i], k, (double)then[k],
                         (double)live[k]);
    }
    drop(w);
    drop(again);
    forget();
}

static void expect_power(const struct world *w, int steps)
{
    float power = 0.9f;
    for (int i = 0; i < steps; i++)
        power *= 0.9f;
    assert_float_equal(*(const float *)state_of(w, "b1").data, power, 1e-6);
}

static const uint32_t all[] = {0, 1, 2};

/* Trainer 1 is done and says goodbye while trainer 0 is in its push of the next step. */
static void test_one_leaves_while_the_other_pushes(void **state)
{
    struct world w, again;
    (void)state;
    begin(&w, 1, 2);
    give(&w, 0, 1, 1, all);
    must(pd_shard_leave(w.shard, 1, PD_TRAINER_DONE));
    give(&w, 0, 1, 2, all + 1);
    must(pd_shard_end(w.shard, 0, 1, 1));
    give(&w, 0, 2, 3, all);
    must(pd_shard_end(w.shard, 0, 2, 2));
    expect_power(&w, 2);
    make(&again, 1, 2);
    compare(&w, &again);
}

/* A trainer that was started again pushes while the lane stands at a cut. */
static void test_a_cut_ends_while_it_pushes(void **state)
{
    struct world w, again;
    (void)state;
    begin(&w, 1, 1);
    pd_shard_hold(w.shard);
    give(&w, 0, 1, 1, all);
    must(pd_shard_release(w.shard));
    give(&w, 0, 1, 2, all + 1);
    must(pd_shard_end(w.shard, 0, 1, 1));
    expect_power(&w, 1);
    make(&again, 1, 1);
    compare(&w, &again);
}

static void test_parts_in_any_order(void **state)
{
    static const uint32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct world w, again;
        begin(&w, is_sync, 2);
        for (uint64_t step = 1; step <= 6; step++) {
            for (int i = 0; i < 3; i++)
                for (int t = 0; t < 2; t++)
                    give(&w, t, step, 1, &orders[(step + (uint64_t)t) % 6][i]);
            for (int t = 0; t < 2; t++)
                must(pd_shard_end(w.shard, t, step, step));
        }
        expect_power(&w, is_sync ? 6 : 12);
        make(&again, is_sync, 2);
        compare(&w, &again);
    }
}

/* Nobody gives all of a gradient: the step does not count for its powers. */
static void test_a_part_that_nobody_gives(void **state)
{
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct world w, again;
        begin(&w, is_sync, 1);
        give(&w, 0, 1, 2, all + 1);
        must(pd_shard_end(w.shard, 0, 1, 1));
        give(&w, 0, 2, 3, all);
        must(pd_shard_end(w.shard, 0, 2, 2));
        expect_power(&w, 1);
        make(&again, is_sync, 1);
        compare(&w, &again);
    }
}

/* A snapshot has some parts of a step, the log that goes on from it the others. */
static void test_a_snapshot_within_a_push(void **state)
{
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++)
        for (int i = 0; i < 3; i++) {
            struct world w, again;
            begin(&w, is_sync, 1);
            give(&w, 0, 1, 1, orders[i]);
            cut(&w, &again, is_sync, 1);
            give(&w, 0, 1, 2, orders[i] + 1);
            must(pd_shard_end(w.shard, 0, 1, 1));
            give(&w, 0, 2, 3, orders[i]);
            must(pd_shard_end(w.shard, 0, 2, 2));
            expect_power(&w, 2);
            compare(&w, &again);
        }
}

/* A server that has done a log again counts on as one that was never gone. */
static void test_what_comes_after_the_replay(void **state)
{
    (void)state;
    for (int is_sync = 0; is_sync < 2; is_sync++) {
        struct world w, again;
        begin(&w, is_sync, 1);
        give(&w, 0, 1, 3, (uint32_t[]){1, 2, 0});
        must(pd_shard_end(w.shard, 0, 1, 1));
        make(&again, is_sync, 1);
        for (int i = 0, n = logged.n; i < n; i++)
            must(pd_shard_redo(again.shard, &logged.at[i].change, logged.at[i].payload, logged.at[i].n));
        must(pd_shard_join(again.shard, 0, 9));
        give(&w, 0, 2, 3, all);
        must(pd_shard_end(w.shard, 0, 2, 2));
        give(&again, 0, 2, 3, (uint32_t[]){2, 1, 0});
        must(pd_shard_end(again.shard, 0, 2, 2));
        expect_power(&again, 2);
        forget();
        compare(&w, &again);
    }
}

/* A record of a damaged or hostile log, whose number of rows is right only when the sizes overflow. */
static void test_rows_that_are_not_there(void **state)
{
    (void)state;
    struct world w;
    int unit;
    build(&w, 0, 0, 1);
    struct pd_unit_spec spec = {.grad = "rows@GRAD", .block = w.block, .is_rows = 1};
    struct pd_rule *rule;
    struct pd_engine engine = pd_engine_of(w.frame, NULL);
    must(pd_rule_new(&engine, w.block, "w@GRAD", &rule));
    must(pd_table_of_value("w", w.param, rule, &spec.table));
    must(pd_shard_add(w.shard, &spec, &unit));
    struct {
        int64_t row;
        float value;
    } payload = {1, 2};
    size_t n = sizeof payload.row + sizeof payload.value;
    struct pd_change change = {.kind = PD_CHANGE_ROWS, .step = 1, .unit = (uint32_t)unit};
    const uint64_t wrong[] = {0, 2, (1ULL << 62) + 1, 1ULL << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        change.rows = wrong[i];
        assert_int_equal(pd_shard_redo(w.shard, &change, &payload, n), PD_FORMAT);
    }
    change.rows = 1;
    must(pd_shard_redo(w.shard, &change, &payload, n));
    const float *now = w.param->tensor.data;
    assert_true(now[0] == 1 && now[1] == -1 && now[2] == 1);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_leaves_while_the_other_pushes),
        cmocka_unit_test(test_a_cut_ends_while_it_pushes),
        cmocka_unit_test(test_parts_in_any_order),
        cmocka_unit_test(test_a_part_that_nobody_gives),
        cmocka_unit_test(test_a_snapshot_within_a_push),
        cmocka_unit_test(test_what_comes_after_the_replay),
        cmocka_unit_test(test_rows_that_are_not_there),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pd_vec_free(&logged);
    return failed;
}
