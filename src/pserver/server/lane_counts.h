/* What a lane has counted since it began, for those who watch. Of the lane's thread; reports have a copy. */
#ifndef PD_PSERVER_LANE_COUNTS_H
#define PD_PSERVER_LANE_COUNTS_H

#include "base/histogram.h"
#include "pserver/proto.h"

enum { PD_LANE_MESSAGES = PD_PS_MEET - PD_PS_OPEN + 1, PD_LANE_STATUSES = 32 };

struct pd_lane_counts {
    struct pd_histogram messages[PD_LANE_MESSAGES]; /* seconds of work, by type less PD_PS_OPEN */
    uint64_t errors[PD_LANE_STATUSES];              /* messages that were refused, by status */
    struct pd_histogram waits;                      /* sync: seconds from the end of a push to its answer */
    /* Async: steps of other trainers that were applied since this one was given values, at each of its own.
     */
    struct pd_histogram staleness;
    uint64_t answered; /* async: pushes that have ended */
};

#endif
