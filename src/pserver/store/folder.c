/* See folder.h. */
#include "pserver/store/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/decimal.h"
#include "base/error.h"
#include "base/log.h"
#include "base/vec.h"

#define SPACE                                                                                                \
    "free space on that disk (fewer snapshots kept, another folder) or raise the limit of file sizes"
#define RIGHTS "let the server's user write there, or choose another folder"
#define DISK                                                                                                 \
    "the disk does not work as it should: look at the system's log, or choose a folder on another disk"
#define FILES "raise the limit of open files (ulimit -n)"
#define PATH "look at the path"
#define MEMORY "give the machine more memory"

/* Own texts, because those of the C library are not to be had in a forked child everywhere. */
static const struct {
    int number;
    const char *text, *advice;
} errors[] = {
    {ENOSPC, "the disk is full", SPACE},
    {EDQUOT, "the user's share of the disk is full", SPACE},
    {EFBIG, "the file would be larger than the system allows", SPACE},
    {EACCES, "permission denied", RIGHTS},
    {EPERM, "not permitted", RIGHTS},
    {EROFS, "the file system is read-only", RIGHTS},
    {EIO, "the disk reports an error", DISK},
    {EMFILE, "too many open files in this process", FILES},
    {ENFILE, "too many open files on this machine", FILES},
    {ENOENT, "there is no such file or folder", PATH},
    {ENOTDIR, "that is no folder", PATH},
    {EISDIR, "that is a folder", PATH},
    {ELOOP, "too many links", PATH},
    {ENAMETOOLONG, "the name is too long", PATH},
    {EEXIST, "it is there already", "remove it if it is to be written again"},
    {ENOTEMPTY, "it is there already", "remove it if it is to be written again"},
    {ENOMEM, "out of memory", MEMORY},
    {ENODEV, "the device is gone", DISK},
    {ESTALE, "the network's file system has lost it", DISK},
};

const char *pd_folder_error(int number)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].number == number) return errors[i].text;
    return "the system refuses it";
}

const char *pd_folder_advice(int number)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].number == number) return errors[i].advice;
    return "look at the folder and its disk";
}

pd_status pd_folder_trouble(const char *what, const char *path, int number)
{
    return pd_fail(PD_IO, "cannot %s '%s': %s; %s", what, path, pd_folder_error(number),
                   pd_folder_advice(number));
}

pd_status pd_folder_path(char path[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX
               ? PD_OK
               : pd_fail(PD_INVALID, "the path of the folder '%s' is too long", folder);
}

pd_status pd_folder_read(const char *folder, const char *name, size_t most, struct pd_buf *out, int *is_there)
{
    char path[PATH_MAX], some[4096];
    PD_TRY(pd_folder_path(path, folder, name));
    FILE *file = fopen(path, "re");
    *is_there = file != NULL;
    if (!file) return errno == ENOENT ? PD_OK : pd_folder_trouble("read", path, errno);
    for (size_t n; (n = fread(some, 1, sizeof some, file)) > 0 && out->n < most;)
        pd_buf_add(out, some, n);
    int failed = ferror(file);
    fclose(file);
    if (failed) return pd_folder_trouble("read", path, EIO);
    return out->failed ? pd_no_memory() : PD_OK;
}

pd_status pd_folder_make(const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part)
        return pd_fail(PD_INVALID, "'%s' is no path of a folder: it has %zu characters", path, n);
    memcpy(part, path, n + 1);
    /* One that is there is left alone: a disk that is stuck answers this, and does not make anything. */
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return PD_OK;
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != 0) continue;
        char kept = part[i];
        part[i] = 0;
        if (mkdir(part, 0777) == 0) {
            /* The new name is in the folder above, which may be the present one. */
            char above[PATH_MAX];
            memcpy(above, part, i + 1);
            char *slash = strrchr(above, '/');
            if (slash) slash[slash == above] = 0;
            PD_TRY(pd_folder_sync(slash ? above : "."));
        } else if (errno != EEXIST) {
            return pd_folder_trouble("make the folder", part, errno);
        }
        part[i] = kept;
    }
    if (stat(path, &st) != 0) return pd_folder_trouble("use the folder", path, errno);
    return S_ISDIR(st.st_mode) ? PD_OK : pd_folder_trouble("use as a folder", path, ENOTDIR);
}

pd_status pd_folder_write(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[PATH_MAX], aside[PATH_MAX];
    PD_TRY(pd_folder_path(path, folder, name));
    if (snprintf(aside, sizeof aside, "%s.tmp", path) >= (int)sizeof aside)
        return pd_folder_trouble("write", path, ENAMETOOLONG);
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) return pd_folder_trouble("write", aside, errno);
    ssize_t wrote = write(file, bytes, n);
    int number = wrote == (ssize_t)n ? 0 : wrote < 0 ? errno : ENOSPC;
    if (!number && fsync(file) != 0) number = errno;
    close(file);
    if (!number && rename(aside, path) != 0) number = errno;
    if (number) unlink(aside);
    return number ? pd_folder_trouble("write", path, number) : pd_folder_sync(folder);
}

/* Some file systems have no such call for folders; there the name is as safe as it gets. */
int pd_folder_sync_at(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
}

pd_status pd_folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return pd_folder_trouble("open the folder", path, errno);
    int number = pd_folder_sync_at(fd);
    close(fd);
    return number ? pd_folder_trouble("sync the folder", path, number) : PD_OK;
}

/* A lock of this process, which a forked child does not hold: a writer of a snapshot may outlive its server.
 */
pd_status pd_folder_lock(const char *folder, const char *name, int *fd)
{
    char path[PATH_MAX];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    PD_TRY(pd_folder_path(path, folder, name));
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) return pd_folder_trouble("open", path, errno);
    if (fcntl(*fd, F_SETLK, &lock) == 0) return PD_OK;
    if (errno == EACCES || errno == EAGAIN) {
        long pid = fcntl(*fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? (long)lock.l_pid : 0;
        return pd_fail(
            PD_EXISTS,
            "the folder '%s' is in use by process %ld: end that server, or give this one another folder",
            folder, pid);
    }
    pd_log(PD_LOG_WARNING, "no lock on '%s' (%s): take care that no second server uses this folder", path,
           pd_folder_error(errno));
    return PD_OK;
}

long pd_folder_holder(const char *folder, const char *name)
{
    char path[PATH_MAX];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    long pid = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? (long)lock.l_pid : 0;
    close(fd);
    return pid;
}

static pd_status remove_files(int fd, const char *name)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int number = errno;
        close(fd);
        return pd_folder_trouble("read the folder", name, number);
    }
    pd_status status = PD_OK;
    for (struct dirent *e; status == PD_OK && (e = readdir(folder));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(dirfd(folder), e->d_name, 0) != 0 && errno != ENOENT)
            status = pd_folder_trouble("remove", e->d_name, errno);
    closedir(folder);
    return status;
}

pd_status pd_folder_remove(const char *path, const char *name)
{
    int above = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0) return errno == ENOENT ? PD_OK : pd_folder_trouble("open the folder", path, errno);
    pd_status status = PD_OK;
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        status = remove_files(fd, name);
    else if (errno != ENOENT)
        status = pd_folder_trouble("open the folder", name, errno);
    if (fd >= 0 && status == PD_OK && unlinkat(above, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        status = pd_folder_trouble("remove the folder", name, errno);
    close(above);
    return status;
}

int pd_folder_number(const char *name, const char *prefix, uint64_t *number)
{
    size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && strlen(name + n) == PD_FOLDER_DIGITS &&
           pd_decimal(name + n, NULL, UINT64_MAX, number) == PD_FOLDER_DIGITS;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void pd_folder_free_names(char **names, int n)
{
    for (int i = 0; i < n; i++)
        pd_free(names[i]);
    pd_free(names);
}

pd_status pd_folder_names(const char *path, char ***out, int *n)
{
    PD_VEC(char *) names = {0};
    pd_status status = PD_OK;
    DIR *folder = opendir(path);
    if (!folder && errno != ENOENT) return pd_folder_trouble("read the folder", path, errno);
    for (struct dirent *e; folder && status == PD_OK;) {
        errno = 0;
        if (!(e = readdir(folder))) {
            if (errno) status = pd_folder_trouble("read the folder", path, errno);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *name = pd_strdup(e->d_name);
        if (!name || !pd_vec_push(&names, name)) {
            pd_free(name);
            status = pd_no_memory();
        }
    }
    if (folder) closedir(folder);
    if (status != PD_OK) {
        pd_folder_free_names(names.at, names.n);
        return status;
    }
    if (names.n) qsort(names.at, (size_t)names.n, sizeof *names.at, by_name);
    *out = names.at;
    *n = names.n;
    return PD_OK;
}

pd_status pd_folder_numbers(const char *path, const char *prefix, uint64_t **out, int *n)
{
    char **names;
    int count, found = 0;
    PD_TRY(pd_folder_names(path, &names, &count));
    uint64_t *numbers = pd_calloc((size_t)count, sizeof *numbers);
    for (int i = 0; numbers && i < count; i++)
        found += pd_folder_number(names[i], prefix, &numbers[found]);
    pd_folder_free_names(names, count);
    if (!numbers) return pd_no_memory();
    *out = numbers;
    *n = found;
    return PD_OK;
}
