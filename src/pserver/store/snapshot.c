/* Writing snapshots: see snapshot.h. The first half runs in the server and may do all; the second half may
 * run in the forked child of a process with threads, where a lock (of malloc, of stdio) may be held for ever
 * by a thread that is not there. So it knows system calls and memory that was made ready, and no other
 * function of the library but the checksum. */
#include "pserver/store/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "pserver/store/folder.h"
#include "pserver/store/snapshot_private.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "snapshots are little-endian and are written straight from memory"
#endif

#define CHUNK ((size_t)1 << 20) /* checksum and write work on the same bytes while these are in the cache */
#define SYNC_PIECE ((uint64_t)64 << 20)

struct span {
    const char *data;
    uint64_t offset, bytes;
    size_t crc_at; /* where the manifest wants its checksum */
};

/* Shared with the child. */
struct outcome {
    int status; /* a pd_status */
    uint64_t done;
    uint64_t moves; /* goes up as long as the writer gets on */
    char text[1024];
};

struct pd_snapshot_job {
    char *folder, aside[64], name[64];
    int folder_fd;
    struct pd_buf manifest;
    size_t end_crc_at;
    struct span *spans;
    int n_spans;
    uint64_t bytes;
    struct outcome *outcome;
};

/* ---- before: in the server ---- */

void pd_snapshot_name(char name[64], uint64_t step)
{
    snprintf(name, 64, PD_SNAPSHOT_PREFIX "%0*" PRIu64, PD_FOLDER_DIGITS, step);
}

pd_status pd_snapshot_folder(const char *root, const char *endpoint, char **out)
{
    struct pd_buf path = {0};
    if (!endpoint[0] || strchr(endpoint, '/') || endpoint[0] == '.')
        return pd_fail(PD_INVALID, "'%s' is no endpoint; one looks like 127.0.0.1:6174", endpoint);
    pd_buf_printf(&path, "%s/%s", root, endpoint);
    if (path.failed) return pd_no_memory();
    for (char *p = path.at + strlen(root); *p; p++)
        if (*p == ':') *p = '_';
    *out = path.at;
    return PD_OK;
}

/* Text for a line of the manifest: control characters, '%' and those of `also` become %XX. */
static void put_escaped(struct pd_buf *buf, const char *text, const char *also)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 0x7f || *p == '%' || strchr(also, *p))
            pd_buf_printf(buf, "%%%02X", *p);
        else
            pd_buf_add(buf, p, 1);
}

static pd_status check_var(const struct pd_snapshot_var *v, uint64_t *bytes)
{
    PD_TRY(pd_snapshot_sizes(v, bytes));
    if (!v->name || !v->name[0]) return pd_fail(PD_INVALID, "a variable of a snapshot has no name");
    if (*bytes && !v->data)
        return pd_fail(PD_NOT_FOUND, "'%s' holds no data yet; run the startup program first", v->name);
    return PD_OK;
}

/* The variable with all that the caller may leave out. */
static struct pd_snapshot_var completed(const struct pd_snapshot_var *from)
{
    struct pd_snapshot_var v = *from;
    if (!v.whole) {
        v.whole = v.name;
        v.first_row = 0;
        v.row_step = 1;
        v.whole_rows = pd_snapshot_rows(&v);
    }
    if (v.row_step == 0) v.row_step = 1;
    return v;
}

static pd_status put_var(struct pd_snapshot_job *job, const struct pd_snapshot_var *from, struct span *span)
{
    struct pd_buf *m = &job->manifest;
    struct pd_snapshot_var v = completed(from);
    PD_TRY(check_var(&v, &span->bytes));
    span->data = v.data;
    span->offset = (job->bytes + PD_SNAPSHOT_ALIGN - 1) / PD_SNAPSHOT_ALIGN * PD_SNAPSHOT_ALIGN;
    if (__builtin_add_overflow(span->offset, span->bytes, &job->bytes) || job->bytes > INT64_MAX / 2)
        return pd_fail(PD_RANGE, "the snapshot would have more than %" PRId64 " bytes", INT64_MAX / 2);
    pd_buf_text(m, "var name=");
    put_escaped(m, v.name, " ");
    pd_buf_printf(m, " dtype=%s dims=", pd_dtype_name(v.dtype));
    if (v.rank == 0) pd_buf_text(m, "scalar");
    for (int i = 0; i < v.rank; i++)
        pd_buf_printf(m, "%s%" PRId64, i ? "x" : "", v.dim[i]);
    pd_buf_printf(m, " offset=%" PRIu64 " bytes=%" PRIu64 " crc32c=", span->offset, span->bytes);
    span->crc_at = m->n;
    pd_buf_text(m, "00000000 whole=");
    put_escaped(m, v.whole, " ");
    pd_buf_printf(m, " first_row=%" PRId64 " row_step=%" PRId64 " whole_rows=%" PRId64 "\n", v.first_row,
                  v.row_step, v.whole_rows);
    return PD_OK;
}

static pd_status put_manifest(struct pd_snapshot_job *job, const struct pd_snapshot_info *info)
{
    struct pd_buf *m = &job->manifest;
    int is_named = 0;
    pd_buf_printf(m, "%s %d\nstep %" PRIu64 "\nendpoint ", PD_SNAPSHOT_MAGIC, PD_SNAPSHOT_VERSION,
                  info->step);
    put_escaped(m, info->endpoint, " ");
    pd_buf_text(m, "\n");
    for (int i = 0; i < info->n_servers; i++) {
        if (!info->servers[i][0]) return pd_fail(PD_INVALID, "server %d of the job has no endpoint", i);
        is_named |= strcmp(info->servers[i], info->endpoint) == 0;
        pd_buf_text(m, "server ");
        put_escaped(m, info->servers[i], " ");
        pd_buf_text(m, "\n");
    }
    if (!is_named)
        return pd_fail(PD_INVALID, "'%s' is not among the %d servers of the job", info->endpoint,
                       info->n_servers);
    for (int i = 0; i < info->n_trainers; i++)
        pd_buf_printf(m, "trainer %d step=%" PRIu64 " incarnation=%" PRIu64 "\n", i, info->trainers[i].step,
                      info->trainers[i].incarnation);
    for (int i = 0; i < info->n_vars; i++)
        PD_TRY(put_var(job, &info->vars[i], &job->spans[i]));
    for (int i = 0; i < info->n_notes; i++) {
        const struct pd_snapshot_note *note = &info->notes[i];
        if (!note->key[0] || strpbrk(note->key, "= \n"))
            return pd_fail(PD_INVALID, "'%s' cannot be the key of a note", note->key);
        pd_buf_text(m, "note ");
        put_escaped(m, note->key, "= ");
        pd_buf_text(m, "=");
        put_escaped(m, note->value, "");
        pd_buf_text(m, "\n");
    }
    pd_buf_printf(m, "end bytes=%" PRIu64 " crc32c=", job->bytes);
    job->end_crc_at = m->n;
    pd_buf_text(m, "00000000\n");
    if (m->failed) return pd_no_memory();
    return m->n <= PD_SNAPSHOT_MAX_MANIFEST
               ? PD_OK
               : pd_fail(PD_RANGE, "a manifest of %zu bytes; at most %d", m->n, PD_SNAPSHOT_MAX_MANIFEST);
}

static pd_status open_folder(struct pd_snapshot_job *job, const char *folder)
{
    struct stat st;
    PD_TRY(pd_folder_make(folder));
    job->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job->folder_fd < 0) return pd_folder_trouble("open the folder", folder, errno);
    if (fstatat(job->folder_fd, job->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return pd_fail(PD_EXISTS, "'%s/%s' is there already; remove it if it is to be written again", folder,
                       job->name);
    return PD_OK;
}

pd_status pd_snapshot_prepare(const char *folder, const struct pd_snapshot_info *info,
                              struct pd_snapshot_job **out)
{
    struct pd_snapshot_job *job = pd_calloc(1, sizeof *job);
    if (!job) return pd_no_memory();
    job->folder_fd = -1;
    job->folder = pd_strdup(folder);
    job->n_spans = info->n_vars;
    job->spans = pd_calloc((size_t)info->n_vars, sizeof *job->spans);
    pd_snapshot_name(job->name, info->step);
    snprintf(job->aside, sizeof job->aside, PD_SNAPSHOT_ASIDE "%ld-%" PRIu64, (long)getpid(), info->step);
    pd_status status = job->folder && job->spans ? PD_OK : pd_no_memory();
    if (status == PD_OK) {
        void *shared =
            mmap(NULL, sizeof *job->outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
            status = pd_no_memory();
        else
            job->outcome = shared;
    }
    if (status == PD_OK) status = put_manifest(job, info);
    if (status == PD_OK) status = open_folder(job, folder);
    if (status != PD_OK) {
        pd_snapshot_job_free(job);
        return status;
    }
    job->outcome->status = PD_INTERRUPTED;
    snprintf(job->outcome->text, sizeof job->outcome->text, "the snapshot '%s/%s' was not written to its end",
             folder, job->name);
    *out = job;
    return PD_OK;
}

void pd_snapshot_job_free(struct pd_snapshot_job *job)
{
    if (!job) return;
    if (job->folder_fd >= 0) close(job->folder_fd);
    if (job->outcome) munmap(job->outcome, sizeof *job->outcome);
    pd_buf_free(&job->manifest);
    pd_free(job->spans);
    pd_free(job->folder);
    pd_free(job);
}

pd_status pd_snapshot_result(const struct pd_snapshot_job *job, const char **text)
{
    if (text) *text = job->outcome->text;
    return (pd_status)job->outcome->status;
}

uint64_t pd_snapshot_bytes(const struct pd_snapshot_job *job)
{
    return job->bytes;
}

uint64_t pd_snapshot_done(const struct pd_snapshot_job *job)
{
    return __atomic_load_n(&job->outcome->done, __ATOMIC_RELAXED);
}

uint64_t pd_snapshot_moves(const struct pd_snapshot_job *job)
{
    return __atomic_load_n(&job->outcome->moves, __ATOMIC_RELAXED);
}

/* ---- from here on: in the child ---- */

static void add_text(struct outcome *o, size_t *used, const char *text)
{
    for (; *text && *used + 1 < sizeof o->text; text++)
        o->text[(*used)++] = *text;
    o->text[*used] = 0;
}

static void move(struct pd_snapshot_job *job)
{
    __atomic_add_fetch(&job->outcome->moves, 1, __ATOMIC_RELAXED);
}

/* The number of the error decides what the user is told. */
static int tell(struct pd_snapshot_job *job, pd_status status, const char *what, int number)
{
    struct outcome *o = job->outcome;
    const char *parts[] = {"cannot ",
                           what,
                           " of the snapshot '",
                           job->folder,
                           "/",
                           job->name,
                           "': ",
                           pd_folder_error(number),
                           "; snapshots before it are whole and stay; ",
                           pd_folder_advice(number)};
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        add_text(o, &used, parts[i]);
    o->status = status;
    return 0;
}

static int write_at(int fd, const char *bytes, size_t n, uint64_t at)
{
    while (n) {
        ssize_t got = pwrite(fd, bytes, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            if (got == 0) errno = ENOSPC;
            return 0;
        }
        bytes += got;
        n -= (size_t)got;
        at += (uint64_t)got;
    }
    return 1;
}

static void put_hex(char *to, uint32_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
}

/* Syncs the data piece by piece, so that a slow disk can be told from one that stands still. An error is told
 * once, here or by the sync of all that follows. */
static int sync_pieces(struct pd_snapshot_job *job, int fd)
{
    const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (uint64_t at = 0; at < job->bytes; at += SYNC_PIECE) {
        uint64_t n = job->bytes - at < SYNC_PIECE ? job->bytes - at : SYNC_PIECE;
        if (sync_file_range(fd, (off_t)at, (off_t)n, all) != 0 && errno != ENOSYS && errno != EINVAL &&
            errno != EINTR)
            return tell(job, PD_IO, "sync the data", errno);
        move(job);
    }
    return 1;
}

static int write_data(struct pd_snapshot_job *job, int fd)
{
    /* A disk that is too small says so before the work is done. Not all file systems can tell. */
    if (job->bytes && fallocate(fd, 0, 0, (off_t)job->bytes) != 0 && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EINTR)
        return tell(job, PD_IO, "make room for the data", errno);
    for (int i = 0; i < job->n_spans; i++) {
        const struct span *s = &job->spans[i];
        uint32_t crc = 0;
        for (uint64_t at = 0; at < s->bytes;) {
            size_t n = s->bytes - at < CHUNK ? (size_t)(s->bytes - at) : CHUNK;
            crc = pd_crc32c(crc, s->data + at, n);
            if (!write_at(fd, s->data + at, n, s->offset + at))
                return tell(job, PD_IO, "write the data", errno);
            /* The disk begins while the next bytes are copied; only a wish, the sync at the end counts. */
            sync_file_range(fd, (off_t)(s->offset + at), (off_t)n, SYNC_FILE_RANGE_WRITE);
            at += n;
            __atomic_store_n(&job->outcome->done, s->offset + at, __ATOMIC_RELAXED);
            move(job);
        }
        put_hex(job->manifest.at + s->crc_at, crc);
    }
    if (ftruncate(fd, (off_t)job->bytes) != 0) return tell(job, PD_IO, "write the data", errno);
    if (!sync_pieces(job, fd)) return 0;
    return fsync(fd) == 0 ? 1 : tell(job, PD_IO, "sync the data", errno);
}

static int write_manifest(struct pd_snapshot_job *job, int fd)
{
    struct pd_buf *m = &job->manifest;
    put_hex(m->at + job->end_crc_at, pd_crc32c(0, m->at, job->end_crc_at));
    if (!write_at(fd, m->at, m->n, 0)) return tell(job, PD_IO, "write the manifest", errno);
    return fsync(fd) == 0 ? 1 : tell(job, PD_IO, "sync the manifest", errno);
}

static int write_file(struct pd_snapshot_job *job, int aside, const char *name,
                      int (*fill)(struct pd_snapshot_job *, int))
{
    int fd = openat(aside, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return tell(job, PD_IO, "make the files", errno);
    int worked = fill(job, fd);
    move(job);
    if (close(fd) != 0 && worked) return tell(job, PD_IO, "close the files", errno);
    return worked;
}

static void remove_aside(struct pd_snapshot_job *job)
{
    int aside = openat(job->folder_fd, job->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (aside < 0) return;
    unlinkat(aside, PD_SNAPSHOT_DATA, 0);
    unlinkat(aside, PD_SNAPSHOT_MANIFEST, 0);
    close(aside);
    unlinkat(job->folder_fd, job->aside, AT_REMOVEDIR);
}

static int write_aside(struct pd_snapshot_job *job)
{
    remove_aside(job); /* of an earlier process of the same number */
    if (mkdirat(job->folder_fd, job->aside, 0777) != 0) return tell(job, PD_IO, "make the folder", errno);
    int aside = openat(job->folder_fd, job->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (aside < 0) return tell(job, PD_IO, "make the folder", errno);
    int worked = write_file(job, aside, PD_SNAPSHOT_DATA, write_data) &&
                 write_file(job, aside, PD_SNAPSHOT_MANIFEST, write_manifest);
    int error = worked ? pd_folder_sync_at(aside) : 0;
    if (error) worked = tell(job, PD_IO, "sync the folder", error);
    close(aside);
    return worked;
}

pd_status pd_snapshot_write(struct pd_snapshot_job *job)
{
    int worked = write_aside(job);
    /* A folder that is there and not empty is never replaced. */
    if (worked && renameat(job->folder_fd, job->aside, job->folder_fd, job->name) != 0)
        worked = tell(job, errno == EEXIST || errno == ENOTEMPTY ? PD_EXISTS : PD_IO,
                      "give its name to the folder", errno);
    if (!worked) {
        remove_aside(job);
        return (pd_status)job->outcome->status;
    }
    int error = pd_folder_sync_at(job->folder_fd);
    if (error) {
        tell(job, PD_IO, "sync the name", error);
        return PD_IO;
    }
    size_t used = 0;
    add_text(job->outcome, &used, "written");
    job->outcome->status = PD_OK;
    return PD_OK;
}

static void close_files(unsigned from, unsigned to)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, from, to, 0) == 0) return;
#endif
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && to >= limit.rlim_cur) to = (unsigned)limit.rlim_cur;
    for (; from <= to; from++)
        close((int)from);
}

static void run_child(struct pd_snapshot_job *job, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(2);
    /* Sockets of the server must not stay open here when it ends; standard streams and the folder are kept.
     */
    unsigned folder = (unsigned)job->folder_fd;
    if (folder > 3) close_files(3, folder - 1);
    close_files(folder < 3 ? 3 : folder + 1, INT_MAX);
    _exit(pd_snapshot_write(job) == PD_OK ? 0 : 1);
}

pd_status pd_snapshot_fork(struct pd_snapshot_job *job, pid_t *child)
{
    sigset_t all, before;
    pid_t parent = getpid();
    sigfillset(&all);
    /* Blocked before the fork: a handler of the server must not run in the child, where it would speak to the
     * server's loop. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0) run_child(job, parent);
    int number = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return pd_fail(number == ENOMEM ? PD_NO_MEMORY : PD_IO,
                       "cannot start the writer of a snapshot: %s; %s", pd_folder_error(number),
                       number == EAGAIN ? "raise the limit of processes (ulimit -u)"
                                        : "give the machine more memory, or allow overcommit");
    *child = pid;
    return PD_OK;
}
