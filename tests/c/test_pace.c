/* Tests of exec/pace: the faster number of threads is taken, and taken back when that changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/pace.h"

static int64_t now;

/* One step of a machine on which a step takes these times; returns the mode that was used. */
static enum pd_pace_mode step(struct pd_pace *p, double all, double one)
{
    enum pd_pace_mode mode = pd_pace_choose(p, now);
    double ns = mode == PD_PACE_ALL ? all : one;
    now += (int64_t)ns;
    pd_pace_note(p, ns, now);
    return mode;
}

static double share_of_one(struct pd_pace *p, double all, double one, int steps)
{
    int count = 0;
    for (int i = 0; i < steps; i++)
        count += step(p, all, one) == PD_PACE_ONE;
    return (double)count / steps;
}

static void the_faster_mode_wins(void **state)
{
    (void)state;
    struct pd_pace p = {0};
    share_of_one(&p, 1e6, 2e6, 20);
    assert_true(share_of_one(&p, 1e6, 2e6, 2000) < 0.02);
    /* Another process takes a core: steps on all threads get a hundred times slower. */
    share_of_one(&p, 100e6, 2e6, 20);
    assert_true(share_of_one(&p, 100e6, 2e6, 5000) > 0.99);
    /* It ends: all threads again, within the longest pause between two tries. */
    share_of_one(&p, 1e6, 2e6, 3000);
    assert_true(share_of_one(&p, 1e6, 2e6, 2000) < 0.02);
}

static void a_bad_mode_is_tried_ever_more_rarely(void **state)
{
    (void)state;
    struct pd_pace p = {0};
    share_of_one(&p, 50e6, 1e6, 10);
    int64_t began = now, lost = 0;
    while (now - began < 30000000000ll)
        lost += step(&p, 50e6, 1e6) == PD_PACE_ALL ? 49000000 : 0;
    assert_true(lost < (now - began) / 20);
}

/* One thread is never better by much here, and never far behind: that must not cost a tenth of the time. */
static void one_thread_is_tried_rarely_while_all_are_faster(void **state)
{
    (void)state;
    struct pd_pace p = {0};
    share_of_one(&p, 10e6, 17e6, 60);
    assert_true(share_of_one(&p, 10e6, 17e6, 1000) < 0.02);
    /* A core is taken: seen at once, without a try. */
    assert_true(share_of_one(&p, 200e6, 17e6, 20) > 0.7);
}

static void long_steps_are_not_wasted_on_tries(void **state)
{
    (void)state;
    struct pd_pace p = {0};
    int64_t began = now;
    double tries = 400 * share_of_one(&p, 1e9, 1.8e9, 400);
    assert_true(tries * 0.8e9 < 0.1 * (double)(now - began));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_mode_wins),
        cmocka_unit_test(a_bad_mode_is_tried_ever_more_rarely),
        cmocka_unit_test(one_thread_is_tried_rarely_while_all_are_faster),
        cmocka_unit_test(long_steps_are_not_wasted_on_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
