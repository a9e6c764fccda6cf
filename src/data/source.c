/* See source.h. */
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/command.h"

enum { LOOK_MS = 100 };

struct pd_source {
    const char *path;
    const int *stop;
    int file;
    int is_plain;               /* a file on a disk, which never waits for somebody */
    struct pd_command *command; /* NULL: the file itself */
    int64_t size, done;
};

/* Until there is something to read, or its end. */
static pd_status wait_for_input(struct pd_source *s)
{
    struct pollfd one = {.fd = s->file, .events = POLLIN};
    for (;;) {
        if (__atomic_load_n(s->stop, __ATOMIC_RELAXED)) return pd_fail(PD_INTERRUPTED, "reading was ended");
        int n = poll(&one, 1, LOOK_MS);
        if (n > 0) return PD_OK;
        if (n < 0 && errno != EINTR)
            return pd_fail(PD_IO, "cannot wait for data file '%s': %s", s->path, strerror(errno));
    }
}

static pd_status open_file(struct pd_source *s)
{
    struct stat about;
    /* The open of a pipe with a name would wait for one who writes, whatever happens here meanwhile. */
    if ((s->file = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(s->file, &about) != 0)
        return pd_fail(errno == ENOENT ? PD_NOT_FOUND : PD_IO, "data file '%s' cannot be opened: %s", s->path,
                       strerror(errno));
    if (S_ISDIR(about.st_mode))
        return pd_fail(PD_INVALID, "data file '%s' is a folder; list its files", s->path);
    s->is_plain = S_ISREG(about.st_mode);
    s->size = s->is_plain ? about.st_size : 0;
    (void)posix_fadvise(s->file, 0, 0, POSIX_FADV_SEQUENTIAL);
    return PD_OK;
}

/* A file that a program has packed is no text, however it is read. */
static pd_status refuse_packed(const struct pd_source *s)
{
    static const struct {
        const char *begin, *packs, *unpacks;
    } kinds[] = {
        {"\037\213", "gzip", "zcat"},
        {"BZh", "bzip2", "bzcat"},
        {"\3757zXZ", "xz", "xzcat"},
        {"(\265/\375", "zstd", "zstdcat"},
    };
    char head[8] = "";
    if (!s->is_plain || pread(s->file, head, sizeof head - 1, 0) < 0) return PD_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(head, kinds[i].begin, strlen(kinds[i].begin)) == 0)
            return pd_fail(PD_FORMAT,
                           "data file '%s' is packed by %s: set_pipe_command(\"%s\") unpacks it on its way",
                           s->path, kinds[i].packs, kinds[i].unpacks);
    return PD_OK;
}

static pd_status start_command(struct pd_source *s, const char *text)
{
    if (!s->is_plain) {
        PD_TRY(wait_for_input(s));
        int flags = fcntl(s->file, F_GETFL); /* commands know input that waits, only */
        if (flags < 0 || fcntl(s->file, F_SETFL, flags & ~O_NONBLOCK) < 0)
            return pd_fail(PD_IO, "data file '%s' cannot be the input of '%s': %s", s->path, text,
                           strerror(errno));
    }
    return pd_command_start(text, s->path, s->file, s->stop, &s->command);
}

pd_status pd_source_open(const char *path, const char *command, const int *stop, struct pd_source **out)
{
    struct pd_source *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    *s = (struct pd_source){.path = path, .stop = stop, .file = -1};
    pd_status status = open_file(s);
    if (status == PD_OK && command && *command && strcmp(command, "cat") != 0)
        status = start_command(s, command);
    else if (status == PD_OK)
        status = refuse_packed(s);
    if (status != PD_OK) {
        pd_source_close(s);
        return status;
    }
    *out = s;
    return PD_OK;
}

pd_status pd_source_make(const char *path, const char *command, const int *stop, struct pd_source **out)
{
    struct pd_source *s = pd_calloc(1, sizeof *s);
    if (!s) return pd_no_memory();
    *s = (struct pd_source){.path = path, .stop = stop, .file = -1};
    pd_status status = pd_command_start(command, path, -1, stop, &s->command);
    if (status != PD_OK) {
        pd_source_close(s);
        return status;
    }
    *out = s;
    return PD_OK;
}

static pd_status read_command(struct pd_source *s, char *to, size_t room, size_t *n)
{
    PD_TRY(pd_command_read(s->command, to, room, n));
    if (s->file < 0) return PD_OK;
    off_t at = *n ? lseek(s->file, 0, SEEK_CUR) : s->size; /* it shares our place in the file */
    if (at > 0) s->done = at;
    return PD_OK;
}

pd_status pd_source_read(struct pd_source *source, char *to, size_t room, size_t *n)
{
    if (source->command) return read_command(source, to, room, n);
    for (;;) {
        if (!source->is_plain) PD_TRY(wait_for_input(source));
        ssize_t got = read(source->file, to, room);
        if (got < 0 && (errno == EINTR || (errno == EAGAIN && !source->is_plain))) continue;
        if (got < 0)
            return pd_fail(PD_IO, "data file '%s' cannot be read: %s", source->path, strerror(errno));
        source->done += got;
        *n = (size_t)got;
        return PD_OK;
    }
}

int64_t pd_source_size(const struct pd_source *source)
{
    return source->size;
}

int64_t pd_source_done(const struct pd_source *source)
{
    return source->done;
}

void pd_source_close(struct pd_source *source)
{
    if (!source) return;
    pd_command_end(source->command);
    if (source->file >= 0) close(source->file);
    pd_free(source);
}
