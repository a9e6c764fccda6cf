/* See sampler.h. */
#include "ops/sampler.h"

#include <math.h>

void pd_sampler_start(struct pd_sampler *s)
{
    s->drawn = 0;
    if (s->law == PD_SAMPLER_CUSTOM)
        pd_mt32_start(&s->mt32, (uint32_t)s->seed);
    else
        pd_mt64_start(&s->mt64, (uint32_t)s->seed);
}

/* An integer in [0, count) of words in [0, most]. */
#define ONE_OF(NAME, NEXT, MT, MOST)                                                                         \
    static int64_t NAME(struct MT *mt, int64_t count)                                                        \
    {                                                                                                        \
        uint64_t share = (uint64_t)(MOST) / (uint64_t)count, word;                                           \
        do                                                                                                   \
            word = NEXT(mt);                                                                                 \
        while (word >= share * (uint64_t)count);                                                             \
        return (int64_t)(word / share);                                                                      \
    }
ONE_OF(one_of_32, pd_mt32_next, pd_mt32, UINT32_MAX)
ONE_OF(one_of_64, pd_mt64_next, pd_mt64, UINT64_MAX)

static double unit(struct pd_sampler *s)
{
    if (!s->seed) return pd_rng_uniform(&s->rng, s->drawn++);
    if (s->law != PD_SAMPLER_CUSTOM) return (double)pd_mt64_next(&s->mt64) * 0x1p-64;
    double low = pd_mt32_next(&s->mt32);
    return (low + (double)pd_mt32_next(&s->mt32) * 0x1p32) * 0x1p-64;
}

static int64_t one_of(struct pd_sampler *s)
{
    if (s->seed)
        return s->law == PD_SAMPLER_CUSTOM ? one_of_32(&s->mt32, s->classes)
                                           : one_of_64(&s->mt64, s->classes);
    int64_t class = (int64_t)(unit(s) * (double)s->classes);
    return class < s->classes ? class : s->classes - 1;
}

int64_t pd_sampler_draw(struct pd_sampler *s)
{
    if (s->law == PD_SAMPLER_LOG_UNIFORM) {
        double range = (double)(float)log((double)s->classes);
        return ((int64_t)exp(unit(s) * range) - 1) % (s->classes - 1);
    }
    int64_t class = one_of(s);
    if (s->law != PD_SAMPLER_CUSTOM) return class;
    return unit(s) > (double)s->alias_probs[class] && s->alias[class] >= 0 ? s->alias[class] : class;
}
