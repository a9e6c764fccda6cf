/* See value_file.h. */
#include "pserver/store/value_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "pserver/store/folder.h"
#include "tensor/file.h"

enum { TRIES = 8 };

/* A new file beside the one that is to be, of a name that nobody can have guessed and put a link there. */
static int make_aside(int folder, const char *name, char aside[PD_VALUE_FILE_NAME])
{
    int fd = -1;
    for (int i = 0; i < TRIES && fd < 0; i++) {
        int n = snprintf(aside, PD_VALUE_FILE_NAME, "%s.tmp.%016" PRIx64, name, pd_rng_fresh_seed());
        if (n >= PD_VALUE_FILE_NAME) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) return -1;
    }
    return fd;
}

static pd_status write_value(const void *value, FILE *file)
{
    return pd_value_write_file(value, file);
}

struct pd_file_body pd_file_body_of(const struct pd_value *value)
{
    return (struct pd_file_body){write_value, value};
}

static pd_status fill(int fd, struct pd_file_body body, const void *tail, size_t n_tail, const char *path)
{
    FILE *file = fdopen(fd, "wb");
    if (!file) {
        pd_status status = pd_folder_trouble("write", path, errno);
        close(fd);
        return status;
    }
    pd_status status = body.write(body.arg, file);
    if (status != PD_OK) pd_error_add(" [file %s]", path);
    if (status == PD_OK && n_tail && fwrite(tail, n_tail, 1, file) != 1)
        status = pd_folder_trouble("write", path, errno);
    if (status == PD_OK && (fflush(file) != 0 || fsync(fd) != 0))
        status = pd_folder_trouble("write", path, errno);
    if (fclose(file) != 0 && status == PD_OK) status = pd_folder_trouble("write", path, errno);
    return status;
}

pd_status pd_value_file_write_in(int folder, const char *name, struct pd_file_body body, const void *tail,
                                 size_t n_tail, const char *path)
{
    char aside[PD_VALUE_FILE_NAME];
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
        return pd_fail(PD_IO, "cannot write '%s': it is a folder", path);
    int fd = make_aside(folder, name, aside);
    if (fd < 0) return pd_folder_trouble("write", path, errno);
    pd_status status = fill(fd, body, tail, n_tail, path);
    if (status == PD_OK && renameat(folder, aside, folder, name) != 0)
        status = pd_folder_trouble("write", path, errno);
    if (status != PD_OK) unlinkat(folder, aside, 0);
    int error = status == PD_OK ? pd_folder_sync_at(folder) : 0;
    return error ? pd_folder_trouble("write", path, error) : status;
}

pd_status pd_value_file_folder(const char *path, int *out)
{
    const char *slash = strrchr(path, '/');
    char *folder = !slash          ? pd_strdup(".")
                   : slash == path ? pd_strdup("/")
                                   : pd_strndup(path, (size_t)(slash - path));
    if (!folder) return pd_no_memory();
    pd_status status = pd_folder_make(folder);
    int at = status == PD_OK ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (status == PD_OK && at < 0) status = pd_folder_trouble("write", path, errno);
    pd_free(folder);
    if (status == PD_OK) *out = at;
    return status;
}

pd_status pd_value_file_write(const struct pd_value *value, const char *path, enum pd_value_file_mode mode)
{
    struct stat info;
    const char *slash = strrchr(path, '/');
    int at;
    if (mode == PD_VALUE_FILE_KEEP && stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return pd_fail(PD_EXISTS, "the file '%s' is there already and overwrite is false", path);
    PD_TRY(pd_value_file_folder(path, &at));
    pd_status status =
        pd_value_file_write_in(at, slash ? slash + 1 : path, pd_file_body_of(value), NULL, 0, path);
    close(at);
    return status;
}
