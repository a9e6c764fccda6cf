/* A server's folder is its own: locked while the server runs, of one job, and what does not belong to this
 * run is moved aside before anything is read. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/log.h"
#include "pserver/store/durable_private.h"
#include "pserver/store/folder.h"

#define JOB "job"

enum { SAME_SECOND = 100 };

/* ---- moving aside ---- */

/* old-<date>, and a number where the second has one already. */
static pd_status make_aside(const struct pd_durable *d, char path[PATH_MAX])
{
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", &utc);
    for (int i = 1; i <= SAME_SECOND; i++) {
        char name[64];
        snprintf(name, sizeof name, i > 1 ? "old-%s-%d" : "old-%s", date, i);
        PD_TRY(pd_folder_path(path, d->folder, name));
        if (mkdir(path, 0777) == 0) return PD_OK;
        if (errno != EEXIST) break;
    }
    return pd_folder_trouble("make the folder", path, errno);
}

/* What goes: everything; or logs before a step, and snapshots between two. */
struct moving {
    int all;
    uint64_t logs_before, snapshots_after, snapshots_before;
};

/* In which turn it goes; -1: it stays. Should it be ended half-way, a start without the same flags is
 * refused: logs go before what they go on from, and what misses them goes last. */
static int turn_of(const struct moving *m, const char *name)
{
    uint64_t step;
    size_t n = strlen(name);
    if (strncmp(name, "log-", 4) == 0) {
        int is_log = n > PD_FOLDER_DIGITS && pd_folder_number(name + n - PD_FOLDER_DIGITS, "", &step);
        return m->all || (is_log && step < m->logs_before) ? 0 : -1;
    }
    if (pd_folder_number(name, "snapshot-", &step))
        return m->all || (step > m->snapshots_after && step < m->snapshots_before) ? 1 : -1;
    return m->all && (strcmp(name, "layout") == 0 || strcmp(name, JOB) == 0) ? 2 : -1;
}

static pd_status move_aside(const struct pd_durable *d, const struct moving *moving, enum pd_log_level level,
                            const char *why)
{
    char **names, aside[PATH_MAX] = "";
    int n, moved = 0;
    PD_TRY(pd_folder_names(d->folder, &names, &n));
    pd_status status = PD_OK;
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < n && status == PD_OK; i++) {
            char from[PATH_MAX], to[PATH_MAX];
            if (turn_of(moving, names[i]) != turn) continue;
            if (!*aside) status = make_aside(d, aside);
            if (status != PD_OK) break;
            status = pd_folder_path(from, d->folder, names[i]);
            if (status == PD_OK) status = pd_folder_path(to, aside, names[i]);
            if (status == PD_OK && rename(from, to) != 0)
                status = pd_folder_trouble("move aside", from, errno);
            moved++;
        }
    pd_folder_free_names(names, n);
    PD_TRY(status);
    if (!moved) return PD_OK;
    pd_log(level, "%s: %d files and folders of before were moved to '%s', which may be removed", why, moved,
           aside);
    return pd_folder_sync(d->folder);
}

pd_status pd_durable_drop(const struct pd_durable *d, uint64_t logs_before, uint64_t after, uint64_t before,
                          const char *why)
{
    return move_aside(d, &(struct moving){0, logs_before, after, before}, PD_LOG_WARNING, why);
}

/* ---- whose job it is ---- */

pd_status pd_durable_write_job(const struct pd_durable *d, uint64_t job)
{
    char text[96];
    int n = snprintf(text, sizeof text, "paddle-job 1\nid %016" PRIx64 "\n", job);
    n += snprintf(text + n, sizeof text - (size_t)n, "end crc32c=%08" PRIx32 "\n",
                  pd_crc32c(0, text, (size_t)n));
    return pd_folder_write(d->folder, JOB, text, (size_t)n);
}

pd_status pd_durable_read_job(const char *folder, uint64_t *job)
{
    char path[PATH_MAX], text[128] = "", version[16];
    uint32_t crc;
    int at = 0;
    *job = 0;
    PD_TRY(pd_folder_path(path, folder, JOB));
    FILE *file = fopen(path, "re");
    if (!file) return errno == ENOENT ? PD_OK : pd_folder_trouble("read", path, errno);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    if (sscanf(text, "paddle-job %15[0-9]\nid %16" SCNx64 "\n%nend crc32c=%8" SCNx32 "\n", version, job, &at,
               &crc) != 3 ||
        !n || !*job || crc != pd_crc32c(0, text, (size_t)at))
        return pd_fail(
            PD_FORMAT,
            "'%s' does not tell which job the folder is of: it was damaged, or written by another version of "
            "this program. Bring it back from a copy, or set FLAGS_ps_fresh=1 to start anew",
            path);
    return PD_OK;
}

/* ---- taking it over ---- */

pd_status pd_durable_blame_flag(const char *root, pd_status status)
{
    if (status == PD_IO) pd_error_lead("FLAGS_ps_dir is '%s': ", root);
    return status;
}

pd_status pd_durable_own_folder(struct pd_durable *d)
{
    PD_TRY(pd_folder_make(d->folder));
    PD_TRY(pd_folder_lock(d->folder, "lock", &d->lock_file));
    if (d->config.is_fresh)
        return move_aside(d, &(struct moving){.all = 1}, PD_LOG_INFO, "FLAGS_ps_fresh starts anew");
    return pd_durable_read_job(d->folder, &d->job);
}
