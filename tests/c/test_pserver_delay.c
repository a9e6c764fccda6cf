/* Delay compensation: an async gradient counts by how far its parameter has moved since the trainer was given
 * it, whichever parts it comes in; who was given nothing has no delay. */
#include "shard_world.h"

static void open_async(struct world *w, int is_checked)
{
    build_as(w, (struct pd_shard_config){.trainers = 2, .compensates = 1, .is_checked = is_checked});
    for (int t = 0; t < 2; t++)
        must(pd_shard_join(w->shard, t, 7 + (uint64_t)t));
}

static void show(struct world *w, int trainer)
{
    must(pd_shard_shown(w->shard, trainer, pd_shard_unit(w->shard, w->unit)->table, &w->param->tensor));
}

static void push(struct world *w, int trainer, uint64_t step, float value)
{
    for (uint32_t part = 0; part < 3; part++) {
        struct pd_span at[2];
        int spans;
        must(pd_shard_place(w->shard, trainer, step, (uint32_t)w->unit, part, 0, at, &spans));
        for (size_t k = 0; k < at[0].n / sizeof(float); k++)
            ((float *)at[0].at)[k] = value * (float)(part + 1);
        must(pd_shard_arrived(w->shard, trainer, step, (uint32_t)w->unit, part, 0));
    }
    must(pd_shard_end(w->shard, trainer, step, step));
}

static void expect(const struct world *w, const float values[3])
{
    const float *at = w->param->tensor.data;
    for (int64_t i = 0; i < NUMEL; i++)
        if (at[i] != values[i / PART])
            fail_msg("w[%lld] is %f, expected %f", (long long)i, (double)at[i], (double)values[i / PART]);
}

static void test_by_how_far_it_has_moved(void **state)
{
    (void)state;
    for (int is_checked = 0; is_checked < 2; is_checked++) {
        struct world w;
        open_async(&w, is_checked);
        show(&w, 0);
        show(&w, 1);
        push(&w, 1, 1, 0.5f); /* nothing has moved */
        expect(&w, (float[]){0.5f, 0, -0.5f});
        /* g + g g (w - 1) of 0.5, 1 and 1.5 */
        push(&w, 0, 1, 0.5f);
        expect(&w, (float[]){0.5f - 0.375f, 0 - 0.0f, -0.5f - (1.5f - 2.25f * 1.5f)});
        show(&w, 0);
        push(&w, 0, 2, 0.25f); /* it has what is there now */
        expect(&w, (float[]){-0.125f, -0.5f, -0.5f + 1.875f - 0.75f});
        drop(&w);
    }
}

static void test_who_was_given_nothing(void **state)
{
    (void)state;
    struct world w;
    open_async(&w, 0);
    show(&w, 1);
    push(&w, 1, 1, 1);
    push(&w, 0, 1, 1);
    expect(&w, (float[]){-1, -3, -5});
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_how_far_it_has_moved),
                                       cmocka_unit_test(test_who_was_given_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
