/* Snapshots of servers: whole or not there, read back byte by byte, on any number of servers, and no hostile
 * file does harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "files_help.h"
#include "pserver/store/snapshot_private.h"

#define ENDPOINT "127.0.0.1:6174"
static const char *const one_server[] = {ENDPOINT};

/* Writes in this process. */
static void save(const char *folder, const struct pd_snapshot_info *info)
{
    struct pd_snapshot_job *job = NULL;
    const char *text;
    assert_ok(pd_snapshot_prepare(folder, info, &job));
    assert_int_equal(pd_snapshot_result(job, &text), PD_INTERRUPTED);
    assert_int_equal(pd_snapshot_write(job), PD_OK);
    assert_int_equal(pd_snapshot_result(job, &text), PD_OK);
    assert_string_equal(text, "written");
    assert_int_equal(pd_snapshot_done(job), pd_snapshot_bytes(job));
    pd_snapshot_job_free(job);
}

static void save_small(const char *folder, uint64_t step)
{
    float data[] = {(float)step, 2, 3};
    save(folder, &(struct pd_snapshot_info){
                     .step = step,
                     .endpoint = ENDPOINT,
                     .n_servers = 1,
                     .servers = one_server,
                     .n_vars = 1,
                     .vars = &(struct pd_snapshot_var){
                         .name = "w", .dtype = PD_DTYPE_FP32, .rank = 1, .dim = {3}, .data = data}});
}

static struct pd_snapshot *opened(const char *folder, uint64_t step)
{
    struct pd_snapshot *s = NULL;
    assert_ok(pd_snapshot_open(folder, step, &s));
    return s;
}

static const char *file_of(uint64_t step, const char *file)
{
    static char path[128];
    snprintf(path, sizeof path, "snapshot-%020" PRIu64 "/%s", step, file);
    return path;
}

static int entries(const char *folder)
{
    uint64_t *steps;
    int n, all = 0;
    assert_ok(pd_snapshot_list(folder, &steps, &n));
    pd_free(steps);
    char command[PATH_MAX + 32];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *pipe = popen(command, "r");
    assert_int_equal(fscanf(pipe, "%d", &all), 1);
    pclose(pipe);
    assert_true(all >= n);
    return all;
}

/* ---- use as intended ---- */

/* The example for most tests; `data` has at least 4096 bytes. */
static const struct pd_snapshot_var example_vars[] = {
    {.name = "fc_0.w_0.block1",
     .dtype = PD_DTYPE_FP32,
     .rank = 2,
     .dim = {7, 3},
     .whole = "fc_0.w_0",
     .first_row = 5,
     .whole_rows = 13},
    {.name = "table",
     .dtype = PD_DTYPE_FP64,
     .rank = 2,
     .dim = {4, 2},
     .whole = "table",
     .first_row = 1,
     .row_step = 3,
     .whole_rows = 11},
    {.name = "learning rate %@GRAD", .dtype = PD_DTYPE_FP32, .rank = 0},
    {.name = "empty", .dtype = PD_DTYPE_INT64, .rank = 2, .dim = {0, 4}},
    {.name = "empty slice",
     .dtype = PD_DTYPE_INT8,
     .rank = 1,
     .dim = {0},
     .whole = "bytes",
     .first_row = 9,
     .whole_rows = 9},
    {.name = "z\xc3\xa4hler\n", .dtype = PD_DTYPE_INT64, .rank = 1, .dim = {1}},
    {.name = "deep", .dtype = PD_DTYPE_BOOL, .rank = 9, .dim = {2, 1, 1, 2, 1, 1, 1, 3, 1}},
};
enum { N_EXAMPLE = sizeof example_vars / sizeof *example_vars };

static void save_example(const char *folder, uint64_t step, const char *data)
{
    static const char *const servers[] = {"ps0:6174", ENDPOINT, "[::1]:7"};
    static const struct pd_snapshot_trainer trainers[] = {{12, 77}, {UINT64_MAX, 0}};
    static const struct pd_snapshot_note notes[] = {
        {"lr_step", "120"}, {"text", "two words = 100%\nnext line"}, {"empty", ""}};
    struct pd_snapshot_var vars[N_EXAMPLE];
    memcpy(vars, example_vars, sizeof vars);
    for (int i = 0; i < N_EXAMPLE; i++)
        vars[i].data = data + 100 * i;
    save(folder,
         &(struct pd_snapshot_info){step, ENDPOINT, 3, 2, N_EXAMPLE, 3, servers, trainers, vars, notes});
}

static void fill(char *to, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)((i + seed) * 2654435761u >> 13);
}

static void test_round_trip(void **state)
{
    char *folder = make_folder(), data[4096];
    fill(data, sizeof data, 1);
    save_example(path_in(folder, "new/deep"), 42, data);
    struct pd_snapshot *s = opened(path_in(folder, "new/deep"), 42);
    const struct pd_snapshot_info *info = pd_snapshot_info(s);
    assert_int_equal(info->step, 42);
    assert_string_equal(info->endpoint, ENDPOINT);
    assert_int_equal(info->n_servers, 3);
    assert_string_equal(info->servers[2], "[::1]:7");
    assert_int_equal(info->n_trainers, 2);
    assert_int_equal(info->trainers[0].step, 12);
    assert_int_equal(info->trainers[0].incarnation, 77);
    assert_true(info->trainers[1].step == UINT64_MAX);
    assert_int_equal(info->n_vars, N_EXAMPLE);
    for (int i = 0; i < N_EXAMPLE; i++) {
        const struct pd_snapshot_var *v = pd_snapshot_find(s, example_vars[i].name), *e = &example_vars[i];
        assert_non_null(v);
        assert_ptr_equal(v, &info->vars[i]);
        assert_int_equal(v->dtype, e->dtype);
        assert_int_equal(v->rank, e->rank);
        assert_memory_equal(v->dim, e->dim, (size_t)e->rank * sizeof *e->dim);
        assert_string_equal(v->whole, e->whole ? e->whole : e->name);
        assert_int_equal(v->first_row, e->first_row);
        assert_int_equal(v->row_step, e->row_step ? e->row_step : 1);
        assert_int_equal(v->whole_rows, e->whole ? e->whole_rows : e->rank ? e->dim[0] : 1);
        assert_int_equal(v->offset % 64, 0);
        if (v->bytes) assert_int_equal((uintptr_t)v->data % 64, 0);
        assert_int_equal(v->bytes, (uint64_t)(pd_snapshot_rows(v) * pd_snapshot_row_bytes(v)));
        assert_memory_equal(v->data, data + 100 * i, v->bytes);
    }
    assert_null(pd_snapshot_find(s, "w"));
    assert_string_equal(pd_snapshot_note(s, "lr_step"), "120");
    assert_string_equal(pd_snapshot_note(s, "text"), "two words = 100%\nnext line");
    assert_string_equal(pd_snapshot_note(s, "empty"), "");
    assert_null(pd_snapshot_note(s, "none"));
    assert_ok(pd_snapshot_check(s));
    pd_snapshot_close(s);

    /* The same step again is not written over the first. */
    struct pd_snapshot_job *job = NULL;
    struct pd_snapshot_info again = {.step = 42, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server};
    assert_error(pd_snapshot_prepare(path_in(folder, "new/deep"), &again, &job), PD_EXISTS, "there already");
    assert_error(pd_snapshot_open(folder, 42, &s), PD_NOT_FOUND, "no such file");
    drop_folder(folder);
}

static void test_nothing_to_save(void **state)
{
    char *folder = make_folder();
    save(folder,
         &(struct pd_snapshot_info){.step = 0, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server});
    struct pd_snapshot *s = opened(folder, 0);
    assert_ok(pd_snapshot_check(s));
    assert_null(pd_snapshot_find(s, "w"));
    pd_snapshot_close(s);
    drop_folder(folder);
}

static void test_wrong_orders(void **state)
{
    char *folder = make_folder(), *path = NULL;
    struct pd_snapshot_job *job = NULL;
    struct pd_snapshot_var v = {.name = "w", .dtype = PD_DTYPE_FP32, .rank = 1, .dim = {3}};
    struct pd_snapshot_info info = {
        .step = 1, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server, .n_vars = 1, .vars = &v};
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_NOT_FOUND, "holds no data yet");
    v.data = folder;
    v.dim[0] = -1;
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_SHAPE, "dimension 0 is -1");
    v.dim[0] = INT64_MAX;
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_RANGE, "more bytes");
    v.dim[0] = 3, v.whole = "all", v.first_row = 4, v.whole_rows = 6;
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_RANGE, "do not lie in");
    v.whole = NULL, v.dtype = PD_DTYPE_NONE;
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_TYPE, "element type");
    v.dtype = PD_DTYPE_FP32, v.name = "";
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_INVALID, "no name");
    info.endpoint = "other:1";
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_INVALID, "not among the 1 servers");
    info = (struct pd_snapshot_info){.endpoint = ENDPOINT,
                                     .n_servers = 1,
                                     .servers = one_server,
                                     .n_notes = 1,
                                     .notes = &(struct pd_snapshot_note){"a=b", ""}};
    assert_error(pd_snapshot_prepare(folder, &info, &job), PD_INVALID, "key of a note");
    assert_error(pd_snapshot_folder(folder, "../x", &path), PD_INVALID, "no endpoint");
    assert_error(pd_snapshot_folder(folder, "", &path), PD_INVALID, "no endpoint");
    assert_ok(pd_snapshot_folder("/a:b", "[::1]:80", &path));
    assert_string_equal(path, "/a:b/[__1]_80");
    pd_free(path);
    assert_error(pd_snapshot_keep(folder, 0, UINT64_MAX), PD_INVALID, "at least 1");
    assert_int_equal(entries(folder), 0);
    drop_folder(folder);
}

static uint64_t newest_of(const char *folder)
{
    uint64_t *steps;
    int n;
    assert_ok(pd_snapshot_list(folder, &steps, &n));
    assert_true(n > 0);
    uint64_t step = steps[n - 1];
    pd_free(steps);
    return step;
}

static void test_list_and_keep(void **state)
{
    char *folder = make_folder();
    uint64_t *steps;
    int n;
    assert_ok(pd_snapshot_list(path_in(folder, "none"), &steps, &n));
    assert_int_equal(n, 0);
    pd_free(steps);
    for (uint64_t s = 2; s <= 200000; s *= 10)
        save_small(folder, s);
    mkdir(path_in(folder, ".tmp-123-9"), 0777);
    write_whole(folder, ".tmp-123-9/data", "half", 4);
    mkdir(path_in(folder, "snapshot-7"), 0777); /* not ours */
    assert_int_equal(newest_of(folder), 200000);
    assert_ok(pd_snapshot_keep(folder, 3, UINT64_MAX));
    assert_ok(pd_snapshot_list(folder, &steps, &n));
    assert_int_equal(n, 3);
    assert_int_equal(steps[0], 2000);
    assert_int_equal(steps[1], 20000);
    assert_int_equal(steps[2], 200000);
    pd_free(steps);
    assert_int_equal(entries(folder), 4);
    assert_ok(pd_snapshot_keep(path_in(folder, "none"), 3, UINT64_MAX));
    drop_folder(folder);
}

/* ---- in a child, while the server goes on ---- */

struct work {
    pthread_mutex_t lock;
    uint64_t *values;
    size_t n;
    int stop;
};

/* Like a server: all values are those of one step, whenever it lets go of the lock. */
static void *train(void *arg)
{
    struct work *w = arg;
    for (int stop = 0; !stop;) {
        pthread_mutex_lock(&w->lock);
        for (size_t i = 0; i < w->n; i++)
            w->values[i]++;
        stop = w->stop;
        pthread_mutex_unlock(&w->lock);
        char *some = malloc(100); /* keeps locks of the C library in use */
        snprintf(some, 100, "%d", stop);
        free(some);
    }
    return NULL;
}

/* A snapshot of one variable, written by a child. */
static void fork_one(const char *folder, uint64_t step, const struct pd_snapshot_var *var,
                     struct pd_snapshot_job **job, pid_t *child)
{
    struct pd_snapshot_info info = {
        .step = step, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server, .n_vars = 1, .vars = var};
    assert_ok(pd_snapshot_prepare(folder, &info, job));
    assert_ok(pd_snapshot_fork(*job, child));
}

static void test_cut_while_training(void **state)
{
    char *folder = make_folder();
    struct work w = {.lock = PTHREAD_MUTEX_INITIALIZER, .n = 1 << 18};
    pthread_t threads[2];
    w.values = calloc(w.n, sizeof *w.values);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, train, &w);
    for (uint64_t step = 1; step <= 8; step++) {
        struct pd_snapshot_var v = {
            .name = "w", .dtype = PD_DTYPE_INT64, .rank = 1, .dim = {(int64_t)w.n}, .data = w.values};
        struct pd_snapshot_job *job = NULL;
        pid_t child;
        int status;
        const char *text;
        pthread_mutex_lock(&w.lock);
        uint64_t value = w.values[0];
        fork_one(folder, step, &v, &job, &child);
        pthread_mutex_unlock(&w.lock);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(pd_snapshot_result(job, &text), PD_OK);
        assert_int_equal(status, 0);
        pd_snapshot_job_free(job);
        struct pd_snapshot *s = opened(folder, step);
        assert_ok(pd_snapshot_check(s));
        const uint64_t *saved = pd_snapshot_find(s, "w")->data;
        for (size_t i = 0; i < w.n; i++)
            if (saved[i] != value)
                fail_msg("value %zu is of step %" PRIu64 ", the cut is at %" PRIu64, i, saved[i], value);
        pd_snapshot_close(s);
    }
    pthread_mutex_lock(&w.lock);
    w.stop = 1;
    pthread_mutex_unlock(&w.lock);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    free(w.values);
    drop_folder(folder);
}

static void test_killed_writer(void **state)
{
    char *folder = make_folder();
    size_t n = 4 << 20;
    char *data = calloc(1, n);
    int killed = 0;
    uint64_t newest = 1, step;
    srand((unsigned)pd_clock_ns());
    save_small(folder, 1);
    for (uint64_t next = 2; next < 22; next++) {
        struct pd_snapshot_var v = {
            .name = "w", .dtype = PD_DTYPE_INT8, .rank = 1, .dim = {(int64_t)n}, .data = data};
        struct pd_snapshot_job *job = NULL;
        pid_t child;
        int status;
        const char *text;
        fork_one(folder, next, &v, &job, &child);
        /* In the data, or behind them: in the sync, before or after the name. */
        if (next % 2)
            while (pd_snapshot_done(job) < n / 2 && waitpid(child, &status, WNOHANG) == 0)
                usleep(50);
        else
            usleep((useconds_t)(rand() % 12000));
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        pd_status result = pd_snapshot_result(job, &text);
        if (result == PD_INTERRUPTED) assert_non_null(strstr(text, "not written to its end"));
        pd_snapshot_job_free(job);
        /* Whatever has its name is whole; and what was said to be written has it. */
        step = newest_of(folder);
        assert_true(step == next || (step == newest && result != PD_OK));
        struct pd_snapshot *s = opened(folder, step);
        assert_ok(pd_snapshot_check(s));
        pd_snapshot_close(s);
        killed += step != next;
        newest = step;
    }
    print_message("%d of 20 writers were killed in time\n", killed);
    assert_ok(pd_snapshot_keep(folder, 1, UINT64_MAX));
    assert_int_equal(entries(folder), 1);
    free(data);
    drop_folder(folder);
}

/* A process that was left to us ends by a signal, within ten seconds. */
static int ended_by_signal(pid_t process)
{
    int status;
    for (int64_t end = pd_clock_ns() + 10 * 1000000000ll; pd_clock_ns() < end; usleep(50))
        if (waitpid(process, &status, WNOHANG) == process) return WIFSIGNALED(status);
    return 0;
}

/* A server that is killed takes the writer with it, and its sockets are free at once. */
static void test_writer_ends_with_the_server(void **state)
{
    char *folder = make_folder();
    pid_t *writer = mmap(NULL, sizeof *writer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(writer, MAP_FAILED);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* what the server leaves behind is ours */
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t server = fork();
    if (server == 0) {
        size_t n = (size_t)64 << 20;
        struct pd_snapshot_var v = {
            .name = "w", .dtype = PD_DTYPE_INT8, .rank = 1, .dim = {(int64_t)n}, .data = calloc(1, n)};
        struct pd_snapshot_job *job = NULL;
        pid_t child;
        close(ends[0]);
        if (pd_snapshot_prepare(folder,
                                &(struct pd_snapshot_info){.step = 1,
                                                           .endpoint = ENDPOINT,
                                                           .n_servers = 1,
                                                           .servers = one_server,
                                                           .n_vars = 1,
                                                           .vars = &v},
                                &job) != PD_OK ||
            pd_snapshot_fork(job, &child) != PD_OK)
            _exit(1);
        *writer = child;
        while (pd_snapshot_done(job) == 0)
            usleep(50);
        raise(SIGKILL);
    }
    close(ends[1]);
    int status;
    waitpid(server, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(read(ends[0], &byte, 1), 0); /* nobody holds the other end */
    close(ends[0]);
    assert_true(ended_by_signal(*writer));
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    munmap(writer, sizeof *writer);
    empty_folder(folder);
    drop_folder(folder);
}

static void test_full_disk(void **state)
{
    char *folder = make_folder();
    size_t n = 1 << 20;
    char *data = calloc(1, n);
    uint64_t step;
    save_small(folder, 1);
    for (int in_child = 0; in_child < 2; in_child++) {
        struct pd_snapshot_var v = {
            .name = "w", .dtype = PD_DTYPE_INT8, .rank = 1, .dim = {(int64_t)n}, .data = data};
        struct pd_snapshot_info info = {
            .step = 2, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server, .n_vars = 1, .vars = &v};
        struct pd_snapshot_job *job = NULL;
        const char *text;
        assert_ok(pd_snapshot_prepare(folder, &info, &job));
        limit_files(n / 2);
        if (in_child) {
            pid_t child;
            int status;
            assert_ok(pd_snapshot_fork(job, &child));
            waitpid(child, &status, 0);
            assert_int_equal(WEXITSTATUS(status), 1);
        } else {
            assert_int_equal(pd_snapshot_write(job), PD_IO);
        }
        unlimit_files();
        assert_int_equal(pd_snapshot_result(job, &text), PD_IO);
        assert_non_null(strstr(text, "free space"));
        assert_non_null(strstr(text, "snapshot-00000000000000000002"));
        pd_snapshot_job_free(job);
        assert_int_equal(entries(folder), 1);
        step = newest_of(folder);
        assert_int_equal(step, 1);
    }
    /* The manifest too may find no room. */
    struct pd_snapshot_info info = {.step = 3, .endpoint = ENDPOINT, .n_servers = 1, .servers = one_server};
    struct pd_snapshot_job *job = NULL;
    assert_ok(pd_snapshot_prepare(folder, &info, &job));
    limit_files(10);
    assert_int_equal(pd_snapshot_write(job), PD_IO);
    unlimit_files();
    pd_snapshot_job_free(job);
    assert_int_equal(entries(folder), 1);
    free(data);
    drop_folder(folder);
}

/* ---- hostile files ---- */

static void test_damage(void **state)
{
    char *folder = make_folder(), data[4096];
    struct pd_snapshot *s = NULL;
    fill(data, sizeof data, 2);
    save_example(folder, 5, data);
    struct bytes m = read_whole(folder, file_of(5, "manifest")), d = read_whole(folder, file_of(5, "data"));
    for (size_t n = 0; n < m.n; n++) {
        write_whole(folder, file_of(5, "manifest"), m.at, n);
        assert_int_equal(pd_snapshot_open(folder, 5, &s), PD_FORMAT);
    }
    for (size_t at = 0; at < m.n; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            m.at[at] ^= (char)(1 << bit);
            write_whole(folder, file_of(5, "manifest"), m.at, m.n);
            pd_status status = pd_snapshot_open(folder, 5, &s);
            if (status == PD_OK) fail_msg("byte %zu, bit %d: not seen", at, bit);
            m.at[at] ^= (char)(1 << bit);
        }
    write_whole(folder, file_of(5, "manifest"), m.at, m.n);
    for (size_t n = 0; n < d.n; n++) {
        truncate(path_in(folder, file_of(5, "data")), (off_t)n);
        assert_int_equal(pd_snapshot_open(folder, 5, &s), PD_FORMAT);
        write_whole(folder, file_of(5, "data"), d.at, d.n);
    }
    for (size_t at = 0; at < d.n; at++) {
        d.at[at] ^= 8;
        write_whole(folder, file_of(5, "data"), d.at, d.n);
        d.at[at] ^= 8;
        s = opened(folder, 5);
        assert_int_equal(pd_snapshot_check(s), PD_FORMAT);
        pd_snapshot_close(s);
    }
    free(m.at);
    free(d.at);
    drop_folder(folder);
}

/* Puts `new` for `old` in the manifest of step 5, makes its checksum right, and opens it. */
static pd_status opened_with(const char *folder, const struct bytes *manifest, const char *old,
                             const char *new)
{
    char *found = strstr(manifest->at, old), *text = malloc(manifest->n + strlen(new) + 1), crc[10];
    struct pd_snapshot *s = NULL;
    assert_non_null(found);
    size_t before = (size_t)(found - manifest->at);
    sprintf(text, "%.*s%s%s", (int)before, manifest->at, new, found + strlen(old));
    size_t n = strlen(text);
    snprintf(crc, sizeof crc, "%08" PRIx32 "\n", pd_crc32c(0, text, n - 9));
    memcpy(text + n - 9, crc, 9);
    write_whole(folder, file_of(5, "manifest"), text, n);
    free(text);
    pd_status status = pd_snapshot_open(folder, 5, &s);
    if (status == PD_OK) pd_snapshot_close(s);
    return status;
}

static void test_lies(void **state)
{
    char *folder = make_folder(), data[4096] = {0};
    save_example(folder, 5, data);
    struct bytes m = read_whole(folder, file_of(5, "manifest"));
    assert_int_equal(opened_with(folder, &m, "step 5", "step 5"), PD_OK);
    assert_int_equal(opened_with(folder, &m, "whole_rows=13", "whole_rows=14"), PD_OK);
    static const struct {
        const char *old, *new, *words;
    } lies[] = {
        {"snapshot 1", "snapshot 2", "version 2"},
        {"paddle-", "puddle-", "expected paddle-snapshot"},
        {"step 5", "step 6", "is of step 6"},
        {"step 5", "step 05", "a number"},
        {"step 5", "step 18446744073709551616", "smaller number"},
        {"step 5", "step -5", "a number"},
        {"step 5\n", "step 5 \n", "the end of the line"},
        {"endpoint " ENDPOINT, "endpoint 1", "not in its list"},
        {"server ps0:6174\n", "server \n", "a name"},
        {"trainer 1", "trainer 2", "trainers in order"},
        {"trainer 1", "trainer 99999999999", "smaller number"},
        {"float32 dims=7x3", "float33 dims=7x3", "element type"},
        {"dims=7x3", "dims=7x4", "its shape asks for 112"},
        {"dims=7x3", "dims=-7x3", "a number"},
        {"dims=7x3", "dims=7x", "a number"},
        {"dims=7x3", "dims=", "a number"},
        {"dims=7x3", "dims=4611686018427387904x4", "more bytes than there can be"},
        {"dims=7x3", "dims=7x3x1x1x1x1x1x1x1x1", "fewer dimensions"},
        {"dims=0x4", "dims=0x4611686018427387904", "more bytes than there can be"},
        {"offset=128 bytes=64", "offset=64 bytes=64", "at offset 64"},
        {"offset=128 bytes=64", "offset=0 bytes=64", "at offset 0"},
        {"offset=128 bytes=64", "offset=132 bytes=64", "at offset 132"},
        {"offset=128 bytes=64", "offset=9223372036854775807 bytes=64", "at offset 9223372036854775807"},
        {"offset=128 bytes=64", "offset=9223372036854775808 bytes=64", "smaller number"},
        {"bytes=84", "bytes=85", "has 85 bytes"},
        {"first_row=5", "first_row=7", "do not lie in the 13 rows"},
        {"first_row=5", "first_row=9223372036854775807", "do not lie in the 13 rows"},
        {"row_step=3", "row_step=0", "in steps of 0"},
        {"row_step=3", "row_step=9223372036854775807", "do not lie in the 11 rows"},
        {"name=table", "name=empty", "is there twice"},
        {"name=table", "name=", "a name"},
        {"name=table", "name=%00", "%XX"},
        {"name=table", "name=%4", "%XX"},
        {"name=table", "name=a\tb", "control characters"},
        {"note lr_step", "note =", "a name"},
        {"note lr_step", "remark lr_step", "end bytes="},
        {"end bytes=", "end  bytes=", "end bytes="},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        if (opened_with(folder, &m, lies[i].old, lies[i].new) == PD_OK)
            fail_msg("'%s' was believed", lies[i].new);
        if (!strstr(pd_error(), lies[i].words))
            fail_msg("'%s': '%s' does not say '%s'", lies[i].new, pd_error(), lies[i].words);
        assert_non_null(strstr(pd_error(), "manifest"));
    }
    free(m.at);
    drop_folder(folder);
}

/* ---- short memory ---- */

static void test_short_memory(void **state)
{
    char *folder = make_folder(), data[4096] = {0};
    int worked = 0;
    for (uint64_t n = 1; n < 2000 && !worked; n++) {
        struct pd_snapshot_var vars[N_EXAMPLE];
        struct pd_snapshot_job *job = NULL;
        struct pd_snapshot_info info = {.step = 1,
                                        .endpoint = ENDPOINT,
                                        .n_servers = 1,
                                        .servers = one_server,
                                        .n_vars = N_EXAMPLE,
                                        .vars = vars};
        memcpy(vars, example_vars, sizeof vars);
        for (int i = 0; i < N_EXAMPLE; i++)
            vars[i].data = data;
        pd_alloc_fail_at(n);
        pd_status status = pd_snapshot_prepare(folder, &info, &job);
        uint64_t before = pd_alloc_count();
        if (status == PD_OK) assert_int_equal(pd_snapshot_write(job), PD_OK);
        assert_int_equal(pd_alloc_count(), before); /* a write allocates nothing */
        pd_alloc_fail_at(0);
        assert_true(status == PD_OK || status == PD_NO_MEMORY);
        worked = status == PD_OK;
        pd_snapshot_job_free(job);
    }
    assert_true(worked);
    drop_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_nothing_to_save),
        cmocka_unit_test(test_wrong_orders),
        cmocka_unit_test(test_list_and_keep),
        cmocka_unit_test(test_cut_while_training),
        cmocka_unit_test(test_killed_writer),
        cmocka_unit_test(test_writer_ends_with_the_server),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
