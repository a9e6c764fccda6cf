/* The server's log: what was committed is read back, once and in order, whatever happens to the process, the
 * disk or the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "journal_help.h"

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
    static const size_t sizes[] = {0,    1,    7,    8,    9,     100,   1023,  1024,
                                   1025, 1279, 1280, 2000, 24575, 24576, 24577, 60000};
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
        assert_error(pd_journal_replay(path_in(folder, "none"), 0, &from_start, see, NULL, NULL),
                     PD_NOT_FOUND, "log-0-00000000000000000000 is not in");
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
    assert_ok(pd_journal_begin(folder, 0, PD_DURABLE_WRITE, 8, base_of(8)));
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    for (uint64_t step = 1; step <= 10; step++)
        for (int trainer = -1; trainer < 3; trainer++)
            assert_ok(pd_journal_append(j, &(struct pd_record){.step = step, .trainer = trainer}, NULL, 0));
    assert_ok(pd_journal_commit(j));
    pd_journal_close(j);
    struct pd_replay_result result;
    struct pd_replay_from from = from_step(8);
    uint64_t sync[4] = {0}, async[4] = {0}, less[4] = {0};
    assert_ok(pd_journal_replay(folder, 0, &from, count, sync, &result));
    for (int i = 0; i < 4; i++)
        assert_int_equal(sync[i], 9 + 10);
    assert_int_equal(result.records, 8);
    assert_int_equal(result.old, 32);
    from.stop = 10;
    assert_ok(pd_journal_replay(folder, 0, &from, count, less, &result));
    for (int i = 0; i < 4; i++)
        assert_int_equal(less[i], 9);
    assert_int_equal(result.left, 4);
    /* The second trainer is far behind, the third one is not in the list. */
    from = from_step(8);
    from.trainers = 2;
    from.trainer_steps = (uint64_t[]){9, 3};
    assert_ok(pd_journal_replay(folder, 0, &from, count, async, &result));
    assert_int_equal(async[0], 9 + 10);
    assert_int_equal(async[1], 10);
    assert_int_equal(async[2], 4 + 5 + 6 + 7 + 8 + 9 + 10);
    assert_int_equal(async[3], 9 + 10);
    drop_folder(folder);
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
    assert_error(rotate(j, 9), PD_INVALID, "must rise");
    assert_error(rotate(j, 4), PD_INVALID, "must rise");

    /* Only files from the snapshot on are read. */
    struct seen seen = {.first = 6, .fixed = 100};
    struct pd_replay_from from = from_step(6);
    assert_ok(pd_journal_replay(folder, 0, &from, see, &seen, &result));
    assert_int_equal(seen.n, 6);
    assert_int_equal(result.files, 2);
    assert_int_equal(result.file, 9);

    assert_ok(pd_journal_drop_before(j, 7));
    assert_int_not_equal(access(path_in(folder, log_name(0)), F_OK), 0);
    assert_int_not_equal(access(path_in(folder, log_name(3)), F_OK), 0);
    assert_int_equal(access(path_in(folder, log_name(6)), F_OK), 0);
    seen = (struct seen){.first = 6, .fixed = 100};
    assert_ok(pd_journal_replay(folder, 0, &from, see, &seen, &result));
    assert_int_equal(seen.n, 6);
    /* Snapshots that no file goes on from: of another step, and another one of that step. */
    from = from_step(5);
    assert_error(pd_journal_replay(folder, 0, &from, see, &seen, NULL), PD_NOT_FOUND,
                 "log-0-00000000000000000005 is not in");
    from = from_step(6);
    from.base++;
    assert_error(pd_journal_replay(folder, 0, &from, see, &seen, NULL), PD_NOT_FOUND,
                 "goes on from another snapshot of step 6");
    /* The present file is never dropped. */
    assert_ok(pd_journal_drop_before(j, 1000));
    assert_int_equal(access(path_in(folder, log_name(9)), F_OK), 0);
    assert_ok(rotate(j, 20));
    assert_ok(rotate(j, 20));
    pd_journal_close(j);

    /* Goes on in the last file. */
    j = opened(folder, PD_DURABLE_FSYNC);
    assert_int_equal(pd_journal_step(j), 20);
    assert_int_equal(pd_journal_committed(j), PD_LOG_BEGIN);
    assert_ok(append(j, 20, 100));
    assert_int_equal(pd_journal_committed(j), PD_LOG_BEGIN);
    assert_ok(pd_journal_commit(j));
    assert_int_equal(pd_journal_committed(j), PD_LOG_BEGIN + 80 + 112);
    assert_ok(rotate(j, 21));
    assert_ok(pd_journal_drop_before(j, 21));
    pd_journal_close(j);
    drop_folder(folder);
}

/* Somebody cleans up: what is written to a file without a name would be gone with this process. */
static void test_a_file_that_is_removed(void **state)
{
    (void)state;
    char *folder = make_folder();
    struct pd_journal *j = opened(folder, PD_DURABLE_WRITE);
    assert_ok(append(j, 0, 100));
    assert_ok(pd_journal_commit(j));
    assert_int_equal(unlink(path_in(folder, log_name(0))), 0);
    assert_ok(append(j, 1, 100));
    assert_error(pd_journal_commit(j), PD_IO, "was removed while this server writes to it");
    assert_error(append(j, 2, 100), PD_IO, "was removed");
    pd_journal_close(j);
    drop_folder(folder);
}

static void test_lanes(void **state)
{
    char *folder = make_folder();
    struct pd_journal *lane[12] = {0};
    for (int i = 0; i < 12; i++)
        assert_ok(open_last(folder, i, PD_DURABLE_WRITE, &lane[i]));
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
    assert_error(pd_journal_open(folder, -1, PD_DURABLE_WRITE, 0, &none), PD_INVALID, "numbered from 0");
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
        _exit(pd_journal_open(folder, 0, PD_DURABLE_WRITE, 0, &other) == PD_EXISTS && strstr(pd_error(), pid)
                  ? 0
                  : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    pd_journal_close(j);
    drop_folder(folder);
}

/* ---- the end of the process, a full disk, short memory ---- */

/* Writes and commits for ever; says after each commit how many there are. */
static void write_until_killed(const char *folder, enum pd_durability durability, int pipe, int number,
                               uint64_t file)
{
    struct pd_journal *j = NULL;
    if (!number && pd_journal_begin(folder, 0, durability, 0, 0) != PD_OK) _exit(1);
    if (pd_journal_open(folder, 0, durability, file, &j) != PD_OK) _exit(1);
    for (unsigned round = 0;; round++) {
        /* Groups of small ones, a large one now and then, a new file too. */
        int group = 1 + (int)(round % 3);
        for (int i = 0; i < group; i++, number++)
            if (append(j, number, size_of(number)) != PD_OK) _exit(2);
        if (pd_journal_commit(j) != PD_OK) _exit(3);
        if (write(pipe, &number, sizeof number) != sizeof number) _exit(4);
        if (round % 50 == 49 && rotate(j, (uint64_t)number) != PD_OK) _exit(5);
    }
}

static void test_kill(void **state)
{
    pd_log_set_limit(PD_LOG_ERROR);
    srand((unsigned)pd_clock_ns());
    for (int durability = PD_DURABLE_WRITE; durability <= PD_DURABLE_FSYNC; durability++) {
        char *folder = make_folder();
        int done = 0, torn = 0;
        uint64_t file = 0;
        for (int round = 0; round < 12; round++) {
            int ends[2], number, committed = done, status;
            assert_int_equal(pipe(ends), 0);
            pid_t child = fork();
            if (child == 0) {
                close(ends[0]);
                write_until_killed(folder, (enum pd_durability)durability, ends[1], done, file);
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
            file = result.file;
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
        assert_error(rotate(j, 1000000), PD_IO, "free space");
        unlimit_files();
        assert_error(pd_journal_commit(j), PD_IO, "free space");
        pd_journal_close(j);
        j = opened(folder, PD_DURABLE_FSYNC);
        assert_ok(append(j, committed, size));
        assert_ok(pd_journal_commit(j));
        struct pd_replay_result result;
        assert_int_equal(replayed(folder, size, &result), committed + 1);
        assert_false(result.is_torn);

        /* No room for a new file: the present one stays in use. */
        limit_files(10);
        assert_error(rotate(j, 1000000), PD_IO, "free space");
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
    write_whole(folder, "file", "x", 1);
    assert_error(pd_journal_begin(path_in(folder, "file"), 0, PD_DURABLE_WRITE, 0, 0), PD_IO, "folder");
    assert_error(pd_journal_begin(path_in(folder, "file/sub"), 0, PD_DURABLE_WRITE, 0, 0), PD_IO, "folder");
    assert_error(pd_journal_begin("", 0, PD_DURABLE_WRITE, 0, 0), PD_INVALID, "no path");
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
        pd_status opening = pd_journal_open(folder, 0, PD_DURABLE_WRITE, 0, &j);
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
        cmocka_unit_test(test_a_file_that_is_removed),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_one_owner),
        cmocka_unit_test(test_kill),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_unusable_folder),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
