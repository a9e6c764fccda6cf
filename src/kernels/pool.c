/* See pool.h. */
#include "kernels/pool.h"

#include <float.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "kernels/larger.h"

struct job {
    const struct pd_pool *pool;
    int64_t in_points, out_points;
    const void *x, *y, *dy;
    void *to;
    int32_t *index;
};

struct range {
    int64_t from, to;
};

/* The inputs under output `o` of an axis, cut to what is inside. */
static inline void window(const struct pd_pool *p, int axis, int64_t o, struct range *r)
{
    int64_t in = p->in[axis], out = p->out[axis];
    if (p->adaptive) {
        r->from = o * in / out;
        r->to = ((o + 1) * in + out - 1) / out;
        return;
    }
    int64_t from = o * p->stride[axis] - p->before[axis], to = from + p->kernel[axis];
    r->from = from < 0 ? 0 : from;
    r->to = to > in ? in : to;
    if (r->to < r->from) r->to = r->from;
}

/* What a sum over the window is divided by. */
static inline int64_t count_of(const struct pd_pool *p, const struct range *d, const struct range *h,
                               const struct range *w)
{
    if (p->exclusive || p->adaptive) return (d->to - d->from) * (h->to - h->from) * (w->to - w->from);
    return p->kernel[0] * p->kernel[1] * p->kernel[2];
}

#define T float
#define F(name) name##_f32
#define LOWEST -FLT_MAX
#include "kernels/pool_loop.h"
#undef T
#undef F
#undef LOWEST

#define T double
#define F(name) name##_f64
#define LOWEST -DBL_MAX
#include "kernels/pool_loop.h"
#undef T
#undef F
#undef LOWEST

static struct job job_of(const struct pd_pool *p)
{
    return (struct job){.pool = p,
                        .in_points = p->in[0] * p->in[1] * p->in[2],
                        .out_points = p->out[0] * p->out[1] * p->out[2]};
}

void pd_pool_forward(const struct pd_pool *pool, int is_double, const void *x, void *y, int32_t *index)
{
    struct job j = job_of(pool);
    j.x = x;
    j.to = y;
    j.index = index;
    if (pool->channels_last)
        pd_parallel(pool->batch * j.out_points, 4096 / (pool->channels + 1) + 1,
                    is_double ? forward_points_f64 : forward_points_f32, &j);
    else
        pd_parallel(pool->batch * pool->channels, 8192 / (j.in_points + 1) + 1,
                    is_double ? forward_planes_f64 : forward_planes_f32, &j);
}

static void clear(const struct pd_pool *p, const struct job *j, int is_double)
{
    memset(j->to, 0,
           (size_t)(p->batch * p->channels * j->in_points) * (is_double ? sizeof(double) : sizeof(float)));
}

void pd_pool_backward(const struct pd_pool *pool, int is_double, const void *x, const void *y, const void *dy,
                      void *dx, int add)
{
    struct job j = job_of(pool);
    j.x = x;
    j.y = y;
    j.dy = dy;
    j.to = dx;
    if (!add) clear(pool, &j, is_double);
    if (pool->channels_last)
        pd_parallel(pool->batch, 4096 / (pool->channels * j.out_points + 1) + 1,
                    is_double ? backward_images_f64 : backward_images_f32, &j);
    else
        pd_parallel(pool->batch * pool->channels, 8192 / (j.in_points + 1) + 1,
                    is_double ? backward_planes_f64 : backward_planes_f32, &j);
}

void pd_pool_backward_index(const struct pd_pool *pool, int is_double, const int32_t *index, const void *dy,
                            void *dx)
{
    struct job j = job_of(pool);
    j.index = (int32_t *)index;
    j.dy = dy;
    j.to = dx;
    clear(pool, &j, is_double);
    pd_parallel(pool->batch * pool->channels, 16384 / (j.out_points + 1) + 1,
                is_double ? backward_indexed_f64 : backward_indexed_f32, &j);
}
