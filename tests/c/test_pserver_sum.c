/* Gradients that are added up as they come give the bits that those kept apart give, in whatever order they
 * arrive, and need less room. */
#include "shard_world.h"

#include <stdlib.h>

enum { TRAINERS = 5, PARTS = 3 };

static void make(struct world *w, int is_whole)
{
    build(w, 1, is_whole, TRAINERS);
    for (int t = 0; t < TRAINERS; t++)
        must(pd_shard_join(w->shard, t, 100 + (uint64_t)t));
}

/* Numbers whose sum depends on the order of the terms. */
static float value_of(int trainer, uint64_t step, size_t i)
{
    uint64_t x = (i * 2654435761u + (uint64_t)trainer * 40503 + step * 97) & 0xffff;
    return ((float)x - 30000.0f) * (trainer % 2 ? 1e-4f : 3.0f);
}

static void give(struct world *w, int trainer, uint64_t step, uint32_t part)
{
    struct pd_span at[2];
    int n;
    must(pd_shard_place(w->shard, trainer, step, (uint32_t)w->unit, part, 0, at, &n));
    for (size_t i = 0; i < at[0].n / sizeof(float); i++)
        ((float *)at[0].at)[i] = value_of(trainer, step, (size_t)part * PART + i);
    must(pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->unit, part, 0));
}

static void end(struct world *w, int trainer, uint64_t step)
{
    must(pd_shard_end(w->shard, trainer, step, step));
}

static const float *data_of(const struct world *w)
{
    pd_tensor_desc tensor;
    must(pd_value_tensor(w->param, &tensor));
    return tensor.data;
}

static void same_bits(const struct world *a, const struct world *b)
{
    assert_memory_equal(data_of(a), data_of(b), NUMEL * sizeof(float));
}

/* A step in the order of the trainers. */
static void plain_step(struct world *w, uint64_t step)
{
    for (int t = 0; t < TRAINERS; t++) {
        for (uint32_t part = 0; part < PARTS; part++)
            give(w, t, step, part);
        end(w, t, step);
    }
}

/* Every trainer gives its parts in order; whose turn it is, chance decides. */
static void mixed_step(struct world *w, uint64_t step)
{
    uint32_t next[TRAINERS] = {0};
    for (int left = TRAINERS * (PARTS + 1); left;) {
        int t = rand() % TRAINERS;
        if (next[t] > PARTS) continue;
        if (next[t] < PARTS)
            give(w, t, step, next[t]);
        else
            end(w, t, step);
        next[t]++;
        left--;
    }
}

static void test_same_bits_in_any_order(void **state)
{
    (void)state;
    struct world apart, added;
    srand(5);
    make(&apart, 1);
    make(&added, 0);
    for (uint64_t step = 1; step <= 40; step++) {
        plain_step(&apart, step);
        mixed_step(&added, step);
        assert_int_equal(pd_shard_step(added.shard), step);
        same_bits(&apart, &added);
    }
    drop(&apart);
    drop(&added);
}

static void test_room(void **state)
{
    (void)state;
    struct world apart, added;
    size_t whole = NUMEL * sizeof(float);
    make(&apart, 1);
    make(&added, 0);
    for (uint64_t step = 1; step <= 3; step++) {
        plain_step(&apart, step);
        plain_step(&added, step);
    }
    assert_true(pd_shard_held(apart.shard) >= TRAINERS * whole);
    /* One sum, and the part that comes. */
    assert_true(pd_shard_held(added.shard) <= (PARTS + 1) * (size_t)PD_PS_PART);
    /* The first trainer is the last to give: all others are kept. */
    for (int t = TRAINERS - 1; t >= 0; t--) {
        for (uint32_t part = 0; part < PARTS; part++)
            give(&added, t, 4, part);
        end(&added, t, 4);
    }
    plain_step(&apart, 4);
    same_bits(&apart, &added);
    assert_true(pd_shard_held(added.shard) <= (TRAINERS - 1) * PARTS * (size_t)PD_PS_PART + PD_PS_PART);
    drop(&apart);
    drop(&added);
}

/* The mean over those whose part is in the sum: the one that left was added before it did. */
static void test_one_leaves_in_the_middle(void **state)
{
    (void)state;
    struct world w;
    make(&w, 0);
    for (uint32_t part = 0; part < 2; part++)
        give(&w, 0, 1, part);
    give(&w, 2, 1, 0); /* before its turn: it goes with the trainer */
    must(pd_shard_leave(w.shard, 2, PD_TRAINER_DONE));
    must(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE));
    for (int t = 1; t < TRAINERS; t++) {
        if (t == 2) continue;
        for (uint32_t part = 0; part < PARTS; part++)
            give(&w, t, 1, part);
        end(&w, t, 1);
    }
    assert_int_equal(pd_shard_step(w.shard), 1);
    for (size_t part = 0; part < PARTS; part++) {
        size_t i = part * PART;
        int has_first = part < 2;
        float sum = has_first ? value_of(0, 1, i) + value_of(1, 1, i) : value_of(1, 1, i);
        sum += value_of(3, 1, i);
        sum += value_of(4, 1, i);
        sum *= 1.0f / (has_first ? 4.0f : 3.0f);
        assert_true(data_of(&w)[i] == 1 - sum);
    }
    drop(&w);
}

/* Another process stands for the trainer: what the first gave to a sum counts once. */
static void test_another_process_gives_it_again(void **state)
{
    (void)state;
    struct world apart, added;
    make(&apart, 1);
    make(&added, 0);
    give(&added, 0, 1, 0);
    give(&added, 1, 1, 0);
    give(&added, 3, 1, 0); /* not added yet */
    uint64_t repeated = pd_shard_repeated(added.shard);
    for (int t = 0; t < 4; t += 3)
        must(pd_shard_join(added.shard, t, 200));
    for (int t = 0; t < TRAINERS; t++) {
        for (uint32_t part = 0; part < PARTS; part++)
            if (t != 1 || part) give(&added, t, 1, part);
        end(&added, t, 1);
    }
    assert_int_equal(pd_shard_repeated(added.shard), repeated + 1);
    plain_step(&apart, 1);
    same_bits(&apart, &added);
    drop(&apart);
    drop(&added);
}

/* All that had given leave; the next step starts from nothing. */
static void test_a_sum_that_was_never_applied(void **state)
{
    (void)state;
    struct world w;
    make(&w, 0);
    give(&w, 0, 1, 0);
    for (int t = 0; t < TRAINERS; t++)
        must(pd_shard_leave(w.shard, t, PD_TRAINER_DONE));
    must(pd_shard_join(w.shard, 1, 300));
    uint64_t step = pd_shard_trainer_step(w.shard, 1) + 1;
    for (uint32_t part = 0; part < PARTS; part++)
        give(&w, 1, step, part);
    end(&w, 1, step);
    assert_int_equal(pd_shard_step(w.shard), step);
    assert_true(data_of(&w)[0] == 1 - value_of(1, step, 0));
    drop(&w);
}

/* Trainer 0 had ended, and is started again when another has given a part and nothing is added up yet: it
 * takes part in that step, and is waited for, or leaves again. */
static void comes_back(int leaves)
{
    struct world w;
    make(&w, 0);
    must(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE));
    give(&w, 2, 1, 0);
    must(pd_shard_join(w.shard, 0, 300));
    assert_int_equal(pd_shard_trainer_step(w.shard, 0), 0);
    for (int t = TRAINERS - 1; t >= 0; t--)
        for (uint32_t part = 0; part < PARTS && (t || !leaves); part++)
            if (t != 2 || part) give(&w, t, 1, part);
    if (leaves) must(pd_shard_leave(w.shard, 0, PD_TRAINER_DONE));
    for (int t = leaves; t < TRAINERS; t++)
        end(&w, t, 1);
    assert_int_equal(pd_shard_step(w.shard), 1);
    assert_int_equal(pd_shard_repeated(w.shard), 0);
    for (uint32_t part = 0; part < PARTS; part++) {
        double sum = 0;
        for (int t = leaves; t < TRAINERS; t++)
            sum += (double)value_of(t, 1, (size_t)part * PART);
        assert_float_equal(data_of(&w)[part * PART], 1 - sum / (TRAINERS - leaves), 1e-2);
    }
    drop(&w);
}

static void test_one_comes_back_in_the_middle(void **state)
{
    (void)state;
    comes_back(0);
    comes_back(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_in_any_order),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_one_leaves_in_the_middle),
        cmocka_unit_test(test_another_process_gives_it_again),
        cmocka_unit_test(test_a_sum_that_was_never_applied),
        cmocka_unit_test(test_one_comes_back_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
