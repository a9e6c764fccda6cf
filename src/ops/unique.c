/* unique and unique_with_counts: how large their results are depends on the data. */
#include <string.h>

#include "ops/scratch.h"

enum { X };
enum { OUT, INDEX, COUNT };
enum { DTYPE };

static const struct pd_attr_def attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_INT64), {0}};

static pd_status index_type(int dtype, enum pd_dtype *out)
{
    if (dtype != PD_DTYPE_INT32 && dtype != PD_DTYPE_INT64)
        return pd_fail(PD_TYPE, "dtype is %d; positions can be int32 (2) or int64 (3)", dtype);
    *out = (enum pd_dtype)dtype;
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT), *index = pd_infer_out(c, INDEX);
    struct pd_meta *count = c->op->outputs[COUNT].name ? pd_infer_out(c, COUNT) : NULL;
    enum pd_dtype dtype = PD_DTYPE_INT64;
    PD_TRY(index_type(c->attr[DTYPE].i, &dtype));
    if (x->rank != 1)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have one dimension", pd_meta_dims_text(x));
    if (out) {
        out->dtype = x->dtype;
        pd_meta_set_1d(out, -1);
    }
    if (index) {
        index->dtype = dtype;
        pd_meta_copy_dims(index, x);
    }
    if (count) {
        count->dtype = dtype;
        pd_meta_set_1d(count, -1);
    }
    return PD_OK;
}

/* A table with open addressing: cells hold the number of a different element + 1. */
struct table {
    int32_t *cell;
    uint64_t mask;
};

static uint64_t mix(uint64_t bits)
{
    bits *= 0x9E3779B97F4A7C15ull;
    return bits ^ bits >> 29;
}

/* Numbers the different elements in the order of their first appearance; first[k] is where element k was
 * first seen. */
#define NUMBER(name, T)                                                                                      \
    static int64_t name(const T *x, int64_t n, const struct table *t, int64_t *number, int64_t *first)       \
    {                                                                                                        \
        int64_t found = 0;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T v = x[i] == 0 ? 0 : x[i]; /* -0.0 is 0.0 */                                                    \
            uint64_t bits = 0, at;                                                                           \
            memcpy(&bits, &v, sizeof v);                                                                     \
            for (at = mix(bits) & t->mask; t->cell[at]; at = (at + 1) & t->mask)                             \
                if (x[first[t->cell[at] - 1]] == v) break;                                                   \
            if (!t->cell[at]) {                                                                              \
                first[found] = i;                                                                            \
                t->cell[at] = (int32_t)++found;                                                              \
            }                                                                                                \
            number[i] = t->cell[at] - 1;                                                                     \
        }                                                                                                    \
        return found;                                                                                        \
    }
NUMBER(number_f32, float)
NUMBER(number_f64, double)
NUMBER(number_i32, int32_t)
NUMBER(number_i64, int64_t)

static void put(struct pd_tensor *t, int64_t i, int64_t value)
{
    if (t->meta.dtype == PD_DTYPE_INT32)
        ((int32_t *)t->data)[i] = (int32_t)value;
    else
        ((int64_t *)t->data)[i] = value;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *index = pd_run_out(r, INDEX);
    struct pd_tensor *count = r->op->outputs[COUNT].name ? pd_run_out(r, COUNT) : NULL;
    int64_t n = pd_tensor_numel(x), found, item = (int64_t)pd_dtype_size(x->meta.dtype);
    enum pd_dtype dtype = PD_DTYPE_INT64;
    uint64_t cells = 16;
    int64_t *memory;
    PD_TRY(index_type(r->attr[DTYPE].i, &dtype));
    if (x->meta.rank != 1)
        return pd_fail(PD_SHAPE, "X has shape %s; it must have one dimension", pd_meta_dims_text(&x->meta));
    if (n >= INT32_MAX / 4)
        return pd_fail(PD_SHAPE, "X has %lld elements; at most %d can be told apart", (long long)n,
                       INT32_MAX / 4);
    while (cells < 2 * (uint64_t)n)
        cells *= 2;
    PD_TRY(
        pd_scratch(r, (size_t)(3 * n) * sizeof *memory + (size_t)cells * sizeof(int32_t), (void **)&memory));
    int64_t *number = memory, *first = memory + n, *counts = memory + 2 * n;
    struct table t = {(int32_t *)(memory + 3 * n), cells - 1};
    memset(t.cell, 0, (size_t)cells * sizeof *t.cell);
    switch ((int)x->meta.dtype) {
    case PD_DTYPE_FP32:
        found = number_f32(x->data, n, &t, number, first);
        break;
    case PD_DTYPE_FP64:
        found = number_f64(x->data, n, &t, number, first);
        break;
    case PD_DTYPE_INT32:
        found = number_i32(x->data, n, &t, number, first);
        break;
    case PD_DTYPE_INT64:
        found = number_i64(x->data, n, &t, number, first);
        break;
    default:
        return pd_fail(PD_TYPE, "X is %s; use float32, float64, int32 or int64",
                       pd_dtype_name(x->meta.dtype));
    }
    if (out) {
        PD_TRY(pd_tensor_resize(out, x->meta.dtype, 1, &found));
        for (int64_t k = 0; k < found; k++)
            memcpy((char *)out->data + k * item, (const char *)x->data + first[k] * item, (size_t)item);
    }
    if (index) {
        PD_TRY(pd_tensor_resize(index, dtype, 1, &n));
        for (int64_t i = 0; i < n; i++)
            put(index, i, number[i]);
    }
    if (count) {
        memset(counts, 0, (size_t)found * sizeof *counts);
        for (int64_t i = 0; i < n; i++)
            counts[number[i]]++;
        PD_TRY(pd_tensor_resize(count, dtype, 1, &found));
        for (int64_t k = 0; k < found; k++)
            put(count, k, counts[k]);
    }
    return PD_OK;
}

const struct pd_op pd_op_unique = {
    .type = "unique",
    .doc = "The different elements of X in the order they appear; Index tells which of them each element is.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Index", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};

const struct pd_op pd_op_unique_with_counts = {
    .type = "unique_with_counts",
    .doc = "As unique; Count tells how often each element is there.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Index", 0}, {"Count", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_DYNAMIC | PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
