/* Tensor files: what is written is read back, and no damaged bytes do harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tensor/file.h"
#include "tensor/half.h"

static struct pd_value *make(enum pd_kind kind)
{
    struct pd_value *v = NULL;
    assert_int_equal(pd_value_new(kind, &v), PD_OK);
    return v;
}

static struct pd_value *make_tensor(enum pd_dtype dtype, int rank, const int64_t *dim)
{
    struct pd_value *v = make(PD_KIND_TENSOR);
    assert_int_equal(pd_tensor_resize(&v->tensor, dtype, rank, dim), PD_OK);
    for (size_t i = 0; i < pd_tensor_bytes(&v->tensor); i++)
        ((uint8_t *)v->tensor.data)[i] = (uint8_t)(i * 7 + 3);
    return v;
}

static struct pd_value *make_sequences(void)
{
    struct pd_value *v = make_tensor(PD_DTYPE_FP32, 2, (int64_t[]){6, 2});
    struct pd_lod_level level[] = {{3, (int64_t[]){0, 1, 3}}, {4, (int64_t[]){0, 2, 2, 6}}};
    struct pd_lod *lod;
    assert_int_equal(pd_lod_new(2, level, &lod), PD_OK);
    pd_meta_take_lod(&v->tensor.meta, lod);
    return v;
}

static struct pd_value *make_rows(void)
{
    struct pd_value *v = make(PD_KIND_SELECTED_ROWS);
    assert_int_equal(pd_rows_resize(v, 3, 9, PD_DTYPE_FP64, 2, (int64_t[]){3, 2}), PD_OK);
    for (int i = 0; i < 3; i++)
        v->rows.at[i] = 8 - 3 * i;
    for (int i = 0; i < 6; i++)
        ((double *)v->tensor.data)[i] = i / 3.0;
    return v;
}

static void assert_same(const struct pd_value *a, const struct pd_value *b)
{
    assert_int_equal(a->tensor.meta.kind, b->tensor.meta.kind);
    assert_int_equal(a->tensor.meta.dtype, b->tensor.meta.dtype);
    assert_true(pd_meta_same_dims(&a->tensor.meta, &b->tensor.meta));
    assert_true(pd_lod_equal(a->tensor.meta.lod, b->tensor.meta.lod));
    assert_int_equal(a->rows.n, b->rows.n);
    assert_int_equal(a->height, b->height);
    if (a->rows.n) assert_memory_equal(a->rows.at, b->rows.at, (size_t)a->rows.n * sizeof(int64_t));
    size_t bytes = pd_tensor_bytes(&a->tensor);
    if (bytes) assert_memory_equal(a->tensor.data, b->tensor.data, bytes);
}

/* All values that the other tests work on; the last is NULL. */
static struct pd_value *example(int i)
{
    static const struct {
        enum pd_dtype dtype;
        int rank;
        int64_t dim[4];
    } tensors[] = {
        {PD_DTYPE_FP32, 2, {3, 2}}, {PD_DTYPE_FP64, 1, {5}},           {PD_DTYPE_INT64, 3, {2, 1, 4}},
        {PD_DTYPE_INT32, 0, {0}},   {PD_DTYPE_FP16, 2, {2, 2}},        {PD_DTYPE_UINT8, 1, {7}},
        {PD_DTYPE_INT8, 1, {1}},    {PD_DTYPE_INT16, 1, {2}},          {PD_DTYPE_BOOL, 1, {3}},
        {PD_DTYPE_FP32, 2, {0, 4}}, {PD_DTYPE_FP32, 4, {1, 200, 3, 2}}};
    int n = sizeof tensors / sizeof *tensors;
    if (i < n) return make_tensor(tensors[i].dtype, tensors[i].rank, tensors[i].dim);
    return i == n ? make_sequences() : i == n + 1 ? make_rows() : NULL;
}

static void written(const struct pd_value *v, struct pd_buf *buf)
{
    *buf = (struct pd_buf){0};
    assert_int_equal(pd_value_write(v, buf), PD_OK);
}

/* ---- round trips ---- */

static void test_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        struct pd_buf buf;
        written(v, &buf);
        size_t size = buf.n, used = 0;
        pd_buf_text(&buf, "what follows");
        struct pd_value *back = make(v->tensor.meta.kind);
        assert_int_equal(pd_value_read(back, buf.at, buf.n, &used), PD_OK);
        assert_int_equal(used, size);
        assert_same(v, back);
        pd_value_unref(v);
        pd_value_unref(back);
        pd_buf_free(&buf);
    }
}

static void test_layout(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {0, 0, 0, 0,    0, 0,  0, 0,    0, 0, 0, 0,    0,    0, 0, 0,   6,
                                     0, 0, 0, 8,    5, 16, 3, 16,   2, 0, 0, 0,    0x3f, 0, 0, 0,   0x3f,
                                     0, 0, 0, 0x3f, 0, 0,  0, 0x3f, 0, 0, 0, 0x3f, 0,    0, 0, 0x3f};
    struct pd_value *v = make_tensor(PD_DTYPE_FP32, 2, (int64_t[]){3, 2});
    for (int i = 0; i < 6; i++)
        ((float *)v->tensor.data)[i] = 0.5f;
    struct pd_buf buf;
    written(v, &buf);
    assert_int_equal(buf.n, sizeof wanted);
    assert_memory_equal(buf.at, wanted, sizeof wanted);
    pd_buf_free(&buf);
    pd_value_unref(v);
}

/* The order that the first Fluid wrote: description, data, LoD. */
static void test_first_layout(void **state)
{
    (void)state;
    struct pd_value *v = make_sequences(), *back = make(PD_KIND_TENSOR);
    struct pd_buf now, old = {0};
    written(v, &now);
    size_t lod = 8 + 2 * 8 + (3 + 4) * 8, desc = 4 + 6; /* after the version */
    pd_buf_add(&old, now.at, 4);
    pd_buf_add(&old, now.at + 4 + lod + 4, desc + 48);
    pd_buf_add(&old, now.at + 4, lod);
    size_t used = 0;
    assert_int_equal(pd_value_read(back, old.at, old.n, &used), PD_OK);
    assert_int_equal(used, old.n);
    assert_same(v, back);
    for (size_t n = 0; n < old.n; n++)
        assert_int_not_equal(pd_value_read(back, old.at, n, &used), PD_OK);
    pd_buf_free(&now);
    pd_buf_free(&old);
    pd_value_unref(v);
    pd_value_unref(back);
}

static void test_stream(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        assert_int_equal(pd_value_write_file(v, file), PD_OK);
        pd_value_unref(v);
    }
    rewind(file);
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        struct pd_value *back = make(v->tensor.meta.kind);
        assert_int_equal(pd_value_read_file(back, file), PD_OK);
        assert_same(v, back);
        pd_value_unref(v);
        pd_value_unref(back);
    }
    struct pd_value *none = make(PD_KIND_TENSOR);
    assert_int_equal(pd_value_read_file(none, file), PD_FORMAT);
    pd_value_unref(none);
    fclose(file);
}

static void test_nothing_to_write(void **state)
{
    (void)state;
    struct pd_buf buf = {0};
    struct pd_value *empty = make(PD_KIND_TENSOR), *array = make(PD_KIND_TENSOR_ARRAY);
    assert_int_equal(pd_value_write(empty, &buf), PD_NOT_FOUND);
    assert_int_equal(pd_value_write(array, &buf), PD_UNSUPPORTED);
    assert_int_equal(buf.n, 0);
    size_t used = 0;
    assert_int_equal(pd_value_read(array, "", 0, &used), PD_UNSUPPORTED);
    pd_value_unref(empty);
    pd_value_unref(array);
    pd_buf_free(&buf);
}

/* ---- damage ---- */

static void test_cut_short(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        struct pd_buf buf;
        written(v, &buf);
        struct pd_value *held = example(i);
        for (size_t n = 0; n < buf.n; n++) {
            size_t used = 99;
            assert_int_equal(pd_value_read(held, buf.at, n, &used), PD_FORMAT);
            assert_int_equal(used, 99);
        }
        assert_same(v, held);
        pd_buf_free(&buf);
        pd_value_unref(v);
        pd_value_unref(held);
    }
}

static void test_every_byte_changed(void **state)
{
    (void)state;
    static const uint8_t change[] = {0x01, 0x7f, 0x80, 0xff};
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        struct pd_buf buf;
        written(v, &buf);
        size_t most = buf.n < 200 ? buf.n : 200;
        for (size_t at = 0; at < most; at++)
            for (size_t c = 0; c < sizeof change; c++) {
                struct pd_value *back = make(v->tensor.meta.kind);
                size_t used = 0;
                buf.at[at] = (char)((uint8_t)buf.at[at] ^ change[c]);
                pd_status status = pd_value_read(back, buf.at, buf.n, &used);
                if (status == PD_OK)
                    assert_true(used <= buf.n);
                else
                    assert_int_equal(back->tensor.meta.dtype, PD_DTYPE_NONE);
                buf.at[at] = (char)((uint8_t)buf.at[at] ^ change[c]);
                pd_value_unref(back);
            }
        pd_buf_free(&buf);
        pd_value_unref(v);
    }
}

static void refused(const uint8_t *bytes, size_t n, enum pd_kind kind, const char *text)
{
    struct pd_value *v = make(kind);
    size_t used = 0;
    assert_int_equal(pd_value_read(v, bytes, n, &used), PD_FORMAT);
    assert_non_null(strstr(pd_error(), text));
    pd_value_unref(v);
}

static void test_messages(void **state)
{
    (void)state;
    uint8_t bytes[80] = {0};
    bytes[0] = 7;
    refused(bytes, sizeof bytes, PD_KIND_TENSOR, "version 7");
    bytes[0] = 0;
    bytes[4] = 200;
    refused(bytes, sizeof bytes, PD_KIND_TENSOR, "200 LoD levels");
    bytes[4] = 1;
    memset(bytes + 12, 0xf8, 8);
    refused(bytes, sizeof bytes, PD_KIND_TENSOR, "cut short");
    /* A shape whose product overflows. */
    static const uint8_t huge[] = {0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                                   0,    0,    0,    0,    0,    22,   0,    0,    0,    8,    5,
                                   16,   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 16,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    refused(huge, sizeof huge, PD_KIND_TENSOR, "does not fit");
    memset(bytes, 0xff, sizeof bytes);
    memset(bytes, 0, 4);
    refused(bytes, sizeof bytes, PD_KIND_SELECTED_ROWS, "row numbers");
}

static void test_memory_runs_out(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct pd_value *v = example(i);
        if (!v) break;
        struct pd_buf buf;
        written(v, &buf);
        for (uint64_t n = 1;; n++) {
            struct pd_value *back = make(v->tensor.meta.kind);
            size_t used = 0;
            pd_alloc_fail_at(n);
            pd_status status = pd_value_read(back, buf.at, buf.n, &used);
            pd_alloc_fail_at(0);
            pd_value_unref(back);
            if (status == PD_OK) break;
            assert_int_equal(status, PD_NO_MEMORY);
        }
        pd_buf_free(&buf);
        pd_value_unref(v);
    }
}

static void test_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7c00) == 0x7c00 && (h & 0x3ff)) continue; /* not a number */
        assert_int_equal(pd_half_from_float(pd_half_to_float((uint16_t)h)), h);
    }
    assert_int_equal(pd_half_from_float(1.0f), 0x3c00);
    assert_int_equal(pd_half_from_float(1.0f + 0x1p-11f), 0x3c00);     /* a tie goes to even */
    assert_int_equal(pd_half_from_float(1.0f + 3 * 0x1p-11f), 0x3c02); /* up as well */
    assert_int_equal(pd_half_from_float(65519.0f), 0x7bff);
    assert_int_equal(pd_half_from_float(65520.0f), 0x7c00);
    assert_int_equal(pd_half_from_float(0x1p-25f), 0);
    assert_int_equal(pd_half_from_float(0x1.1p-25f), 1);
}

/* ---- rows in pieces ---- */

enum { MANY = 70000, WIDE = 3 }; /* more than one piece of each */

struct counted {
    int64_t number, value;
};

static void numbers(void *arg, int m, int64_t *out)
{
    struct counted *c = arg;
    for (int i = 0; i < m; i++)
        out[i] = 7 * c->number++;
}

static void values(void *arg, int m, float *out)
{
    struct counted *c = arg;
    for (int i = 0; i < m * WIDE; i++)
        out[i] = (float)c->value++;
}

static FILE *write_pieces(int64_t n)
{
    struct counted c = {0};
    FILE *file = tmpfile();
    assert_non_null(file);
    struct pd_rows_given given = {n, 7 * MANY, WIDE, numbers, values, &c};
    assert_int_equal(pd_rows_write_file(&given, file), PD_OK);
    rewind(file);
    return file;
}

/* They are what the whole value's reader takes, and lie where the map says. */
static void test_rows_in_pieces(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= MANY; n += MANY) {
        FILE *file = write_pieces(n);
        struct pd_rows_map map;
        assert_int_equal(pd_rows_map_file(file, &map), PD_OK);
        assert_true(map.n == n && map.height == 7 * MANY && map.meta.dtype == PD_DTYPE_FP32);
        assert_true(map.meta.rank == 2 && map.meta.dim[0] == n && map.meta.dim[1] == WIDE);
        rewind(file);
        struct pd_value *v = make(PD_KIND_SELECTED_ROWS);
        assert_int_equal(pd_value_read_file(v, file), PD_OK);
        assert_int_equal(v->rows.n, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(v->rows.at[i] == 7 * i && ((float *)v->tensor.data)[i * WIDE] == (float)(i * WIDE));
        if (n) {
            int64_t id;
            float x;
            fseek(file, (long)map.numbers_at + 8 * (MANY - 1), SEEK_SET);
            assert_int_equal(fread(&id, sizeof id, 1, file), 1);
            fseek(file, (long)map.values_at + 4 * (MANY * WIDE - 1), SEEK_SET);
            assert_int_equal(fread(&x, sizeof x, 1, file), 1);
            assert_true(id == 7 * (MANY - 1) && x == (float)(MANY * WIDE - 1));
        }
        pd_value_unref(v);
        fclose(file);
    }
}

/* Wherever such a file ends too soon the map says so. */
static void test_map_of_a_file_cut_short(void **state)
{
    (void)state;
    char bytes[512];
    FILE *file = write_pieces(5);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t end = 0; end < n; end++) {
        struct pd_rows_map map;
        FILE *cut = tmpfile();
        assert_non_null(cut);
        assert_int_equal(fwrite(bytes, 1, end, cut), end);
        rewind(cut);
        assert_int_equal(pd_rows_map_file(cut, &map), PD_FORMAT);
        fclose(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_in_pieces),
        cmocka_unit_test(test_map_of_a_file_cut_short),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_first_layout),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_nothing_to_write),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_every_byte_changed),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_memory_runs_out),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
