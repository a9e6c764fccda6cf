/* See process.h. */
#include "cli/psbench/process.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

pid_t pd_psbench_fork(void)
{
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGINT, SIG_DFL);
    return 0;
}

void pd_psbench_pin(const struct pd_psbench_options *options, int which)
{
    cpu_set_t may, one;
    if (!options->pins || sched_getaffinity(0, sizeof may, &may) != 0) return;
    which %= CPU_COUNT(&may);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may) && which-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

double pd_psbench_cpu(pid_t process)
{
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
