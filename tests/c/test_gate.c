/* Threads that wait for each other between batches: none computes while the gate is full, one that has ended
 * is not waited for, and those that wait can be stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/crew.h"
#include "base/error.h"
#include "exec/gate.h"

enum { THREADS = 4, ROUNDS = 500 };

struct world {
    struct pd_gate gate;
    struct pd_crew crew;
    atomic_int computing, polled;
    int opened, stop_at;
    int64_t sum[THREADS]; /* what each has done; read when none computes */
};

static void wake(void *arg)
{
    struct world *w = arg;
    pd_crew_wake(&w->crew);
}

/* Thread i leaves after ROUNDS / (i + 1) rounds. */
static pd_status work(void *arg, int number)
{
    struct world *w = arg;
    for (int round = 0; round < ROUNDS / (number + 1); round++) {
        atomic_fetch_add(&w->computing, 1);
        w->sum[number]++;
        atomic_fetch_sub(&w->computing, 1);
        PD_TRY(pd_gate_wait(&w->gate, wake, w));
    }
    pd_gate_leave(&w->gate, wake, w);
    return PD_OK;
}

static void stop(void *arg)
{
    struct world *w = arg;
    pd_gate_stop(&w->gate);
}

static int poll(void *arg)
{
    struct world *w = arg;
    if (!pd_gate_is_full(&w->gate)) return 0;
    assert_int_equal(atomic_load(&w->computing), 0);
    w->opened++;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(w->sum[i], w->opened < ROUNDS / (i + 1) ? w->opened : ROUNDS / (i + 1));
    if (w->opened == w->stop_at) return 1;
    pd_gate_open(&w->gate);
    return 0;
}

static pd_status run(struct world *w, int stop_at)
{
    *w = (struct world){
        .crew = {.n = THREADS, .work = work, .stop = stop, .arg = w, .poll = poll, .poll_arg = w},
        .stop_at = stop_at};
    pd_gate_init(&w->gate, THREADS);
    pd_status status = pd_crew_run(&w->crew);
    pd_gate_clear(&w->gate);
    return status;
}

static void test_all_wait(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(run(&w, 0), PD_OK);
    assert_int_equal(w.opened, ROUNDS);
}

static void test_it_is_stopped(void **state)
{
    (void)state;
    struct world w;
    assert_int_equal(run(&w, 7), PD_INTERRUPTED);
    assert_int_equal(w.opened, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_wait), cmocka_unit_test(test_it_is_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
