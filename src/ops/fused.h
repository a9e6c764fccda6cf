/* What ops of plans share. */
#ifndef PD_OPS_FUSED_H
#define PD_OPS_FUSED_H

#include "base/error.h"

/* Passes an error on and notes which of the ops that this one stands for met it, counted as the pass listed
 * them. */
static inline pd_status pd_fused_part(int part, pd_status status)
{
    if (status != PD_OK) pd_error_set_part(part);
    return status;
}

#endif
