/* Memory for the time of one run() call. */
#ifndef PD_OPS_SCRATCH_H
#define PD_OPS_SCRATCH_H

#include "program/op.h"

/* Never NULL on success, also for 0 bytes. A second call takes the memory of the first. */
static inline pd_status pd_scratch(const struct pd_run *r, size_t bytes, void **out)
{
    *out = r->step->scratch(r, bytes ? bytes : 1);
    return *out ? PD_OK : pd_no_memory();
}

/* Where the next array may begin behind one of so many bytes, for one call that serves several. */
static inline size_t pd_scratch_round(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif
