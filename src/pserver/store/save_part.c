/* See save_part.h. */
#include "pserver/store/save_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "net/wire.h"
#include "pserver/store/folder.h"
#include "pserver/store/value_file.h"

static const char magic[8] = "CPDLPART";

enum { END = sizeof magic + 16, RUN_BITS = 24 };

uint64_t pd_part_first_save(uint64_t random)
{
    return random >> RUN_BITS << RUN_BITS;
}

/* Of numbers of one process. */
static int is_later(uint64_t a, uint64_t b)
{
    return a >> RUN_BITS == b >> RUN_BITS && a > b;
}

/* 1: the file is there and says what it is. */
static int read_part(int folder, const char *name, struct pd_part *out)
{
    struct stat info;
    char end[END];
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    int is_read = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= END &&
                  pread(fd, end, END, info.st_size - END) == END && memcmp(end, magic, sizeof magic) == 0;
    close(fd);
    if (!is_read) return 0;
    struct pd_reader r = pd_reader_of(end + sizeof magic, END - sizeof magic);
    out->index = pd_read_u32(&r);
    out->count = pd_read_u32(&r);
    out->save = pd_read_u64(&r);
    return pd_reader_done(&r);
}

/* What it is called until all are written. */
static int aside_name(char out[PD_VALUE_FILE_NAME], const char *name, uint64_t save)
{
    int n = snprintf(out, PD_VALUE_FILE_NAME, "%s.save-%016" PRIx64, name, save);
    return n > 0 && n < PD_VALUE_FILE_NAME;
}

/* Is it the name of that part, written beside or in place, of what `name` is a part of? `stem` is the length
 * of that up to the underscore. */
static int is_sibling(const char *other, const char *name, size_t stem, const struct pd_part *part)
{
    char placed[PD_VALUE_FILE_NAME], aside[PD_VALUE_FILE_NAME];
    int n = snprintf(placed, sizeof placed, "%.*s%u", (int)stem, name, part->index);
    if (n < 0 || n >= (int)sizeof placed || !aside_name(aside, placed, part->save)) return 0;
    return strcmp(other, placed) == 0 || strcmp(other, aside) == 0;
}

/* Removes what is left of earlier saves among the parts that are this server's: its own, and of numbers past
 * the count every count-th. So each file has one server that removes it, and none is removed by its name in
 * the moment in which another server gives that name to a later one. *error: why one of them could not be. A
 * folder that cannot be read has none: who loads sees that, too. */
static void remove_earlier(int folder, const char *name, const struct pd_part *part, int *error)
{
    size_t stem = (size_t)(strrchr(name, '_') - name) + 1;
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list && again >= 0) close(again);
    for (struct dirent *e; list && (e = readdir(list));) {
        struct pd_part other;
        if (strncmp(e->d_name, name, stem) != 0 || !read_part(folder, e->d_name, &other)) continue;
        if (!is_sibling(e->d_name, name, stem, &other) || other.index % part->count != part->index) continue;
        if (other.save == part->save || is_later(other.save, part->save)) continue;
        if (unlinkat(folder, e->d_name, 0) != 0 && errno != ENOENT) *error = errno;
    }
    if (list) closedir(list);
}

pd_status pd_part_write(int folder, const char *name, struct pd_file_body body, const struct pd_part *part,
                        const char *path)
{
    char aside[PD_VALUE_FILE_NAME];
    struct stat info;
    struct pd_buf end = {0};
    if (!aside_name(aside, name, part->save)) return pd_folder_trouble("write", path, ENAMETOOLONG);
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode))
        return pd_fail(PD_IO, "cannot write '%s': it is a folder", path);
    pd_buf_add(&end, magic, sizeof magic);
    pd_put_u32(&end, part->index);
    pd_put_u32(&end, part->count);
    pd_put_u64(&end, part->save);
    pd_status status =
        end.failed ? pd_no_memory() : pd_value_file_write_in(folder, aside, body, end.at, end.n, path);
    pd_buf_free(&end);
    return status;
}

pd_status pd_part_place(int folder, const char *name, const struct pd_part *part, const char *path)
{
    char aside[PD_VALUE_FILE_NAME];
    struct pd_part there;
    int error = 0;
    if (!aside_name(aside, name, part->save)) return pd_folder_trouble("write", path, ENAMETOOLONG);
    int is_there = read_part(folder, name, &there);
    if (is_there && is_later(there.save, part->save)) {
        unlinkat(folder, aside, 0);
        return PD_OK;
    }
    if (renameat(folder, aside, folder, name) != 0) {
        if (errno != ENOENT) return pd_folder_trouble("write", path, errno);
        if (is_there && there.save == part->save) return PD_OK; /* asked twice */
        return pd_fail(PD_IO,
                       "cannot write '%s': what was written for it is gone, as when another job saves into "
                       "the same folder; save again",
                       path);
    }
    error = pd_folder_sync_at(folder);
    if (error) return pd_folder_trouble("write", path, error);
    remove_earlier(folder, name, part, &error);
    if (!error) return PD_OK;
    return pd_fail(PD_IO, "'%s' is written, but parts of an earlier save cannot be removed beside it: %s; %s",
                   path, pd_folder_error(error), pd_folder_advice(error));
}
