/* See client_settings.h. */
#include "pserver/client/client_settings.h"

#include <stdio.h>

#include "base/flags.h"
#include "pserver/stall.h"

struct pd_client_settings pd_client_settings_read(void)
{
    struct pd_client_settings s = {.deadline_ms = pd_flag_int(PD_FLAG_rpc_deadline),
                                   .notice_ms = pd_flag_int(PD_FLAG_ps_notice),
                                   .silence_ms = pd_stall_limit_ms(),
                                   .retry_times = pd_flag_int(PD_FLAG_rpc_retry_times),
                                   .accepts_rollback = pd_flag_int(PD_FLAG_ps_accept_rollback)};
    snprintf(s.job, sizeof s.job, "%s", pd_flag_text(PD_FLAG_ps_job));
    return s;
}
