/* See save_part.h. */
#include "pserver/save_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "net/wire.h"
#include "pserver/folder.h"
#include "pserver/value_file.h"

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

/* Is it the name of part `index` of what `name` is a part of? `stem` is the length of that up to the
 * underscore. */
static int is_sibling(const char *other, const char *name, size_t stem, uint32_t index)
{
    char wanted[16];
    int n = snprintf(wanted, sizeof wanted, "%u", index);
    return n > 0 && strncmp(other, name, stem) == 0 && strcmp(other + stem, wanted) == 0;
}

/* A folder that cannot be read keeps what it has: who loads sees that, too. */
static pd_status remove_earlier(int folder, const char *name, const struct pd_part *part, const char *path)
{
    size_t stem = (size_t)(strrchr(name, '_') - name) + 1;
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list) {
        if (again >= 0) close(again);
        return PD_OK;
    }
    for (struct dirent *e; !error && (e = readdir(list));) {
        struct pd_part other;
        if (strncmp(e->d_name, name, stem) != 0 || !read_part(folder, e->d_name, &other)) continue;
        if (!is_sibling(e->d_name, name, stem, other.index)) continue;
        if (other.save == part->save || is_later(other.save, part->save)) continue;
        if (unlinkat(folder, e->d_name, 0) != 0 && errno != ENOENT) error = errno;
    }
    closedir(list);
    if (!error) return PD_OK;
    return pd_fail(PD_IO, "'%s' is written, but parts of an earlier save cannot be removed beside it: %s; %s",
                   path, pd_folder_error(error), pd_folder_advice(error));
}

pd_status pd_part_write(int folder, const char *name, const struct pd_value *value,
                        const struct pd_part *part, const char *path)
{
    struct pd_part there;
    struct pd_buf end = {0};
    if (read_part(folder, name, &there) && is_later(there.save, part->save)) return PD_OK;
    pd_buf_add(&end, magic, sizeof magic);
    pd_put_u32(&end, part->index);
    pd_put_u32(&end, part->count);
    pd_put_u64(&end, part->save);
    pd_status status =
        end.failed ? pd_no_memory() : pd_value_file_write_in(folder, name, value, end.at, end.n, path);
    pd_buf_free(&end);
    return status == PD_OK ? remove_earlier(folder, name, part, path) : status;
}
