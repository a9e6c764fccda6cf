/* See norm.h. Channels (or runs of them) are shared out to threads, so sums do not depend on their number. */
#include "kernels/norm.h"

#include <stddef.h>

#include "base/parallel.h"
#include "kernels/clones.h"

enum { STRIP = 64 };

struct work {
    const struct pd_norm *norm;
    const void *x, *dy, *a, *b, *c;
    void *out[2];
};

#define T float
#define F(name) name##_f32
#include "kernels/norm_loop.h"
#undef T
#undef F

#define T double
#define F(name) name##_f64
#include "kernels/norm_loop.h"
#undef T
#undef F

static int64_t channel_grain(const struct pd_norm *n)
{
    return 16384 / (n->outer * n->inner + 1) + 1;
}

/* Runs of memory with one factor each (or whole rows with inner == 1). */
static int64_t runs(const struct pd_norm *n, int64_t *grain)
{
    int64_t width = n->inner == 1 ? n->channels : n->inner;
    *grain = 32768 / (width + 1) + 1;
    return n->inner == 1 ? n->outer : n->outer * n->channels;
}

void pd_norm_stats(const struct pd_norm *n, const void *x, void *mean, void *variance)
{
    struct work w = {.norm = n, .x = x, .out = {mean, variance}};
    pd_parallel(n->channels, channel_grain(n), n->is_double ? stats_f64 : stats_f32, &w);
}

void pd_norm_apply(const struct pd_norm *n, const void *x, const void *mul, const void *add, void *y)
{
    struct work w = {.norm = n, .x = x, .a = mul, .b = add, .out = {y}};
    int64_t grain, count = runs(n, &grain);
    pd_parallel(count, grain, n->is_double ? apply_f64 : apply_f32, &w);
}

void pd_norm_sums(const struct pd_norm *n, const void *x, const void *mean, const void *dy, void *sum_dy,
                  void *sum_dy_x)
{
    struct work w = {.norm = n, .x = x, .dy = dy, .a = mean, .out = {sum_dy, sum_dy_x}};
    pd_parallel(n->channels, channel_grain(n), n->is_double ? sums_f64 : sums_f32, &w);
}

void pd_norm_blend(const struct pd_norm *n, const void *x, const void *dy, const void *by_dy,
                   const void *by_x, const void *add, void *dx)
{
    struct work w = {.norm = n, .x = x, .dy = dy, .a = by_dy, .b = by_x, .c = add, .out = {dx}};
    int64_t grain, count = runs(n, &grain);
    pd_parallel(count, grain, n->is_double ? blend_f64 : blend_f32, &w);
}
