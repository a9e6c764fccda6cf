/* SAVE: a trainer asks for a file on the server's disk.
 *
 * Who may write where: FLAGS_ps_save_root, when it is set, holds for everybody. Without it a trainer is free
 * to name any folder when it has proved the job's secret, or when it is on this host and of the same user
 * (shared memory is passed to nobody else). All others stay below the server's working folder and
 * FLAGS_ps_dir. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/wire.h"
#include "pserver/proto.h"
#include "pserver/server/session_private.h"
#include "pserver/store/save_part.h"
#include "pserver/store/save_root.h"
#include "pserver/store/value_file.h"

static int is_trusted(const struct session *session)
{
    return session->lane->server->is_closed || strcmp(pd_conn_transport(session->conn), "shm") == 0;
}

/* Opens the folder of the file. */
static pd_status open_folder(const struct session *session, const char *path, int *out)
{
    const struct pd_server_config *config = &session->lane->server->config;
    if (config->save_root && *config->save_root)
        return pd_save_root_open(path, &(struct pd_save_root){.given = config->save_root}, out);
    if (!is_trusted(session))
        return pd_save_root_open(path, &(struct pd_save_root){.kept = config->kept_root}, out);
    return pd_value_file_folder(path, out);
}

/* Of a table that keeps its rows by itself, and its states. */
static pd_status write_rows(const void *arg, FILE *file)
{
    const struct served *served = arg;
    return served->of->kind->save(served->of, served->value, file);
}

static pd_status write_part(struct session *session, const struct served *served, const char *path,
                            const struct pd_part *part, int is_placed)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int folder;
    PD_TRY(open_folder(session, path, &folder));
    int has_rows = served->of && served->of->kind->save && served->value->tensor.meta.rank > 1;
    struct pd_file_body body =
        has_rows ? (struct pd_file_body){write_rows, served} : pd_file_body_of(served->value);
    pd_status status =
        is_placed ? pd_part_place(folder, name, part, path) : pd_part_write(folder, name, body, part, path);
    close(folder);
    return status;
}

/* Between two steps of this lane, so that the file is of one step. A file that cannot be written is the
 * asker's trouble, not the connection's. */
static pd_status save_value(struct session *session, const struct pd_message *m, uint64_t *number)
{
    struct pd_reader r = pd_reader_of(m->meta, m->head.meta);
    struct pd_buf path = {0};
    struct pd_part part;
    char folder[4096];
    int is_placed = (m->head.flags & PD_PS_PLACE) != 0;
    uint32_t value = pd_read_u32(&r);
    part.index = pd_read_u32(&r);
    part.count = pd_read_u32(&r);
    part.save = pd_read_u64(&r);
    pd_read_text(&r, folder, sizeof folder);
    if (!pd_reader_done(&r) || (part.count && part.index >= part.count))
        return pd_fail(PD_FORMAT, "malformed SAVE");
    if (value >= (uint32_t)session->lane->served.n)
        return pd_fail(PD_NOT_FOUND, "value number %u, but %d were opened", value, session->lane->served.n);
    const struct served *served = &session->lane->served.at[value];
    if (!part.count) {
        *number = atomic_fetch_add(&session->lane->server->saves, 1) + 1;
        return PD_OK;
    }
    pd_buf_printf(&path, "%s/%s_%u", *folder ? folder : ".", served->name, part.index);
    atomic_store(&session->lane->saves_since, pd_clock_ns());
    pd_status status = path.failed ? pd_no_memory() : write_part(session, served, path.at, &part, is_placed);
    atomic_store(&session->lane->saves_since, 0);
    if (status == PD_OK && is_placed) pd_log(PD_LOG_INFO, "'%s' is written to %s", served->name, path.at);
    pd_buf_free(&path);
    return status;
}

pd_status pd_session_save(struct session *session, const struct pd_message *m)
{
    uint64_t number = 0;
    pd_status status = save_value(session, m, &number);
    if (status == PD_FORMAT || status == PD_NOT_FOUND) return status;
    if (status != PD_OK) {
        pd_log(PD_LOG_WARNING, "%s: %s", pd_lane_who(session->lane, session->trainer), pd_error());
        pd_session_deny(session, m->head.request, status, pd_error());
        return PD_OK;
    }
    struct pd_frame_head head = {.type = PD_PS_DONE, .request = m->head.request, .step = number};
    pd_conn_say(session->conn, &head, NULL);
    return PD_OK;
}
