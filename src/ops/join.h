/* Several arrays side by side in one, or cut out of one (kernels/copy_join.h). */
#ifndef PD_OPS_JOIN_H
#define PD_OPS_JOIN_H

#include "kernels/copy_join.h"
#include "ops/scratch.h"

/* A join of n parts; they and their widths, for the caller to fill in, are scratch memory of this run. */
static inline pd_status pd_join_make(const struct pd_run *r, int n, struct pd_join *j, int64_t **width)
{
    char *memory;
    PD_TRY(pd_scratch(r, (size_t)n * (sizeof(char *) + sizeof(int64_t)), (void **)&memory));
    *width = (int64_t *)(memory + (size_t)n * sizeof(char *));
    *j = (struct pd_join){.part = (char **)memory, .width = *width, .n = n};
    return PD_OK;
}

#endif
