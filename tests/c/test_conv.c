/* Convolutions: the plain path against a loop straight from the definition, and the chosen path against the
 * plain one, for every pass over a sweep of odd shapes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/conv.h"

struct sample {
    int axes;
    int64_t batch, in_channels, out_channels, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};

static const struct sample samples[] = {
    {2, 2, 3, 4, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 3, 1, 20, 1, {28, 28}, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 1, 20, 50, 1, {12, 12}, {5, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 6, 9, 3, {9, 11}, {2, 3}, {2, 3}, {1, 2}, {0, 2}, {1, 0}},
    {2, 2, 8, 8, 8, {10, 10}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 17, 31, 1, {1, 13}, {1, 4}, {1, 2}, {1, 3}, {0, 3}, {0, 1}},
    {2, 4, 5, 16, 1, {6, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}},
    {2, 2, 4, 6, 2, {5, 5}, {5, 5}, {3, 3}, {1, 1}, {4, 4}, {4, 4}},
    {3, 2, 3, 4, 1, {5, 6, 4}, {3, 2, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}, {1, 1, 0}},
    {3, 1, 4, 4, 2, {7, 4, 5}, {2, 2, 2}, {2, 1, 2}, {2, 1, 1}, {0, 0, 0}, {1, 0, 1}},
    {1, 2, 3, 5, 1, {17}, {4}, {3}, {2}, {1}, {2}},
    {2, 0, 3, 4, 1, {7, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
};

static struct pd_conv shape_of(const struct sample *s, int last)
{
    struct pd_conv c = {.axes = s->axes,
                        .channels_last = last,
                        .batch = s->batch,
                        .in_channels = s->in_channels,
                        .out_channels = s->out_channels,
                        .groups = s->groups};
    for (int i = 0; i < s->axes; i++) {
        c.in[i] = s->in[i];
        c.kernel[i] = s->kernel[i];
        c.stride[i] = s->stride[i];
        c.dilation[i] = s->dilation[i];
        c.before[i] = s->before[i];
        c.after[i] = s->after[i];
        c.out[i] =
            pd_conv_out_size(c.in[i], c.kernel[i], c.dilation[i], c.before[i], c.after[i], c.stride[i]);
    }
    return c;
}

static int64_t span(const int64_t *size, int axes)
{
    int64_t all = 1;
    for (int i = 0; i < axes; i++)
        all *= size[i];
    return all;
}

/* Counts `at` as a number with digits of the given sizes; where they lie, -1 for outside. */
static void digits(int64_t at, const int64_t *size, int axes, int64_t *out)
{
    for (int i = axes - 1; i >= 0; i--) {
        out[i] = at % size[i];
        at /= size[i];
    }
}

/* All three passes at once from the definition: y += x*w, dx += dy*w, dw += x*dy. */
static void define(const struct pd_conv *c, const double *x, const double *w, const double *dy, double *y,
                   double *dx, double *dw)
{
    int64_t ins = span(c->in, c->axes), outs = span(c->out, c->axes), taps = span(c->kernel, c->axes);
    int64_t in_each = c->in_channels / c->groups, out_each = c->out_channels / c->groups;
    for (int64_t n = 0; n < c->batch; n++)
        for (int64_t oc = 0; oc < c->out_channels; oc++)
            for (int64_t o = 0; o < outs; o++)
                for (int64_t ic = 0; ic < in_each; ic++)
                    for (int64_t t = 0; t < taps; t++) {
                        int64_t od[3], kd[3], in_at = 0, ok = 1;
                        digits(o, c->out, c->axes, od);
                        digits(t, c->kernel, c->axes, kd);
                        for (int i = 0; i < c->axes; i++) {
                            int64_t at = od[i] * c->stride[i] + kd[i] * c->dilation[i] - c->before[i];
                            if (at < 0 || at >= c->in[i]) ok = 0;
                            in_at = in_at * c->in[i] + at;
                        }
                        if (!ok) continue;
                        int64_t channel = oc / out_each * in_each + ic;
                        int64_t xi = c->channels_last ? (n * ins + in_at) * c->in_channels + channel
                                                      : (n * c->in_channels + channel) * ins + in_at;
                        int64_t yi = c->channels_last ? (n * outs + o) * c->out_channels + oc
                                                      : (n * c->out_channels + oc) * outs + o;
                        int64_t wi = (oc * in_each + ic) * taps + t;
                        y[yi] += x[xi] * w[wi];
                        dx[xi] += dy[yi] * w[wi];
                        dw[wi] += x[xi] * dy[yi];
                    }
}

struct arrays {
    int64_t n;
    double *d, *got;
    float *f;
};

static struct arrays arrays_make(int64_t n, unsigned seed)
{
    struct arrays a = {n, calloc((size_t)n + 1, 8), calloc((size_t)n + 1, 8), calloc((size_t)n + 1, 4)};
    for (int64_t i = 0; seed && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        a.f[i] = (float)(int)(seed >> 8) / (1 << 23) - 1.0f;
        a.d[i] = a.f[i];
    }
    return a;
}

static void arrays_free(struct arrays *a)
{
    free(a->d);
    free(a->got);
    free(a->f);
}

static void compare(const struct arrays *a, int is_double, double tolerance, const char *what, int sample)
{
    for (int64_t i = 0; i < a->n; i++) {
        double got = is_double ? a->got[i] : (double)a->f[i];
        if (!(fabs(got - a->d[i]) <= tolerance * (1 + fabs(a->d[i]))))
            fail_msg("sample %d %s element %d: %g, not %g", sample, what, (int)i, got, a->d[i]);
    }
}

static void check(struct pd_conv_cache *cache, const struct pd_conv *c, int is_double, int sample)
{
    int64_t ins = span(c->in, c->axes), outs = span(c->out, c->axes);
    struct arrays x = arrays_make(c->batch * c->in_channels * ins, 1);
    struct arrays w =
        arrays_make(c->out_channels * (c->in_channels / c->groups) * span(c->kernel, c->axes), 2);
    struct arrays dy = arrays_make(c->batch * c->out_channels * outs, 3);
    struct arrays y = arrays_make(dy.n, 0), dx = arrays_make(x.n, 0), dw = arrays_make(w.n, 0);
    define(c, x.d, w.d, dy.d, y.d, dx.d, dw.d);
    struct arrays *first[] = {&x, &dy, &x}, *second[] = {&w, &w, &dy}, *out[] = {&y, &dx, &dw};
    static const char *const names[] = {"forward", "data", "filter"};
    for (int pass = 0; pass < 3; pass++) {
        struct pd_conv_job job;
        if (cache)
            pd_conv_prepare(cache, (enum pd_conv_pass)pass, c, is_double, &job);
        else
            pd_conv_prepare_plain((enum pd_conv_pass)pass, c, is_double, &job);
        void *scratch = aligned_alloc(64, (job.scratch + 127) / 64 * 64);
        if (is_double)
            pd_conv_run(&job, first[pass]->d, second[pass]->d, out[pass]->got, scratch);
        else
            pd_conv_run(&job, first[pass]->f, second[pass]->f, out[pass]->f, scratch);
        free(scratch);
        compare(out[pass], is_double, is_double ? 1e-12 : 2e-4, names[pass], sample);
    }
    arrays_free(&x);
    arrays_free(&w);
    arrays_free(&dy);
    arrays_free(&y);
    arrays_free(&dx);
    arrays_free(&dw);
}

static void sweep(int with_cache, int is_double)
{
    struct pd_conv_cache cache = {0};
    for (size_t s = 0; s < sizeof samples / sizeof samples[0]; s++)
        for (int last = 0; last < 2; last++) {
            struct pd_conv c = shape_of(&samples[s], last);
            check(with_cache ? &cache : NULL, &c, is_double, (int)s);
        }
    pd_conv_cache_free(&cache);
}

static void test_plain_double(void **state)
{
    sweep(0, 1);
}
static void test_plain_float(void **state)
{
    sweep(0, 0);
}
/* The cache holds fewer shapes than the sweep has, so it also turns over. */
static void test_chosen_float(void **state)
{
    sweep(1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_double),
        cmocka_unit_test(test_plain_float),
        cmocka_unit_test(test_chosen_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
