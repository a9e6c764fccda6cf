/* Rows by 64-bit id, against a plain list of what should be there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kernels/row_store.h"

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((seed >> 33) % below);
}

static void ok(pd_status status)
{
    if (status != PD_OK) fail_msg("%s", pd_error());
}

/* ---- what should be there ---- */

enum { IDS = 20000, BATCH = 300, WIDTH = 3 };

static int64_t ids[IDS];
static struct pd_row *rows[IDS]; /* NULL: none */
static int n_there;

/* Ids as they come: small ones, such that differ in few bits, and the ends of the range. */
static void choose_ids(void)
{
    static const int64_t ends[] = {0,         1,  INT64_MAX,  INT64_MAX - 1,
                                   INT64_MIN, -1, UINT32_MAX, (int64_t)1 << 32};
    int64_t n_ends = sizeof ends / sizeof *ends;
    for (int64_t i = 0; i < IDS; i++) {
        ids[i] = i < n_ends   ? ends[i]
                 : i % 4 == 0 ? i
                 : i % 4 == 1 ? i << 40
                 : i % 4 == 2 ? -i
                              : i * 1000000007;
        rows[i] = NULL;
    }
    n_there = 0;
}

static void check_row(int i)
{
    assert_non_null(rows[i]);
    assert_true(pd_row_id(rows[i]) == ids[i]);
    for (int k = 0; k < WIDTH; k++)
        assert_true(rows[i]->x[k] == (float)(i + k));
}

static void check_all(const struct pd_row_store *store)
{
    struct pd_row **found = malloc(IDS * sizeof *found);
    int64_t seen = 0, of_chunks = 0;
    pd_row_store_find(store, IDS, ids, found);
    for (int i = 0; i < IDS; i++) {
        assert_ptr_equal(found[i], rows[i]);
        if (rows[i]) check_row(i);
    }
    assert_int_equal(pd_row_store_rows(store), n_there);
    for (int64_t k = 0; k < pd_row_store_numbers(store); k++)
        seen += pd_row_store_at(store, k) != NULL;
    for (int c = 0; c < pd_row_store_chunks(store); c++) {
        int64_t n;
        const char *at = pd_row_store_chunk(store, c, &n);
        for (int64_t k = 0; k < n; k++)
            of_chunks +=
                ((const struct pd_row *)(const void *)(at + (size_t)k * pd_row_store_stride(store)))->count !=
                PD_ROW_FREE;
    }
    assert_int_equal(seen, n_there);
    assert_int_equal(of_chunks, n_there);
    free(found);
}

/* Some of the list, often more than once. */
static int pick(int picked[BATCH], int64_t asked[BATCH])
{
    int n = 1 + (int)draw(BATCH), among = draw(2) ? IDS : 50;
    for (int i = 0; i < n; i++) {
        picked[i] = (int)draw((uint32_t)among);
        asked[i] = ids[picked[i]];
    }
    return n;
}

static void note_made(const int *picked, int n, struct pd_row **out)
{
    for (int i = 0; i < n; i++) {
        int at = picked[i];
        if (rows[at]) {
            assert_ptr_equal(out[i], rows[at]);
            continue;
        }
        assert_int_equal(out[i]->count, 0);
        rows[at] = out[i];
        out[i]->count = 1;
        for (int k = 0; k < WIDTH; k++)
            out[i]->x[k] = (float)(at + k);
        n_there++;
    }
}

static void remove_some(struct pd_row_store *store, const int *picked, int n)
{
    for (int i = 0; i < n; i++) {
        int at = picked[i];
        assert_int_equal(pd_row_store_remove(store, ids[at]), rows[at] != NULL);
        n_there -= rows[at] != NULL;
        rows[at] = NULL;
    }
}

static void test_random_calls(void **state)
{
    (void)state;
    struct pd_row_store *store;
    choose_ids();
    ok(pd_row_store_new(WIDTH, &store));
    for (int turn = 0; turn < 3000; turn++) {
        int picked[BATCH], n;
        int64_t asked[BATCH];
        struct pd_row *out[BATCH];
        n = pick(picked, asked);
        /* It grows, shrinks, and grows again. */
        int removes = draw(10) < (turn / 500 % 2 ? 8u : 2u);
        if (removes) {
            remove_some(store, picked, n);
        } else {
            ok(pd_row_store_make(store, n, asked, out));
            note_made(picked, n, out);
        }
        if (turn % 250 == 0) check_all(store);
    }
    check_all(store);
    for (int i = 0; i < IDS; i++)
        if (rows[i]) remove_some(store, &i, 1);
    check_all(store);
    pd_row_store_free(store);
}

/* Each request for memory fails once: what was there stays, and the same call works then. */
static void test_memory_is_short(void **state)
{
    (void)state;
    struct pd_row_store *store;
    for (int at = 1; at < 5; at++) {
        pd_alloc_fail_at((uint64_t)at);
        pd_status status = pd_row_store_new(WIDTH, &store);
        pd_alloc_fail_at(0);
        assert_int_equal(status, PD_NO_MEMORY);
    }
    choose_ids();
    ok(pd_row_store_new(WIDTH, &store));
    int failures = 0;
    for (int turn = 0; turn < 400; turn++) {
        int picked[BATCH], n;
        int64_t asked[BATCH];
        struct pd_row *out[BATCH];
        n = pick(picked, asked);
        if (turn % 7 == 6) {
            pd_alloc_fail_once(1);
            remove_some(store, picked, n);
            pd_alloc_fail_once(0);
            continue;
        }
        for (int again = 0; again < 40; again++) {
            memset(out, 0, sizeof out);
            pd_alloc_fail_once(again < 39 ? 1 + draw(3) : 0);
            pd_status status = pd_row_store_make(store, n, asked, out);
            pd_alloc_fail_once(0);
            int made = 0;
            while (made < n && out[made])
                made++;
            if (status != PD_OK && made) made--; /* that one may be of before */
            if (status == PD_OK) assert_int_equal(made, n);
            for (int i = 0; i < made; i++)
                assert_true(pd_row_id(out[i]) == asked[i]);
            note_made(picked, made, out);
            if (status == PD_OK) break;
            assert_int_equal(status, PD_NO_MEMORY);
            failures++;
        }
        if (turn % 100 == 0) check_all(store);
    }
    assert_true(failures > 50);
    check_all(store);
    pd_row_store_free(store);
}

/* Within 15% of the floats and 24 bytes a row, at every fill, but for what an empty store has. */
static void test_bytes(void **state)
{
    (void)state;
    static const int widths[] = {0, 1, 10, 64};
    for (int w = 0; w < 4; w++) {
        struct pd_row_store *store;
        double worst = 0;
        ok(pd_row_store_new(widths[w], &store));
        uint64_t empty = pd_row_store_bytes(store);
        assert_true(empty < 8192);
        for (int64_t n = 0; n < 400000; n++) {
            struct pd_row *row;
            int64_t id = n * 7919;
            ok(pd_row_store_make(store, 1, &id, &row));
            double bytes = (double)(pd_row_store_bytes(store) - empty), each = 4.0 * widths[w] * 1.15 + 24;
            if (n >= 1000 && bytes / ((double)(n + 1) * each) > worst)
                worst = bytes / ((double)(n + 1) * each);
        }
        if (worst > 1) fail_msg("%d floats: %.3f of the bytes that are promised", widths[w], worst);
        assert_true(worst > 0.5);
        pd_row_store_free(store);
    }
}

/* Rows that come and go do not make it grow, nor lookups slow. */
/* As fast as it was made ready for, and then further: all are found, in the bytes that are promised. */
static void test_made_ready(void **state)
{
    (void)state;
    for (int64_t n = 1000; n <= 64000; n *= 4) {
        struct pd_row_store *store;
        struct pd_row *row;
        ok(pd_row_store_new(10, &store));
        uint64_t empty = pd_row_store_bytes(store);
        ok(pd_row_store_reserve(store, n));
        for (int64_t id = 0; id < 3 * n; id++) {
            ok(pd_row_store_make(store, 1, &(int64_t){id * 7919}, &row));
            row->count = 1;
            double each = 4.0 * 10 * 1.15 + 24;
            if (id + 1 >= n)
                assert_true((double)(pd_row_store_bytes(store) - empty) < (double)(id + 1) * each);
        }
        ok(pd_row_store_reserve(store, 100 * n)); /* it has rows: nothing is done */
        for (int64_t id = 0; id < 3 * n; id++) {
            pd_row_store_find(store, 1, &(int64_t){id * 7919}, &row);
            assert_true(row && pd_row_id(row) == id * 7919);
        }
        assert_int_equal(pd_row_store_rows(store), 3 * n);
        pd_row_store_free(store);
    }
    /* Memory that ends in the middle leaves it as it was. */
    for (uint64_t at = 1; at < 40; at++) {
        struct pd_row_store *store;
        struct pd_row *row;
        ok(pd_row_store_new(10, &store));
        uint64_t empty = pd_row_store_bytes(store);
        pd_alloc_fail_at(at);
        pd_status status = pd_row_store_reserve(store, 40000);
        pd_alloc_fail_at(0);
        assert_true(status == PD_OK || pd_row_store_bytes(store) == empty);
        ok(pd_row_store_make(store, 1, &(int64_t){5}, &row));
        pd_row_store_free(store);
    }
}

static void test_room_is_used_again(void **state)
{
    (void)state;
    struct pd_row_store *store;
    struct pd_row *row;
    ok(pd_row_store_new(8, &store));
    for (int64_t id = 0; id < 50000; id++)
        ok(pd_row_store_make(store, 1, &id, &row));
    uint64_t bytes = pd_row_store_bytes(store);
    int64_t numbers = pd_row_store_numbers(store);
    for (int64_t id = 50000; id < 1000000; id++) {
        assert_int_equal(pd_row_store_remove(store, id - 50000), 1);
        ok(pd_row_store_make(store, 1, &id, &row));
    }
    assert_int_equal(pd_row_store_rows(store), 50000);
    assert_int_equal(pd_row_store_numbers(store), numbers);
    assert_true((double)pd_row_store_bytes(store) < 1.1 * (double)bytes);
    pd_row_store_free(store);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    struct pd_row_store *store;
    assert_int_equal(pd_row_store_new(-1, &store), PD_RANGE);
    assert_int_equal(pd_row_store_new(PD_ROW_FLOATS_MOST + 1, &store), PD_RANGE);
    assert_non_null(strstr(pd_error(), "1048577"));
    ok(pd_row_store_new(0, &store));
    struct pd_row *row = (void *)store;
    pd_row_store_find(store, 1, (int64_t[]){0}, &row);
    assert_null(row);
    assert_int_equal(pd_row_store_remove(store, 0), 0);
    pd_row_store_free(store);
    pd_row_store_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_calls),
        cmocka_unit_test(test_memory_is_short),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_made_ready),
        cmocka_unit_test(test_room_is_used_again),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
