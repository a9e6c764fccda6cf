/* Tests of src/base: maps, arrays, buffers, random numbers, flags, errors, messages. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/line.h"
#include "base/log.h"
#include "base/map.h"
#include "base/minstd.h"
#include "base/mt19937.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/vec.h"
#include "kernels/minstd.h"

static void map_keeps_what_it_is_given(void **state)
{
    (void)state;
    struct pd_map map = {0};
    char key[32];
    for (intptr_t i = 1; i <= 2000; i++) {
        snprintf(key, sizeof key, "key%d", (int)i);
        assert_true(pd_map_set(&map, key, (void *)i));
    }
    for (intptr_t i = 1; i <= 2000; i += 2) {
        snprintf(key, sizeof key, "key%d", (int)i);
        assert_int_equal((intptr_t)pd_map_remove(&map, key), i);
    }
    for (intptr_t i = 1; i <= 2000; i++) {
        snprintf(key, sizeof key, "key%d", (int)i);
        assert_int_equal((intptr_t)pd_map_get(&map, key), i % 2 ? 0 : i);
    }
    assert_int_equal(map.n, 1000);
    pd_map_free(&map);
}

static void map_has_numbers_and_bare_keys(void **state)
{
    (void)state;
    struct pd_map map = {0};
    assert_int_equal(pd_map_number(&map, "zero"), -1);
    assert_false(pd_map_has(&map, "zero"));
    assert_true(pd_map_set_number(&map, "zero", 0));
    assert_true(pd_map_set_number(&map, "many", 1 << 30));
    assert_int_equal(pd_map_number(&map, "zero"), 0);
    assert_int_equal(pd_map_number(&map, "many"), 1 << 30);
    assert_int_equal(pd_map_number(&map, "none"), -1);
    assert_true(pd_map_add(&map, "zero"));
    assert_int_equal(map.n, 2);
    assert_true(pd_map_has(&map, "zero"));
    assert_false(pd_map_has(&map, "none"));
    pd_map_free(&map);
}

static void vec_grows_inserts_and_removes(void **state)
{
    (void)state;
    PD_VEC(int) v = {0};
    for (int i = 0; i < 100; i++)
        assert_true(pd_vec_push(&v, i));
    assert_true(pd_vec_insert(&v, 50, -1));
    pd_vec_remove(&v, 0);
    assert_int_equal(v.n, 100);
    assert_int_equal(v.at[49], -1);
    assert_int_equal(v.at[99], 99);
    pd_vec_free(&v);
}

static void a_failed_buffer_stays_failed(void **state)
{
    (void)state;
    struct pd_buf buf = {0};
    pd_buf_printf(&buf, "%s-%d", "a", 7);
    assert_string_equal(buf.at, "a-7");
    pd_alloc_fail_at(1);
    char big[4096];
    memset(big, 'x', sizeof big);
    pd_buf_add(&buf, big, sizeof big);
    pd_alloc_fail_at(0);
    assert_true(buf.failed);
    pd_buf_text(&buf, "more");
    assert_string_equal(buf.at, "a-7");
    pd_buf_free(&buf);
}

/* Known answers of Philox 4x32-10 for counter and key of all zeros and all ones. */
static void philox_gives_the_known_answer(void **state)
{
    (void)state;
    uint32_t out[4];
    struct pd_rng rng = pd_rng_make(0, 0);
    pd_rng_block(&rng, 0, out);
    assert_int_equal(out[0], 0x6627e8d5);
    assert_int_equal(out[1], 0xe169c58d);
    assert_int_equal(out[2], 0xbc57ac4c);
    assert_int_equal(out[3], 0x9b00dbd8);
    rng = pd_rng_make(UINT64_MAX, UINT64_MAX);
    pd_rng_block(&rng, UINT64_MAX, out);
    assert_int_equal(out[0], 0x408f276d);
    assert_int_equal(out[1], 0x41c83b0e);
    assert_int_equal(out[2], 0xa20bc7c6);
    assert_int_equal(out[3], 0x6d5451fd);
}

static void random_numbers_have_their_moments(void **state)
{
    (void)state;
    struct pd_rng rng = pd_rng_make(42, 7);
    double mean = 0, square = 0, uniform = 0;
    enum { N = 200000 };
    for (int i = 0; i < N; i++) {
        double z = pd_rng_normal(&rng, (uint64_t)i);
        mean += z / N;
        square += z * z / N;
        double u = pd_rng_uniform(&rng, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        uniform += u / N;
    }
    assert_true(fabs(mean) < 0.01 && fabs(square - 1) < 0.02 && fabs(uniform - 0.5) < 0.005);
    assert_true(pd_rng_uniform(&rng, 5) == pd_rng_uniform(&rng, 5));
}

/* The C++ standard names the 10000th number of each generator. */
static void generators_of_upstream_have_known_answers(void **state)
{
    (void)state;
    uint32_t minstd = pd_minstd_start(1);
    struct pd_mt32 mt32;
    struct pd_mt64 mt64;
    pd_mt32_start(&mt32, 5489);
    pd_mt64_start(&mt64, 5489);
    for (int i = 1; i < 10000; i++) {
        pd_minstd_next(&minstd);
        pd_mt32_next(&mt32);
        pd_mt64_next(&mt64);
    }
    assert_int_equal(pd_minstd_next(&minstd), 399268537);
    assert_int_equal(pd_mt32_next(&mt32), 4123659995u);
    assert_true(pd_mt64_next(&mt64) == 9981545732273789042ull);
    assert_int_equal(pd_minstd_start(0), 1);
    assert_int_equal(pd_minstd_start(2147483647), 1);
}

static void minstd_skips(void **state)
{
    (void)state;
    enum { N = 1000 };
    static uint32_t all[N], part[N];
    struct pd_minstd m = pd_minstd_make();
    uint32_t start = pd_minstd_start(77), at = start;
    for (int i = 0; i < N; i++)
        all[i] = pd_minstd_next(&at);
    assert_int_equal(pd_minstd_words(&m, start, N, part), at);
    assert_memory_equal(part, all, sizeof all);
    for (int from = 0; from < N; from += 97)
        for (int n = 0; from + n <= N; n += 61) {
            uint32_t state_there = pd_minstd_skip(start, (uint64_t)from);
            assert_int_equal(pd_minstd_words(&m, state_there, n, part), n ? all[from + n - 1] : state_there);
            assert_memory_equal(part, all + from, (size_t)n * sizeof *part);
        }
    /* The period is 2^31 - 2. */
    assert_int_equal(pd_minstd_skip(start, 2147483646), start);
    assert_int_equal(pd_minstd_skip(start, 5ull * 2147483646 + 10), all[9]);
}

static void add_range(void *arg, int64_t begin, int64_t end)
{
    int *at = arg;
    for (int64_t i = begin; i < end; i++)
        at[i]++;
}

static void parallel_covers_each_item_once(void **state)
{
    (void)state;
    static int at[10007];
    for (int grain = 1; grain < 20000; grain *= 7) {
        memset(at, 0, sizeof at);
        pd_parallel(10007, grain, add_range, at);
        for (int i = 0; i < 10007; i++)
            assert_int_equal(at[i], 1);
    }
}

static void flags_check_names_and_values(void **state)
{
    (void)state;
    const char *value;
    assert_int_equal(pd_flag_assign("FLAGS_check_nan_inf", "true"), PD_OK);
    assert_int_equal(pd_flag_int(PD_FLAG_check_nan_inf), 1);
    assert_int_equal(pd_flag_assign("check_nan_inf", "2"), PD_INVALID);
    assert_int_equal(pd_flag_assign("check_nan_inf", "0"), PD_OK);
    assert_int_equal(pd_flag_read("chek_nan", &value), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "chek_nan"));
    assert_int_equal(pd_flag_assign("FLAGS_chek_nan_inf", "1"), PD_NOT_FOUND);
    assert_non_null(strstr(pd_error(), "is 'check_nan_inf' meant?"));
}

/* main puts one into the environment. */
static void a_value_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    const char *value;
    assert_int_equal(pd_flag_verify(), PD_INVALID);
    assert_string_equal(pd_error(),
                        "FLAGS_ps_keep cannot be '0': give a whole number from 1 to 2147483647 "
                        "(snapshots that a server keeps, beside the newest one that all servers have)");
    assert_int_equal(pd_flag_int(PD_FLAG_ps_keep), 2);
    assert_int_equal(pd_flag_assign("ps_keep", "4294967297"), PD_INVALID);
    assert_int_equal(pd_flag_verify(), PD_INVALID);
    assert_int_equal(pd_flag_assign("ps_keep", "0x7fffffff"), PD_OK);
    assert_int_equal(pd_flag_int(PD_FLAG_ps_keep), INT32_MAX);
    assert_int_equal(pd_flag_read("ps_keep", &value), PD_OK);
    assert_string_equal(value, "2147483647");
    assert_int_equal(pd_flag_verify(), PD_OK);
}

static void misspelt_flags_find_the_nearest(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"rpc_deadlin", "rpc_deadline"},                       /* a letter left out */
        {"rpc_deadlines", "rpc_deadline"},                     /* added */
        {"rpc_daedline", "rpc_deadline"},                      /* two swapped */
        {"ps_reconect_", "ps_reconnect"},                      /* two slips in a longer name */
        {"cudnn_exhaustive_serch", "cudnn_exhaustive_search"}, /* without effect here */
        {"rpc_deadline", "rpc_deadline"},
        {"ps_jib", "ps_job"},
        {"my_own_flag", NULL},
        {"use_gpu", NULL}, /* too short for the three slips to use_amx */
        {"a", NULL},
        {"", NULL},
        {"a_name_that_is_far_longer_than_any_flag_ever_was_and_will_be_in_years", NULL},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const char *found = pd_flag_nearest(pairs[i][0], (int)strlen(pairs[i][0]));
        if (!pairs[i][1]) {
            assert_null(found);
            continue;
        }
        assert_non_null(found);
        assert_string_equal(found, pairs[i][1]);
    }
}

static void a_message_may_quote_the_last_one(void **state)
{
    (void)state;
    pd_fail(PD_INVALID, "inner");
    assert_int_equal(pd_fail(PD_IO, "outer: %s", pd_error()), PD_IO);
    assert_string_equal(pd_error(), "outer: inner");
    assert_string_equal(pd_status_name(PD_IO), "PD_IO");
}

/* ---- messages ---- */

struct heard {
    int n;
    enum pd_log_level level[40];
    char text[40][4096];
};

static void hear(void *arg, enum pd_log_level level, const char *text)
{
    struct heard *h = arg;
    h->level[h->n % 40] = level;
    snprintf(h->text[h->n++ % 40], sizeof h->text[0], "%s", text);
    pd_log(PD_LOG_ERROR, "said by the sink itself");
}

static int calls;

static int counted(void)
{
    return ++calls;
}

/* main puts a misspelt flag into the environment; whatever read the flags first, its message waits for a
 * sink. */
static void messages_wait_for_a_sink(void **state)
{
    (void)state;
    struct heard *h = calloc(1, sizeof *h);
    assert_int_equal(pd_flag_int(PD_FLAG_rpc_deadline), 180000);
    pd_log_set(hear, h);
    assert_int_equal(h->n, 1);
    assert_int_equal(h->level[0], PD_LOG_WARNING);
    assert_non_null(strstr(h->text[0], "FLAGS_rpc_deadlin is not a flag"));
    pd_log_set(NULL, NULL);
    for (int i = 0; i < 35; i++)
        pd_log(PD_LOG_INFO, "number %d", i);
    assert_int_equal(h->n, 1);
    pd_log_set(hear, h);
    assert_int_equal(h->n, 1 + 32 + 1);
    assert_string_equal(h->text[1], "number 0");
    assert_string_equal(h->text[32], "number 31");
    assert_non_null(strstr(h->text[33], "3 more messages"));
    pd_log_set(NULL, NULL);
    free(h);
}

static void levels_are_a_flag(void **state)
{
    (void)state;
    struct heard *h = calloc(1, sizeof *h);
    pd_log_set(hear, h);
    calls = 0;
    pd_log(PD_LOG_DEBUG, "%d", counted());
    assert_int_equal(calls, 0);
    assert_int_equal(pd_flag_assign("log_level", "debug"), PD_OK);
    pd_log(PD_LOG_DEBUG, "%d", counted());
    assert_int_equal(calls, 1);
    assert_int_equal(pd_flag_assign("log_level", "error"), PD_OK);
    pd_log(PD_LOG_WARNING, "too light");
    pd_log(PD_LOG_ERROR, "heavy");
    assert_int_equal(pd_flag_assign("log_level", "loud"), PD_INVALID);
    assert_non_null(strstr(pd_error(), "warning"));
    assert_int_equal(pd_flag_assign("log_level", "info"), PD_OK);
    char big[9000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    pd_log(PD_LOG_INFO, "%s", big);
    assert_int_equal(h->n, 3);
    assert_string_equal(h->text[0], "1");
    assert_string_equal(h->text[1], "heavy");
    size_t length = strlen(h->text[2]);
    assert_true(length > 3000 && length < 4000);
    assert_string_equal(h->text[2] + length - 4, "x...");
    pd_log_set(NULL, NULL);
    free(h);
}

static void count_message(void *arg, enum pd_log_level level, const char *text)
{
    (void)level;
    (void)text;
    ++*(long *)arg; /* not atomic: one call at a time */
}

static void *talk(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        pd_log(PD_LOG_INFO, "number %d", i);
    return NULL;
}

static void threads_talk_one_at_a_time(void **state)
{
    (void)state;
    long said = 0;
    pthread_t threads[4];
    pd_log_set(count_message, &said);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, talk, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    pd_log_set(NULL, NULL);
    assert_int_equal(said, 4000);
}

/* A process that is forked while threads talk can talk too. */
static void a_child_process_may_talk(void **state)
{
    (void)state;
    long said = 0;
    pthread_t thread;
    pd_log_set(count_message, &said);
    assert_int_equal(pthread_create(&thread, NULL, talk, NULL), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(20);
            long before = said;
            pd_log(PD_LOG_INFO, "from the child");
            if (said == before + 1) raise(SIGKILL); /* no check of a sanitizer at its end: threads are gone */
            _exit(1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    pthread_join(thread, NULL);
    pd_log_set(NULL, NULL);
    assert_int_equal(said, 1000);
}

static void stderr_gets_whole_lines(void **state)
{
    (void)state;
    int ends[2], kept = dup(STDERR_FILENO);
    char line[5000];
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    pd_log_set(pd_log_to_stderr, NULL);
    pd_log(PD_LOG_WARNING, "the %s is full", "disk");
    pd_log_set(NULL, NULL);
    dup2(kept, STDERR_FILENO);
    ssize_t n = read(ends[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = 0;
    int hour, minute, second, at = 0;
    assert_int_equal(sscanf(line, "%2d:%2d:%2d %n", &hour, &minute, &second, &at), 3);
    assert_string_equal(line + at, "paddle: warning: the disk is full\n");
    close(ends[0]), close(ends[1]), close(kept);
}

static void a_line_keeps_what_has_room(void **state)
{
    (void)state;
    char at[12];
    memset(at, 'x', sizeof at);
    struct pd_line line = pd_line_in(at, 11);
    assert_string_equal(at, "");
    for (int i = 1; i <= 5; i++) {
        pd_line_printf(&line, "%s%d", line.n ? ", " : "", i);
        assert_int_equal(line.n, strlen(at));
    }
    assert_string_equal(at, "1, 2, 3, 4");
    pd_line_printf(&line, "more");
    assert_int_equal(line.n, 10);
    assert_int_equal(at[11], 'x');
}

static void sentences_end_once(void **state)
{
    (void)state;
    assert_string_equal(pd_full_stop("it is so"), ".");
    assert_string_equal(pd_full_stop("is it so?"), "");
    assert_string_equal(pd_full_stop("so it is."), "");
    assert_string_equal(pd_full_stop(""), ".");
}

int main(void)
{
    setenv("FLAGS_rpc_deadlin", "5000", 1);
    setenv("FLAGS_ps_keep", "0", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_keeps_what_it_is_given),
        cmocka_unit_test(map_has_numbers_and_bare_keys),
        cmocka_unit_test(vec_grows_inserts_and_removes),
        cmocka_unit_test(a_failed_buffer_stays_failed),
        cmocka_unit_test(philox_gives_the_known_answer),
        cmocka_unit_test(random_numbers_have_their_moments),
        cmocka_unit_test(generators_of_upstream_have_known_answers),
        cmocka_unit_test(minstd_skips),
        cmocka_unit_test(parallel_covers_each_item_once),
        cmocka_unit_test(flags_check_names_and_values),
        cmocka_unit_test(sentences_end_once),
        cmocka_unit_test(a_value_that_does_not_fit_is_refused),
        cmocka_unit_test(misspelt_flags_find_the_nearest),
        cmocka_unit_test(a_message_may_quote_the_last_one),
        cmocka_unit_test(messages_wait_for_a_sink),
        cmocka_unit_test(levels_are_a_flag),
        cmocka_unit_test(threads_talk_one_at_a_time),
        cmocka_unit_test(a_child_process_may_talk),
        cmocka_unit_test(stderr_gets_whole_lines),
        cmocka_unit_test(a_line_keeps_what_has_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
