/* Reading log files: see journal.h. Nothing is believed before its checksum; nothing is allocated by a length
 * that the file does not have.
 *
 * A process that is killed leaves a prefix of what it wrote, a machine that stops leaves that with holes
 * behind the last sync. So a broken record may be a torn tail, which is no damage: it was not committed. It
 * is damage when a mark of the file, or a later record, says that this place had been committed before. */
#include "pserver/store/journal_private.h"

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
#include "pserver/store/folder.h"

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

uint32_t pd_log_mark_crc(const struct pd_log_file *file, const struct pd_log_mark *mark)
{
    return pd_crc32c(file->crc, mark, offsetof(struct pd_log_mark, crc));
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
        "log '%s', offset %" PRIu64 " of %" PRIu64
        ": %s%s This place had been written whole, so the file was damaged later. Bring it back from a copy; "
        "or set FLAGS_ps_accept_rollback=1 to go on from the records before it and lose those behind it",
        f->path, scan->end, f->size, scan->why, pd_full_stop(scan->why));
}

static pd_status bad_head(const struct file *f, const char *what)
{
    return pd_fail(PD_FORMAT,
                   "log '%s': %s%s Bring the file back from a copy; or set FLAGS_ps_accept_rollback=1 to go "
                   "on without it and lose what it holds",
                   f->path, what, pd_full_stop(what));
}

/* The last mark that is whole. */
static pd_status read_marks(struct pd_log_scan *scan, struct file *f)
{
    const void *bytes;
    int found = 0;
    PD_TRY(see(f, 0, PD_LOG_BEGIN, &bytes));
    for (int i = 0; i < PD_LOG_MARKS; i++) {
        struct pd_log_mark mark;
        memcpy(&mark, (const char *)bytes + (size_t)PD_LOG_SECTOR * (size_t)(1 + i), sizeof mark);
        if (mark.crc != pd_log_mark_crc(&scan->head, &mark) || mark.zero) continue;
        if (!found || mark.committed > scan->mark.committed || mark.next != PD_LOG_NO_STEP) scan->mark = mark;
        found = 1;
    }
    return found ? PD_OK : bad_head(f, "its marks do not fit their checksums");
}

/* The head of the file. Torn: the file is shorter than that, and what is there could be the start of one. */
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
        return bad_head(f, "it is no log of a server, for it begins with other bytes");
    if (there >= offsetof(struct pd_log_file, lane) && head->version != PD_LOG_VERSION)
        return pd_fail(PD_FORMAT,
                       "log '%s' has version %" PRIu32
                       ", this program reads version %d: use the program that wrote it",
                       f->path, head->version, PD_LOG_VERSION);
    if (f->size < PD_LOG_BEGIN) {
        broken(scan, "%" PRIu64 " bytes, where the head of a file has %d", f->size, PD_LOG_BEGIN);
        scan->is_torn = scan->is_headless = 1;
        return PD_OK;
    }
    if (head->crc != pd_crc32c(0, head, offsetof(struct pd_log_file, crc)))
        return bad_head(f, "its head does not fit its checksum");
    if (head->lane != scan->lane || head->step != scan->step)
        return pd_fail(PD_FORMAT,
                       "log '%s' was written as that of lane %" PRId32 ", step %" PRIu64
                       ": give it its name back",
                       f->path, head->lane, head->step);
    scan->end = PD_LOG_BEGIN;
    return read_marks(scan, f);
}

/* The file must be the successor of the one before it (or, the first one read, of the snapshot). */
static pd_status check_order(struct pd_log_scan *scan)
{
    const struct pd_log_scan *before = scan->before;
    const struct pd_replay_from *from = scan->from;
    char name[PD_LOG_NAME];
    const struct pd_log_file *head = &scan->head;
    pd_log_name(name, scan->lane, scan->step);
    if (!before && head->base != from->base)
        return pd_fail(
            PD_NOT_FOUND,
            "%s in '%s' goes on from another snapshot of step %" PRIu64 " (id %016" PRIx64
            ") than the one that is there (id %016" PRIx64
            "): they are not of one job, or not of one run of it. Bring back what belongs together",
            name, scan->folder, scan->step, head->base, from->base);
    if (!before) return PD_OK;
    if (head->old_step != before->step || head->old_id != before->head.id)
        return pd_fail(PD_NOT_FOUND,
                       "the log in '%s' has a hole: %s does not go on from the file of step %" PRIu64
                       ", but from another one of step %" PRIu64 ", which is not there; bring it back",
                       scan->folder, name, before->step, head->old_step);
    if (head->old_size != before->end)
        return pd_fail(PD_FORMAT,
                       "the log in '%s' has a hole: the file before %s had %" PRIu64 " bytes and has %" PRIu64
                       " now; bring it back from a copy",
                       scan->folder, name, head->old_size, before->end);
    return PD_OK;
}

static pd_status scan_records(struct pd_log_scan *scan, struct file *f, pd_replay_fn fn, void *arg)
{
    PD_TRY(read_file_head(scan, f));
    if (scan->is_headless) return PD_OK;
    if (scan->from) PD_TRY(check_order(scan));
    while (!scan->is_torn) {
        struct pd_log_head head;
        const void *payload = NULL;
        enum found found;
        PD_TRY(read_record(scan, f, &head, &payload, &found));
        if (found == FOUND_END && scan->end < scan->mark.committed)
            found = broken(scan, "the file ends here, and had %" PRIu64 " bytes", scan->mark.committed);
        if (found == FOUND_END) break;
        if (found == FOUND_BROKEN) {
            int yes = scan->end < scan->mark.committed || scan->mark.next != PD_LOG_NO_STEP;
            if (!yes) PD_TRY(was_committed(scan, f, scan->end, &yes));
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

static pd_status scan_file(struct pd_log_scan *scan, int is_look, pd_replay_fn fn, void *arg)
{
    struct file f = {.fd = -1};
    struct stat st;
    PD_TRY(pd_log_path(f.path, scan->folder, scan->lane, scan->step));
    f.fd = open(f.path, O_RDONLY | O_CLOEXEC);
    if (f.fd < 0 || fstat(f.fd, &st) != 0) {
        pd_status status = pd_folder_trouble("open the log", f.path, errno);
        if (f.fd >= 0) close(f.fd);
        return status;
    }
    f.size = scan->size = (uint64_t)st.st_size;
    pd_status status = !S_ISREG(st.st_mode)
                           ? pd_fail(PD_FORMAT, "'%s' is no plain file; move it out of the folder", f.path)
                       : is_look ? read_file_head(scan, &f)
                                 : scan_records(scan, &f, fn, arg);
    pd_free_aligned(f.window);
    close(f.fd);
    return status;
}

pd_status pd_log_scan(struct pd_log_scan *scan, pd_replay_fn fn, void *arg)
{
    return scan_file(scan, 0, fn, arg);
}

pd_status pd_log_look(struct pd_log_scan *scan)
{
    return scan_file(scan, 1, NULL, NULL);
}

/* ---- all files of a lane ---- */

struct replay {
    const struct pd_replay_from *from;
    pd_replay_fn fn;
    void *arg;
    struct pd_replay_result *result;
    pd_status trouble; /* of fn */
};

static pd_status give(void *arg, const struct pd_record *record, const void *payload, size_t n)
{
    struct replay *r = arg;
    const struct pd_replay_from *from = r->from;
    int is_one = from->trainer_steps && record->trainer >= 0 && record->trainer < from->trainers;
    if (record->step <= (is_one ? from->trainer_steps[record->trainer] : from->held)) {
        r->result->old++;
        return PD_OK;
    }
    if (from->stop && record->step >= from->stop) {
        r->result->left++;
        return PD_OK;
    }
    r->result->records++;
    if (record->step > r->result->last_step) r->result->last_step = record->step;
    return r->trouble = r->fn(r->arg, record, payload, n);
}

static void report_torn(struct pd_replay_result *result, const struct pd_log_scan *scan)
{
    result->is_torn = 1;
    pd_log_name(result->torn_file, scan->lane, scan->step);
    memcpy(result->torn_why, scan->why, sizeof result->torn_why);
    result->torn_at = scan->end;
    result->torn_bytes = scan->size - scan->end;
}

int pd_log_is_unused(const struct pd_log_scan *scan)
{
    return scan->size <= PD_LOG_BEGIN && (scan->is_headless || scan->mark.committed == PD_LOG_BEGIN);
}

static pd_status no_head(const struct pd_log_scan *scan)
{
    char name[PD_LOG_NAME];
    pd_log_name(name, scan->lane, scan->step);
    return pd_fail(PD_FORMAT,
                   "%s in '%s' ends within its head, which had been written: bring it back from a copy; or "
                   "set FLAGS_ps_accept_rollback=1 to go on without it and lose what it held",
                   name, scan->folder);
}

/* Is the file behind `before` the one that goes on? *is_end: it is not, and nothing is lost by that: it has
 * no records, and `before` does not name it. */
static pd_status check_next(const struct pd_log_scan *before, uint64_t step, int *is_end)
{
    struct pd_log_scan next = {.folder = before->folder, .lane = before->lane, .step = step};
    PD_TRY(pd_log_look(&next));
    *is_end = pd_log_is_unused(&next) && before->mark.next != step &&
              (next.is_headless || next.head.old_step == PD_LOG_NO_STEP);
    if (!next.is_headless || *is_end) return PD_OK;
    return no_head(&next);
}

static pd_status missing(const char *folder, int lane, uint64_t step, const char *whose)
{
    char name[PD_LOG_NAME];
    pd_log_name(name, lane, step);
    return pd_fail(PD_NOT_FOUND,
                   "%s is not in '%s', but %s was followed by it: what it held is lost. Bring it back; or "
                   "set FLAGS_ps_accept_rollback=1 to go on without it",
                   name, folder, whose);
}

/* The files from steps[first] on, which must be that of the snapshot. */
static pd_status replay_files(struct replay *r, const char *folder, int lane, const uint64_t *steps, int n)
{
    struct pd_log_scan scans[2];
    struct pd_replay_result *result = r->result;
    int first = 0;
    while (first < n && steps[first] < r->from->step)
        first++;
    if (first == n || steps[first] != r->from->step)
        return missing(folder, lane, r->from->step, "the snapshot of that step");
    for (int i = first; i < n; i++) {
        struct pd_log_scan *scan = &scans[i % 2], *before = i > first ? &scans[(i + 1) % 2] : NULL;
        int is_end = 0;
        if (before) PD_TRY(check_next(before, steps[i], &is_end));
        if (is_end) break;
        *scan = (struct pd_log_scan){
            .folder = folder, .lane = lane, .step = steps[i], .from = r->from, .before = before};
        PD_TRY(pd_log_scan(scan, give, r));
        if (scan->is_headless) return no_head(scan);
        result->bytes += scan->end;
        result->files++;
        result->file = steps[i];
        if (scan->is_torn) report_torn(result, scan);
        uint64_t next = scan->mark.next;
        if (next != PD_LOG_NO_STEP && (i + 1 == n || steps[i + 1] != next))
            return missing(folder, lane, next, "the file before it");
    }
    return PD_OK;
}

pd_status pd_journal_replay(const char *folder, int lane, const struct pd_replay_from *from, pd_replay_fn fn,
                            void *arg, struct pd_replay_result *result)
{
    struct pd_replay_result own;
    uint64_t *steps;
    int n;
    if (!result) result = &own;
    *result = (struct pd_replay_result){.file = from->step};
    struct replay replay = {from, fn, arg, result, PD_OK};
    PD_TRY(pd_log_list(folder, lane, &steps, &n));
    pd_status status = replay_files(&replay, folder, lane, steps, n);
    pd_free(steps);
    if (status == PD_OK || status == PD_NO_MEMORY || !from->takes_less || replay.trouble != PD_OK)
        return status;
    snprintf(result->less, sizeof result->less, "%s", pd_error());
    return PD_OK;
}

/* ---- all lanes ---- */

/* Is it the name of a log? */
static int read_name(const char *name, int *lane, uint64_t *step)
{
    char prefix[32];
    if (sscanf(name, "log-%d-", lane) != 1 || *lane < 0) return 0;
    snprintf(prefix, sizeof prefix, "log-%d-", *lane);
    return pd_folder_number(name, prefix, step);
}

pd_status pd_journal_has_records(const char *folder, uint64_t step, int *yes, char found[64])
{
    char **names;
    int n;
    *yes = 0;
    PD_TRY(pd_folder_names(folder, &names, &n));
    for (int i = 0; i < n && !*yes; i++) {
        struct pd_log_scan scan = {.folder = folder};
        if (!read_name(names[i], &scan.lane, &scan.step) || scan.step < step) continue;
        *yes = pd_log_look(&scan) != PD_OK || !pd_log_is_unused(&scan);
        if (*yes) snprintf(found, 64, "%s", names[i]);
    }
    pd_folder_free_names(names, n);
    return PD_OK;
}

pd_status pd_journal_last_file(const char *folder, uint64_t *last)
{
    char **names;
    int n, lane;
    uint64_t step;
    *last = 0;
    PD_TRY(pd_folder_names(folder, &names, &n));
    for (int i = 0; i < n; i++)
        if (read_name(names[i], &lane, &step) && step > *last) *last = step;
    pd_folder_free_names(names, n);
    return PD_OK;
}

pd_status pd_journal_tidy(const char *folder, int lanes, uint64_t before)
{
    char **names, path[PATH_MAX];
    int n, lane;
    uint64_t step;
    PD_TRY(pd_folder_names(folder, &names, &n));
    pd_status status = PD_OK;
    for (int i = 0; i < n && status == PD_OK; i++) {
        if (!read_name(names[i], &lane, &step) || (lane < lanes && step >= before)) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path) continue;
        if (unlink(path) != 0 && errno != ENOENT)
            status = pd_folder_trouble("remove the old log", path, errno);
    }
    pd_folder_free_names(names, n);
    return status == PD_OK ? pd_folder_sync(folder) : status;
}
