/* The snapshots of all servers of a job, read as one: on any number of servers, and with a clear word on what
 * is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "files_help.h"
#include "pserver/store/snapshot.h"

static void save(const char *folder, const struct pd_snapshot_info *info)
{
    struct pd_snapshot_job *job = NULL;
    assert_ok(pd_snapshot_prepare(folder, info, &job));
    assert_int_equal(pd_snapshot_write(job), PD_OK);
    pd_snapshot_job_free(job);
}

enum { ROWS = 53, WIDTH = 5, MAX_SERVERS = 4 };

/* A job of `n` servers saves the whole values in `w` (cut at cuts[i]) and `table` (rows take turns), and a
 * counter that all have. */
static void save_job(const char *root, uint64_t step, int n, const int *cuts, const float *w,
                     const double *table)
{
    const char *servers[MAX_SERVERS];
    char endpoints[MAX_SERVERS][32];
    int64_t counter = (int64_t)step * 3;
    for (int i = 0; i < n; i++) {
        snprintf(endpoints[i], sizeof endpoints[i], "10.0.0.%d:6174", i);
        servers[i] = endpoints[i];
    }
    for (int i = 0, row = 0; i < n; row += cuts[i++]) {
        char name[32], *folder;
        double part[ROWS * WIDTH];
        int taken = 0;
        for (int r = i; r < ROWS; r += n, taken++)
            memcpy(part + taken * WIDTH, table + r * WIDTH, WIDTH * sizeof *part);
        snprintf(name, sizeof name, "w.block%d", i);
        struct pd_snapshot_var vars[] = {
            {.name = name,
             .dtype = PD_DTYPE_FP32,
             .rank = 2,
             .dim = {cuts[i], WIDTH},
             .data = w + row * WIDTH,
             .whole = "w",
             .first_row = row,
             .whole_rows = ROWS},
            {.name = "table",
             .dtype = PD_DTYPE_FP64,
             .rank = 2,
             .dim = {taken, WIDTH},
             .data = part,
             .whole = "table",
             .first_row = i,
             .row_step = n,
             .whole_rows = ROWS},
            {.name = "counter", .dtype = PD_DTYPE_INT64, .rank = 1, .dim = {1}, .data = &counter},
        };
        assert_ok(pd_snapshot_folder(root, servers[i], &folder));
        save(folder, &(struct pd_snapshot_info){.step = step,
                                                .endpoint = servers[i],
                                                .n_servers = n,
                                                .servers = servers,
                                                .n_vars = 3,
                                                .vars = vars});
        pd_free(folder);
    }
}

static struct pd_snapshot_set *set_of(const char *root, uint64_t step)
{
    struct pd_snapshot_set *set = NULL;
    assert_ok(pd_snapshot_set_open(root, step, NULL, &set));
    return set;
}

static void test_reshard(void **state)
{
    static const struct {
        int n, cuts[MAX_SERVERS];
    } jobs[] = {{1, {53}}, {3, {17, 1, 35}}, {2, {20, 33}}, {1, {53}}, {4, {0, 30, 0, 23}}, {2, {52, 1}}};
    char *root = make_folder();
    float w[ROWS * WIDTH], w_read[ROWS * WIDTH];
    double table[ROWS * WIDTH], table_read[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++)
        w[i] = (float)i + 0.5f, table[i] = i / 3.0;
    for (uint64_t job = 0; job < sizeof jobs / sizeof *jobs; job++) {
        uint64_t step = job + 1;
        if (job > 0) {
            /* What the former job saved, read in pieces as this one is cut. */
            struct pd_snapshot_set *set = set_of(root, PD_SNAPSHOT_NEWEST);
            int64_t counter;
            assert_int_equal(set->step, step - 1);
            assert_int_equal(set->servers.n, jobs[job - 1].n);
            for (int i = 0; i < set->servers.n; i++)
                assert_ok(pd_snapshot_check(set->servers.at[i]));
            assert_int_equal(pd_snapshot_set_find(set, "w")->whole_rows, ROWS);
            assert_null(pd_snapshot_set_find(set, "v"));
            memset(w_read, 0, sizeof w_read);
            memset(table_read, 0, sizeof table_read);
            for (int i = 0, row = 0; i < jobs[job].n; row += jobs[job].cuts[i++]) {
                int rows = jobs[job].cuts[i];
                assert_ok(pd_snapshot_set_read(set, "w", row, rows, w_read + row * WIDTH,
                                               (size_t)rows * WIDTH * 4));
                assert_ok(pd_snapshot_set_read(set, "table", row, rows, table_read + row * WIDTH,
                                               (size_t)rows * WIDTH * 8));
            }
            assert_memory_equal(w, w_read, sizeof w);
            assert_memory_equal(table, table_read, sizeof table);
            assert_ok(pd_snapshot_set_read(set, "counter", 0, 1, &counter, sizeof counter));
            assert_int_equal(counter, (step - 1) * 3);
            assert_error(pd_snapshot_set_read(set, "v", 0, 1, w_read, 20), PD_NOT_FOUND, "no variable 'v'");
            assert_error(pd_snapshot_set_read(set, "w", 50, 4, w_read, 80), PD_RANGE, "it has 53");
            assert_error(pd_snapshot_set_read(set, "w", -1, 4, w_read, 80), PD_RANGE, "from row -1");
            assert_error(pd_snapshot_set_read(set, "w", INT64_MAX, INT64_MAX, w_read, 80), PD_RANGE,
                         "it has 53");
            assert_error(pd_snapshot_set_read(set, "w", 0, 4, w_read, 81), PD_SHAPE, "room for 81");
            pd_snapshot_set_close(set);
        }
        save_job(root, step, jobs[job].n, jobs[job].cuts, w, table);
    }
    drop_folder(root);
}

static void test_incomplete_sets(void **state)
{
    char *root = make_folder();
    float w[ROWS * WIDTH] = {0};
    double table[ROWS * WIDTH] = {0};
    struct pd_snapshot_set *set = NULL;
    pd_log_set_limit(PD_LOG_ERROR);
    assert_error(pd_snapshot_set_open(root, PD_SNAPSHOT_NEWEST, NULL, &set), PD_NOT_FOUND,
                 "no snapshots of servers");
    assert_error(pd_snapshot_set_open(path_in(root, "none"), 3, NULL, &set), PD_NOT_FOUND,
                 "no server has a snapshot of step 3");
    write_whole(root, "a file", "x", 1);
    for (uint64_t step = 10; step <= 30; step += 10)
        save_job(root, step, 3, (int[]){20, 30, 3}, w, table);
    set = set_of(root, PD_SNAPSHOT_NEWEST);
    assert_string_equal(set->damage, "");
    pd_snapshot_set_close(set);
    /* The last server has not got as far: the newest that all have counts, and the others are named. */
    empty_folder(path_in(root, "10.0.0.2_6174/snapshot-00000000000000000030"));
    set = set_of(root, PD_SNAPSHOT_NEWEST);
    assert_int_equal(set->step, 20);
    assert_non_null(strstr(set->damage, "has no snapshot of step 30"));
    pd_snapshot_set_close(set);
    assert_error(pd_snapshot_set_open(root, 30, NULL, &set), PD_NOT_FOUND,
                 "'10.0.0.2:6174' has no snapshot of step 30");
    set = set_of(root, 10);
    assert_int_equal(set->step, 10);
    pd_snapshot_set_close(set);
    /* Folders of a server that is no longer there do not disturb. */
    save_job(root, 40, 2, (int[]){20, 33}, w, table);
    set = set_of(root, PD_SNAPSHOT_NEWEST);
    assert_int_equal(set->step, 40);
    assert_int_equal(set->servers.n, 2);
    pd_snapshot_set_close(set);
    /* Rows that nobody saved. */
    save_job(root, 50, 2, (int[]){20, 30}, w, table);
    set = set_of(root, 50);
    assert_ok(pd_snapshot_set_read(set, "w", 0, 50, w, 1000));
    assert_error(pd_snapshot_set_read(set, "w", 0, 51, w, 1020), PD_NOT_FOUND, "row 50 of 'w'");
    pd_snapshot_set_close(set);
    /* Of two jobs: they name other servers. */
    save_job(root, 60, 2, (int[]){20, 33}, w, table);
    empty_folder(path_in(root, "10.0.0.1_6174"));
    char *copy = strdup(path_in(root, "10.0.0.1_6174"));
    static const char *const others[] = {"10.0.0.1:6174", "10.0.0.7:1"};
    save(copy,
         &(struct pd_snapshot_info){.step = 60, .endpoint = others[0], .n_servers = 2, .servers = others});
    free(copy);
    assert_error(pd_snapshot_set_open(root, 60, NULL, &set), PD_FORMAT, "name other servers");
    pd_log_set_limit(PD_LOG_INFO);
    drop_folder(root);
}

/* One value of each server, all of it rows of "w". */
static void save_one(const char *root, uint64_t number, int n, int server, float value,
                     const struct pd_snapshot_note *notes, int n_notes)
{
    static const char *const servers[] = {"10.0.0.0:1", "10.0.0.1:1", "10.0.0.2:1"};
    struct pd_snapshot_var vars[] = {
        {.name = "w",
         .dtype = PD_DTYPE_FP32,
         .rank = 1,
         .dim = {1},
         .data = &value,
         .whole = "w",
         .first_row = server,
         .whole_rows = n},
        {.name = "counter", .dtype = PD_DTYPE_FP32, .rank = 1, .dim = {1}, .data = &value},
    };
    char *folder;
    assert_ok(pd_snapshot_folder(root, servers[server], &folder));
    save(folder, &(struct pd_snapshot_info){.step = number,
                                            .endpoint = servers[server],
                                            .n_servers = n,
                                            .servers = servers,
                                            .n_vars = 2,
                                            .vars = vars,
                                            .n_notes = n_notes,
                                            .notes = notes});
    pd_free(folder);
}

static void assert_set(const char *root, const float *want, int n, float counter, int is_whole)
{
    float got[3] = {0};
    struct pd_snapshot_set *set = set_of(root, PD_SNAPSHOT_NEWEST);
    assert_ok(pd_snapshot_set_read(set, "w", 0, n, got, (size_t)n * sizeof *got));
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    assert_ok(pd_snapshot_set_read(set, "counter", 0, 1, got, sizeof *got));
    assert_true(got[0] == counter);
    assert_int_equal(!set->damage[0], is_whole);
    pd_snapshot_set_close(set);
}

/* Each server counts for itself; what both have is of the one that is furthest. */
static void test_async_sets(void **state)
{
    char *root = make_folder();
    static const struct pd_snapshot_note async[] = {{"mode", "async"}},
                                         next[] = {{"era", "1"}, {"mode", "async"}};
    pd_log_set_limit(PD_LOG_ERROR);
    for (int number = 10; number <= 12; number++)
        save_one(root, (uint64_t)number, 2, 0, (float)number, async, 1);
    save_one(root, 7, 2, 1, 7, async, 1);
    assert_set(root, (float[]){12, 7}, 2, 12, 1);
    save_one(root, 20, 2, 1, 20, async, 1);
    assert_set(root, (float[]){12, 20}, 2, 20, 1);
    /* The newest of one of them is damaged: the one before it, and it is told. */
    char *newest = strdup(path_in(root, "10.0.0.0_1/snapshot-00000000000000000012"));
    write_whole(newest, "data", "x", 1);
    free(newest);
    assert_set(root, (float[]){11, 20}, 2, 20, 0);
    /* Servers that the job went on with count, also when their numbers are lower. */
    save_one(root, 13, 1, 0, 3, next, 2);
    assert_set(root, (float[]){3}, 1, 3, 1);
    pd_log_set_limit(PD_LOG_INFO);
    drop_folder(root);
}

/* In sync mode the step counts: a server that wrote it once more has another number. */
static void test_numbers_of_one_step(void **state)
{
    char *root = make_folder();
    static const struct pd_snapshot_note again[] = {{"applied", "20"}};
    save_one(root, 20, 2, 0, 1, NULL, 0);
    save_one(root, 20, 2, 1, 2, NULL, 0);
    save_one(root, 21, 2, 1, 3, again, 1);
    assert_set(root, (float[]){1, 3}, 2, 3, 1);
    drop_folder(root);
}

static void test_same_places(void **state)
{
    static const char *const a[] = {"a", "b"}, *const moved[] = {"a", "c"}, *const both[] = {"c", "d"},
                             *const turned[] = {"b", "a"}, *const shifted[] = {"b", "c"};
    assert_true(pd_snapshot_same_places(2, a, 2, a));
    assert_true(pd_snapshot_same_places(2, a, 2, moved));
    assert_true(pd_snapshot_same_places(2, a, 2, both));
    assert_false(pd_snapshot_same_places(2, a, 2, turned));
    assert_false(pd_snapshot_same_places(2, a, 2, shifted));
    assert_false(pd_snapshot_same_places(2, a, 1, a));
}

static void test_short_memory(void **state)
{
    char *root = make_folder();
    float w[ROWS * WIDTH] = {0};
    double table[ROWS * WIDTH] = {0};
    int worked = 0;
    save_job(root, 1, 3, (int[]){20, 30, 3}, w, table);
    for (uint64_t n = 1; n < 2000 && !worked; n++) {
        struct pd_snapshot_set *set = NULL;
        pd_alloc_fail_at(n);
        pd_status status = pd_snapshot_set_open(root, PD_SNAPSHOT_NEWEST, NULL, &set);
        pd_alloc_fail_at(0);
        assert_true(status == PD_OK || status == PD_NO_MEMORY);
        worked = status == PD_OK;
        pd_snapshot_set_close(set);
    }
    assert_true(worked);
    drop_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reshard),     cmocka_unit_test(test_incomplete_sets),
        cmocka_unit_test(test_async_sets),  cmocka_unit_test(test_numbers_of_one_step),
        cmocka_unit_test(test_same_places), cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
