/* See journal.h. Writing is here, reading in journal_read.c.
 *
 * Three places in the file matter: `committed` <= `written` <= `written` + `used`. A failure goes back to the
 * first. */
#include "pserver/store/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/log.h"
#include "pserver/store/folder.h"

#define BUFFER ((size_t)256 << 10)
/* A payload up to this size is copied; beyond, the copy costs more than a system call. */
#define SMALL ((size_t)64 << 10)
#define PARTS 64 /* of one system call */

struct pd_journal {
    char *folder;
    int lane, fd, lock;
    enum pd_durability durability;
    struct pd_log_file head;
    unsigned marks; /* that were written: tells whose turn it is */
    uint64_t committed, written;
    size_t used;
    struct pd_histogram syncs;
    int is_broken;
    char why[1024]; /* of being broken */
    char buffer[];
};

/* ---- errors ---- */

/* Goes back to the last commit. 0 when even that cannot be done now. */
static int cut_back(struct pd_journal *j)
{
    j->used = 0;
    j->written = j->committed;
    return ftruncate(j->fd, (off_t)j->committed) == 0;
}

static pd_status broken(struct pd_journal *j, const char *what, int number)
{
    char name[PD_LOG_NAME];
    int is_cut = cut_back(j);
    pd_log_name(name, j->lane, j->head.step);
    j->is_broken = 1;
    snprintf(j->why, sizeof j->why,
             "cannot %s the log '%s/%s': %s; what was committed is kept (%" PRIu64
             " bytes), what came after it is dropped%s; %s",
             what, j->folder, name, pd_folder_error(number), j->committed,
             is_cut ? "" : " (and is cut off when the log is opened again)", pd_folder_advice(number));
    return pd_fail(PD_IO, "%s", j->why);
}

/* Removed while it is written to: what the file takes would be gone with this process. */
static pd_status check_named(struct pd_journal *j)
{
    struct stat info;
    char name[PD_LOG_NAME];
    if (fstat(j->fd, &info) != 0 || info.st_nlink) return PD_OK;
    pd_log_name(name, j->lane, j->head.step);
    j->is_broken = 1;
    snprintf(j->why, sizeof j->why,
             "the log '%s/%s' was removed while this server writes to it: nothing can be kept any more, so "
             "nothing is acknowledged; start the job anew, or from a copy of the folder",
             j->folder, name);
    return pd_fail(PD_IO, "%s", j->why);
}

static pd_status check_sound(const struct pd_journal *j)
{
    return j->is_broken ? pd_fail(PD_IO, "%s", j->why) : PD_OK;
}

/* ---- writing ---- */

/* Writes the buffer, then the parts. */
static pd_status write_out(struct pd_journal *j, const struct iovec *parts, int n)
{
    struct iovec some[PARTS];
    int next = -1;      /* -1 is the buffer, n the end */
    size_t skipped = 0; /* bytes of `next` that are written */
    for (;;) {
        int k = 0;
        for (int i = next; i < n && k < PARTS; i++) {
            struct iovec v = i < 0 ? (struct iovec){j->buffer, j->used} : parts[i];
            if (i == next) v.iov_base = (char *)v.iov_base + skipped, v.iov_len -= skipped;
            if (v.iov_len)
                some[k++] = v;
            else if (k == 0)
                next = i + 1, skipped = 0;
        }
        if (k == 0) break;
        ssize_t got = pwritev(j->fd, some, k, (off_t)j->written);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return broken(j, "write", errno);
        if (got == 0) return broken(j, "write", ENOSPC);
        j->written += (uint64_t)got;
        for (size_t left = (size_t)got; left;) {
            size_t here = (next < 0 ? j->used : parts[next].iov_len) - skipped;
            if (left < here) {
                skipped += left;
                break;
            }
            left -= here;
            next++;
            skipped = 0;
        }
    }
    j->used = 0;
    return PD_OK;
}

static void keep(struct pd_journal *j, const void *bytes, size_t n)
{
    if (n) memcpy(j->buffer + j->used, bytes, n);
    j->used += n;
}

pd_status pd_journal_append(struct pd_journal *j, const struct pd_record *record, const struct iovec *parts,
                            int n)
{
    static const char zeros[PD_LOG_ALIGN];
    uint64_t bytes = 0;
    uint32_t crc = 0;
    PD_TRY(check_sound(j));
    for (int i = 0; i < n; i++) {
        if (__builtin_add_overflow(bytes, parts[i].iov_len, &bytes) || bytes > INT64_MAX / 2)
            return pd_fail(PD_RANGE, "a log record of more than %" PRId64 " bytes", INT64_MAX / 2);
        crc = pd_crc32c(crc, parts[i].iov_base, parts[i].iov_len);
    }
    size_t padding = (size_t)pd_log_padding(bytes);
    int is_small = bytes <= SMALL;
    if (j->used + sizeof(struct pd_log_head) + (is_small ? (size_t)bytes + padding : 0) > BUFFER)
        PD_TRY(write_out(j, NULL, 0));
    struct pd_log_head head = {
        .magic = PD_LOG_RECORD,
        .bytes = bytes,
        .at = j->written + j->used,
        .safe = j->committed,
        .step = record->step,
        .incarnation = record->incarnation,
        .rows = record->rows,
        .trainer = record->trainer,
        .unit = record->unit,
        .part = record->part,
        .kind = record->kind,
        .payload_crc = crc,
    };
    head.crc = pd_log_head_crc(&j->head, &head);
    keep(j, &head, sizeof head);
    if (!is_small) {
        PD_TRY(write_out(j, parts, n));
        keep(j, zeros, padding);
        return PD_OK;
    }
    for (int i = 0; i < n; i++)
        keep(j, parts[i].iov_base, parts[i].iov_len);
    keep(j, zeros, padding);
    return PD_OK;
}

/* Where a reader finds how far the file is safe. Not synced itself: the next sync takes it along. */
static int write_mark(int fd, const struct pd_log_file *file, unsigned turn, uint64_t committed,
                      uint64_t next)
{
    struct pd_log_mark mark = {.committed = committed, .next = next};
    mark.crc = pd_log_mark_crc(file, &mark);
    ssize_t got = pwrite(fd, &mark, sizeof mark, (off_t)PD_LOG_SECTOR * (1 + turn % PD_LOG_MARKS));
    if (got >= 0 && got != sizeof mark) errno = ENOSPC;
    return got == sizeof mark;
}

pd_status pd_journal_commit(struct pd_journal *j)
{
    PD_TRY(check_sound(j));
    if (j->used) PD_TRY(write_out(j, NULL, 0));
    if (j->written == j->committed) return PD_OK;
    PD_TRY(check_named(j));
    /* After a failed sync the system may hold the pages for clean, so it is not tried again on the same
     * bytes: they are cut off and, if wanted, written anew. */
    if (j->durability == PD_DURABLE_FSYNC) {
        int64_t began = pd_clock_ns();
        if (fdatasync(j->fd) != 0) return broken(j, "sync", errno);
        pd_histogram_add_ns(&j->syncs, pd_clock_ns() - began);
    }
    if (!write_mark(j->fd, &j->head, j->marks, j->written, PD_LOG_NO_STEP)) return broken(j, "write", errno);
    j->marks++;
    j->committed = j->written;
    return PD_OK;
}

/* ---- files ---- */

pd_status pd_log_path(char path[PATH_MAX], const char *folder, int lane, uint64_t step)
{
    char name[PD_LOG_NAME];
    pd_log_name(name, lane, step);
    return pd_folder_path(path, folder, name);
}

/* A file with nothing but its head and its first mark. Sets what is drawn and computed in the head. */
static pd_status make_file(const char *folder, enum pd_durability durability, struct pd_log_file *head,
                           int *out)
{
    char path[PATH_MAX], bytes[PD_LOG_BEGIN] = {0};
    PD_TRY(pd_log_path(path, folder, head->lane, head->step));
    head->version = PD_LOG_VERSION;
    memcpy(head->magic, PD_LOG_MAGIC, sizeof head->magic);
    if (getrandom(&head->id, sizeof head->id, GRND_NONBLOCK) != sizeof head->id)
        head->id = (uint64_t)pd_clock_ns() << 20 ^ (uint64_t)getpid();
    head->crc = pd_crc32c(0, head, offsetof(struct pd_log_file, crc));
    struct pd_log_mark mark = {.committed = PD_LOG_BEGIN, .next = PD_LOG_NO_STEP};
    mark.crc = pd_log_mark_crc(head, &mark);
    memcpy(bytes, head, sizeof *head);
    memcpy(bytes + PD_LOG_SECTOR, &mark, sizeof mark);

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return pd_folder_trouble("make the log", path, errno);
    ssize_t got = pwrite(fd, bytes, sizeof bytes, 0);
    int number = got == sizeof bytes ? 0 : got < 0 ? errno : ENOSPC;
    if (!number && durability == PD_DURABLE_FSYNC && fdatasync(fd) != 0) number = errno;
    pd_status status = PD_OK;
    if (number)
        status = pd_folder_trouble("write the log", path, number);
    else if (durability == PD_DURABLE_FSYNC)
        status = pd_folder_sync(folder);
    if (status != PD_OK) {
        unlink(path);
        close(fd);
        return status;
    }
    *out = fd;
    return PD_OK;
}

pd_status pd_journal_begin(const char *folder, int lane, enum pd_durability durability, uint64_t step,
                           uint64_t base)
{
    struct pd_log_file head = {.lane = lane, .step = step, .base = base, .old_step = PD_LOG_NO_STEP};
    struct pd_log_scan there = {.folder = folder, .lane = lane, .step = step};
    char path[PATH_MAX];
    int fd;
    PD_TRY(pd_folder_make(folder));
    PD_TRY(pd_log_path(path, folder, lane, step));
    if (access(path, F_OK) == 0) {
        PD_TRY(pd_log_look(&there));
        if (!pd_log_is_unused(&there))
            return pd_fail(PD_EXISTS, "the log '%s' is there already, and has records: move it away", path);
        if (!there.is_headless && there.head.base == base) return PD_OK;
        if (unlink(path) != 0) return pd_folder_trouble("remove the empty log", path, errno);
    }
    PD_TRY(make_file(folder, durability, &head, &fd));
    close(fd);
    return PD_OK;
}

/* The present file tells which one goes on, so that it is missed should it be gone. When that cannot be
 * written, the new file is there all the same. */
static void mark_next(const struct pd_journal *j, uint64_t step)
{
    if (!write_mark(j->fd, &j->head, j->marks, j->committed, step) ||
        (j->durability == PD_DURABLE_FSYNC && fdatasync(j->fd) != 0))
        pd_log(PD_LOG_WARNING, "a log of lane %d in '%s' does not name the one behind it: %s", j->lane,
               j->folder, pd_folder_error(errno));
}

pd_status pd_journal_rotate(struct pd_journal *j, uint64_t step, uint64_t base)
{
    struct pd_log_file head = {
        .lane = j->lane, .step = step, .base = base, .old_step = j->head.step, .old_id = j->head.id};
    int fd;
    PD_TRY(pd_journal_commit(j));
    if (step == j->head.step && base == j->head.base && j->committed == PD_LOG_BEGIN) return PD_OK;
    if (step <= j->head.step || step == PD_LOG_NO_STEP)
        return pd_fail(PD_INVALID,
                       "a log file for step %" PRIu64 " cannot follow that of step %" PRIu64
                       ": steps must rise",
                       step, j->head.step);
    head.old_size = j->committed;
    PD_TRY(make_file(j->folder, j->durability, &head, &fd));
    mark_next(j, step);
    close(j->fd);
    j->fd = fd;
    j->head = head;
    j->marks = 1;
    j->committed = j->written = PD_LOG_BEGIN;
    return PD_OK;
}

pd_status pd_journal_drop_before(struct pd_journal *j, uint64_t step)
{
    uint64_t *steps;
    int n, dropped = 0;
    pd_status status = PD_OK;
    PD_TRY(pd_log_list(j->folder, j->lane, &steps, &n));
    /* The newest is being written to, and stays. The oldest first, so that what is left has no holes when
     * this is ended half-way. */
    for (int i = 0; status == PD_OK && i + 1 < n && steps[i + 1] <= step; i++) {
        char path[PATH_MAX];
        status = pd_log_path(path, j->folder, j->lane, steps[i]);
        if (status == PD_OK && unlink(path) != 0 && errno != ENOENT)
            status = pd_folder_trouble("remove the old log", path, errno);
        dropped++;
    }
    pd_free(steps);
    return status == PD_OK && dropped && j->durability == PD_DURABLE_FSYNC ? pd_folder_sync(j->folder)
                                                                           : status;
}

const struct pd_histogram *pd_journal_syncs(const struct pd_journal *j)
{
    return &j->syncs;
}

uint64_t pd_journal_step(const struct pd_journal *j)
{
    return j->head.step;
}

uint64_t pd_journal_committed(const struct pd_journal *j)
{
    return j->committed;
}

/* ---- opening ---- */

static pd_status lock_lane(struct pd_journal *j)
{
    char name[32];
    snprintf(name, sizeof name, "lock-%d", j->lane);
    return pd_folder_lock(j->folder, name, &j->lock);
}

static pd_status take_file(struct pd_journal *j, uint64_t step)
{
    char path[PATH_MAX];
    struct pd_log_scan scan = {.folder = j->folder, .lane = j->lane, .step = step};
    PD_TRY(pd_log_path(path, j->folder, j->lane, step));
    PD_TRY(pd_log_scan(&scan, NULL, NULL));
    if (scan.is_headless)
        return pd_fail(PD_FORMAT, "log '%s' ends within its head; bring it back from a copy", path);
    if (scan.is_torn)
        pd_log(PD_LOG_WARNING,
               "log '%s': cutting off a torn tail of %" PRIu64 " bytes at offset %" PRIu64
               " (%s); it was never committed",
               path, scan.size - scan.end, scan.end, scan.why);
    j->fd = open(path, O_RDWR | O_CLOEXEC);
    int number = j->fd < 0 ? errno : 0;
    if (!number && scan.size != scan.end && ftruncate(j->fd, (off_t)scan.end) != 0) number = errno;
    /* Before anything is built on what was found there. */
    if (!number && j->durability == PD_DURABLE_FSYNC && fsync(j->fd) != 0) number = errno;
    /* Both marks: it is not known which of them is the older one. */
    for (j->marks = 0; !number && j->marks < PD_LOG_MARKS; j->marks++)
        if (!write_mark(j->fd, &scan.head, j->marks, scan.end, PD_LOG_NO_STEP)) number = errno;
    if (number) return pd_folder_trouble("open the log", path, number);
    j->head = scan.head;
    j->committed = j->written = scan.end;
    return j->durability == PD_DURABLE_FSYNC ? pd_folder_sync(j->folder) : PD_OK;
}

/* Files behind it, begun by a process that was killed before anything went there. */
static pd_status remove_later(const struct pd_journal *j, uint64_t step)
{
    uint64_t *steps;
    int n;
    PD_TRY(pd_log_list(j->folder, j->lane, &steps, &n));
    pd_status status = PD_OK;
    for (int i = n - 1; status == PD_OK && i >= 0 && steps[i] > step; i--) {
        char path[PATH_MAX];
        struct pd_log_scan scan = {.folder = j->folder, .lane = j->lane, .step = steps[i]};
        status = pd_log_path(path, j->folder, j->lane, steps[i]);
        if (status == PD_OK) status = pd_log_look(&scan);
        if (status == PD_OK && !pd_log_is_unused(&scan))
            status = pd_fail(PD_EXISTS, "the log '%s' is not to be gone on in, and has records: move it away",
                             path);
        if (status == PD_OK && unlink(path) != 0)
            status = pd_folder_trouble("remove the empty log", path, errno);
    }
    pd_free(steps);
    return status;
}

pd_status pd_journal_open(const char *folder, int lane, enum pd_durability durability, uint64_t step,
                          struct pd_journal **out)
{
    if (lane < 0) return pd_fail(PD_INVALID, "lanes of a log are numbered from 0, asked for %d", lane);
    struct pd_journal *j = pd_malloc(sizeof *j + BUFFER);
    if (!j) return pd_no_memory();
    *j = (struct pd_journal){
        .folder = pd_strdup(folder), .lane = lane, .durability = durability, .fd = -1, .lock = -1};
    pd_status status = j->folder ? lock_lane(j) : pd_no_memory();
    if (status == PD_OK) status = remove_later(j, step);
    if (status == PD_OK) status = take_file(j, step);
    if (status != PD_OK) {
        pd_journal_close(j);
        return status;
    }
    *out = j;
    return PD_OK;
}

void pd_journal_close(struct pd_journal *j)
{
    if (!j) return;
    if (j->fd >= 0) {
        if (j->written != j->committed) cut_back(j);
        close(j->fd);
    }
    if (j->lock >= 0) close(j->lock);
    pd_free(j->folder);
    pd_free(j);
}
