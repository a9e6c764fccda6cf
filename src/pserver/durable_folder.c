/* A server's folder is its own: locked while the server runs, and what does not belong to this run is moved
 * aside before anything is read. A log tells of gradients by number, so it is of use only to a server that
 * holds the same slices in the same loops: the file `layout` says for which one the logs were written. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "pserver/durable_private.h"
#include "pserver/folder.h"

#define LAYOUT "layout"

enum { SAME_SECOND = 100 };

static pd_status trouble(const char *what, const char *path, int number)
{
    return pd_fail(PD_IO, "cannot %s '%s': %s; %s", what, path, pd_folder_error(number),
                   pd_folder_advice(number));
}

/* ---- moving aside ---- */

static int is_log(const char *name)
{
    return strncmp(name, "log-", 4) == 0;
}

static int is_snapshot(const char *name)
{
    uint64_t step;
    return pd_folder_number(name, "snapshot-", &step);
}

static int is_layout(const char *name)
{
    return strcmp(name, LAYOUT) == 0;
}

/* old-<date>, and a number where the second has one already. */
static pd_status make_aside(const struct pd_durable *d, char path[PATH_MAX])
{
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y%m%d-%H%M%S", &utc);
    for (int i = 1; i <= SAME_SECOND; i++) {
        char more[16] = "";
        if (i > 1) snprintf(more, sizeof more, "-%d", i);
        if (snprintf(path, PATH_MAX, "%s/old-%s%s", d->folder, date, more) >= PATH_MAX)
            return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", d->folder);
        if (mkdir(path, 0777) == 0) return PD_OK;
        if (errno != EEXIST) break;
    }
    return trouble("make the folder", path, errno);
}

/* No server is of this layout. */
static pd_status spoil_layout(const struct pd_durable *d)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" LAYOUT, d->folder) >= (int)sizeof path)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", d->folder);
    return truncate(path, 0) == 0 || errno == ENOENT ? PD_OK : trouble("write", path, errno);
}

/* Logs, and with `all` snapshots too; `why` begins the line that tells of it. Should it be ended half-way,
 * the next start finds the rest: some of the logs alone are of no layout, they go before what they go on
 * from, and the layout goes last. */
static pd_status set_aside(const struct pd_durable *d, int all, enum pd_log_level level, const char *why)
{
    char **names, aside[PATH_MAX] = "";
    int n, moved = 0;
    PD_TRY(spoil_layout(d));
    PD_TRY(pd_folder_names(d->folder, &names, &n));
    pd_status status = PD_OK;
    for (int turn = 0; turn < 3; turn++)
        for (int i = 0; i < n && status == PD_OK; i++) {
            char from[PATH_MAX], to[PATH_MAX];
            int goes = turn == 0   ? is_log(names[i])
                       : turn == 1 ? all && is_snapshot(names[i])
                                   : is_layout(names[i]);
            if (!goes) continue;
            if (!*aside) status = make_aside(d, aside);
            if (status != PD_OK) break;
            if (snprintf(from, sizeof from, "%s/%s", d->folder, names[i]) >= (int)sizeof from ||
                snprintf(to, sizeof to, "%s/%s", aside, names[i]) >= (int)sizeof to)
                status = pd_fail(PD_INVALID, "the path of the folder '%s' is too long", d->folder);
            else if (rename(from, to) != 0)
                status = trouble("move aside", from, errno);
            moved++;
        }
    pd_folder_free_names(names, n);
    PD_TRY(status);
    if (!moved) return PD_OK;
    pd_log(level, "%s: %d files and folders of before were moved to '%s', which may be removed", why, moved,
           aside);
    return pd_folder_sync(d->folder);
}

/* ---- for whom the logs are ---- */

static void describe(const struct pd_durable *d, struct pd_buf *out)
{
    const struct pd_server *s = d->server;
    pd_buf_printf(out, "mode %s\n", s->config.is_sync ? "sync" : "async");
    for (int i = 0; i < d->config.n_servers; i++)
        pd_buf_printf(out, "server %s\n", d->config.servers[i]);
    for (int l = 0; l < s->n_lanes; l++)
        for (int u = 0; u < pd_shard_units(s->lanes[l].shard); u++) {
            const struct pd_unit_spec *unit = pd_shard_unit(s->lanes[l].shard, u);
            pd_buf_printf(out, "loop %d %s %lld\n", l, unit->grad,
                          (long long)pd_meta_numel(&unit->param->tensor.meta));
        }
}

/* 1 too when there is no such file: then nobody can tell. */
static int is_same(const char *path, const struct pd_buf *text)
{
    FILE *file = fopen(path, "re");
    size_t at = 0;
    int c, same = 1;
    if (!file) return 1;
    while (same && (c = getc(file)) != EOF)
        same = at < text->n && text->at[at++] == (char)c;
    fclose(file);
    return same && at == text->n;
}

static pd_status write_layout(const struct pd_durable *d, const char *path, const struct pd_buf *text)
{
    char aside[PATH_MAX];
    if (snprintf(aside, sizeof aside, "%s.tmp", path) >= (int)sizeof aside)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", d->folder);
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return trouble("write", aside, errno);
    ssize_t wrote = write(file, text->at, text->n);
    int number = wrote == (ssize_t)text->n ? 0 : wrote < 0 ? errno : ENOSPC;
    if (!number && fsync(file) != 0) number = errno;
    close(file);
    if (!number && rename(aside, path) != 0) number = errno;
    return number ? trouble("write", aside, number) : pd_folder_sync(d->folder);
}

static pd_status own_log(const struct pd_durable *d)
{
    char path[PATH_MAX];
    struct pd_buf text = {0};
    if (snprintf(path, sizeof path, "%s/" LAYOUT, d->folder) >= (int)sizeof path)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", d->folder);
    describe(d, &text);
    pd_status status = text.failed ? pd_no_memory() : PD_OK;
    if (status == PD_OK && !is_same(path, &text))
        status =
            set_aside(d, 0, PD_LOG_WARNING,
                      "the log is of a job with other servers, loops or parameters and cannot be done again");
    if (status == PD_OK) status = write_layout(d, path, &text);
    pd_buf_free(&text);
    return status;
}

pd_status pd_durable_own_folder(struct pd_durable *d)
{
    PD_TRY(pd_folder_make(d->folder));
    PD_TRY(pd_folder_lock(d->folder, "lock", &d->lock_file));
    if (d->config.is_fresh)
        PD_TRY(set_aside(d, 1, PD_LOG_INFO, "FLAGS_ps_fresh starts anew"));
    else if (!*d->config.log)
        PD_TRY(set_aside(d, 0, PD_LOG_WARNING,
                         "there is a log, but FLAGS_ps_log is not set, so it is not done again"));
    return *d->config.log ? own_log(d) : PD_OK;
}
