/* The job that this process takes part in. */
#include <paddle/paddle.h>

#if PD_WITH_DISTRIBUTE
#include "pserver/client.h"

void pd_leave_job(int failed, const char *why)
{
    pd_client_goodbye(failed, why);
}
#else
void pd_leave_job(int failed, const char *why)
{
    (void)failed, (void)why;
}
#endif
