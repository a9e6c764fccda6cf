/* Processes of a measurement, and the cores that they stay on. */
#ifndef PADDLE_CLI_PSBENCH_PROCESS_H
#define PADDLE_CLI_PSBENCH_PROCESS_H

#include <sys/types.h>

#include "cli/psbench/measure.h"

/* A child that goes when this process goes; 0 in the child, as fork(). */
pid_t pd_psbench_fork(void);
/* Keeps this process on one core: 0 is the server's. Does nothing unless the options say so. */
void pd_psbench_pin(const struct pd_psbench_options *options, int which);
/* Seconds of CPU that a process has used. */
double pd_psbench_cpu(pid_t process);

#endif
