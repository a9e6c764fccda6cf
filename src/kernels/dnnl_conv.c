/* Convolutions by oneDNN: a cache of prepared ones, each divided among the threads.
 *
 * Each thread does some images of the batch by a pass of its own (dnnl_conv_pass.c); the gradients of the
 * filter that they find are added up in order. How the batch is cut follows from its size and the number of
 * threads, so that the result has the same bits each time, also where one thread does all parts
 * (pd_threads_alone). A batch with fewer images than there are threads is left to oneDNN's own threads. */
#ifdef PD_WITH_ONEDNN
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "kernels/dnnl.h"
#include "kernels/dnnl_conv_pass.h"
#include "kernels/dnnl_lib.h"

enum { CACHED = 8 };

struct prepared {
    enum pd_conv_pass pass;
    struct pd_conv conv;
    int threads;
    uint64_t last_used;
    int parts;
    struct pd_dnnl_pass **part; /* by part */
    size_t *offset;             /* by part: its scratch memory */
    size_t sums, scratch;       /* where the filter gradients of parts 1, 2, ... go; bytes in all */
    int64_t filter;             /* elements of the filter */
};

struct cache {
    uint64_t clock;
    int n;
    struct prepared *at[CACHED];
};

static void prepared_free(struct prepared *p)
{
    if (!p) return;
    for (int i = 0; p->part && i < p->parts; i++)
        pd_dnnl_pass_free(p->part[i]);
    pd_free(p->part);
    pd_free(p->offset);
    pd_free(p);
}

void pd_dnnl_cache_free(void *cache)
{
    struct cache *c = cache;
    if (!c) return;
    for (int i = 0; i < c->n; i++)
        prepared_free(c->at[i]);
    pd_free(c);
}

static int64_t first_image(const struct prepared *p, int part)
{
    return p->conv.batch * part / p->parts;
}

static int64_t filter_size(const struct pd_conv *c)
{
    int64_t n = c->out_channels * (c->in_channels / c->groups);
    for (int i = 0; i < c->axes; i++)
        n *= c->kernel[i];
    return n;
}

static struct prepared *prepare(enum pd_conv_pass pass, const struct pd_conv *c, int threads)
{
    struct prepared *p = pd_calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (struct prepared){
        .pass = pass, .conv = *c, .threads = threads, .parts = c->batch < threads ? 1 : threads};
    p->filter = filter_size(c);
    p->part = pd_calloc((size_t)p->parts, sizeof *p->part);
    p->offset = pd_calloc((size_t)p->parts, sizeof *p->offset);
    pd_dnnl_use_threads(p->parts == 1 ? threads : 1);
    for (int i = 0; p->part && p->offset && i < p->parts; i++) {
        struct pd_conv some = *c;
        some.batch = first_image(p, i + 1) - first_image(p, i);
        p->part[i] = pd_dnnl_pass_new(pass, &some);
        if (!p->part[i]) break;
        p->offset[i] = p->scratch;
        p->scratch += pd_dnnl_pass_scratch(p->part[i]);
        if (i < p->parts - 1) continue;
        p->sums = p->scratch;
        if (pass == PD_CONV_FILTER) p->scratch += (size_t)(p->parts - 1) * (size_t)p->filter * sizeof(float);
        return p;
    }
    prepared_free(p);
    return NULL;
}

static int same_conv(const struct pd_conv *a, const struct pd_conv *b)
{
    int same = a->axes == b->axes && a->channels_last == b->channels_last && a->batch == b->batch &&
               a->in_channels == b->in_channels && a->out_channels == b->out_channels &&
               a->groups == b->groups;
    for (int i = 0; same && i < a->axes; i++)
        same = a->in[i] == b->in[i] && a->out[i] == b->out[i] && a->kernel[i] == b->kernel[i] &&
               a->stride[i] == b->stride[i] && a->dilation[i] == b->dilation[i] &&
               a->before[i] == b->before[i] && a->after[i] == b->after[i];
    return same;
}

void *pd_dnnl_conv_prepare(void **cache, enum pd_conv_pass pass, const struct pd_conv *conv, size_t *scratch)
{
    if (!pd_dnnl_lib()) return NULL;
    struct cache *c = *cache;
    if (!c) *cache = c = pd_calloc(1, sizeof *c);
    if (!c) return NULL;
    int threads = pd_threads_at_hand(), oldest = 0;
    for (int i = 0; i < c->n; i++) {
        struct prepared *p = c->at[i];
        if (p->pass == pass && p->threads == threads && same_conv(&p->conv, conv)) {
            p->last_used = ++c->clock;
            *scratch = p->scratch;
            return p;
        }
        if (p->last_used < c->at[oldest]->last_used) oldest = i;
    }
    struct prepared *p = prepare(pass, conv, threads);
    if (!p) return NULL;
    if (c->n == CACHED) {
        prepared_free(c->at[oldest]);
        c->at[oldest] = p;
    } else {
        c->at[c->n++] = p;
    }
    p->last_used = ++c->clock;
    *scratch = p->scratch;
    return p;
}

struct job {
    struct prepared *p;
    const float *first, *second;
    float *out;
    char *scratch;
    int64_t x_size, y_size; /* elements of an image */
    int *worked;            /* by part */
};

static int64_t image_size(int64_t channels, const int64_t *size, int axes)
{
    for (int i = 0; i < axes; i++)
        channels *= size[i];
    return channels;
}

static float *sums_of(const struct job *j, int64_t part)
{
    return (float *)(j->scratch + j->p->sums) + (part - 1) * j->p->filter;
}

static void run_parts(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    struct prepared *p = j->p;
    if (p->parts > 1) pd_dnnl_use_threads(1);
    for (int64_t i = begin; i < end; i++) {
        const int64_t x = first_image(p, (int)i) * j->x_size, y = first_image(p, (int)i) * j->y_size;
        const float *first = j->first + (p->pass == PD_CONV_DATA ? y : x);
        const float *second = j->second + (p->pass == PD_CONV_FILTER ? y : 0);
        float *out = p->pass == PD_CONV_FORWARD ? j->out + y
                     : p->pass == PD_CONV_DATA  ? j->out + x
                     : i                        ? sums_of(j, i)
                                                : j->out;
        j->worked[i] = pd_dnnl_pass_run(p->part[i], first, second, out, j->scratch + p->offset[i]);
    }
}

static void add_sums(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    for (int part = 1; part < j->p->parts; part++) {
        const float *restrict from = sums_of(j, part);
        float *restrict to = j->out;
        for (int64_t i = begin; i < end; i++)
            to[i] += from[i];
    }
}

int pd_dnnl_conv_run(void *prepared, const float *first, const float *second, float *out, void *scratch)
{
    struct prepared *p = prepared;
    const struct pd_conv *c = &p->conv;
    int all = 1, few[64] = {0}, *worked = p->parts <= 64 ? few : pd_calloc((size_t)p->parts, sizeof *worked);
    if (!worked) return 0;
    struct job j = {p,
                    first,
                    second,
                    out,
                    scratch,
                    image_size(c->in_channels, c->in, c->axes),
                    image_size(c->out_channels, c->out, c->axes),
                    worked};
    if (p->parts == 1) pd_dnnl_use_threads(p->threads);
    pd_parallel(p->parts, 1, run_parts, &j);
    for (int i = 0; i < p->parts; i++)
        all &= worked[i];
    if (all && p->pass == PD_CONV_FILTER) pd_parallel(p->filter, 16 * 1024, add_sums, &j);
    if (worked != few) pd_free(worked);
    return all;
}
#endif
