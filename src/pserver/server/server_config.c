/* The one place where a server reads its flags; see server.h. */
#include <string.h>

#include "base/flags.h"
#include "pserver/server/server.h"
#include "pserver/stall.h"
#include "pserver/store/durable.h"

const char *const pd_loss_names[3] = {
    [PD_LOSS_FAIL] = "fail", [PD_LOSS_SHRINK] = "shrink", [PD_LOSS_WAIT] = "wait"};

pd_status pd_server_config_read(struct pd_server_config *out, struct pd_durable_config *durable)
{
    out->job = pd_flag_text(PD_FLAG_ps_job);
    out->loops = pd_flag_int(PD_FLAG_ps_loops);
    out->reconnect_ms = pd_flag_int(PD_FLAG_ps_reconnect);
    out->notice_ms = pd_flag_int(PD_FLAG_ps_notice);
    out->deadline_ms = pd_flag_int(PD_FLAG_rpc_deadline);
    out->silence_ms = pd_stall_limit_ms();
    out->wait_seconds = pd_flag_int(PD_FLAG_ps_wait_trainers);
    out->save_root = pd_flag_text(PD_FLAG_ps_save_root);
    out->kept_root = pd_flag_text(PD_FLAG_ps_dir);
    out->http = pd_flag_text(PD_FLAG_ps_http);
    out->accepts_rollback = pd_flag_int(PD_FLAG_ps_accept_rollback);
    out->accepts_anew = pd_flag_int(PD_FLAG_ps_accept_anew);
    *durable = (struct pd_durable_config){.root = out->kept_root,
                                          .log = pd_flag_text(PD_FLAG_ps_log),
                                          .every_seconds = pd_flag_int(PD_FLAG_ps_snapshot_seconds),
                                          .every_steps = pd_flag_int(PD_FLAG_ps_snapshot_steps),
                                          .log_mb = pd_flag_int(PD_FLAG_ps_log_mb),
                                          .keep = pd_flag_int(PD_FLAG_ps_keep),
                                          .is_fresh = pd_flag_int(PD_FLAG_ps_fresh)};
    const char *text = pd_flag_text(PD_FLAG_ps_on_trainer_loss);
    out->on_loss = out->is_sync ? PD_LOSS_FAIL : PD_LOSS_SHRINK;
    if (!*text) return PD_OK;
    for (int i = 0; i < 3; i++)
        if (strcmp(text, pd_loss_names[i]) == 0) {
            out->on_loss = (enum pd_loss_policy)i;
            return PD_OK;
        }
    return pd_fail(PD_INVALID, "FLAGS_ps_on_trainer_loss is '%s': give fail, shrink or wait", text);
}
