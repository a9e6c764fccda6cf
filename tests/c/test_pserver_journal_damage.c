/* The server's log when its files are torn, cut, damaged, foreign or gone: what was committed is read back or
 * missed, never passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal_help.h"

/* Killed while it wrote: a prefix of what it wrote, and all that it had committed. */
static void test_cut_anywhere(void **state)
{
    char *folder = make_folder();
    pd_log_set_limit(PD_LOG_ERROR); /* each cut is logged */
    struct bytes log = small_log(folder, 4);
    assert_int_equal(log.n, PD_LOG_BEGIN + 4 * SMALL_RECORD);
    for (size_t n = PD_LOG_BEGIN; n <= log.n; n++) {
        struct pd_replay_result result;
        int whole = (int)((n - PD_LOG_BEGIN) / SMALL_RECORD);
        int is_torn = (n - PD_LOG_BEGIN) % SMALL_RECORD != 0;
        /* The commit of the last whole record may have been through or not. */
        size_t safe = PD_LOG_BEGIN + (size_t)(whole && n % 2 ? whole - 1 : whole) * SMALL_RECORD;
        set_mark(&log, safe);
        write_whole(folder, log_name(0), log.at, n);
        assert_int_equal(replayed(folder, 40, &result), whole);
        assert_int_equal(result.is_torn, is_torn);
        if (is_torn) {
            assert_string_equal(result.torn_file, log_name(0));
            assert_int_equal(result.torn_at + result.torn_bytes, n);
            assert_int_equal(result.torn_at, PD_LOG_BEGIN + whole * SMALL_RECORD);
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

/* The same bytes are gone after they were committed: a copy that was cut short, a file that was damaged. */
static void test_shortened_anywhere(void **state)
{
    char *folder = make_folder();
    struct bytes log = small_log(folder, 4);
    struct pd_replay_from less = {.takes_less = 1};
    for (size_t n = 0; n < log.n; n++) {
        struct pd_replay_result result;
        struct seen seen = {.fixed = 40};
        int whole = n < PD_LOG_BEGIN ? 0 : (int)((n - PD_LOG_BEGIN) / SMALL_RECORD);
        write_whole(folder, log_name(0), log.at, n);
        assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, &result), PD_FORMAT, log_name(0));
        assert_int_equal(seen.n, whole);
        struct pd_journal *j = NULL;
        assert_int_equal(open_last(folder, 0, PD_DURABLE_WRITE, &j), PD_FORMAT);
        seen = (struct seen){.fixed = 40};
        assert_ok(pd_journal_replay(folder, 0, &less, see, &seen, &result));
        assert_int_equal(seen.n, whole);
        assert_non_null(strstr(result.less, log_name(0)));
    }
    free(log.at);
    drop_folder(folder);
}

static void test_flip_anywhere(void **state)
{
    char *folder = make_folder();
    struct bytes log = small_log(folder, 4);
    struct pd_replay_from less = {.takes_less = 1};
    for (size_t at = 0; at < log.n; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            struct pd_replay_result result;
            struct seen seen = {.fixed = 40};
            struct pd_journal *j = NULL;
            log.at[at] ^= (char)(1 << bit);
            write_whole(folder, log_name(0), log.at, log.n);
            log.at[at] ^= (char)(1 << bit);
            pd_status status = pd_journal_replay(folder, 0, &from_start, see, &seen, &result);
            /* Between the head and the records: a mark that is broken is worth nothing, the one before it
             * tells all but the last commit. */
            if (at >= sizeof(struct pd_log_file) && at < PD_LOG_BEGIN) {
                assert_int_equal(status, PD_OK);
                assert_int_equal(seen.n, 4);
                continue;
            }
            /* All before it is right; nothing wrong is given; nothing is lost in silence. */
            assert_int_equal(seen.n, at < PD_LOG_BEGIN ? 0 : (at - PD_LOG_BEGIN) / SMALL_RECORD);
            assert_int_equal(status, PD_FORMAT);
            assert_non_null(strstr(pd_error(), log_name(0)));
            assert_int_equal(open_last(folder, 0, PD_DURABLE_WRITE, &j), PD_FORMAT);
            int whole = seen.n;
            seen = (struct seen){.fixed = 40};
            assert_ok(pd_journal_replay(folder, 0, &less, see, &seen, &result));
            assert_int_equal(seen.n, whole);
            assert_true(result.less[0] != 0);
        }
    log.at[PD_LOG_BEGIN + SMALL_RECORD + 90] ^= 1;
    write_whole(folder, log_name(0), log.at, log.n);
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &(struct seen){.fixed = 40}, NULL), PD_FORMAT,
                 "offset 1664");
    log.at[PD_LOG_BEGIN + SMALL_RECORD + 90] ^= 1;
    /* A whole sector of marks is gone: the other one is there. Both are: nobody knows what was committed. */
    memset(log.at + PD_LOG_SECTOR, 0, PD_LOG_SECTOR);
    write_whole(folder, log_name(0), log.at, log.n);
    assert_int_equal(replayed(folder, 40, NULL), 4);
    memset(log.at + 2 * PD_LOG_SECTOR, 0, PD_LOG_SECTOR);
    write_whole(folder, log_name(0), log.at, log.n);
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &(struct seen){.fixed = 40}, NULL), PD_FORMAT,
                 "its marks");
    free(log.at);
    drop_folder(folder);
}

/* A file that was begun and never used does not disturb; one that the file before it names is missed. */
static void test_files_behind_the_last(void **state)
{
    char *folder = make_folder();
    struct pd_journal *j;
    struct seen seen = {.fixed = 100};
    struct pd_replay_result result;
    pd_journal_close(four_files(folder));
    assert_ok(pd_journal_begin(folder, 0, PD_DURABLE_WRITE, 20, 999));
    assert_ok(pd_journal_begin(folder, 0, PD_DURABLE_WRITE, 20, 999));
    write_whole(folder, log_name(30), "", 0);
    assert_int_equal(replayed(folder, 100, &result), 12);
    assert_int_equal(result.file, 9);
    assert_ok(pd_journal_open(folder, 0, PD_DURABLE_WRITE, 9, &j));
    assert_int_not_equal(access(path_in(folder, log_name(20)), F_OK), 0);
    assert_int_not_equal(access(path_in(folder, log_name(30)), F_OK), 0);
    pd_journal_close(j);
    /* Used: it goes on from a snapshot that is not the one asked for. */
    assert_ok(pd_journal_begin(folder, 0, PD_DURABLE_WRITE, 20, 999));
    assert_ok(pd_journal_open(folder, 0, PD_DURABLE_WRITE, 20, &j));
    assert_ok(append(j, 0, 100));
    assert_ok(pd_journal_commit(j));
    pd_journal_close(j);
    assert_error(pd_journal_begin(folder, 0, PD_DURABLE_WRITE, 20, 999), PD_EXISTS, "has records");
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_NOT_FOUND, "has a hole");
    assert_error(pd_journal_open(folder, 0, PD_DURABLE_WRITE, 9, &j), PD_EXISTS, "has records");
    int yes;
    char name[64];
    assert_ok(pd_journal_has_records(folder, 0, &yes, name));
    assert_true(yes);
    unlink(path_in(folder, log_name(20)));
    unlink(path_in(folder, log_name(9)));
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_NOT_FOUND,
                 "log-0-00000000000000000009 is not in");
    assert_int_equal(seen.n, 9);
    seen = (struct seen){.fixed = 100};
    assert_ok(pd_journal_replay(folder, 0, &(struct pd_replay_from){.takes_less = 1}, see, &seen, &result));
    assert_int_equal(seen.n, 9);
    assert_non_null(strstr(result.less, "is not in"));
    drop_folder(folder);
}

static void test_broken_files_between(void **state)
{
    char *folder = make_folder();
    pd_journal_close(four_files(folder));
    struct bytes log = read_whole(folder, log_name(3));
    struct pd_replay_from later = from_step(6);
    struct seen seen;
    for (size_t cut = 0; cut < log.n; cut += 7) {
        seen = (struct seen){.fixed = 100};
        write_whole(folder, log_name(3), log.at, cut);
        assert_int_equal(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_FORMAT);
        assert_in_range(seen.n, 3, 5);
        /* Who does not need that file is not disturbed. */
        seen = (struct seen){.first = 6, .fixed = 100};
        assert_ok(pd_journal_replay(folder, 0, &later, see, &seen, NULL));
        assert_int_equal(seen.n, 6);
    }
    /* A record less, at a clean end; its marks say so, and without them the file behind it. */
    write_whole(folder, log_name(3), log.at, log.n - 192);
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_FORMAT,
                 "the file ends here");
    assert_int_equal(seen.n, 5);
    set_mark(&log, log.n - 192);
    write_whole(folder, log_name(3), log.at, log.n - 192);
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_FORMAT, "has a hole");
    assert_int_equal(seen.n, 5);
    unlink(path_in(folder, log_name(3)));
    seen = (struct seen){.fixed = 100};
    assert_error(pd_journal_replay(folder, 0, &from_start, see, &seen, NULL), PD_NOT_FOUND,
                 "log-0-00000000000000000003 is not in");
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
    struct pd_replay_from from = from_start;
#define REFUSED(status, words)                                                                               \
    do {                                                                                                     \
        assert_error(pd_journal_replay(folder, 0, &from, see, &seen, NULL), status, words);                  \
        assert_error(open_last(folder, 0, PD_DURABLE_WRITE, &j), status, words);                             \
    } while (0)
    write_whole(folder, log_name(0),
                "this is a poem, and not a short one: it has more bytes than a log's head", 72);
    REFUSED(PD_FORMAT, "is no log of a server");
    write_whole(folder, log_name(0), "x", 1);
    REFUSED(PD_FORMAT, "is no log of a server");
    struct pd_log_file head;
    memcpy(&head, log.at, sizeof head);
    head.version = 1;
    head.crc = pd_crc32c(0, &head, offsetof(struct pd_log_file, crc));
    write_whole(folder, log_name(0), &head, sizeof head);
    REFUSED(PD_FORMAT, "has version 1, this program reads version 2");
    unlink(path_in(folder, log_name(0)));
    write_whole(folder, log_name(5), log.at, log.n);
    from = from_step(5);
    REFUSED(PD_FORMAT, "lane 0, step 0");
    unlink(path_in(folder, log_name(5)));
    mkdir(path_in(folder, log_name(7)), 0777);
    from = from_step(7);
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
        char *at = log.at + PD_LOG_BEGIN + SMALL_RECORD;
        set_mark(&log, PD_LOG_BEGIN + SMALL_RECORD);
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
    size_t second = PD_LOG_BEGIN + 80 + 100000;
    assert_true(log.n > PD_LOG_BEGIN + 3 * 100080);
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
    /* Committed: damage. */
    assert_ok(pd_journal_commit(j));
    free(log.at);
    log = read_whole(folder, log_name(0));
    memset(log.at + second, 0, 1000);
    write_whole(copy, log_name(0), log.at, log.n);
    assert_error(pd_journal_replay(copy, 0, &from_start, see, &(struct seen){.fixed = 100000}, NULL),
                 PD_FORMAT, "offset 101616");
    free(log.at);
    pd_journal_close(j);
    drop_folder(folder);
    drop_folder(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),         cmocka_unit_test(test_shortened_anywhere),
        cmocka_unit_test(test_flip_anywhere),        cmocka_unit_test(test_files_behind_the_last),
        cmocka_unit_test(test_broken_files_between), cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_announced_length),     cmocka_unit_test(test_holes_behind_the_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
