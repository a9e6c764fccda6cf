/* Draws without a seed of the user's: element i is a function of the stream and i alone; see draw.h. */
#include <math.h>

#include "base/parallel.h"
#include "kernels/random.h"
#include "ops/draw.h"

#define GRAIN 4096 /* pairs worth a thread */
#define PAIRS 64   /* pairs drawn together */

struct job {
    const struct pd_draw *d;
    const struct pd_rng *rng;
};

/* 53 random bits in [0, 1), as pd_rng_uniform makes them. */
static double unit(const uint32_t *word)
{
    return (double)((((uint64_t)word[0] << 32) | word[1]) >> 11) * 0x1p-53;
}

/* Elements 2 b and 2 b + 1 come from block b: as two uniform numbers, or as the two results of one Box-Muller
 * draw. */
static void draw_pairs(const struct job *j, uint64_t block, int64_t pairs, double *out)
{
    uint32_t word[4 * PAIRS];
    pd_random_words(j->rng, block, pairs, word);
    for (int64_t i = 0; i < pairs; i++) {
        const uint32_t *w = word + 4 * i;
        if (j->d->law == PD_LAW_UNIFORM || j->d->law == PD_LAW_INTEGER) {
            out[2 * i] = unit(w);
            out[2 * i + 1] = unit(w + 2);
        } else {
            double radius = sqrt(-2.0 * log(1.0 - unit(w))), angle = 6.283185307179586 * unit(w + 2);
            out[2 * i] = radius * cos(angle);
            out[2 * i + 1] = radius * sin(angle);
        }
    }
}

/* Within two deviations: a draw outside is replaced by another one of the same element. */
static double truncate_at_two(const struct pd_rng *rng, uint64_t i, double z)
{
    for (uint64_t again = 1; (z < -2 || z > 2) && again < 64; again++)
        z = pd_rng_normal(rng, i + (again << 40));
    return z < -2 ? -2 : z > 2 ? 2 : z;
}

/* Elements [from, from + n) of the variable, into out. */
static void draw(const struct job *j, int64_t from, int64_t n, int64_t to)
{
    double drawn[2 * PAIRS];
    const struct pd_draw *d = j->d;
    const double scale = d->law == PD_LAW_INTEGER ? 1 : d->law == PD_LAW_UNIFORM ? d->b - d->a : d->b;
    for (int64_t at = from / 2; 2 * at < from + n; at += PAIRS) {
        int64_t left = (from + n + 1) / 2 - at, pairs = left < PAIRS ? left : PAIRS, first = 2 * at;
        /* Of the first and the last pair maybe only one element is wanted. */
        int64_t begin = first < from ? from - first : 0;
        int64_t end = from + n - first < 2 * pairs ? from + n - first : 2 * pairs;
        draw_pairs(j, (uint64_t)at, pairs, drawn);
        if (d->law == PD_LAW_TRUNCATED)
            for (int64_t i = begin; i < end; i++)
                drawn[i] = truncate_at_two(j->rng, (uint64_t)(first + i), drawn[i]);
        if (d->law == PD_LAW_INTEGER)
            for (int64_t i = begin; i < end; i++)
                drawn[i] = (double)(int64_t)(drawn[i] * (d->b - d->a));
        PD_SWITCH_NUMBER(d->dtype, T, {
            T *out = (T *)d->out + to + (first + begin - from);
            for (int64_t i = begin; i < end; i++)
                out[i - begin] = (T)(d->a + drawn[i] * scale);
        })
    }
}

/* One run of elements. Counts in pairs of the variable, so that no pair is drawn twice. */
static void part_of_run(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t first = j->d->first, pair = first / 2, from = 2 * (pair + begin), to = 2 * (pair + end);
    if (from < first) from = first;
    if (to > first + j->d->n) to = first + j->d->n;
    draw(j, from, to - from, from - first);
}

/* Many runs, one for each row. */
static void part_of_rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    for (int64_t row = begin; row < end; row++)
        draw(j, j->d->first + row * j->d->step, j->d->width, row * j->d->width);
}

void pd_draw_counted(const struct pd_draw *d, const struct pd_rng *rng)
{
    struct job j = {d, rng};
    if (d->step == d->width)
        pd_parallel((d->first + d->n + 1) / 2 - d->first / 2, GRAIN, part_of_run, &j);
    else
        pd_parallel(d->width ? d->n / d->width : 0, 1 + GRAIN / (1 + d->width / 2), part_of_rows, &j);
}

struct pd_rng pd_draw_rng(const struct pd_run *r)
{
    struct pd_draw_count *draws = r->state;
    if (draws->number != r->step->number) *draws = (struct pd_draw_count){.number = r->step->number};
    uint64_t stream = pd_rng_mix(pd_rng_mix((uint64_t)r->place) + draws->number);
    return pd_rng_make(r->step->seed, pd_rng_mix(stream + draws->count++));
}
