/* Time per op type, summed over all runs of the process while the profiler is on. */
#ifndef PD_EXEC_PROFILE_H
#define PD_EXEC_PROFILE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

extern int pd_profile_running; /* read by the run loop; set through the calls below */
static inline int pd_profile_on(void)
{
    return __atomic_load_n(&pd_profile_running, __ATOMIC_RELAXED);
}

void pd_profile_switch(int on);
void pd_profile_clear(void);
/* `type` must outlive the profile (op tables do). Thread-safe. */
void pd_profile_add(const char *type, int64_t ns);
/* sort: "calls", "total", "max", "min", "ave"; NULL: total. */
pd_status pd_profile_print(const char *sort, struct pd_buf *out);

#endif
