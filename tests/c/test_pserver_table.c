/* A kind of table that the servers do not know: this file is all that it takes. Its rows have any number, are
 * made at first touch, and lose what is pushed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pserver/shard/shard.h"

enum { WIDTH = 3, TRAINERS = 2 };

/* ---- the kind ---- */

struct touched {
    struct pd_table table;
    PD_VEC(int64_t) ids;
    PD_VEC(float) data;
};

static float *row_of(struct touched *t, int64_t id)
{
    for (int i = 0; i < t->ids.n; i++)
        if (t->ids.at[i] == id) return t->data.at + (size_t)i * WIDTH;
    assert_true(pd_vec_push(&t->ids, id) && pd_vec_reserve(&t->data, t->data.n + WIDTH));
    float *row = t->data.at + t->data.n;
    t->data.n += WIDTH;
    memset(row, 0, WIDTH * sizeof *row);
    return row;
}

static pd_status pull(struct pd_table *table, int64_t n, const int64_t *rows, void *out)
{
    for (int64_t i = 0; i < n; i++)
        memcpy((float *)out + i * WIDTH, row_of((struct touched *)table, rows[i]), WIDTH * sizeof(float));
    return PD_OK;
}

static pd_status update_rows(struct pd_table *table, int is_given, int64_t n, const int64_t *rows,
                             const void *grad)
{
    assert_true(is_given);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < WIDTH; k++)
            row_of((struct touched *)table, rows[i])[k] -= ((const float *)grad)[i * WIDTH + k];
    return PD_OK;
}

static uint64_t bytes(const struct pd_table *table)
{
    return (uint64_t)((const struct touched *)table)->ids.n * (sizeof(int64_t) + WIDTH * sizeof(float));
}

static void free_touched(struct pd_table *table)
{
    pd_vec_free(&((struct touched *)table)->ids);
    pd_vec_free(&((struct touched *)table)->data);
    pd_free(table);
}

static const struct pd_table_kind touched = {
    .name = "touched", .pull = pull, .update_rows = update_rows, .bytes = bytes, .free = free_touched};

static struct pd_table *make(void)
{
    struct touched *t = pd_calloc(1, sizeof *t);
    assert_non_null(t);
    t->table = (struct pd_table){.kind = &touched, .name = "t", .height = INT64_MAX};
    t->table.meta.kind = PD_KIND_SELECTED_ROWS;
    t->table.meta.dtype = PD_DTYPE_FP32;
    pd_meta_set_2d(&t->table.meta, 0, WIDTH);
    return &t->table;
}

/* ---- a shard with one ---- */

static int answers;

static pd_status begin_step(void *arg, uint64_t step)
{
    (void)arg, (void)step;
    return PD_OK;
}

static void answer(void *arg, int trainer, uint64_t request, uint64_t step)
{
    (void)arg, (void)trainer, (void)request, (void)step;
    answers++;
}

static void ok(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

static struct pd_shard *shard_with(struct pd_table *table)
{
    struct pd_shard_config config = {
        .trainers = TRAINERS, .is_sync = 1, .hooks = {.begin_step = begin_step, .answer = answer}};
    struct pd_unit_spec spec = {.grad = "t@GRAD", .block = 1, .is_rows = 1, .table = table};
    struct pd_shard *shard;
    int unit;
    ok(pd_shard_new(&config, &shard));
    ok(pd_shard_add(shard, &spec, &unit));
    for (int t = 0; t < TRAINERS; t++)
        ok(pd_shard_join(shard, t, 100 + (uint64_t)t));
    return shard;
}

static void push(struct pd_shard *shard, int trainer, uint64_t step, int n, const int64_t *rows, float value)
{
    struct pd_span where[2];
    int spans;
    ok(pd_shard_place(shard, trainer, step, 0, 0, (uint64_t)n, where, &spans));
    memcpy(where[0].at, rows, (size_t)n * sizeof *rows);
    for (int i = 0; i < n * WIDTH; i++)
        ((float *)where[1].at)[i] = value;
    ok(pd_shard_arrived(shard, trainer, step, 0, 0, (uint64_t)n));
    ok(pd_shard_end(shard, trainer, step, 1));
}

static const int64_t first[] = {7, INT64_MAX - 1, 1LL << 40}, second[] = {1LL << 40, 12};

static void test_rows_of_any_number(void **state)
{
    (void)state;
    struct pd_table *table = make();
    struct pd_shard *shard = shard_with(table);
    float got[4][WIDTH];
    push(shard, 0, 1, 3, first, 1);
    push(shard, 1, 1, 2, second, 2);
    assert_int_equal(answers, TRAINERS);
    ok(table->kind->pull(table, 4, (int64_t[]){1LL << 40, 7, 12, 99}, got));
    assert_true(got[0][0] == -1.5f && got[1][WIDTH - 1] == -0.5f && got[2][1] == -1 && got[3][0] == 0);
    assert_int_equal(table->kind->bytes(table), 5 * (8 + 4 * WIDTH));
    pd_shard_free(shard);
}

static void test_a_dense_gradient_is_refused(void **state)
{
    (void)state;
    struct pd_shard_config config = {.trainers = 1, .is_sync = 1};
    struct pd_unit_spec spec = {.grad = "t@GRAD", .block = 1, .table = make()};
    struct pd_shard *shard;
    int unit;
    ok(pd_shard_new(&config, &shard));
    assert_int_equal(pd_shard_add(shard, &spec, &unit), PD_UNSUPPORTED);
    assert_non_null(strstr(pd_error(), "takes rows only"));
    pd_shard_free(shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_any_number),
        cmocka_unit_test(test_a_dense_gradient_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
