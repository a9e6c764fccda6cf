/* Convolutions: chooses between oneDNN and the plain path, and the plain path itself. See conv.h.
 *
 * Plain: the patches under each window become the columns of a matrix [in_channels/groups * kernel, outputs],
 * one image and one group at a time; the passes are then matrix products. */
#include "kernels/conv.h"

#include <string.h>

#include "base/parallel.h"
#include "kernels/dnnl.h"
#include "kernels/gemm.h"

void pd_conv_cache_free(struct pd_conv_cache *cache)
{
    pd_dnnl_cache_free(cache->dnnl);
    cache->dnnl = NULL;
}

static int64_t span(const int64_t *size, int axes)
{
    int64_t all = 1;
    for (int i = 0; i < axes; i++)
        all *= size[i];
    return all;
}

void pd_conv_prepare_plain(enum pd_conv_pass pass, const struct pd_conv *conv, int is_double,
                           struct pd_conv_job *job)
{
    *job = (struct pd_conv_job){.pass = pass, .conv = *conv, .is_double = is_double};
    int64_t rows = conv->in_channels / conv->groups * span(conv->kernel, conv->axes);
    job->scratch =
        (size_t)(rows * span(conv->out, conv->axes)) * (is_double ? sizeof(double) : sizeof(float));
}

void pd_conv_prepare(struct pd_conv_cache *cache, enum pd_conv_pass pass, const struct pd_conv *conv,
                     int is_double, struct pd_conv_job *job)
{
    pd_conv_prepare_plain(pass, conv, is_double, job);
    if (is_double || conv->batch == 0) return;
    size_t scratch = 0;
    job->dnnl = pd_dnnl_conv_prepare(&cache->dnnl, pass, conv, &scratch);
    /* Should the run fail after all, the plain path takes over in the same block. */
    if (job->dnnl && scratch > job->scratch) job->scratch = scratch;
}

/* The shape as three axes, leading ones of size 1, and where elements lie. */
struct patches {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3];
    int64_t rows_per_channel, outputs;
    int64_t channel_step, point_step; /* between channels, between neighbours along the last axis */
    int64_t in_points;
    void *image, *columns;
};

static void patches_make(struct patches *p, const struct pd_conv *c)
{
    for (int i = 0; i < 3; i++) {
        int axis = i - (3 - c->axes);
        p->in[i] = axis < 0 ? 1 : c->in[axis];
        p->out[i] = axis < 0 ? 1 : c->out[axis];
        p->kernel[i] = axis < 0 ? 1 : c->kernel[axis];
        p->stride[i] = axis < 0 ? 1 : c->stride[axis];
        p->dilation[i] = axis < 0 ? 1 : c->dilation[axis];
        p->before[i] = axis < 0 ? 0 : c->before[axis];
    }
    p->rows_per_channel = span(p->kernel, 3);
    p->outputs = span(p->out, 3);
    p->in_points = span(p->in, 3);
    p->channel_step = c->channels_last ? 1 : p->in_points;
    p->point_step = c->channels_last ? c->in_channels : 1;
}

/* Outputs along the last axis whose input lies inside: [*from, *to). */
static void inside(const struct patches *p, int64_t shift, int64_t *from, int64_t *to)
{
    int64_t s = p->stride[2];
    int64_t low = shift >= 0 ? 0 : (-shift + s - 1) / s;
    int64_t high = p->in[2] - shift <= 0 ? 0 : (p->in[2] - shift + s - 1) / s;
    *to = high < p->out[2] ? high : p->out[2];
    *from = low < *to ? low : *to;
}

#define T float
#define F(name) name##_f32
#include "kernels/conv_loop.h"
#undef T
#undef F

#define T double
#define F(name) name##_f64
#include "kernels/conv_loop.h"
#undef T
#undef F

void pd_conv_run(const struct pd_conv_job *job, const void *first, const void *second, void *out,
                 void *scratch)
{
    if (job->is_double)
        run_f64(job, first, second, out, scratch);
    else if (!job->dnnl || !pd_dnnl_conv_run(job->dnnl, first, second, out, scratch))
        run_f32(job, first, second, out, scratch);
}
