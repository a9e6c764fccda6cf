/* Samples that several workers deal out among each other, and batches that are read ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "data/ahead.h"
#include "data/deal.h"
#include "data/pass.h"
#include "data/record.h"

/* ---- places ---- */

static void test_places_are_a_permutation(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 16, 17, 1000, 65536, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            char *seen = pd_calloc((size_t)sizes[i], 1);
            for (int64_t k = 0; k < sizes[i]; k++) {
                int64_t place = pd_deal_place(seed, sizes[i], k);
                assert_in_range(place, 0, sizes[i] - 1);
                assert_int_equal(seen[place]++, 0);
            }
            pd_free(seen);
        }
    /* Past 32 bits too. */
    assert_in_range(pd_deal_place(1, INT64_C(1) << 40, 5), 0, (INT64_C(1) << 40) - 1);
    int same = 0;
    for (int64_t k = 0; k < 1000; k++)
        same += pd_deal_place(1, 1000, k) == pd_deal_place(2, 1000, k);
    assert_in_range(same, 0, 20);
}

/* Neighbours go to any part: in a thousand deals of two of them each pair of quarters is about as common. */
static void test_places_are_fair(void **state)
{
    (void)state;
    int pairs[16] = {0};
    for (uint64_t seed = 0; seed < 16000; seed++)
        pairs[4 * (pd_deal_place(seed, 400, 0) / 100) + pd_deal_place(seed, 400, 1) / 100]++;
    for (int i = 0; i < 16; i++)
        assert_in_range(pairs[i], 850, 1150);
}

/* ---- workers in one process: what one gives lies in a list until the other takes it ---- */

enum { WORKERS = 3 };

struct mail {
    int from, to;
    struct pd_buf piece;
};

static struct mail mail[4096];
static int n_mail;

struct way {
    int self;
};

static pd_status give(void *arg, int to, struct pd_buf *piece)
{
    const struct way *way = arg;
    assert_in_range(n_mail, 0, 4095);
    mail[n_mail++] = (struct mail){way->self, to, *piece};
    *piece = (struct pd_buf){0};
    return PD_OK;
}

static pd_status over(void *arg)
{
    (void)arg;
    return PD_FORMAT; /* the first round only collects the mail */
}

static const char *file_of(const char *name, const char *text)
{
    static char path[200];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/pd-deal-%d-%s", folder ? folder : P_tmpdir, getpid(), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

/* Samples `first` ... `end` - 1, each with its number as the only id, and a line id of two samples each. */
static struct pd_dataset *dataset_of(int in_memory, int first, int end)
{
    struct pd_dataset *d;
    struct pd_buf text = {0};
    const char *path;
    assert_int_equal(pd_dataset_new(in_memory, &d), PD_OK);
    d->schema.has_id = 1;
    assert_int_equal(pd_schema_add(&d->schema, "ids", 0, 1, NULL), PD_OK);
    for (int i = first; i < end; i++)
        pd_buf_printf(&text, "1 line-%d 1 %d\n", i / 2, i + 1);
    path = file_of("x", end > first ? text.at : "");
    pd_buf_free(&text);
    assert_int_equal(pd_dataset_set_files(d, 1, &path), PD_OK);
    if (in_memory && end > first) assert_int_equal(pd_dataset_read(d, NULL, NULL), PD_OK);
    return d;
}

static uint64_t number_of(const char *record)
{
    uint64_t number;
    memcpy(&number, record + 4, 8);
    return number;
}

static pd_status take_mail(void *arg)
{
    struct pd_deal *deal = ((void **)arg)[0];
    int self = *(int *)((void **)arg)[1];
    for (int i = 0; i < n_mail; i++)
        if (mail[i].to == self) PD_TRY(pd_deal_take(deal, mail[i].from, &mail[i].piece));
    return PD_OK;
}

static pd_status throw_away(void *arg, int to, struct pd_buf *piece)
{
    (void)arg, (void)to;
    pd_buf_free(piece);
    return PD_OK;
}

/* Deals out; `found` has then who got which sample, and in which place. */
static void deal(const int64_t *counts, uint64_t seed, int by_id, int found[][2])
{
    int first = 0;
    for (int round = 0; round < 2; round++) {
        first = 0;
        for (int w = 0; w < WORKERS; w++) {
            struct pd_dataset *d = dataset_of(1, first, first + (int)counts[w]);
            struct pd_deal_spec spec = {w, WORKERS, counts, seed, by_id};
            struct pd_deal *one;
            struct way way = {w};
            assert_int_equal(pd_deal_begin(d, &spec, &one), PD_OK);
            if (round == 0) {
                assert_int_equal(pd_deal_run(one, &(struct pd_deal_way){give, over, &way}), PD_FORMAT);
                assert_int_equal(d->store.n, 0);
            } else {
                void *mine[2] = {one, &w};
                assert_int_equal(pd_deal_run(one, &(struct pd_deal_way){throw_away, take_mail, mine}), PD_OK);
                for (int64_t i = 0; i < d->store.n; i++) {
                    uint64_t number = number_of(d->store.record[i]) - 1;
                    assert_int_equal(found[number][0], -1);
                    found[number][0] = w;
                    found[number][1] = (int)i;
                }
            }
            pd_deal_free(one);
            pd_dataset_free(d);
            first += (int)counts[w];
        }
    }
    for (int i = 0; i < n_mail; i++)
        pd_buf_free(&mail[i].piece);
    n_mail = 0;
}

static void test_every_sample_is_dealt_out_once(void **state)
{
    (void)state;
    static const int64_t cases[][WORKERS] = {{200, 100, 50}, {0, 0, 7}, {1, 1, 1}, {400, 0, 1}};
    static int found[2][500][2];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t all = cases[i][0] + cases[i][1] + cases[i][2];
        int got[WORKERS] = {0};
        for (int again = 0; again < 2; again++) {
            memset(found[again], -1, sizeof found[again]);
            deal(cases[i], 7, 0, found[again]);
        }
        for (int64_t k = 0; k < all; k++) {
            assert_in_range(found[0][k][0], 0, WORKERS - 1);
            assert_int_equal(found[0][k][0], found[1][k][0]);
            assert_int_equal(found[0][k][1], found[1][k][1]);
            got[found[0][k][0]]++;
        }
        for (int w = 0; w < WORKERS; w++)
            assert_in_range(got[w], all / WORKERS, (all + WORKERS - 1) / WORKERS);
    }
}

static void test_samples_of_one_id_stay_together(void **state)
{
    (void)state;
    static int found[500][2];
    memset(found, -1, sizeof found);
    deal((int64_t[]){101, 99, 100}, 3, 1, found);
    int got[WORKERS] = {0};
    for (int k = 0; k < 300; k += 2) {
        assert_int_equal(found[k][0], found[k + 1][0]);
        got[found[k][0]]++;
    }
    for (int w = 0; w < WORKERS; w++)
        assert_in_range(got[w], 20, 90);
}

static void test_bytes_that_are_no_samples(void **state)
{
    (void)state;
    int64_t counts[WORKERS] = {10, 0, 0};
    struct pd_dataset *d = dataset_of(1, 0, 10);
    struct pd_deal_spec spec = {0, WORKERS, counts, 1, 0};
    struct pd_deal *one;
    assert_int_equal(pd_deal_begin(d, &spec, &one), PD_OK);
    struct pd_buf good = {0};
    pd_buf_add(&good, d->store.record[0], pd_record_bytes(&d->schema, d->store.record[0]));
    for (size_t n = 1; n <= good.n; n++) {
        struct pd_buf part = {0};
        pd_buf_add(&part, good.at, n);
        assert_int_equal(pd_deal_take(one, 1, &part), n == good.n ? PD_OK : PD_FORMAT);
        pd_buf_free(&part);
    }
    for (size_t i = 0; i < 4; i++) { /* a count that is much too large, and none */
        struct pd_buf bad = {0};
        pd_buf_add(&bad, good.at, good.n);
        memset(bad.at, i % 2 ? 0 : 255, i < 2 ? 4 : 3);
        assert_int_equal(pd_deal_take(one, 1, &bad), PD_FORMAT);
        pd_buf_free(&bad);
    }
    assert_non_null(strstr(pd_error(), "worker 1 sends bytes that are no samples"));
    pd_buf_free(&good);
    pd_deal_free(one);
    counts[0] = INT64_MAX;
    assert_int_equal(pd_deal_begin(d, &spec, &one), PD_RANGE);
    counts[0] = 11;
    assert_int_equal(pd_deal_begin(d, &spec, &one), PD_INVALID);
    pd_dataset_free(d);
}

/* ---- ahead ---- */

/* The numbers of a pass, in their order; how it ended. */
static pd_status numbers_of(struct pd_dataset *d, int ahead, int64_t limit, uint64_t *to, int64_t *n)
{
    struct pd_pass *p;
    const struct pd_batch *batch;
    *n = 0;
    PD_TRY(pd_pass_begin(d, &(struct pd_pass_options){.workers = 1, .ahead = ahead}, &p));
    pd_status status;
    while (*n < limit && (status = pd_pass_next(p, 0, &batch)) == PD_OK && batch) {
        memcpy(to + *n, batch->value[0]->tensor.data, (size_t)batch->samples * 8);
        *n += batch->samples;
    }
    pd_pass_free(p);
    return *n < limit ? status : PD_OK;
}

static void test_what_is_read_ahead_is_the_same(void **state)
{
    (void)state;
    static uint64_t plain[2000], ahead[2000];
    int64_t n, m;
    struct pd_dataset *d = dataset_of(0, 0, 1000);
    d->batch_size = 7;
    assert_int_equal(numbers_of(d, 0, INT64_MAX, plain, &n), PD_OK);
    assert_int_equal(n, 1000);
    for (int slots = 1; slots < 6; slots += 2)
        for (int64_t limit = 0; limit < 1200; limit += 50) { /* also given up in the middle */
            assert_int_equal(numbers_of(d, slots, limit ? limit : INT64_MAX, ahead, &m), PD_OK);
            assert_memory_equal(plain, ahead, (size_t)m * 8);
            if (!limit) assert_int_equal(m, n);
        }
    pd_dataset_free(d);
}

/* An error comes behind what was read before it. */
static void test_errors_come_in_their_place(void **state)
{
    (void)state;
    static uint64_t numbers[2000];
    int64_t n;
    for (int slots = 0; slots < 4; slots++) {
        struct pd_dataset *d = dataset_of(0, 0, 100);
        d->batch_size = 10;
        assert_int_equal(pd_dataset_set_command(d, "head -n 25; exit 4"), PD_OK);
        assert_int_equal(numbers_of(d, slots, INT64_MAX, numbers, &n), PD_IO);
        assert_non_null(strstr(pd_error(), "ended with status 4"));
        assert_int_equal(n, 20);
        pd_dataset_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_a_permutation),
        cmocka_unit_test(test_places_are_fair),
        cmocka_unit_test(test_every_sample_is_dealt_out_once),
        cmocka_unit_test(test_samples_of_one_id_stay_together),
        cmocka_unit_test(test_bytes_that_are_no_samples),
        cmocka_unit_test(test_what_is_read_ahead_is_the_same),
        cmocka_unit_test(test_errors_come_in_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
