/* The server's log: what was committed is read back, once and in order, whatever happens to the process, the
 * disk or the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "files_help.h"
#include "pserver/journal_private.h"

static const struct pd_replay_from from_start = {0};

/* ---- records whose bytes follow from their number ---- */

static size_t size_of(int number)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 1000, 65535, 65536, 65537, (1 << 20) + 3, 300000, 4096};
    return sizes[number % 12];
}

static void fill(char *to, size_t n, int number)
{
    uint64_t state = (uint64_t)number * 0x9E3779B97F4A7C15u + 1;
    for (size_t i = 0; i < n; i += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(to + i, &state, n - i < sizeof state ? n - i : sizeof state);
    }
}

static struct pd_record head_of(int number)
{
    return (struct pd_record){.kind = (uint16_t)(number * 7),
                              .trainer = number % 5 - 1,
                              .unit = (uint32_t)number * 3,
                              .part = ~(uint32_t)number,
                              .step = (uint64_t)number + 1,
                              .incarnation = (uint64_t)number << 40,
                              .rows = (uint64_t)number * 11};
}

static pd_status append(struct pd_journal *j, int number, size_t n)
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

static pd_status see(void *arg, const struct pd_record *head, const void *payload, size_t n)
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

static int replayed(const char *folder, size_t fixed, struct pd_replay_result *result)
{
    struct seen seen = {.fixed = fixed};
    assert_ok(pd_journal_replay(folder, 0, &from_start, see, &seen, result));
    return seen.n;
}

static struct pd_journal *opened(const char *folder, enum pd_durability durability)
{
    struct pd_journal *j = NULL;
    assert_ok(pd_journal_open(folder, 0, durability, &j));
    return j;
}

/* ---- the checksum ---- */

static uint32_t plain_crc(uint32_t crc, const unsigned char *p, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void test_crc32c(void **state)
{
    static const size_t sizes[] = {0, 1, 7, 8, 9, 100, 1023, 1024, 1025, 1279, 1280, 2000, 24575, 24576, 24577, 60000};
    unsigned char *bytes = malloc(60000);
    fill((char *)bytes, 60000, 5);
    assert_int_equal(pd_crc32c(0, "123456789", 9), 0xE3069283u);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t expected = plain_crc(0, bytes, sizes[i]);
        assert_int_equal(pd_crc32c(0, bytes, sizes[i]), expected);
        assert_int_equal(
            pd_crc32c(pd_crc32c(0, bytes, sizes[i] / 3), bytes + sizes[i] / 3, sizes[i] - sizes[i] / 3),
            expected);
    }
    free(bytes);
}

/* ---- use as intended ---- */

static void test_round_trip(void **state)
{
    for (int durability = PD_DURABLE_WRITE; durability <= PD_DURABLE_FSYNC; durability++) {
        char *folder = make_folder();
        struct pd_replay_result result;
        assert_int_equal(replayed(path_in(folder, "none"), 0, &result), 0);
        char *deep = strdup(path_in(folder, "a/b"));
        int number = 0;
        for (int part = 0; part < 3; part++) {
            struct pd_journal *j = opened(deep, (enum pd_durability)durability);
            for (int i = 0; i < 25; i++, number++) {
                assert_ok(append(j, number, size_of(number)));
                if (i % 4 == 0) assert_ok(pd_journal_commit(j));
            }
            assert_ok(pd_journal_commit(j));
            assert_ok(pd_journal_commit(j));
            /* Not committed: gone at the end. */
            assert_ok(append(j, 1000, 500));
            assert_ok(append(j, 1001, 500000));
            pd_journal_close(j);
            assert_int_equal(replayed(deep, 0, &result), number);
            assert_int_equal(result.records, number);
            assert_int_equal(result.last_step, number);
            assert_int_equal(result.files, 1);
            assert_false(result.is_torn);
        }
        struct seen seen = {.stop_at = 5};
        assert_error(pd_journal_replay(deep, 0, &from_start, see, &seen, NULL), PD_GONE, "enough");
        assert_int_equal(replayed(deep, 0, NULL), number);
        free(deep);
        drop_folder(folder);
    }
}

static void test_many_parts(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    char *bytes = malloc(400000);
    struct iovec parts[500];
    fill(bytes, 400000, 0);
    for (int i = 0; i < 500; i++)
        parts[i] = (struct iovec){bytes + 800 * i, 800};
    struct pd_record head = head_of(0);
    assert_ok(pd_journal_append(j, &head, parts, 500));
    assert_ok(pd_journal_commit(j));
    pd_journal_close(j);
    assert_int_equal(replayed(folder, 400000, NULL), 1);
    free(bytes);
    drop_folder(folder);
}

static pd_status count(void *arg, const struct pd_record *head, const void *payload, size_t n)
{
    uint64_t *steps = arg;
    steps[head->trainer + 1] += head->step;
    return PD_OK;
}

static void test_what_the_state_has(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    for (uint64_t step = 1; step <= 10; step++)
        for (int trainer = -1; trainer < 3; trainer++)
            assert_ok(pd_journal_append(j, &(struct pd_record){.step = step, .trainer = trainer}, NULL, 0));
    assert_ok(pd_journal_commit(j));
    pd_journal_close(j);
    struct pd_replay_result result;
    uint64_t sync[4] = {0}, async[4] = {0};
    assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){.step = 8}, count, sync, &result));
    for (int i = 0; i < 4; i++)
        assert_int_equal(sync[i], 9 + 10);
    assert_int_equal(result.records, 8);
    assert_int_equal(result.old, 32);
    /* The second trainer is far behind, the third one is not in the list. */
    assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){8, 2, (uint64_t[]){9, 3}}, count, async,
                                &result));
    assert_int_equal(async[0], 9 + 10);
    assert_int_equal(async[1], 10);
    assert_int_equal(async[2], 4 + 5 + 6 + 7 + 8 + 9 + 10);
    assert_int_equal(async[3], 9 + 10);
    drop_folder(folder);
}

/* Files log-0-0, -3, -6, -9 with three records each (steps n + 1 to n + 3). */
static struct pd_journal *four_files(const char *folder)
{
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    for (int i = 0; i < 12; i++) {
        if (i % 3 == 0) assert_ok(pd_journal_rotate(j, (uint64_t)i));
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

static void test_rotate_and_drop(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j = four_files(folder);
    struct pd_replay_result result;
    assert_int_equal(replayed(folder, 100, &result), 12);
    assert_int_equal(result.files, 4);
    assert_string_equal(log_name(9), "log-0-00000000000000000009");
    assert_int_equal(pd_journal_step(j), 9);
    assert_error(pd_journal_rotate(j, 9), PD_INVALID, "must rise");
    assert_error(pd_journal_rotate(j, 4), PD_INVALID, "must rise");

    /* Only files from the snapshot on are read. */
    struct seen seen = {.first = 7, .fixed = 100};
    assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){.step = 7}, see, &seen, &result));
    assert_int_equal(seen.n, 5);
    assert_int_equal(result.files, 2);
    assert_int_equal(result.old, 1);

    assert_ok(pd_journal_drop_before(j, 7));
    assert_int_not_equal(access(path_in(folder, log_name(0)), F_OK), 0);
    assert_int_not_equal(access(path_in(folder, log_name(3)), F_OK), 0);
    assert_int_equal(access(path_in(folder, log_name(6)), F_OK), 0);
    seen = (struct seen){.first = 6, .fixed = 100};
    assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){.step = 6}, see, &seen, &result));
    assert_int_equal(seen.n, 6);
    /* A state that is older than the log. */
    assert_error(pd_journal_replay(folder, 0, &(struct pd_replay_from){.step = 5}, see, &seen, NULL),
                 PD_NOT_FOUND, "begins at step 6");
    /* The present file is never dropped. */
    assert_ok(pd_journal_drop_before(j, 1000));
    assert_int_equal(access(path_in(folder, log_name(9)), F_OK), 0);
    assert_ok(pd_journal_rotate(j, 20));
    assert_ok(pd_journal_rotate(j, 20));
    pd_journal_close(j);

    /* Goes on in the last file. */
    j = opened(folder, PD_DURABLE_FSYNC);
    assert_int_equal(pd_journal_step(j), 20);
    assert_int_equal(pd_journal_bytes(j), 64);
    assert_ok(append(j, 20, 100));
    assert_int_equal(pd_journal_bytes(j), 64 + 80 + 112);
    assert_ok(pd_journal_commit(j));
    assert_ok(pd_journal_rotate(j, 21));
    assert_ok(pd_journal_drop_before(j, 21));
    pd_journal_close(j);
    drop_folder(folder);
}

static void test_lanes(void **state)
{
    char *folder = make_folder();
    struct pd_journal *lane[12] = {0};
    for (int i = 0; i < 12; i++)
        assert_ok(pd_journal_open(folder, i, PD_DURABLE_WRITE, &lane[i]));
    for (int i = 0; i < 12; i++) {
        for (int k = 0; k < i; k++)
            assert_ok(append(lane[i], k, 50));
        assert_ok(pd_journal_commit(lane[i]));
        pd_journal_close(lane[i]);
    }
    for (int i = 0; i < 12; i++) {
        struct seen seen = {.fixed = 50};
        assert_ok(pd_journal_replay(folder, i, &from_start, see, &seen, NULL));
        assert_int_equal(seen.n, i);
    }
    struct pd_journal *none = NULL;
    assert_error(pd_journal_open(folder, -1, PD_DURABLE_WRITE, &none), PD_INVALID, "numbered from 0");
    drop_folder(folder);
}

static void test_one_owner(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    pid_t child = fork();
    if (child == 0) {
        struct pd_journal *other = NULL;
        char pid[32];
        snprintf(pid, sizeof pid, "process %d", (int)getppid());
        _exit(pd_journal_open(folder, 0, PD_DURABLE_WRITE, &other) == PD_EXISTS && strstr(pd_error(), pid)
                  ? 0
                  : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    pd_journal_close(j);
    drop_folder(folder);
}

/* ---- damage ---- */

/* A log of `n` records of 40 bytes, each committed by itself, as bytes. */
static struct bytes small_log(const char *folder, int n)
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

static void test_cut_anywhere(void **state)
{
    char *folder = make_folder();
    pd_log_set_limit(PD_LOG_ERROR); /* each cut is logged */
    struct bytes log = small_log(folder, 4);
    assert_int_equal(log.n, 64 + 4 * SMALL_RECORD);
    for (size_t n = 0; n <= log.n; n++) {
        struct pd_replay_result result;
        int whole = n < 64 ? 0 : (int)((n - 64) / SMALL_RECORD);
        int is_torn = n < 64 || (n - 64) % SMALL_RECORD != 0;
        write_whole(folder, log_name(0), log.at, n);
        assert_int_equal(replayed(folder, 40, &result), whole);
        assert_int_equal(result.is_torn, is_torn);
        if (is_torn) {
            assert_string_equal(result.torn_file, log_name(0));
            assert_int_equal(result.torn_at + result.torn_bytes, n);
            assert_int_equal(result.torn_at, n < 64 ? 0 : 64 + whole * SMALL_RECORD);
            assert_true(result.torn_why[0] != 0);
        }
        /* And it goes on from there. */
        struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
        assert_ok(append(j, whole, 40));
        assert_ok(pd_journal_commit(j));
        pd_journal_close(j);
        assert_int_equal(replayed(folder, 40, &result), whole + 1);
        assert_false(result.is_torn);
    }
    pd_log_set_limit(PD_LOG_INFO);
    free(log.at);
    drop_folder(folder);
}

static void test_flip_anywhere(void **state)
{
    char *folder = make_folder();
    struct bytes log = small_log(folder, 4);
    for (size_t at = 0; at < log.n; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            struct pd_replay_result result;
            struct seen seen = {.fixed = 40};
            size_t last = 64 + 3 * SMALL_RECORD;
            log.at[at] ^= (char)(1 << bit);
            write_whole(folder, log_name(0), log.at, log.n);
            log.at[at] ^= (char)(1 << bit);
            pd_status status = pd_journal_replay(folder, 0, &from_start, see, &seen, &result);
            /* All before it is right; nothing wrong is given; nothing is lost in silence. */
            assert_int_equal(seen.n, at < 64 ? 0 : (at - 64) / SMALL_RECORD);
            if (at < last) {
                assert_int_equal(status, PD_FORMAT);
                assert_non_null(strstr(pd_error(), log_name(0)));
            } else {
                assert_int_equal(status, PD_OK);
                assert_true(result.is_torn);
                assert_int_equal(result.torn_at, last);
            }
            struct pd_journal *j = NULL;
            if (at < last) assert_int_equal(pd_journal_open(folder, 0, PD_DURABLE_WRITE, &j), PD_FORMAT);
        }
    log.at[64 + SMALL_RECORD + 90] ^= 1;
    write_whole(folder, log_name(0), log.at, log.n);
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &(struct seen){.fixed = 40}, NULL), PD_FORMAT,
                 "offset 192");
    free(log.at);
    drop_folder(folder);
}

static void test_broken_files_between(void **state)
{
    char *folder = make_folder();
    pd_journal_close(four_files(folder));
    struct bytes log = read_whole(folder, log_name(3));
    struct seen seen;
    for (size_t cut = 0; cut < log.n; cut += 7) {
        seen = (struct seen){.fixed = 100};
        write_whole(folder, log_name(3), log.at, cut);
        assert_int_equal(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_FORMAT);
        assert_in_range(seen.n, 3, 5);
        /* Who does not need that file is not disturbed. */
        seen = (struct seen){.first = 6, .fixed = 100};
        assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){.step = 6}, see, &seen, NULL));
        assert_int_equal(seen.n, 6);
    }
    /* A record less, at a clean end. */
    write_whole(folder, log_name(3), log.at, log.n - 192);
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_FORMAT, "has a hole");
    assert_int_equal(seen.n, 5);
    unlink(path_in(folder, log_name(3)));
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_NOT_FOUND,
                 "follows the file of step 3");
    assert_int_equal(seen.n, 3);
    free(log.at);
    drop_folder(folder);
}

static void test_foreign_files(void **state)
{
    char *folder = make_folder();
    struct bytes log = small_log(folder, 2);
    struct pd_journal *j = NULL;
    struct seen seen = {.fixed = 40};
#define REFUSED(status, words)                                                                               \
    do {                                                                                                     \
        assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), status, words);            \
        assert_error(pd_journal_open(folder, 0, PD_DURABLE_WRITE, &j), status, words);                       \
    } while (0)
    write_whole(folder, log_name(0),
                "this is a poem, and not a short one: it has more bytes than a log's head", 72);
    REFUSED(PD_FORMAT, "is no log of a server");
    write_whole(folder, log_name(0), "x", 1);
    REFUSED(PD_FORMAT, "is no log of a server");
    struct pd_log_file head;
    memcpy(&head, log.at, sizeof head);
    head.version = 2;
    head.crc = pd_crc32c(0, &head, offsetof(struct pd_log_file, crc));
    write_whole(folder, log_name(0), &head, sizeof head);
    REFUSED(PD_FORMAT, "has version 2");
    unlink(path_in(folder, log_name(0)));
    write_whole(folder, log_name(5), log.at, log.n);
    REFUSED(PD_FORMAT, "lane 0, step 0");
    unlink(path_in(folder, log_name(5)));
    mkdir(path_in(folder, log_name(7)), 0777);
    REFUSED(PD_FORMAT, "no plain file");
    rmdir(path_in(folder, log_name(7)));
    /* Names that only look like ours do not count. */
    write_whole(folder, "log-0-0000000000000000001", "x", 1);
    write_whole(folder, "log-0-99999999999999999999", "x", 1);
    write_whole(folder, "log-0-0000000000000000000a", "x", 1);
    write_whole(folder, log_name(0), log.at, log.n);
    assert_int_equal(replayed(folder, 40, NULL), 2);
    free(log.at);
    drop_folder(folder);
}

/* A head that is right in all but that its bytes are not there: neither memory nor time is spent on them. */
static void test_announced_length(void **state)
{
    char *folder = make_folder();
    struct bytes log = small_log(folder, 2);
    uint64_t lengths[] = {49,        1 << 20, (uint64_t)1 << 40, INT64_MAX, UINT64_MAX - 100, UINT64_MAX - 15,
                          UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct pd_log_file file;
        struct pd_log_head head;
        struct pd_replay_result result;
        char *at = log.at + 64 + SMALL_RECORD;
        memcpy(&file, log.at, sizeof file);
        memcpy(&head, at, sizeof head);
        head.bytes = lengths[i];
        head.crc = pd_log_head_crc(&file, &head);
        memcpy(at, &head, sizeof head);
        write_whole(folder, log_name(0), log.at, log.n);
        assert_int_equal(replayed(folder, 40, &result), 1);
        assert_true(result.is_torn);
    }
    free(log.at);
    drop_folder(folder);
}

/* After a power failure, later blocks may have reached the disk without earlier ones. Not committed: no
 * damage. */
static void test_holes_behind_the_commit(void **state)
{
    char *folder = make_folder(), *copy = make_folder();
    struct pd_journal *j = opened(folder, PD_DURABLE_FSYNC);
    assert_ok(append(j, 0, 100000));
    assert_ok(pd_journal_commit(j));
    for (int i = 1; i < 4; i++)
        assert_ok(append(j, i, 100000));
    struct bytes log = read_whole(folder, log_name(0));
    size_t second = 64 + 80 + 100000;
    assert_true(log.n > 64 + 3 * 100080);
    for (size_t size = 16; size < 120000; size *= 3) {
        struct pd_replay_result result;
        struct bytes holed = {malloc(log.n), log.n};
        memcpy(holed.at, log.at, log.n);
        memset(holed.at + second, 0, size);
        write_whole(copy, log_name(0), holed.at, holed.n);
        assert_int_equal(replayed(copy, 100000, &result), 1);
        assert_true(result.is_torn);
        assert_int_equal(result.torn_at, second);
        free(holed.at);
    }
    /* Committed: damage, once something behind it shows that. */
    assert_ok(pd_journal_commit(j));
    assert_ok(append(j, 4, 100000));
    assert_ok(pd_journal_commit(j));
    free(log.at);
    log = read_whole(folder, log_name(0));
    memset(log.at + second, 0, 1000);
    write_whole(copy, log_name(0), log.at, log.n);
    assert_error(pd_journal_replay(copy, 0, &from_start, see, &(struct seen){.fixed = 100000}, NULL),
                 PD_FORMAT, "offset 100144");
    free(log.at);
    pd_journal_close(j);
    drop_folder(folder);
    drop_folder(copy);
}

/* ---- the end of the process, a full disk, short memory ---- */

/* Writes and commits for ever; says after each commit how many there are. */
static void write_until_killed(const char *folder, enum pd_durability durability, int pipe, int number)
{
    struct pd_journal *j = NULL;
    if (pd_journal_open(folder, 0, durability, &j) != PD_OK) _exit(1);
    for (unsigned round = 0;; round++) {
        /* Groups of small ones, a large one now and then, a new file too. */
        int group = 1 + (int)(round % 3);
        for (int i = 0; i < group; i++, number++)
            if (append(j, number, size_of(number)) != PD_OK) _exit(2);
        if (pd_journal_commit(j) != PD_OK) _exit(3);
        if (write(pipe, &number, sizeof number) != sizeof number) _exit(4);
        if (round % 50 == 49 && pd_journal_rotate(j, (uint64_t)number) != PD_OK) _exit(5);
    }
}

static void test_kill(void **state)
{
    pd_log_set_limit(PD_LOG_ERROR);
    srand((unsigned)pd_clock_ns());
    for (int durability = PD_DURABLE_WRITE; durability <= PD_DURABLE_FSYNC; durability++) {
        char *folder = make_folder();
        int done = 0, torn = 0;
        for (int round = 0; round < 12; round++) {
            int ends[2], number, committed = done, status;
            assert_int_equal(pipe(ends), 0);
            pid_t child = fork();
            if (child == 0) {
                close(ends[0]);
                write_until_killed(folder, (enum pd_durability)durability, ends[1], done);
            }
            close(ends[1]);
            /* Well under way. */
            assert_int_equal(read(ends[0], &committed, sizeof committed), sizeof committed);
            usleep((useconds_t)(rand() % 20000));
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            assert_true(WIFSIGNALED(status));
            while (read(ends[0], &number, sizeof number) == sizeof number)
                committed = number;
            close(ends[0]);
            struct pd_replay_result result;
            int found = replayed(folder, 0, &result); /* checks number by number: each once, in order */
            assert_true(found >= committed);
            torn += result.is_torn;
            done = found;
        }
        print_message("%s: %d records, %d torn tails\n", durability ? "fsync" : "write", done, torn);
        drop_folder(folder);
    }
    pd_log_set_limit(PD_LOG_INFO);
}

static void test_full_disk(void **state)
{
    for (size_t size = 100; size <= 100000; size *= 1000) {
        char *folder = make_folder();
        struct pd_journal *j = opened(folder, PD_DURABLE_FSYNC);
        int number = 0, committed = 0;
        pd_status status = PD_OK;
        limit_files(1 << 20);
        while (status == PD_OK) {
            status = append(j, number, size);
            if (status == PD_OK) number++;
            if (status == PD_OK && number % 7 == 0) {
                status = pd_journal_commit(j);
                if (status == PD_OK) committed = number;
            }
        }
        assert_int_equal(status, PD_IO);
        assert_non_null(strstr(pd_error(), "free space"));
        assert_non_null(strstr(pd_error(), log_name(0)));
        assert_int_equal(replayed(folder, size, NULL), committed);
        /* What was appended since the commit is gone, so nothing may be built on it. */
        assert_error(append(j, number, 1), PD_IO, "free space");
        assert_error(pd_journal_commit(j), PD_IO, "free space");
        assert_error(pd_journal_rotate(j, 1000000), PD_IO, "free space");
        unlimit_files();
        assert_error(pd_journal_commit(j), PD_IO, "free space");
        assert_ok(pd_journal_resume(j));
        assert_ok(append(j, committed, size));
        assert_ok(pd_journal_commit(j));
        struct pd_replay_result result;
        assert_int_equal(replayed(folder, size, &result), committed + 1);
        assert_false(result.is_torn);

        /* No room for a new file: the present one stays in use. */
        limit_files(10);
        assert_error(pd_journal_rotate(j, 1000000), PD_IO, "free space");
        unlimit_files();
        assert_int_not_equal(access(path_in(folder, log_name(1000000)), F_OK), 0);
        assert_ok(append(j, committed + 1, size));
        assert_ok(pd_journal_commit(j));
        assert_int_equal(replayed(folder, size, NULL), committed + 2);
        pd_journal_close(j);
        drop_folder(folder);
    }
}

static void test_unusable_folder(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j = NULL;
    write_whole(folder, "file", "x", 1);
    assert_error(pd_journal_open(path_in(folder, "file"), 0, PD_DURABLE_WRITE, &j), PD_IO, "folder");
    assert_error(pd_journal_open(path_in(folder, "file/sub"), 0, PD_DURABLE_WRITE, &j), PD_IO, "folder");
    assert_error(pd_journal_open("", 0, PD_DURABLE_WRITE, &j), PD_INVALID, "no path");
    drop_folder(folder);
}

static void test_short_memory(void **state)
{
    char *folder = make_folder();
    free(small_log(folder, 3).at);
    int worked = 0;
    for (uint64_t n = 1; n < 100 && worked < 2; n++) {
        struct pd_journal *j = NULL;
        struct seen seen = {.fixed = 40};
        pd_alloc_fail_at(n);
        pd_status opening = pd_journal_open(folder, 0, PD_DURABLE_WRITE, &j);
        pd_alloc_fail_at(n);
        pd_status replay = pd_journal_replay(folder, 0, &from_start, see, &seen, NULL);
        pd_alloc_fail_at(0);
        assert_true(opening == PD_OK || opening == PD_NO_MEMORY);
        assert_true(replay == PD_OK || replay == PD_NO_MEMORY);
        worked += opening == PD_OK && replay == PD_OK;
        pd_journal_close(j);
    }
    assert_int_equal(worked, 2);
    assert_int_equal(replayed(folder, 40, NULL), 3);
    drop_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_what_the_state_has),
        cmocka_unit_test(test_rotate_and_drop),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_one_owner),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_flip_anywhere),
        cmocka_unit_test(test_broken_files_between),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_announced_length),
        cmocka_unit_test(test_holes_behind_the_commit),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_unusable_folder),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
