/* sum: adds any number of tensors of one shape. Selected rows alone give selected rows, each row once, in
 * ascending order; beside tensors they are added into the tensor. Arrays are added item by item. Gradients
 * that no op wrote are passed over: Programs of upstream name them. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/clones.h"
#include "ops/elements.h"
#include "ops/grad_scale.h"
#include "ops/rows.h"
#include "ops/scratch.h"
#include "ops/sum.h"

#define GRAIN 16384
#define BLOCK 4096

enum { X };
enum { OUT };
enum { KEEP_REPEATED };

static const struct pd_slot_def inputs[] = {{"X", PD_SLOT_LIST | PD_SLOT_UNWRITTEN | PD_SLOT_OTHERS}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

static int is_empty(const struct pd_meta *m)
{
    return !m || m->dtype == PD_DTYPE_NONE || (m->rank == 1 && m->kind == PD_KIND_SELECTED_ROWS) ||
           pd_meta_numel(m) == 0;
}

/* The items may differ in size, and one array may have some that another has not. */
static pd_status infer_arrays(const struct pd_infer *c, struct pd_meta *out)
{
    for (int i = 0; i < c->in[X].n; i++)
        if (c->in[X].at[i] && c->in[X].at[i]->kind != PD_KIND_TENSOR_ARRAY)
            return pd_fail(PD_TYPE,
                           "input %d is a %s, another one is a tensor array; arrays are added to arrays only",
                           i, pd_kind_name(c->in[X].at[i]->kind));
    if (c->running) return PD_OK;
    out->kind = PD_KIND_TENSOR_ARRAY;
    pd_meta_like(out, c->in[X].at[0]);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    const struct pd_meta *first = NULL, *there = NULL;
    int dense = 0, arrays = 0;
    if (!out) return PD_OK;
    for (int i = 0; i < c->in[X].n; i++) {
        const struct pd_meta *x = c->in[X].at[i];
        if (!x) continue;
        if (!there) there = x;
        arrays += x->kind == PD_KIND_TENSOR_ARRAY;
        dense += x->kind == PD_KIND_TENSOR;
    }
    if (!there) return pd_fail(PD_NOT_FOUND, "no op writes any of the gradients that are added up here");
    if (arrays) return infer_arrays(c, out);
    out->kind = dense ? PD_KIND_TENSOR : PD_KIND_SELECTED_ROWS;
    for (int i = 0; i < c->in[X].n; i++) {
        const struct pd_meta *x = c->in[X].at[i];
        if (is_empty(x)) continue;
        /* The rows that a selection holds differ; what counts is the shape of the whole, known from a tensor.
         */
        if (dense && x->kind == PD_KIND_SELECTED_ROWS && c->running) continue;
        if (!first) {
            first = x;
            continue;
        }
        int skip = x->kind == PD_KIND_SELECTED_ROWS || first->kind == PD_KIND_SELECTED_ROWS;
        int same = x->rank == first->rank;
        for (int k = skip; same && k < x->rank; k++)
            same = x->dim[k] == first->dim[k] || x->dim[k] < 0 || first->dim[k] < 0;
        if (!same)
            return pd_fail(PD_SHAPE, "input %d has shape %s, an earlier one has %s; all must be equal", i,
                           pd_meta_dims_text(x), pd_meta_dims_text(first));
        if (x->dtype != first->dtype)
            return pd_fail(PD_TYPE, "input %d is %s, an earlier one is %s; cast one of them", i,
                           pd_dtype_name(x->dtype), pd_dtype_name(first->dtype));
    }
    if (!first) first = there;
    out->dtype = first->dtype;
    pd_meta_copy_dims(out, first);
    pd_meta_share_lod(out, there);
    return PD_OK;
}

/* ---- tensors ---- */

struct job {
    void *out;
    const void *const *x;
    int n;
};

/* Block by block, so that the running sum stays in the cache. */
#define SUM_PART(T, clones)                                                                                  \
    clones static void add_##T(T *out, const T *x, const T *y, int64_t n)                                    \
    {                                                                                                        \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];                           \
    }                                                                                                        \
    static void sum_##T(void *arg, int64_t begin, int64_t end)                                               \
    {                                                                                                        \
        const struct job *j = arg;                                                                           \
        for (int64_t at = begin; at < end; at += BLOCK) {                                                    \
            int64_t n = end - at < BLOCK ? end - at : BLOCK;                                                 \
            T *out = (T *)j->out + at;                                                                       \
            add_##T(out, (const T *)j->x[0] + at, (const T *)j->x[1] + at, n);                               \
            for (int k = 2; k < j->n; k++)                                                                   \
                add_##T(out, out, (const T *)j->x[k] + at, n);                                               \
        }                                                                                                    \
    }

SUM_PART(float, PD_CLONES)
SUM_PART(double, PD_CLONES)
SUM_PART(uint32_t, ) /* signed ones too: they wrap around */
SUM_PART(uint64_t, )

static pd_status sum_job(const struct job *j, enum pd_dtype dtype, int64_t count)
{
    void (*part)(void *, int64_t, int64_t) = dtype == PD_DTYPE_FP32    ? sum_float
                                             : dtype == PD_DTYPE_FP64  ? sum_double
                                             : dtype == PD_DTYPE_INT32 ? sum_uint32_t
                                             : dtype == PD_DTYPE_INT64 ? sum_uint64_t
                                                                       : NULL;
    if (!part)
        return pd_fail(PD_TYPE, "tensors of type %s cannot be added; cast them first", pd_dtype_name(dtype));
    pd_parallel(count, GRAIN, part, (void *)j);
    return PD_OK;
}

static pd_status sum_tensors(const struct pd_run *r, struct pd_tensor *out)
{
    const void **x;
    int n = 0;
    PD_TRY(pd_scratch(r, (size_t)r->in[X].n * sizeof *x, (void **)&x));
    for (int i = 0; i < r->in[X].n; i++) {
        const struct pd_value *v = r->in[X].at[i];
        if (!v || pd_value_is_rows(v) || !v->tensor.data || pd_tensor_numel(&v->tensor) == 0) continue;
        x[n++] = v->tensor.data;
        /* An input that lies where the result goes must be the first one read. */
        if (v->tensor.data == out->data) {
            x[n - 1] = x[0];
            x[0] = out->data;
        }
    }
    struct job j = {out->data, x, n};
    int64_t count = pd_tensor_numel(out);
    if (n == 0) return pd_elements_fill(out->data, out->meta.dtype, count, 0);
    if (n == 1) {
        if (x[0] != out->data) memcpy(out->data, x[0], pd_tensor_bytes(out));
        return PD_OK;
    }
    return sum_job(&j, out->meta.dtype, count);
}

/* ---- selected rows ---- */

static pd_status add_rows(struct pd_tensor *out, const struct pd_value *rows)
{
    int64_t width = pd_meta_span(&out->meta, 1, out->meta.rank), height = out->meta.dim[0];
    if (pd_meta_span(&rows->tensor.meta, 1, rows->tensor.meta.rank) != width)
        return pd_fail(PD_SHAPE, "selected rows of shape %s do not fit a tensor of shape %s",
                       pd_meta_dims_text(&rows->tensor.meta), pd_meta_dims_text(&out->meta));
    PD_SWITCH_NUMBER(out->meta.dtype, T, {
        for (int i = 0; i < rows->rows.n; i++) {
            int64_t row = rows->rows.at[i];
            if (row < 0 || row >= height)
                return pd_fail(PD_RANGE, "selected row %lld is outside of [0, %lld)", (long long)row,
                               (long long)height);
            T *to = (T *)out->data + row * width;
            const T *from = (const T *)rows->tensor.data + i * width;
            for (int64_t k = 0; k < width; k++)
                to[k] += from[k];
        }
    })
    return PD_OK;
}

/* A single input is handed on as it is. Rows that may repeat are put one after the other; else they are
 * merged. */
static pd_status sum_rows(const struct pd_run *r, struct pd_value *out)
{
    const struct pd_value *first = NULL;
    int64_t total = 0;
    int filled = 0, apart = 1;
    for (int i = 0; i < r->in[X].n; i++) {
        const struct pd_value *v = r->in[X].at[i];
        apart &= v != out;
        if (!v || !v->rows.n) continue;
        if (!first) first = v;
        total += v->rows.n;
        filled++;
    }
    if (filled == 1 && first == out) return PD_OK;
    if (filled != 1 && !(filled && apart && r->attr[KEEP_REPEATED].b))
        return pd_rows_merge(r, out, r->in[X].n, r->in[X].at);
    const struct pd_meta *m = &first->tensor.meta;
    size_t bytes = pd_meta_row_bytes(m);
    PD_TRY(pd_rows_resize(out, total, first->height, m->dtype, m->rank, m->dim));
    char *to = out->tensor.data;
    int64_t *row = out->rows.at;
    for (int i = 0; i < r->in[X].n; i++) {
        const struct pd_value *v = r->in[X].at[i];
        if (!v || v == out || !v->rows.n)
            continue; /* the result, where it was an input, had no rows before */
        memcpy(row, v->rows.at, (size_t)v->rows.n * sizeof *row);
        memcpy(to, v->tensor.data, (size_t)v->rows.n * bytes);
        row += v->rows.n;
        to += (size_t)v->rows.n * bytes;
    }
    return PD_OK;
}

/* ---- one value into another ---- */

static pd_status tensor_into(struct pd_tensor *to, const struct pd_tensor *from)
{
    if (!from->data || pd_tensor_numel(from) == 0) return PD_OK;
    if (!to->data || pd_tensor_numel(to) == 0) return pd_tensor_copy(to, from);
    if (!pd_meta_same_dims(&to->meta, &from->meta) || to->meta.dtype != from->meta.dtype)
        return pd_fail(PD_SHAPE, "%s of shape %s cannot be added to %s of shape %s",
                       pd_dtype_name(from->meta.dtype), pd_meta_dims_text(&from->meta),
                       pd_dtype_name(to->meta.dtype), pd_meta_dims_text(&to->meta));
    const void *x[] = {to->data, from->data};
    return sum_job(&(struct job){to->data, x, 2}, to->meta.dtype, pd_tensor_numel(to));
}

static pd_status rows_into(struct pd_value *to, const struct pd_value *from)
{
    int had = to->rows.n, more = from->rows.n;
    if (!more) return PD_OK;
    if (!had) return pd_value_copy(to, from);
    const struct pd_meta *m = &from->tensor.meta;
    size_t width = pd_meta_row_bytes(m);
    if (pd_meta_span(&to->tensor.meta, 1, to->tensor.meta.rank) != pd_meta_span(m, 1, m->rank) ||
        to->tensor.meta.dtype != m->dtype)
        return pd_fail(PD_SHAPE, "selected rows of shapes %s and %s cannot be added",
                       pd_meta_dims_text(&to->tensor.meta), pd_meta_dims_text(m));
    struct pd_value *both;
    PD_TRY(pd_value_new(PD_KIND_SELECTED_ROWS, &both));
    pd_status status = pd_rows_resize(both, (int64_t)had + more, from->height, m->dtype, m->rank, m->dim);
    if (status == PD_OK) {
        memcpy(both->rows.at, to->rows.at, (size_t)had * sizeof *to->rows.at);
        memcpy(both->rows.at + had, from->rows.at, (size_t)more * sizeof *to->rows.at);
        memcpy(both->tensor.data, to->tensor.data, (size_t)had * width);
        memcpy((char *)both->tensor.data + (size_t)had * width, from->tensor.data, (size_t)more * width);
        pd_value_move(to, both);
    }
    pd_value_unref(both);
    return status;
}

static pd_status array_into(struct pd_value *to, const struct pd_value *from)
{
    for (int i = 0; i < from->items.n; i++) {
        const struct pd_value *item = from->items.at[i];
        if (i == to->items.n) {
            struct pd_value *fresh;
            PD_TRY(pd_value_new(PD_KIND_TENSOR, &fresh));
            if (!pd_vec_push(&to->items, fresh)) {
                pd_value_unref(fresh);
                return pd_no_memory();
            }
        }
        if (!item->tensor.data || item->handed_on) continue;
        /* What was handed on belongs to a value that was written later; this is for the one before it. */
        if (to->items.at[i]->handed_on) pd_value_reset(to->items.at[i], PD_KIND_TENSOR);
        to->items.at[i]->handed_on = 0;
        PD_TRY(tensor_into(&to->items.at[i]->tensor, &item->tensor));
    }
    return PD_OK;
}

pd_status pd_sum_into(struct pd_value *to, const struct pd_value *from)
{
    enum pd_kind kind = from->tensor.meta.kind;
    if (to->tensor.meta.kind != kind) {
        if (pd_value_is_rows(from) && to->tensor.data) return add_rows(&to->tensor, from);
        pd_value_reset(to, kind);
    }
    return kind == PD_KIND_TENSOR_ARRAY ? array_into(to, from)
           : pd_value_is_rows(from)     ? rows_into(to, from)
                                        : tensor_into(&to->tensor, &from->tensor);
}

static pd_status sum_arrays(const struct pd_run *r, struct pd_value *out)
{
    int in_place = 0;
    for (int i = 0; i < r->in[X].n; i++)
        in_place |= r->in[X].at[i] == out;
    if (!in_place) pd_value_reset(out, PD_KIND_TENSOR_ARRAY);
    for (int i = 0; i < r->in[X].n; i++)
        if (r->in[X].at[i] && r->in[X].at[i] != out) PD_TRY(pd_sum_into(out, r->in[X].at[i]));
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_value *out = pd_run_out_value(r, OUT);
    for (int i = 0; i < r->in[X].n; i++)
        if (r->in[X].at[i] && r->in[X].at[i]->tensor.meta.kind == PD_KIND_TENSOR_ARRAY)
            return sum_arrays(r, out);
    if (pd_value_is_rows(out)) return sum_rows(r, out);
    PD_TRY(sum_tensors(r, &out->tensor));
    for (int i = 0; i < r->in[X].n; i++)
        if (r->in[X].at[i] && pd_value_is_rows(r->in[X].at[i]))
            PD_TRY(add_rows(&out->tensor, r->in[X].at[i]));
    return PD_OK;
}

static pd_status make_grad(struct pd_grad_maker *g)
{
    return pd_grad_scale(g, "X", "Out", 1.0f, NULL);
}

const struct pd_op pd_op_sum = {
    .type = "sum",
    .doc = "Out is the sum of all X.",
    .inputs = inputs,
    .outputs = outputs,
    /* Set by a plan where the reader does not mind: rows are put together, not merged. */
    .attrs = (const struct pd_attr_def[]){PD_DEF_BOOL("keep_repeated_rows", 0), {0}},
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
    .share = share,
};
