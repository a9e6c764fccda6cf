/* SAVE: a trainer asks for a file on the server's disk.
 *
 * Who may write where: FLAGS_ps_save_root, when it is set, holds for everybody. Without it a trainer is free
 * to name any folder when it has proved the job's secret, or when it is on this host and of the same user
 * (shared memory is passed to nobody else). All others stay below the server's working folder and
 * FLAGS_ps_dir. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/save_root.h"
#include "pserver/session_private.h"
#include "pserver/value_file.h"

static int is_trusted(const struct session *session)
{
    return session->lane->server->is_closed || strcmp(pd_conn_transport(session->conn), "shm") == 0;
}

static pd_status write_file(const struct session *session, const struct pd_value *value, const char *path)
{
    const struct pd_server_config *config = &session->lane->server->config;
    if (config->save_root && *config->save_root)
        return pd_save_beneath(value, path, &(struct pd_save_root){.given = config->save_root});
    if (!is_trusted(session))
        return pd_save_beneath(value, path, &(struct pd_save_root){.kept = config->kept_root});
    return pd_value_file_write(value, path, PD_VALUE_FILE_REPLACE);
}

/* Between two steps of this lane, so that the file is of one step. A file that cannot be written is the
 * asker's trouble, not the connection's. */
static pd_status save_value(struct session *session, const struct pd_message *m)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    struct pd_buf path = {0};
    char folder[4096];
    uint32_t number = pd_read_u32(&r), part = pd_read_u32(&r);
    pd_read_text(&r, folder, sizeof folder);
    if (!pd_reader_done(&r)) return pd_fail(PD_FORMAT, "malformed SAVE");
    if (number >= (uint32_t)session->lane->served.n)
        return pd_fail(PD_NOT_FOUND, "value number %u, but %d were opened", number, session->lane->served.n);
    const struct served *served = &session->lane->served.at[number];
    pd_buf_printf(&path, "%s/%s_%u", *folder ? folder : ".", served->name, part);
    atomic_store(&session->lane->saves_since, pd_clock_ns());
    pd_status status = path.failed ? pd_no_memory() : write_file(session, served->value, path.at);
    atomic_store(&session->lane->saves_since, 0);
    if (status == PD_OK) pd_log(PD_LOG_INFO, "'%s' is written to %s", served->name, path.at);
    pd_buf_free(&path);
    return status;
}

pd_status pd_session_save(struct session *session, const struct pd_message *m)
{
    pd_status status = save_value(session, m);
    if (status == PD_FORMAT || status == PD_NOT_FOUND)
        return pd_session_refuse(session, m->head.request, status);
    if (status != PD_OK) {
        pd_log(PD_LOG_WARNING, "%s: %s", pd_lane_who(session->lane, session->trainer), pd_error());
        pd_session_deny(session, m->head.request, status, pd_error());
        return PD_OK;
    }
    struct pd_frame_head head = {.type = PD_PS_DONE, .request = m->head.request};
    pd_conn_say(session->conn, &head, NULL);
    return PD_OK;
}
