/* Logs for tests: records whose bytes follow from their number, and what a replay of them gives. */
#ifndef JOURNAL_HELP_H
#define JOURNAL_HELP_H

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "files_help.h"
#include "pserver/store/journal_private.h"

static const struct pd_replay_from from_start = {0};

static inline size_t size_of(int number)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 65535, 65536, 65537, (1 << 20) + 3, 300000, 4096};
    return sizes[number % 12];
}

static inline void fill(char *to, size_t n, int number)
{
    uint64_t state = (uint64_t)number * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < n; i += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(to + i, &state, n - i < sizeof state ? n - i : sizeof state);
    }
}

static inline struct pd_record head_of(int number)
{
    return (struct pd_record){.kind = (uint16_t)(number * 7),
                              .trainer = number % 5 - 1,
                              .unit = (uint32_t)number * 3,
                              .part = ~(uint32_t)number,
                              .step = (uint64_t)number + 1,
                              .incarnation = (uint64_t)number << 40,
                              .rows = (uint64_t)number * 11};
}

static inline pd_status append(struct pd_journal *j, int number, size_t n)
{
    char *bytes = malloc(n + 1);
    fill(bytes, n, number);
    /* In parts of growing size, some of them empty. */
    struct iovec parts[200];
    int count = 0;
    for (size_t at = 0, part = 0; at < n && count < 199; at += part, part = part * 2 + (count % 3 == 0))
        parts[count++] = (struct iovec){bytes + at, part < n - at ? part : n - at};
    size_t covered = 0;
    for (int i = 0; i < count; i++)
        covered += parts[i].iov_len;
    if (covered < n) parts[count++] = (struct iovec){bytes + covered, n - covered};
    struct pd_record head = head_of(number);
    pd_status status = pd_journal_append(j, &head, parts, count);
    free(bytes);
    return status;
}

struct seen {
    int first, n; /* numbers first, first + 1, ... have come */
    size_t fixed; /* 0: sizes by size_of */
    int stop_at;  /* an error after so many */
};

static inline pd_status see(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    struct seen *seen = arg;
    int number = seen->first + seen->n;
    struct pd_record expected = head_of(number);
    if (seen->stop_at && seen->n == seen->stop_at) return pd_fail(PD_GONE, "enough");
    assert_int_equal(head->kind, expected.kind);
    assert_int_equal(head->trainer, expected.trainer);
    assert_int_equal(head->unit, expected.unit);
    assert_int_equal(head->part, expected.part);
    assert_int_equal(head->step, expected.step);
    assert_int_equal(head->incarnation, expected.incarnation);
    assert_int_equal(head->rows, expected.rows);
    assert_int_equal(n, seen->fixed ? seen->fixed : size_of(number));
    assert_int_equal((uintptr_t)payload % 16, 0);
    char *bytes = malloc(n + 1);
    fill(bytes, n, number);
    if (n) assert_memory_equal(payload, bytes, n);
    free(bytes);
    seen->n++;
    return PD_OK;
}

static inline int replayed(const char *folder, size_t fixed, struct pd_replay_result *result)
{
    struct seen seen = {.fixed = fixed};
    assert_ok(pd_journal_replay(folder, 0, &from_start, see, &seen, result));
    return seen.n;
}

/* Goes on in the lane's last file; in a new one where there is none. */
static inline pd_status open_last(const char *folder, int lane, enum pd_durability durability,
                                  struct pd_journal **out)
{
    uint64_t *steps, step = 0;
    int n;
    PD_TRY(pd_log_list(folder, lane, &steps, &n));
    if (n) step = steps[n - 1];
    pd_free(steps);
    if (!n) PD_TRY(pd_journal_begin(folder, lane, durability, 0, 0));
    return pd_journal_open(folder, lane, durability, step, out);
}

static inline struct pd_journal *opened(const char *folder, enum pd_durability durability)
{
    struct pd_journal *j = NULL;
    assert_ok(open_last(folder, 0, durability, &j));
    return j;
}

/* Snapshots whose id follows from their step. */
static inline uint64_t base_of(uint64_t step)
{
    return step ? step * 1000 + 7 : 0;
}

static inline pd_status rotate(struct pd_journal *j, uint64_t step)
{
    return pd_journal_rotate(j, step, base_of(step));
}

static inline struct pd_replay_from from_step(uint64_t step)
{
    return (struct pd_replay_from){.step = step, .base = base_of(step), .held = step};
}

/* Files log-0-0, -3, -6, -9 with three records each (steps n + 1 to n + 3). */
static inline struct pd_journal *four_files(const char *folder)
{
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0) assert_ok(rotate(j, (uint64_t)i));
        assert_ok(append(j, i, 100));
    }
    assert_ok(pd_journal_commit(j));
    return j;
}

static const char *log_name(uint64_t step)
{
    static char name[PD_LOG_NAME];
    pd_log_name(name, 0, step);
    return name;
}

/* A log of `n` records of 40 bytes, each committed by itself, as bytes. */
static inline struct bytes small_log(const char *folder, int n)
{
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    for (int i = 0; i < n; i++) {
        assert_ok(append(j, i, 40));
        assert_ok(pd_journal_commit(j));
    }
    pd_journal_close(j);
    return read_whole(folder, log_name(0));
}

enum { SMALL_RECORD = 80 + 48 };

/* What a process leaves that was killed before its commit: the file with the marks it had at `n` bytes. */
static inline void set_mark(struct bytes *log, size_t n)
{
    struct pd_log_file file;
    memcpy(&file, log->at, sizeof file);
    for (int i = 0; i < PD_LOG_MARKS; i++) {
        struct pd_log_mark mark = {.committed = n, .next = PD_LOG_NO_STEP};
        mark.crc = pd_log_mark_crc(&file, &mark);
        memcpy(log->at + PD_LOG_SECTOR * (1 + i), &mark, sizeof mark);
    }
}

#endif
