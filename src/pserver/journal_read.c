/* Reading log files: see journal.h. Nothing is believed before its checksum; nothing is allocated by a length
 * that the file does not have.
 *
 * A process that is killed leaves a prefix of what it wrote, a machine that stops leaves that with holes
 * behind the last sync. So a broken record may be a torn tail, which is no damage: it was not committed. It
 * is damage when the file is not the last one, or when a later record says that this place had been committed
 * before. */
#include "pserver/journal_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "pserver/folder.h"

#define WINDOW ((size_t)4 << 20)

void pd_log_name(char name[PD_LOG_NAME], int lane, uint64_t step)
{
    snprintf(name, PD_LOG_NAME, "log-%d-%0*" PRIu64, lane, PD_FOLDER_DIGITS, step);
}

pd_status pd_log_list(const char *folder, int lane, uint64_t **steps, int *n)
{
    char prefix[PD_LOG_NAME];
    snprintf(prefix, sizeof prefix, "log-%d-", lane);
    return pd_folder_numbers(folder, prefix, steps, n);
}

uint32_t pd_log_head_crc(const struct pd_log_file *file, const struct pd_log_head *head)
{
    return pd_crc32c(file->crc, &head->bytes, sizeof *head - offsetof(struct pd_log_head, bytes));
}

/* ---- a window over the file ---- */

struct file {
    char path[PATH_MAX];
    int fd;
    uint64_t size;
    char *window;
    size_t cap, n; /* bytes of memory; bytes that are valid */
    uint64_t at;   /* where the window begins in the file */
};

/* Bytes [at, at + n) of the file, which has them. */
static pd_status see(struct file *f, uint64_t at, uint64_t n, const void **out)
{
    if (at < f->at || at + n > f->at + f->n) {
        if (n > f->cap || !f->window) {
            uint64_t want = f->size < WINDOW ? f->size : WINDOW;
            size_t cap = (size_t)(n > want ? n : want);
            char *window = pd_malloc_aligned(cap);
            if (!window) return pd_no_memory();
            pd_free_aligned(f->window);
            f->window = window;
            f->cap = cap;
        }
        f->at = at;
        f->n = 0;
        size_t there = f->size - at < f->cap ? (size_t)(f->size - at) : f->cap;
        while (f->n < there) {
            ssize_t got = pread(f->fd, f->window + f->n, there - f->n, (off_t)(at + f->n));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0)
                return pd_fail(PD_IO, "cannot read '%s' at offset %" PRIu64 ": %s; %s", f->path, at + f->n,
                               pd_folder_error(errno), pd_folder_advice(errno));
            if (got == 0) break;
            f->n += (size_t)got;
        }
        if (f->n < n)
            return pd_fail(PD_IO,
                           "'%s' got shorter while it was read: %" PRIu64 " bytes at offset %" PRIu64
                           " are gone; another process writes there",
                           f->path, n - f->n, at + f->n);
    }
    *out = f->window + (at - f->at);
    return PD_OK;
}

/* ---- records ---- */

enum found { FOUND_RECORD, FOUND_END, FOUND_BROKEN };

static enum found broken(struct pd_log_scan *scan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum found broken(struct pd_log_scan *scan, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(scan->why, sizeof scan->why, format, args);
    va_end(args);
    return FOUND_BROKEN;
}

static int is_head(const struct pd_log_file *file, const struct pd_log_head *head, uint64_t at)
{
    return head->magic == PD_LOG_RECORD && head->at == at && head->crc == pd_log_head_crc(file, head) &&
           head->zero == 0 && head->zero2 == 0;
}

/* The record at scan->end. */
static pd_status read_record(struct pd_log_scan *scan, struct file *f, struct pd_log_head *head,
                             const void **payload, enum found *found)
{
    const void *bytes;
    uint64_t at = scan->end, left = f->size - at;
    *found = FOUND_END;
    if (left == 0) return PD_OK;
    if (left < sizeof *head) {
        *found = broken(scan, "%" PRIu64 " bytes, where the head of a record has %zu", left, sizeof *head);
        return PD_OK;
    }
    PD_TRY(see(f, at, sizeof *head, &bytes));
    memcpy(head, bytes, sizeof *head);
    left -= sizeof *head;
    if (!is_head(&scan->head, head, at)) {
        if (head->magic != PD_LOG_RECORD)
            *found = broken(scan, "no record begins here: 0x%08" PRIx32 " instead of 0x%08x", head->magic,
                            PD_LOG_RECORD);
        else
            *found = broken(scan, "the head of the record does not fit its checksum or its place");
        return PD_OK;
    }
    if (head->bytes > left || head->bytes + pd_log_padding(head->bytes) > left) {
        *found = broken(scan, "a record of %" PRIu64 " bytes, %" PRIu64 " are there", head->bytes, left);
        return PD_OK;
    }
    uint64_t padding = pd_log_padding(head->bytes);
    PD_TRY(see(f, at + sizeof *head, head->bytes + padding, &bytes));
    if (pd_crc32c(0, bytes, (size_t)head->bytes) != head->payload_crc) {
        *found = broken(scan, "the %" PRIu64 " bytes of the record do not fit their checksum", head->bytes);
        return PD_OK;
    }
    for (uint64_t i = 0; i < padding; i++)
        if (((const char *)bytes)[head->bytes + i]) {
            *found = broken(scan, "what is behind the record is not zero");
            return PD_OK;
        }
    *payload = bytes;
    *found = FOUND_RECORD;
    return PD_OK;
}

/* Does a record behind `at` say that this place had been committed? */
static pd_status was_committed(const struct pd_log_scan *scan, struct file *f, uint64_t at, int *yes)
{
    struct pd_log_head head;
    const void *bytes;
    *yes = 0;
    for (at += PD_LOG_ALIGN; at < f->size && f->size - at >= sizeof head; at += PD_LOG_ALIGN) {
        PD_TRY(see(f, at, sizeof head, &bytes));
        memcpy(&head, bytes, sizeof head);
        if (is_head(&scan->head, &head, at) && head.safe > scan->end) {
            *yes = 1;
            return PD_OK;
        }
    }
    return PD_OK;
}

static pd_status damaged(const struct pd_log_scan *scan, const struct file *f)
{
    return pd_fail(
        PD_FORMAT,
        "log '%s', offset %" PRIu64 " of %" PRIu64 ": %s. This place had been written whole, so the file was "
        "damaged later. Bring it back from a copy; or, to go "
        "on from the records before it and lose those behind it, cut it there (truncate -s %" PRIu64
        ") and move later files of lane %d away",
        f->path, scan->end, f->size, scan->why, scan->end, scan->lane);
}

/* The head of the file. Torn: the file is shorter than its head, and what is there could be the start of one.
 */
static pd_status read_file_head(struct pd_log_scan *scan, struct file *f)
{
    const void *bytes;
    struct pd_log_file *head = &scan->head;
    size_t there = f->size < sizeof *head ? (size_t)f->size : sizeof *head;
    size_t known = there < sizeof head->magic ? there : sizeof head->magic;
    if (there) {
        PD_TRY(see(f, 0, there, &bytes));
        memcpy(head, bytes, there);
    }
    if (memcmp(head->magic, PD_LOG_MAGIC, known) != 0)
        return pd_fail(PD_FORMAT,
                       "'%s' is no log of a server: it begins with other bytes; move it out of the folder",
                       f->path);
    if (there < sizeof *head) {
        if (!scan->is_last)
            return pd_fail(PD_FORMAT,
                           "log '%s' has %zu bytes, its head alone has %zu, and later files follow it: bring "
                           "it back from a copy",
                           f->path, there, sizeof *head);
        broken(scan, "%zu bytes, where the head of a file has %zu", there, sizeof *head);
        scan->is_torn = scan->is_headless = 1;
        return PD_OK;
    }
    if (head->version != PD_LOG_VERSION)
        return pd_fail(PD_FORMAT,
                       "log '%s' has version %" PRIu32
                       ", this program reads version %d: use the program that wrote it",
                       f->path, head->version, PD_LOG_VERSION);
    if (head->crc != pd_crc32c(0, head, offsetof(struct pd_log_file, crc)))
        return pd_fail(PD_FORMAT,
                       "log '%s': its head does not fit its checksum; bring the file back from a copy",
                       f->path);
    if (head->lane != scan->lane || head->step != scan->step)
        return pd_fail(PD_FORMAT,
                       "log '%s' was written as that of lane %" PRId32 ", step %" PRIu64
                       ": give it its name back",
                       f->path, head->lane, head->step);
    scan->end = sizeof *head;
    return PD_OK;
}

/* The file must be the successor of the one before it (or, the first one read, of what the state holds). */
static pd_status check_order(const struct pd_log_scan *scan)
{
    const struct pd_log_scan *before = scan->before;
    const struct pd_replay_from *from = scan->from;
    char name[PD_LOG_NAME];
    const struct pd_log_file *head = &scan->head;
    pd_log_name(name, scan->lane, scan->step);
    if (!before) {
        if (scan->step <= from->step || head->old_step == PD_LOG_NO_STEP) return PD_OK;
        return pd_fail(PD_NOT_FOUND,
                       "the log in '%s' begins at step %" PRIu64
                       " (%s), the state it would go on from is of step %" PRIu64
                       ": what happened between is not there. Use the snapshot of step %" PRIu64
                       " or a later one, or move the log away and lose it",
                       scan->folder, scan->step, name, from->step, scan->step);
    }
    if (head->old_step != before->step)
        return pd_fail(PD_NOT_FOUND,
                       "the log in '%s' has a hole: %s follows the file of step %" PRIu64
                       ", which is not there; bring it back from a copy",
                       scan->folder, name, head->old_step);
    if (head->old_size != before->size)
        return pd_fail(PD_FORMAT,
                       "the log in '%s' has a hole: the file before %s had %" PRIu64 " bytes and has %" PRIu64
                       " now; bring it back from a copy",
                       scan->folder, name, head->old_size, before->size);
    return PD_OK;
}

static pd_status scan_records(struct pd_log_scan *scan, struct file *f, pd_replay_fn fn, void *arg)
{
    PD_TRY(read_file_head(scan, f));
    if (scan->from && !scan->is_headless) PD_TRY(check_order(scan));
    while (!scan->is_torn) {
        struct pd_log_head head;
        const void *payload = NULL;
        enum found found;
        PD_TRY(read_record(scan, f, &head, &payload, &found));
        if (found == FOUND_END) break;
        if (found == FOUND_BROKEN) {
            int yes = 1;
            if (scan->is_last) PD_TRY(was_committed(scan, f, scan->end, &yes));
            if (yes) return damaged(scan, f);
            scan->is_torn = 1;
            break;
        }
        struct pd_record record = {head.kind, head.trainer,     head.unit, head.part,
                                   head.step, head.incarnation, head.rows};
        if (fn) PD_TRY(fn(arg, &record, payload, (size_t)head.bytes));
        scan->end += sizeof head + head.bytes + pd_log_padding(head.bytes);
    }
    return PD_OK;
}

pd_status pd_log_scan(struct pd_log_scan *scan, pd_replay_fn fn, void *arg)
{
    struct file f = {.fd = -1};
    struct stat st;
    char name[PD_LOG_NAME];
    pd_log_name(name, scan->lane, scan->step);
    if (snprintf(f.path, sizeof f.path, "%s/%s", scan->folder, name) >= (int)sizeof f.path)
        return pd_fail(PD_INVALID, "the path of the folder '%s' is too long", scan->folder);
    f.fd = open(f.path, O_RDONLY | O_CLOEXEC);
    if (f.fd < 0 || fstat(f.fd, &st) != 0) {
        pd_status status = pd_fail(PD_IO, "cannot open the log '%s': %s; %s", f.path, pd_folder_error(errno),
                                   pd_folder_advice(errno));
        if (f.fd >= 0) close(f.fd);
        return status;
    }
    f.size = scan->size = (uint64_t)st.st_size;
    pd_status status = S_ISREG(st.st_mode)
                           ? scan_records(scan, &f, fn, arg)
                           : pd_fail(PD_FORMAT, "'%s' is no plain file; move it out of the folder", f.path);
    pd_free_aligned(f.window);
    close(f.fd);
    return status;
}

/* ---- all files of a lane ---- */

struct replay {
    const struct pd_replay_from *from;
    pd_replay_fn fn;
    void *arg;
    struct pd_replay_result *result;
};

static pd_status give(void *arg, const struct pd_record *record, const void *payload, size_t n)
{
    struct replay *r = arg;
    const struct pd_replay_from *from = r->from;
    int is_one = from->trainer_steps && record->trainer >= 0 && record->trainer < from->trainers;
    if (record->step <= (is_one ? from->trainer_steps[record->trainer] : from->step)) {
        r->result->old++;
        return PD_OK;
    }
    r->result->records++;
    if (record->step > r->result->last_step) r->result->last_step = record->step;
    return r->fn(r->arg, record, payload, n);
}

static void report_torn(struct pd_replay_result *result, const struct pd_log_scan *scan)
{
    result->is_torn = 1;
    pd_log_name(result->torn_file, scan->lane, scan->step);
    memcpy(result->torn_why, scan->why, sizeof result->torn_why);
    result->torn_at = scan->end;
    result->torn_bytes = scan->size - scan->end;
}

pd_status pd_journal_replay(const char *folder, int lane, const struct pd_replay_from *from, pd_replay_fn fn,
                            void *arg, struct pd_replay_result *result)
{
    struct pd_replay_result own;
    struct pd_log_scan scans[2];
    uint64_t *steps;
    int n, first = 0;
    if (!result) result = &own;
    *result = (struct pd_replay_result){0};
    PD_TRY(pd_log_list(folder, lane, &steps, &n));
    while (first + 1 < n && steps[first + 1] <= from->step)
        first++;
    pd_status status = PD_OK;
    for (int i = first; status == PD_OK && i < n; i++) {
        struct pd_log_scan *scan = &scans[i % 2], *before = i > first ? &scans[(i + 1) % 2] : NULL;
        struct replay replay = {from, fn, arg, result};
        *scan = (struct pd_log_scan){.folder = folder,
                                     .lane = lane,
                                     .step = steps[i],
                                     .is_last = i + 1 == n,
                                     .from = from,
                                     .before = before};
        status = pd_log_scan(scan, give, &replay);
        if (status == PD_OK && scan->is_torn) report_torn(result, scan);
        result->bytes += scan->end;
        result->files++;
    }
    pd_free(steps);
    return status;
}
