/* See save_root.h. The path is resolved first, to see below which root it lies. Then it is walked from that
 * root, folder by folder, and no link is followed any more. */
#include "pserver/store/save_root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "pserver/store/folder.h"

static pd_status file_error(const char *path, int number)
{
    if (number == ELOOP || number == ENOTDIR)
        return pd_fail(PD_IO, "cannot write '%s': a part of its folder is a link or a file", path);
    return pd_folder_trouble("write", path, number);
}

static int has_dots(const char *path)
{
    for (const char *at = path; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.') return 1;
        at += n + (at[n] == '/');
    }
    return 0;
}

/* The real path of the folder: what is there without links, then what is not there yet. */
static pd_status resolve(const char *folder, char **out)
{
    char *head = pd_strdup(*folder ? folder : "."), *real = NULL;
    struct pd_buf whole = {0};
    if (!head) return pd_no_memory();
    size_t length = strlen(head);
    while (!(real = realpath(length           ? head
                             : *folder == '/' ? "/"
                                              : ".",
                             NULL)) &&
           errno == ENOENT && length) {
        while (length && head[length - 1] == '/')
            length--;
        while (length && head[length - 1] != '/')
            length--;
        head[length] = 0;
    }
    int error = real ? 0 : errno;
    if (real) pd_buf_printf(&whole, "%s/%s", real, folder + length);
    free(real);
    pd_free(head);
    if (error) return file_error(folder, error);
    if (whole.failed) {
        pd_buf_free(&whole);
        return pd_no_memory();
    }
    *out = whole.at;
    return PD_OK;
}

/* What is left of `path` below `root`; NULL: it lies elsewhere. */
static const char *below(const char *root, const char *path, int may_be_all)
{
    char *real = root && *root ? realpath(root, NULL) : NULL;
    size_t n = real ? strlen(real) : 0;
    int is_all = n == 1 && real[0] == '/';
    const char *rest = NULL;
    if (is_all && may_be_all) rest = path;
    if (n && !is_all && strncmp(real, path, n) == 0 && (path[n] == '/' || !path[n])) rest = path + n;
    free(real);
    return rest;
}

/* Walks down from `root`, making folders; *out is open. */
static pd_status walk(const char *root, const char *rest, const char *path, int *out)
{
    int at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return file_error(path, errno);
    while (*rest) {
        char name[256];
        size_t n = strcspn(rest, "/");
        if (n >= sizeof name) {
            close(at);
            return file_error(path, ENAMETOOLONG);
        }
        memcpy(name, rest, n);
        name[n] = 0;
        rest += n + (rest[n] == '/');
        if (!n || strcmp(name, ".") == 0) continue;
        int next, flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        if ((next = openat(at, name, flags)) < 0 && errno == ENOENT)
            next = mkdirat(at, name, 0777) < 0 && errno != EEXIST ? -1 : openat(at, name, flags);
        int error = errno;
        close(at);
        if (next < 0) return file_error(path, error);
        at = next;
    }
    *out = at;
    return PD_OK;
}

static pd_status refuse(const char *path, const struct pd_save_root *root)
{
    if (root->given)
        return pd_fail(PD_INVALID,
                       "cannot write '%s': it lies outside '%s', to which FLAGS_ps_save_root of this server "
                       "keeps what trainers save",
                       path, root->given);
    return pd_fail(PD_INVALID,
                   "cannot write '%s': a trainer of another host or user may only save below the server's "
                   "working folder%s%s. Set FLAGS_ps_save_root on the server to the folder for such files, "
                   "or PADDLE_PS_SECRET on all processes",
                   path, root->kept && *root->kept ? " or " : "", root->kept ? root->kept : "");
}

pd_status pd_save_root_open(const char *path, const struct pd_save_root *root, int *out)
{
    const char *slash = strrchr(path, '/');
    char *folder, *real;
    if (has_dots(path))
        return pd_fail(PD_INVALID, "cannot write '%s': '..' is not allowed in what trainers save", path);
    folder = slash == path ? pd_strdup("/") : pd_strndup(path, slash ? (size_t)(slash - path) : 0);
    if (!folder) return pd_no_memory();
    pd_status status = resolve(folder, &real);
    pd_free(folder);
    PD_TRY(status);
    const char *roots[] = {root->given ? root->given : ".", root->given ? NULL : root->kept};
    const char *rest = NULL, *found = NULL;
    for (int i = 0; i < 2 && !rest; i++)
        if ((rest = below(roots[i], real, root->given != NULL))) found = roots[i];
    status = rest ? walk(found, rest, path, out) : refuse(path, root);
    pd_free(real);
    return status;
}
