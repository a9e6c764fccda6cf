/* Steps of a shard: who takes part, when a step is applied, what happens to parts that come twice or too
 * late. Updates run through the hook that stands for the engine, which here adds up what was given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pserver/proto.h"
#include "pserver/shard/shard.h"

enum { TRAINERS = 3, WIDTH = 4, HEIGHT = 5 };

struct world {
    struct pd_shard *shard;
    struct pd_value *dense, *table;
    int unit, rows_unit;
    double mean[WIDTH]; /* of the dense gradient in the last step applied */
    int64_t rows_seen;  /* rows pushed in it */
    int begun;          /* steps that began */
    uint64_t answered[TRAINERS];
    int answers;
};

static pd_status begin_step(void *arg, uint64_t step)
{
    (void)step;
    ((struct world *)arg)->begun++;
    return PD_OK;
}

static pd_status run_blocks(void *arg, struct pd_shard *shard)
{
    struct world *w = arg;
    int n = 0;
    memset(w->mean, 0, sizeof w->mean);
    w->rows_seen = 0;
    for (int t = 0; t < TRAINERS; t++) {
        if (!pd_shard_takes_part(shard, t)) continue;
        const struct pd_given *g = pd_shard_given(shard, w->unit, t),
                              *r = pd_shard_given(shard, w->rows_unit, t);
        n++;
        for (int i = 0; g && i < WIDTH; i++)
            w->mean[i] += ((const float *)g->data)[i];
        w->rows_seen += r ? r->rows.n : 0;
    }
    for (int i = 0; i < WIDTH; i++)
        w->mean[i] /= n;
    return PD_OK;
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    struct world *w = arg;
    (void)step;
    w->answered[trainer] = request;
    w->answers++;
}

static void make(struct world *w, int is_sync)
{
    memset(w, 0, sizeof *w);
    struct pd_shard_config config = {
        .trainers = TRAINERS,
        .is_sync = is_sync,
        .hooks = {.begin_step = begin_step, .run_blocks = run_blocks, .answer = answer, .arg = w}};
    assert_int_equal(pd_shard_new(&config, &w->shard), PD_OK);
    assert_int_equal(pd_value_new(PD_KIND_TENSOR, &w->dense), PD_OK);
    assert_int_equal(pd_tensor_resize(&w->dense->tensor, PD_DTYPE_FP32, 1, (int64_t[]){WIDTH}), PD_OK);
    assert_int_equal(pd_value_new(PD_KIND_TENSOR, &w->table), PD_OK);
    assert_int_equal(pd_tensor_resize(&w->table->tensor, PD_DTYPE_FP32, 2, (int64_t[]){HEIGHT, WIDTH}),
                     PD_OK);
    struct pd_unit_spec dense = {.grad = "w@GRAD", .block = 1},
                        rows = {.grad = "t@GRAD", .block = 2, .is_rows = 1};
    assert_int_equal(pd_table_of_value("w", w->dense, NULL, &dense.table), PD_OK);
    assert_int_equal(pd_table_of_value("t", w->table, NULL, &rows.table), PD_OK);
    assert_int_equal(pd_shard_add(w->shard, &dense, &w->unit), PD_OK);
    assert_int_equal(pd_shard_add(w->shard, &rows, &w->rows_unit), PD_OK);
    for (int t = 0; t < TRAINERS; t++)
        assert_int_equal(pd_shard_join(w->shard, t, 100 + (uint64_t)t), PD_OK);
}

static void drop(struct world *w)
{
    pd_shard_free(w->shard);
    pd_value_unref(w->dense);
    pd_value_unref(w->table);
}

static pd_status push(struct world *w, int trainer, uint64_t step, float value)
{
    struct pd_span at[2];
    int n;
    PD_TRY(pd_shard_place(w->shard, trainer, step, (uint32_t)w->unit, 0, 0, at, &n));
    assert_int_equal(n, 1);
    assert_int_equal(at[0].n, WIDTH * sizeof(float));
    for (int i = 0; i < WIDTH; i++)
        ((float *)at[0].at)[i] = value;
    return pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->unit, 0, 0);
}

static pd_status push_rows(struct world *w, int trainer, uint64_t step, uint32_t part, int64_t row,
                           uint64_t count)
{
    struct pd_span at[2];
    int n;
    PD_TRY(pd_shard_place(w->shard, trainer, step, (uint32_t)w->rows_unit, part, count, at, &n));
    assert_int_equal(n, 2);
    for (uint64_t i = 0; i < count; i++)
        ((int64_t *)at[0].at)[i] = row;
    memset(at[1].at, 0, at[1].n);
    return pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->rows_unit, part, count);
}

static void test_a_step_waits_for_all(void **state)
{
    (void)state;
    struct world w;
    int late[TRAINERS];
    make(&w, 1);
    for (int t = 0; t < TRAINERS; t++) {
        assert_int_equal(w.answers, 0);
        assert_int_equal(push(&w, t, 1, (float)t), PD_OK);
        assert_int_equal(pd_shard_end(w.shard, t, 1, 10 + (uint64_t)t), PD_OK);
        if (t < TRAINERS - 1) {
            assert_int_equal(pd_shard_waits_for(w.shard, late, TRAINERS), TRAINERS - 1 - t);
            assert_int_equal(late[0], t + 1);
        }
    }
    assert_int_equal(w.answers, TRAINERS);
    assert_int_equal(w.answered[2], 12);
    assert_int_equal(pd_shard_step(w.shard), 1);
    assert_int_equal(w.begun, 1);
    assert_true(w.mean[0] == 1.0);
    drop(&w);
}

static void test_what_comes_twice_counts_once(void **state)
{
    (void)state;
    struct world w;
    make(&w, 1);
    assert_int_equal(push(&w, 0, 1, 3), PD_OK);
    assert_int_equal(push(&w, 0, 1, 99), PD_OK); /* put aside */
    assert_int_equal(push_rows(&w, 0, 1, 0, 4, 2), PD_OK);
    assert_int_equal(push_rows(&w, 0, 1, 0, 4, 2), PD_OK);
    assert_int_equal(push_rows(&w, 0, 1, 1, 4, 1), PD_OK);
    for (int t = 0; t < TRAINERS; t++)
        assert_int_equal(pd_shard_end(w.shard, t, 1, 1), PD_OK);
    assert_true(w.mean[0] == 1.0);
    assert_int_equal(w.rows_seen, 3);
    /* The answer was lost: the whole step again. */
    assert_int_equal(pd_shard_join(w.shard, 0, 100), PD_OK);
    assert_int_equal(push(&w, 0, 1, 50), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 0, 1, 7), PD_OK);
    assert_int_equal(w.answered[0], 7);
    assert_int_equal(pd_shard_step(w.shard), 1);
    drop(&w);
}

static void test_who_leaves_is_not_waited_for(void **state)
{
    (void)state;
    struct world w;
    make(&w, 1);
    assert_int_equal(push(&w, 0, 1, 2), PD_OK);
    assert_int_equal(push(&w, 1, 1, 4), PD_OK);
    assert_int_equal(push(&w, 2, 1, 1000), PD_OK); /* goes with it */
    assert_int_equal(pd_shard_end(w.shard, 0, 1, 1), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 1, 1, 1), PD_OK);
    assert_int_equal(w.answers, 0);
    assert_int_equal(pd_shard_leave(w.shard, 2, PD_TRAINER_LOST), PD_OK);
    assert_int_equal(w.answers, 2);
    assert_true(w.mean[0] == 3.0);
    assert_int_equal(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE), PD_OK);
    assert_int_equal(pd_shard_finished(w.shard), 0);
    assert_int_equal(pd_shard_leave(w.shard, 1, PD_TRAINER_DONE), PD_OK);
    assert_int_equal(pd_shard_finished(w.shard), 1);
    drop(&w);
}

static void test_who_passes_is_not_averaged_over(void **state)
{
    (void)state;
    struct world w;
    make(&w, 1);
    assert_int_equal(push(&w, 2, 1, 1000), PD_OK); /* goes with the pass */
    pd_shard_pass(w.shard, 2, 1);
    assert_int_equal(pd_shard_end(w.shard, 2, 1, 1), PD_OK);
    for (int t = 0; t < 2; t++) {
        assert_int_equal(push(&w, t, 1, 2 + 2 * (float)t), PD_OK);
        assert_int_equal(pd_shard_end(w.shard, t, 1, 1), PD_OK);
    }
    assert_int_equal(w.answers, 3);
    assert_true(w.mean[0] == 3.0);
    for (int t = 0; t < TRAINERS; t++) { /* only in that step */
        assert_int_equal(push(&w, t, 2, 3), PD_OK);
        assert_int_equal(pd_shard_end(w.shard, t, 2, 1), PD_OK);
    }
    assert_true(w.mean[0] == 3.0);
    for (int t = 0; t < TRAINERS; t++) { /* nothing is applied, and the step is over */
        pd_shard_pass(w.shard, t, 3);
        assert_int_equal(pd_shard_end(w.shard, t, 3, 9), PD_OK);
    }
    assert_int_equal(pd_shard_step(w.shard), 3);
    assert_int_equal(w.begun, 3);
    drop(&w);
}

static void test_who_had_ended_comes_back(void **state)
{
    (void)state;
    struct world w;
    make(&w, 1);
    assert_int_equal(pd_shard_leave(w.shard, 2, PD_TRAINER_DONE), PD_OK);
    assert_int_equal(push(&w, 0, 1, 2), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 0, 1, 1), PD_OK);
    assert_int_equal(pd_shard_join(w.shard, 2, 555), PD_OK); /* nothing of step 1 is applied yet: it counts */
    assert_int_equal(pd_shard_trainer_step(w.shard, 2), 0);
    assert_int_equal(push(&w, 1, 1, 4), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 1, 1, 1), PD_OK);
    assert_int_equal(w.answers, 0);
    assert_int_equal(push(&w, 2, 1, 9), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 2, 1, 1), PD_OK);
    assert_int_equal(w.answers, 3);
    assert_true(w.mean[0] == 5.0);
    drop(&w);
}

static void test_a_new_incarnation_starts_its_step_anew(void **state)
{
    (void)state;
    struct world w;
    make(&w, 1);
    assert_int_equal(push(&w, 1, 1, 1000), PD_OK);
    assert_int_equal(pd_shard_join(w.shard, 1, 777), PD_OK);
    for (int t = 0; t < TRAINERS; t++) {
        assert_int_equal(push(&w, t, 1, 6), PD_OK);
        assert_int_equal(pd_shard_end(w.shard, t, 1, 1), PD_OK);
    }
    assert_true(w.mean[0] == 6.0);
    drop(&w);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct world w;
    struct pd_span at[2];
    int n;
    make(&w, 1);
    assert_int_equal(push(&w, 0, 2, 1), PD_INVALID); /* a step ahead */
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 9, 0, 0, at, &n), PD_NOT_FOUND);
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 0, 1, 0, at, &n), PD_SHAPE); /* one part only */
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 0, 0, 3, at, &n), PD_SHAPE); /* rows of a dense one */
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 1, 1, 0, at, &n), PD_SHAPE); /* no rows behind others */
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 1, 0, UINT64_MAX, at, &n), PD_SHAPE);
    assert_int_equal(pd_shard_place(w.shard, 0, 1, 1, 5, 1, at, &n), PD_INVALID); /* parts come in order */
    assert_int_equal(push_rows(&w, 0, 1, 0, HEIGHT, 1), PD_RANGE);
    assert_int_equal(push_rows(&w, 0, 1, 0, -1, 1), PD_RANGE);
    assert_int_equal(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE), PD_OK);
    assert_int_equal(push(&w, 0, 1, 1), PD_INVALID); /* it has left */
    assert_int_equal(pd_shard_join(w.shard, TRAINERS, 1), PD_RANGE);
    drop(&w);
}

/* Sums of other types would be written as floats, past the end of theirs. */
static void test_other_types_are_refused(void **state)
{
    (void)state;
    static const enum pd_dtype others[] = {PD_DTYPE_FP16, PD_DTYPE_INT64, PD_DTYPE_INT32, PD_DTYPE_UINT8};
    struct world w;
    make(&w, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct pd_unit_spec spec = {.grad = "h@GRAD", .block = 3};
        struct pd_value *value;
        int unit;
        assert_int_equal(pd_value_new(PD_KIND_TENSOR, &value), PD_OK);
        assert_int_equal(pd_tensor_resize(&value->tensor, others[i], 1, (int64_t[]){WIDTH}), PD_OK);
        assert_int_equal(pd_table_of_value("h", value, NULL, &spec.table), PD_OK);
        assert_int_equal(pd_shard_add(w.shard, &spec, &unit), PD_UNSUPPORTED);
        assert_non_null(strstr(pd_error(), "servers take float32 and float64"));
        pd_value_unref(value);
    }
    drop(&w);
}

static void test_async_applies_at_once(void **state)
{
    (void)state;
    struct world w;
    make(&w, 0);
    assert_int_equal(push(&w, 1, 1, 5), PD_OK);
    assert_int_equal(pd_shard_end(w.shard, 1, 1, 3), PD_OK);
    assert_int_equal(w.answered[1], 3);
    assert_true(w.mean[0] == 5.0);
    assert_int_equal(pd_shard_trainer_step(w.shard, 1), 1);
    assert_int_equal(pd_shard_trainer_step(w.shard, 0), 0);
    memset(w.mean, 0, sizeof w.mean);
    assert_int_equal(push(&w, 1, 1, 8), PD_OK); /* once more: nothing but the answer */
    assert_int_equal(pd_shard_end(w.shard, 1, 1, 4), PD_OK);
    assert_int_equal(w.answered[1], 4);
    assert_true(w.mean[0] == 0.0);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_waits_for_all),
        cmocka_unit_test(test_what_comes_twice_counts_once),
        cmocka_unit_test(test_who_leaves_is_not_waited_for),
        cmocka_unit_test(test_who_passes_is_not_averaged_over),
        cmocka_unit_test(test_who_had_ended_comes_back),
        cmocka_unit_test(test_a_new_incarnation_starts_its_step_anew),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_other_types_are_refused),
        cmocka_unit_test(test_async_applies_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
