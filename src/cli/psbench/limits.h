/* What the machine can do with as many bytes as one operation moves. */
#ifndef PADDLE_CLI_PSBENCH_LIMITS_H
#define PADDLE_CLI_PSBENCH_LIMITS_H

#include "cli/psbench/measure.h"

struct pd_psbench_limits {
    double stream_bytes_per_s, copy_bytes_per_s, pings_per_s;
};

pd_status pd_psbench_limits(const struct pd_psbench_options *options, uint64_t bytes,
                            struct pd_psbench_limits *out);

#endif
