/* Classes drawn at random to compare with the true ones, as upstream's samplers draw them where a seed is
 * given. */
#ifndef PD_OPS_SAMPLER_H
#define PD_OPS_SAMPLER_H

#include "base/mt19937.h"
#include "base/rng.h"

enum pd_sampler_law { PD_SAMPLER_UNIFORM, PD_SAMPLER_LOG_UNIFORM, PD_SAMPLER_CUSTOM };

struct pd_sampler {
    enum pd_sampler_law law;
    int64_t classes;
    /* The custom law: class i stays with probability alias_probs[i], else it is alias[i]. */
    const int32_t *alias;
    const float *alias_probs;
    int seed;
    struct pd_rng rng; /* of a sampler without a seed, which is 0 then */
    uint64_t drawn;
    union {
        struct pd_mt32 mt32;
        struct pd_mt64 mt64;
    };
};

/* All but `drawn` and the twisters is set by the caller; call it before the first draw. */
void pd_sampler_start(struct pd_sampler *sampler);
int64_t pd_sampler_draw(struct pd_sampler *sampler);

#endif
