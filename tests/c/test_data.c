/* Samples from text: numbers, lines, readers, what is in memory, and batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/deal.h"
#include "data/multislot.h"
#include "data/numbers.h"
#include "data/pass.h"
#include "data/record.h"

/* ---- numbers ---- */

static const char *padded(const char *text)
{
    static char memory[512];
    memset(memory, 0, sizeof memory);
    snprintf(memory, sizeof memory - PD_NUMBERS_PAST, "%s", text);
    return memory;
}

static void test_whole_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t number;
        int length; /* 0: none */
    } cases[] = {{"0 ", 0, 1},
                 {"7", 7, 1},
                 {"12345678", 12345678, 8},
                 {"123456789 ", 123456789, 9},
                 {"00000000000000000000001 ", 1, 23},
                 {"18446744073709551615\n", UINT64_MAX, 20},
                 {"18446744073709551616 ", 0, 0},
                 {"99999999999999999999999 ", 0, 0},
                 {"-1 ", UINT64_MAX, 2},
                 {"9223372036854775808 ", (uint64_t)1 << 63, 19},
                 {"-9223372036854775808 ", (uint64_t)1 << 63, 20},
                 {"-9223372036854775809 ", 0, 0},
                 {"-18446744073709551615 ", 0, 0},
                 {"-18446744073709551616 ", 0, 0},
                 {"-0 ", 0, 2},
                 {"+5 ", 5, 2},
                 {"- 1", 0, 0},
                 {"", 0, 0},
                 {"x1", 0, 0},
                 {" 1", 0, 0},
                 {"1x", 1, 1},
                 {"1234567a", 1234567, 7},
                 {"12\xb0\xb9 ", 12, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t number = 0;
        const char *text = padded(cases[i].text), *next = pd_number_u64(text, &number);
        assert_int_equal(next ? next - text : 0, cases[i].length);
        if (next) assert_true(number == cases[i].number);
    }
    uint32_t count;
    assert_non_null(pd_number_count(padded("2147483647 "), &count));
    assert_null(pd_number_count(padded("2147483648 "), &count));
    assert_null(pd_number_count(padded("-1 "), &count));
}

static void check_float(const char *words)
{
    float got = 0, want;
    char *end;
    const char *text = padded(words), *next = pd_number_float(text, &got);
    want = strtof(text, &end);
    if (end == text) {
        if (next) fail_msg("'%s' is no number", words);
        return;
    }
    if (!next || next - text != end - text || (memcmp(&got, &want, 4) != 0 && !(isnan(got) && isnan(want))))
        fail_msg("'%s' was read as %.9g, %d bytes; it is %.9g, %d bytes", words, (double)got,
                 next ? (int)(next - text) : -1, (double)want, (int)(end - text));
}

static void test_floats_are_those_of_the_c_library(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.0",
                                        "1.",
                                        ".5",
                                        "-.5",
                                        ".",
                                        "-",
                                        "1e",
                                        "1e5",
                                        "1e+5",
                                        "1E-5",
                                        "1e-45",
                                        "1.4e-45",
                                        "1e-46",
                                        "3.4028235e38",
                                        "3.5e38",
                                        "1e39",
                                        "-1e39",
                                        "inf",
                                        "-inf",
                                        "nan",
                                        "infinity",
                                        "0x1p3",
                                        "0x",
                                        "1e400",
                                        "1e-400",
                                        "16777216",
                                        "16777217",
                                        "16777219",
                                        "33554435",
                                        "1.17549435e-38",
                                        "1.1e-38",
                                        "0.1",
                                        "0.2",
                                        "0.3",
                                        "123456.789",
                                        "9007199254740993",
                                        "12345678901234567890",
                                        "1234567890.1234567890",
                                        "0.00000000000000000000000000001",
                                        "1e-22",
                                        "1e22",
                                        "1e23",
                                        "8388608.5",
                                        "8388609.5",
                                        "16777216.99999999999",
                                        "1.00000005960464477539",
                                        "1.0000000596046448",
                                        "7.038531e-26",
                                        "0.000061035156",
                                        "4.5e",
                                        "4.5e+",
                                        "4.5ex",
                                        "5 6",
                                        "5\t",
                                        "1_0",
                                        "--1",
                                        "+-1",
                                        "+1.5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_float(texts[i]);
    struct pd_rng rng = pd_rng_make(5, 1);
    for (uint64_t i = 0; i < 200000; i++) {
        uint32_t word[4];
        char text[80];
        float f;
        pd_rng_block(&rng, i, word);
        memcpy(&f, &word[0], 4); /* any float at all */
        snprintf(text, sizeof text, "%.*g", (int)(1 + word[1] % 12), (double)f);
        check_float(text);
        snprintf(text, sizeof text, "%.*f", (int)(word[2] % 12),
                 (double)(int32_t)word[3] / (double)(1u << word[1] % 31));
        check_float(text);
    }
}

/* ---- lines ---- */

struct sample {
    struct pd_schema schema;
    struct pd_buf out;
};

static void set_up(struct sample *s)
{
    struct pd_meta shape = {0};
    *s = (struct sample){0};
    assert_int_equal(pd_meta_set_dims(&shape, 2, (int64_t[]){-1, 2}), PD_OK);
    assert_int_equal(pd_schema_add(&s->schema, "ids", 0, 1, NULL), PD_OK);
    assert_int_equal(pd_schema_add(&s->schema, "unused", 0, 0, NULL), PD_OK);
    assert_int_equal(pd_schema_add(&s->schema, "dense", 1, 1, &shape), PD_OK);
}

static void tear_down(struct sample *s)
{
    pd_buf_free(&s->out);
    pd_schema_clear(&s->schema);
}

/* Reads a line; returns what is wrong with it. */
static const char *read_line(struct sample *s, const char *line)
{
    const char *text = padded(line), *next = NULL, *why = NULL;
    assert_int_equal(pd_multislot_read(&s->schema, text, text + strlen(text), &s->out, &next, &why), PD_OK);
    assert_ptr_equal(next, strchr(text, '\n') + 1);
    return why;
}

static void test_lines(void **state)
{
    (void)state;
    struct sample s;
    set_up(&s);
    assert_null(read_line(&s, "2 5 18446744073709551615 1 9 2 0.5 -1e3\n"));
    assert_int_equal(pd_record_count(s.out.at, 0), 2);
    assert_int_equal(pd_record_count(s.out.at, 1), 2);
    uint64_t ids[2];
    float numbers[2];
    memcpy(ids, s.out.at + 8, 16);
    memcpy(numbers, s.out.at + 24, 8);
    assert_true(ids[0] == 5 && ids[1] == UINT64_MAX && numbers[0] == 0.5f && numbers[1] == -1000);
    assert_int_equal(s.out.n, pd_record_bytes(&s.schema, s.out.at));
    /* Spaces, tabs, the end of a Windows line, what is behind the last slot, and no sample at all. */
    size_t n = s.out.n;
    assert_null(read_line(&s, " \t1  5 1 7\t2 1 2 \r\n"));
    assert_null(read_line(&s, "1 5 1 7 4 1 2 3 4 1 8 9\n"));
    assert_int_equal(s.out.n, n + (8 + 8 + 8) + (8 + 8 + 16));
    n = s.out.n;
    assert_null(read_line(&s, "  \t\r\n"));
    assert_int_equal(s.out.n, n);
    static const struct {
        const char *line, *why;
    } bad[] = {
        {"x\n", "found 'x' where the count of slot 'ids' should stand"},
        {"1\n", "more than the line can hold"},
        {"2 5\n", "more than the line can hold"},
        {"1 5\n", "it ends where the count of slot 'unused' should stand"},
        {"0 1 7 2 1 2\n", "slot 'ids' has a count of 0"},
        {"1 5.5 1 7 2 1 2\n", "found '5.5' where a whole number of slot 'ids' should stand"},
        {"1 18446744073709551616 1 7 2 1 2\n",
         "found '18446744073709551616' where a whole number of at most 64 bits of slot 'ids' should stand"},
        {"1 -9223372036854775809 1 7 2 1 2\n",
         "found '-9223372036854775809' where a whole number of at most 64 bits of"},
        {"1 5 1 7 2 1 x\n", "found 'x' where a number of slot 'dense' should stand"},
        {"1 5 1 7 3 1 2 3\n", "slot 'dense' has 3 numbers; its shape [-1, 2] needs a multiple of 2"},
        {"1 5 2 7\n", "more than the line can hold"},
        {"999999999 5\n", "slot 'ids' is said to have 999999999 numbers"},
        {"99999999999 5\n", "where the count of slot 'ids'"},
        {"1 5 1 7 2 1\x01 2\n", "found '1?' where a number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *why = read_line(&s, bad[i].line);
        if (!why || !strstr(why, bad[i].why)) fail_msg("line %s: %s", bad[i].line, why ? why : "read");
        assert_int_equal(s.out.n, n);
    }
    tear_down(&s);
}

static void test_zeros_are_dropped_in_memory(void **state)
{
    (void)state;
    struct sample s;
    set_up(&s);
    s.schema.drops_zeros = 1;
    assert_null(read_line(&s, "3 0 5 0 1 0 2 0 0\n"));
    assert_int_equal(pd_record_count(s.out.at, 0), 1);
    assert_int_equal(pd_record_count(s.out.at, 1), 2);
    s.out.n = 0;
    assert_null(read_line(&s, "2 0 0 1 0 2 0 0\n"));
    assert_int_equal(pd_record_count(s.out.at, 0), 1);
    tear_down(&s);
}

static void test_ids(void **state)
{
    (void)state;
    struct sample s;
    uint32_t length;
    set_up(&s);
    s.schema.has_id = s.schema.has_text = 1;
    assert_null(read_line(&s, "1 abc 1 some,text 1 5 1 7 2 1 2\n"));
    const char *id = pd_record_id(&s.schema, s.out.at, &length);
    assert_int_equal(length, 3);
    assert_memory_equal(id, "abc", 3);
    assert_int_equal(s.out.n, pd_record_bytes(&s.schema, s.out.at));
    assert_non_null(strstr(read_line(&s, "2 5 1 7 2 1 2\n"), "parse_ins_id"));
    tear_down(&s);
}

/* ---- data sets ---- */

static char folder[] = P_tmpdir "/paddle-data-XXXXXX";

static const char *file_of(const char *name, const char *text)
{
    static char path[3][200];
    static int turn;
    turn = (turn + 1) % 3;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    FILE *file = fopen(path[turn], "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path[turn];
}

static struct pd_dataset *dataset_of(int in_memory, int n, const char *const *paths)
{
    struct pd_dataset *d;
    struct pd_meta shape = {0};
    assert_int_equal(pd_dataset_new(in_memory, &d), PD_OK);
    assert_int_equal(pd_schema_add(&d->schema, "ids", 0, 1, NULL), PD_OK);
    assert_int_equal(pd_meta_set_dims(&shape, 2, (int64_t[]){-1, 1}), PD_OK);
    assert_int_equal(pd_schema_add(&d->schema, "label", 1, 1, &shape), PD_OK);
    assert_int_equal(pd_dataset_set_files(d, n, paths), PD_OK);
    d->batch_size = 3;
    return d;
}

static const struct pd_pass_options one_worker = {.workers = 1}, two_workers = {.workers = 2};

/* Goes through a pass with one worker; the sum of all ids. */
static pd_status pass(struct pd_dataset *d, int64_t *samples, uint64_t *ids)
{
    struct pd_pass *p;
    const struct pd_batch *batch;
    *samples = 0;
    *ids = 0;
    PD_TRY(pd_pass_begin(d, &one_worker, &p));
    pd_status status;
    while ((status = pd_pass_next(p, 0, &batch)) == PD_OK && batch) {
        const struct pd_tensor *t = &batch->value[0]->tensor;
        *samples += batch->samples;
        for (int64_t i = 0; i < pd_tensor_numel(t); i++)
            *ids += ((const uint64_t *)t->data)[i];
        assert_int_equal(pd_lod_sequences(t->meta.lod), batch->samples);
        assert_int_equal(batch->value[1]->tensor.meta.dim[0], batch->samples);
    }
    if (status == PD_OK) status = pd_pass_check(p);
    pd_pass_free(p);
    return status;
}

static void test_a_pass(void **state)
{
    (void)state;
    const char *paths[2] = {file_of("a", "2 1 2 1 0.5\n1 3 1 1\n\n1 4 1 0\n1 5 1 0"),
                            file_of("b", "1 6 1 2\n")};
    int64_t samples;
    uint64_t ids;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct pd_dataset *d = dataset_of(in_memory, 2, paths);
        if (in_memory) assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(pass(d, &samples, &ids), PD_OK);
            assert_int_equal(samples, 5);
            assert_int_equal(ids, 21);
        }
        pd_dataset_free(d);
    }
}

/* The ids of a worker's batches one behind the other. */
static void ids_of(struct pd_pass *p, int worker, char out[64])
{
    const struct pd_batch *batch;
    for (size_t n = 0; pd_pass_next(p, worker, &batch) == PD_OK && batch;) {
        const struct pd_tensor *t = &batch->value[0]->tensor;
        for (int64_t i = 0; i < pd_tensor_numel(t); i++)
            out[n++] = (char)('0' + ((const uint64_t *)t->data)[i]);
        out[n++] = ' ';
        out[n] = 0;
    }
}

/* Which batches a worker gets does not hang on how fast others are, and those that are skipped are its own.
 */
static void test_batches_of_ones_own(void **state)
{
    (void)state;
    const char *paths[3] = {file_of("c", "1 1 1 0\n1 2 1 0\n1 3 1 0\n1 4 1 0\n"), file_of("d", "1 5 1 0\n"),
                            file_of("e", "1 6 1 0\n1 7 1 0\n")};
    static const char *const wanted[2][3][2] = {{{"12 34 67 ", "5 "}, {"34 67 ", ""}, {"", ""}},
                                                {{"12 56 ", "34 7 "}, {"56 ", "7 "}, {"", ""}}};
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct pd_dataset *d = dataset_of(in_memory, 3, paths);
        d->batch_size = 2;
        if (in_memory) assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
        for (int ahead = 0; ahead < 3; ahead++)
            for (int k = 0; k < 3; k++) {
                struct pd_pass_options options = {
                    .workers = 2, .ahead = ahead, .is_fixed = 1, .skip = (int64_t)k * k};
                struct pd_pass *p;
                char ids[2][64] = {"", ""};
                assert_int_equal(pd_pass_begin(d, &options, &p), PD_OK);
                for (int w = 1; w >= 0; w--)
                    ids_of(p, w, ids[w]);
                assert_string_equal(ids[0], wanted[in_memory][k][0]);
                assert_string_equal(ids[1], wanted[in_memory][k][1]);
                assert_int_equal(pd_pass_check(p), PD_OK);
                pd_pass_free(p);
            }
        pd_dataset_free(d);
    }
}

/* What a change, a load or a pass needs stays until its end. */
static void test_one_thing_at_a_time(void **state)
{
    (void)state;
    const char *path = file_of("one", "1 1 1 0.5\n1 2 1 1\n");
    struct pd_pass *p, *second;
    const struct pd_batch *batch;
    struct pd_dataset *d = dataset_of(0, 1, &path);
    assert_int_equal(pd_pass_begin(d, &one_worker, &p), PD_OK);
    assert_int_equal(pd_pass_begin(d, &one_worker, &second), PD_INVALID);
    assert_non_null(strstr(pd_error(), "is being trained on; train before or after"));
    assert_int_equal(pd_dataset_set_command(d, "false"), PD_INVALID);
    assert_int_equal(pd_dataset_set_files(d, 0, NULL), PD_INVALID);
    assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_INVALID);
    assert_non_null(strstr(pd_error(), "is being trained on; load it before or after"));
    assert_int_equal(pd_pass_next(p, 0, &batch), PD_OK);
    assert_int_equal(batch->samples, 2);
    pd_pass_free(p);
    assert_int_equal(pd_dataset_change(d, "being loaded", "load it"), PD_OK);
    assert_int_equal(pd_dataset_change(d, "being shuffled", "shuffle it"), PD_INVALID);
    assert_non_null(strstr(pd_error(), "is being loaded by another thread; wait for its end"));
    assert_int_equal(pd_pass_begin(d, &one_worker, &p), PD_INVALID);
    pd_dataset_changed(d);
    assert_int_equal(pd_dataset_set_command(d, "cat | cat"), PD_OK);
    pd_dataset_free(d);
}

/* As large as may be: all samples are in the first, and nothing overflows behind it. */
static void test_a_large_batch(void **state)
{
    (void)state;
    const char *path = file_of("large", "1 1 1 0.5\n1 2 1 1\n");
    struct pd_pass *p;
    const struct pd_batch *batch;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        struct pd_dataset *d = dataset_of(in_memory, 1, &path);
        d->batch_size = INT64_MAX;
        if (in_memory) assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
        assert_int_equal(pd_pass_begin(d, &two_workers, &p), PD_OK);
        assert_int_equal(pd_pass_next(p, 0, &batch), PD_OK);
        assert_int_equal(batch->samples, 2);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(pd_pass_next(p, i % 2, &batch), PD_OK);
            assert_null(batch);
        }
        pd_pass_free(p);
        pd_dataset_free(d);
    }
}

static void test_bad_lines_are_left_out(void **state)
{
    (void)state;
    const char *path = file_of("bad", "1 1 1 0.5\nnonsense\n1 3 1 1\n");
    int64_t samples;
    uint64_t ids;
    struct pd_dataset *d = dataset_of(0, 1, &path);
    assert_int_equal(pass(d, &samples, &ids), PD_OK);
    assert_int_equal(samples, 2);
    pd_dataset_free(d);
    path = file_of("worse", "nonsense\nmore\n");
    d = dataset_of(0, 1, &path);
    assert_int_equal(pass(d, &samples, &ids), PD_FORMAT);
    assert_non_null(strstr(pd_error(), "2 of 2 lines cannot be read"));
    assert_non_null(strstr(pd_error(), "worse:1: found 'nonsense'"));
    pd_dataset_free(d);
    path = file_of("none", "\n \n");
    d = dataset_of(1, 1, &path);
    assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_INVALID);
    assert_non_null(strstr(pd_error(), "has no sample"));
    pd_dataset_free(d);
    path = "/nowhere/at/all";
    d = dataset_of(0, 1, &path);
    assert_int_equal(pass(d, &samples, &ids), PD_NOT_FOUND);
    pd_dataset_free(d);
}

static void test_commands(void **state)
{
    (void)state;
    const char *path = file_of("plain", "3 1\n4 0\n");
    int64_t samples;
    uint64_t ids;
    struct pd_dataset *d = dataset_of(0, 1, &path);
    assert_int_equal(pd_dataset_set_command(d, "awk '{print 1, $1, 1, $2}'"), PD_OK);
    assert_int_equal(pass(d, &samples, &ids), PD_OK);
    assert_int_equal(ids, 7);
    assert_int_equal(pd_dataset_set_command(d, "head -c 3; echo a bad day >&2; exit 3"), PD_OK);
    assert_int_equal(pass(d, &samples, &ids), PD_IO);
    assert_non_null(strstr(pd_error(), "ended with status 3"));
    assert_non_null(strstr(pd_error(), "it said: a bad day"));
    assert_int_equal(pd_dataset_set_command(d, "kill -9 $$"), PD_OK);
    assert_int_equal(pass(d, &samples, &ids), PD_IO);
    assert_non_null(strstr(pd_error(), "was ended by signal 9"));
    assert_int_equal(pd_dataset_set_command(d, "kill -9 0"), PD_OK); /* with the shell that waits for it */
    assert_int_equal(pass(d, &samples, &ids), PD_IO);
    assert_non_null(strstr(pd_error(), "nobody can tell whether it failed"));
    pd_dataset_free(d);
}

static int says_stop(void *arg)
{
    return ++*(int *)arg > 2;
}

/* How a command ended does not come through waitpid, which knows nothing of it here. */
static void test_commands_without_sigchld(void **state)
{
    (void)state;
    const char *path = file_of("plain", "1 1 1 0\n");
    int64_t samples;
    uint64_t ids;
    struct pd_dataset *d = dataset_of(0, 1, &path);
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    assert_int_equal(pd_dataset_set_command(d, "cat; exit 3"), PD_OK);
    assert_int_equal(pass(d, &samples, &ids), PD_IO);
    assert_non_null(strstr(pd_error(), "ended with status 3"));
    assert_int_equal(pd_dataset_set_command(d, "cat | cat"), PD_OK);
    assert_int_equal(pass(d, &samples, &ids), PD_OK);
    signal(SIGCHLD, before);
    pd_dataset_free(d);
}

/* A command that never ends is ended, with what it has started. */
static void test_a_silent_command_can_be_stopped(void **state)
{
    (void)state;
    const char *path = file_of("plain", "1\n");
    int asked = 0;
    struct pd_dataset *d = dataset_of(1, 1, &path);
    assert_int_equal(pd_dataset_set_command(d, "sleep 1000 | cat"), PD_OK);
    assert_int_equal(pd_dataset_read(d, says_stop, &asked), PD_INTERRUPTED);
    pd_dataset_free(d);
}

/* The order depends on the seed and the files, not on threads. */
static void test_order(void **state)
{
    (void)state;
    const char *paths[7];
    char path[7][200], text[6000];
    uint64_t first[7 * 300];
    for (int i = 0; i < 7; i++) {
        size_t n = 0;
        for (int k = 0; k < 300; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, "1 %d 1 0\n", 1 + 300 * i + k);
        snprintf(path[i], sizeof path[i], "%s", file_of((char[]){(char)('p' + i), 0}, text));
        paths[i] = path[i];
    }
    for (int threads = 1; threads < 5; threads++) {
        struct pd_dataset *d = dataset_of(1, 7, paths);
        d->threads = threads;
        assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
        assert_int_equal(d->store.n, 2100);
        for (int64_t i = 0; i < 2100; i++) {
            uint64_t id;
            memcpy(&id, d->store.record[i] + 8, 8);
            assert_int_equal(id, i + 1);
        }
        pd_store_shuffle(&d->store, 11);
        uint64_t sum = 0, moved = 0;
        for (int64_t i = 0; i < 2100; i++) {
            uint64_t id;
            memcpy(&id, d->store.record[i] + 8, 8);
            if (threads == 1) first[i] = id;
            assert_true(first[i] == id);
            sum += id;
            moved += id != (uint64_t)i + 1;
        }
        assert_int_equal(sum, 2100 * 2101 / 2);
        assert_true(moved > 2000);
        pd_dataset_free(d);
    }
}

static void test_samples_of_one_id(void **state)
{
    (void)state;
    const char *path =
        file_of("merge", "1 b 1 1 1 7\n1 a 1 2 1 8\n1 b 2 3 4 1 9\n1 c 1 5 1 1\n1 a 1 6 1 3\n");
    int64_t dropped;
    struct pd_dataset *d = dataset_of(1, 1, &path);
    d->schema.has_id = 1;
    assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
    assert_int_equal(pd_store_merge(&d->store, &d->schema, 2, &dropped), PD_OK);
    assert_int_equal(dropped, 1);
    assert_int_equal(d->store.n, 2);
    assert_int_equal(pd_record_count(d->store.record[0], 0), 2);
    assert_int_equal(pd_record_count(d->store.record[1], 0), 3);
    assert_int_equal(pd_record_count(d->store.record[1], 1), 1);
    /* Again, beside new samples of the same ids: what was merged is whole. */
    assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
    assert_int_equal(d->store.n, 7);
    for (int turn = 0; turn < 2; turn++) {
        uint32_t length;
        assert_int_equal(pd_store_merge(&d->store, &d->schema, 2, &dropped), PD_OK);
        assert_int_equal(dropped, turn ? 0 : 1);
        assert_int_equal(d->store.n, 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pd_record_count(d->store.record[i], 0), i < 2 ? 2 : 3);
            assert_memory_equal(pd_record_id(&d->schema, d->store.record[i], &length), i < 2 ? "a" : "b", 1);
            assert_int_equal(length, 1);
        }
    }
    assert_int_equal(pd_store_merge(&d->store, &d->schema, 0, &dropped), PD_OK);
    assert_int_equal(d->store.n, 2); /* any number: all of an id */
    pd_dataset_free(d);
}

static void test_slots_change_places(void **state)
{
    (void)state;
    char text[4000];
    size_t n = 0;
    for (int k = 1; k <= 100; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d 1 %d\n", k % 2 ? "1 " : "2 7 ", k, k);
    const char *path = file_of("exchange", text);
    struct pd_dataset *d = dataset_of(1, 1, &path);
    assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
    assert_int_equal(pd_store_exchange(&d->store, &d->schema, "\1\0", 3), PD_OK);
    int moved = 0, sum = 0;
    for (int i = 0; i < 100; i++) {
        const char *record = d->store.record[i];
        uint32_t count = pd_record_count(record, 0);
        uint64_t id;
        float label;
        memcpy(&id, record + 8 + 8 * (count - 1), 8);
        memcpy(&label, record + 8 + 8 * count, 4);
        assert_true(label == (float)(i + 1));
        assert_int_equal(count, id % 2 ? 1 : 2);
        moved += id != (uint64_t)i + 1;
        sum += (int)id;
    }
    assert_int_equal(sum, 5050);
    assert_true(moved > 80);
    pd_dataset_free(d);
}

/* Each request for memory fails once; nothing leaks or breaks. */
static void test_memory_is_short(void **state)
{
    (void)state;
    const char *path = file_of("memory", "1 x 1 1 1 7\n1 x 1 2 1 8\n");
    for (uint64_t k = 1;; k++) {
        struct pd_dataset *d = dataset_of(1, 1, &path);
        int64_t dropped, samples;
        uint64_t ids, before = pd_alloc_count();
        d->schema.has_id = 1;
        pd_alloc_fail_once(k);
        pd_status status = pd_dataset_read(d, NULL, NULL);
        if (status == PD_OK) status = pd_store_merge(&d->store, &d->schema, 0, &dropped);
        if (status == PD_OK) status = pass(d, &samples, &ids);
        pd_alloc_fail_at(0);
        pd_dataset_free(d);
        if (status == PD_OK && pd_alloc_count() - before < k) break;
        assert_true(status == PD_OK || status == PD_NO_MEMORY);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_floats_are_those_of_the_c_library),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_zeros_are_dropped_in_memory),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_a_pass),
        cmocka_unit_test(test_batches_of_ones_own),
        cmocka_unit_test(test_one_thing_at_a_time),
        cmocka_unit_test(test_a_large_batch),
        cmocka_unit_test(test_bad_lines_are_left_out),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_commands_without_sigchld),
        cmocka_unit_test(test_a_silent_command_can_be_stopped),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_samples_of_one_id),
        cmocka_unit_test(test_slots_change_places),
        cmocka_unit_test(test_memory_is_short),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
