/* The float32 functions of kernels/ew_math.h against the C library in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/clones.h"
#include "kernels/ew_math.h"

#define STEPS 200000
#define MOST 2e-7 /* relative error */

#define LOOP(name)                                                                                           \
    PD_CLONES static void loop_##name(float *out, const float *x, int n)                                     \
    {                                                                                                        \
        for (int i = 0; i < n; i++)                                                                          \
            out[i] = pd_##name##_f32(x[i]);                                                                  \
    }
LOOP(exp)
LOOP(log)
LOOP(log1p)
LOOP(tanh)
LOOP(sigmoid)

static float x[STEPS], found[STEPS];

static void sweep(void (*loop)(float *, const float *, int), double (*exact)(double), double low, double high)
{
    for (int i = 0; i < STEPS; i++)
        x[i] = (float)(low + (high - low) * i / (STEPS - 1));
    loop(found, x, STEPS);
    for (int i = 0; i < STEPS; i++) {
        double wanted = exact((double)x[i]), error = fabs((double)found[i] - wanted);
        if (fabs(wanted) < 1.2e-38 || fabs(wanted) > 3.4e38) continue;
        if (!(error <= MOST * fabs(wanted)))
            fail_msg("f(%.9g) is %.9g, the C library says %.12g", (double)x[i], (double)found[i], wanted);
    }
}

static void test_exp(void **state)
{
    (void)state;
    sweep(loop_exp, exp, -87.3, 88.7);
    sweep(loop_exp, exp, -1, 1);
    assert_true(pd_exp_f32(INFINITY) == INFINITY && pd_exp_f32(-INFINITY) == 0);
    assert_true(pd_exp_f32(0) == 1 && pd_exp_f32(1000) == INFINITY && pd_exp_f32(-1000) == 0);
    assert_true(isnan(pd_exp_f32(NAN)));
}

static void test_log(void **state)
{
    (void)state;
    sweep(loop_log, log, 1e-6, 10);
    sweep(loop_log, log, 0.99, 1.01);
    sweep(loop_log, log, 1e-38, 1e-30);
    sweep(loop_log, log, 1e30, 3e38);
    assert_true(pd_log_f32(0) == -INFINITY && pd_log_f32(INFINITY) == INFINITY && pd_log_f32(1) == 0);
    assert_true(isnan(pd_log_f32(-1)) && isnan(pd_log_f32(NAN)));
    assert_true(fabs((double)pd_log_f32(1e-40f) - log((double)1e-40f)) < 1e-4);
}

static void test_log1p(void **state)
{
    (void)state;
    sweep(loop_log1p, log1p, 0, 1);
    sweep(loop_log1p, log1p, 1e-9, 1e-4);
    sweep(loop_log1p, log1p, 0, 1000);
}

static void test_tanh(void **state)
{
    (void)state;
    sweep(loop_tanh, tanh, -10, 10);
    sweep(loop_tanh, tanh, -1.1, 1.1);
    sweep(loop_tanh, tanh, 1e-12, 1e-6);
    assert_true(pd_tanh_f32(INFINITY) == 1 && pd_tanh_f32(-INFINITY) == -1 && pd_tanh_f32(0) == 0);
    assert_true(isnan(pd_tanh_f32(NAN)));
}

static void test_sigmoid(void **state)
{
    (void)state;
    sweep(loop_sigmoid, pd_sigmoid_f64, -87, 87);
    sweep(loop_sigmoid, pd_sigmoid_f64, -2, 2);
    assert_true(pd_sigmoid_f32(INFINITY) == 1 && pd_sigmoid_f32(-INFINITY) == 0);
    assert_true(isnan(pd_sigmoid_f32(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),  cmocka_unit_test(test_log),     cmocka_unit_test(test_log1p),
        cmocka_unit_test(test_tanh), cmocka_unit_test(test_sigmoid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
