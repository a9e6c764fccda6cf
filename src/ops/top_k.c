/* top_k: the k largest of the last dimension, largest first, with their places. Of equal ones the first comes
 * first. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/larger.h"
#include "ops/check.h"
#include "ops/numbers.h"
#include "ops/out.h"

enum { X, K };
enum { OUT, INDICES };

static pd_status check_k(const struct pd_meta *x, int64_t k)
{
    if (k < 1) return pd_fail(PD_RANGE, "k is %lld; it must be at least 1", (long long)k);
    if (x->rank < 1)
        return pd_fail(PD_SHAPE, "X must have a dimension, found shape %s", pd_meta_dims_text(x));
    int64_t n = x->dim[x->rank - 1];
    if (n >= 0 && k > n)
        return pd_fail(PD_RANGE, "k is %lld, but the last dimension of X has %lld elements (shape %s)",
                       (long long)k, (long long)n, pd_meta_dims_text(x));
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    int64_t k = c->attr[0].i;
    if (c->in[K].n && c->running && c->in_values && c->in_values[K][0] && c->in_values[K][0]->tensor.data)
        PD_TRY(pd_number_whole(&c->in_values[K][0]->tensor, "K", &k));
    PD_TRY(check_k(x, k));
    for (int i = 0; i < 2; i++) {
        struct pd_meta *out = pd_infer_out(c, i);
        if (!out) continue;
        pd_meta_like(out, x);
        out->dim[out->rank - 1] = k;
    }
    if (pd_infer_out(c, INDICES)) pd_infer_out(c, INDICES)->dtype = PD_DTYPE_INT64;
    return PD_OK;
}

struct pick {
    const void *x;
    void *out;
    int64_t *indices;
    int64_t n, k;
};

/* A row's best so far stand in order; a new one moves up from the end. Long rows mostly fail the first test.
 */
#define PICK(name, T)                                                                                        \
    static void pick_##name(void *arg, int64_t begin, int64_t end)                                           \
    {                                                                                                        \
        const struct pick *p = arg;                                                                          \
        const int64_t n = p->n, k = p->k;                                                                    \
        for (int64_t row = begin; row < end; row++) {                                                        \
            const T *x = (const T *)p->x + row * n;                                                          \
            T *best = (T *)p->out + row * k;                                                                 \
            int64_t *at = p->indices + row * k, held = 0;                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T v = x[i];                                                                            \
                if (held == k && !PD_ABOVE(v, best[k - 1])) continue;                                        \
                int64_t j = held < k ? held++ : k - 1;                                                       \
                for (; j > 0 && PD_ABOVE(v, best[j - 1]); j--) {                                             \
                    best[j] = best[j - 1];                                                                   \
                    at[j] = at[j - 1];                                                                       \
                }                                                                                            \
                best[j] = v;                                                                                 \
                at[j] = i;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }
PICK(f32, float)
PICK(f64, double)
PICK(i32, int32_t)
PICK(i64, int64_t)

/* For a large k: a heap with the worst of the best on top; then they leave it from worst to best. */
#define HEAP(name, T)                                                                                        \
    static int worse_##name(const T *x, int64_t a, int64_t b)                                                \
    {                                                                                                        \
        return PD_ABOVE(x[b], x[a]) || (!PD_ABOVE(x[a], x[b]) && a > b);                                     \
    }                                                                                                        \
    static void sink_##name(const T *x, int64_t *heap, int64_t n, int64_t i)                                 \
    {                                                                                                        \
        for (int64_t child; (child = 2 * i + 1) < n; i = child) {                                            \
            if (child + 1 < n && worse_##name(x, heap[child + 1], heap[child])) child++;                     \
            if (!worse_##name(x, heap[child], heap[i])) return;                                              \
            int64_t t = heap[i];                                                                             \
            heap[i] = heap[child];                                                                           \
            heap[child] = t;                                                                                 \
        }                                                                                                    \
    }                                                                                                        \
    static void heap_##name(void *arg, int64_t begin, int64_t end)                                           \
    {                                                                                                        \
        const struct pick *p = arg;                                                                          \
        for (int64_t row = begin; row < end; row++) {                                                        \
            const T *x = (const T *)p->x + row * p->n;                                                       \
            T *best = (T *)p->out + row * p->k;                                                              \
            int64_t *heap = p->indices + row * p->k;                                                         \
            for (int64_t i = 0; i < p->k; i++)                                                               \
                heap[i] = i;                                                                                 \
            for (int64_t i = p->k / 2 - 1; i >= 0; i--)                                                      \
                sink_##name(x, heap, p->k, i);                                                               \
            for (int64_t i = p->k; i < p->n; i++)                                                            \
                if (worse_##name(x, heap[0], i)) {                                                           \
                    heap[0] = i;                                                                             \
                    sink_##name(x, heap, p->k, 0);                                                           \
                }                                                                                            \
            for (int64_t m = p->k - 1; m > 0; m--) {                                                         \
                int64_t t = heap[0];                                                                         \
                heap[0] = heap[m];                                                                           \
                heap[m] = t;                                                                                 \
                sink_##name(x, heap, m, 0);                                                                  \
            }                                                                                                \
            for (int64_t i = 0; i < p->k; i++)                                                               \
                best[i] = x[heap[i]];                                                                        \
        }                                                                                                    \
    }
HEAP(f32, float)
HEAP(f64, double)
HEAP(i32, int32_t)
HEAP(i64, int64_t)

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *k_tensor = pd_run_in(r, K);
    struct pd_tensor *out = pd_run_out(r, OUT), *indices = pd_run_out(r, INDICES);
    struct pick p = {.x = x->data, .n = x->meta.dim[x->meta.rank - 1], .k = r->attr[0].i};
    if (k_tensor) {
        PD_TRY(pd_number_whole(k_tensor, "K", &p.k));
        PD_TRY(check_k(&x->meta, p.k));
        if (out->meta.dim[out->meta.rank - 1] != p.k) {
            struct pd_meta m = x->meta;
            m.dim[m.rank - 1] = p.k;
            PD_TRY(pd_tensor_resize(out, x->meta.dtype, m.rank, m.dim));
            PD_TRY(pd_tensor_resize(indices, PD_DTYPE_INT64, m.rank, m.dim));
        }
    }
    p.out = out->data;
    p.indices = indices->data;
    int64_t rows = pd_meta_span(&x->meta, 0, x->meta.rank - 1);
    int deep = p.k > 32;
    void (*body)(void *, int64_t, int64_t) = NULL;
    switch ((int)x->meta.dtype) {
    case PD_DTYPE_FP32:
        body = deep ? heap_f32 : pick_f32;
        break;
    case PD_DTYPE_FP64:
        body = deep ? heap_f64 : pick_f64;
        break;
    case PD_DTYPE_INT32:
        body = deep ? heap_i32 : pick_i32;
        break;
    case PD_DTYPE_INT64:
        body = deep ? heap_i64 : pick_i64;
        break;
    default:
        return pd_fail(PD_TYPE, "X must be float32, float64, int32 or int64, found %s",
                       pd_dtype_name(x->meta.dtype));
    }
    if (p.n > 0) pd_parallel(rows, 16384 / p.n + 1, body, &p);
    return PD_OK;
}

enum { G_X, G_INDICES, G_OUT };

static pd_status infer_grad(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, G_X), *indices = pd_infer_in(c, G_INDICES),
                         *dout = pd_infer_in(c, G_OUT);
    PD_TRY(pd_infer_need_type(c, G_INDICES, PD_DTYPE_INT64));
    int fits = x->rank > 0 && indices->rank == x->rank && pd_meta_dims_match(indices, dout);
    for (int i = 0; fits && i < x->rank - 1; i++)
        fits = x->dim[i] == indices->dim[i] || x->dim[i] < 0 || indices->dim[i] < 0;
    if (!fits)
        return pd_fail(PD_SHAPE,
                       "X has shape %s, Indices has shape %s, Out@GRAD has shape %s; they must be equal, but "
                       "for the last "
                       "dimension of X",
                       pd_meta_dims_text(x), pd_meta_dims_text(indices), pd_meta_dims_text(dout));
    pd_out_same(c, 0, G_X);
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, G_X), *indices = pd_run_in(r, G_INDICES),
                           *dout = pd_run_in(r, G_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    if (!dx) return PD_OK;
    int64_t n = x->meta.dim[x->meta.rank - 1], k = indices->meta.dim[indices->meta.rank - 1];
    int64_t rows = pd_meta_span(&x->meta, 0, x->meta.rank - 1);
    const int64_t *at = indices->data;
    memset(dx->data, 0, pd_tensor_bytes(dx));
    PD_TRY(pd_check_number_data(dout, "Out@GRAD"));
    PD_SWITCH_NUMBER(dout->meta.dtype, T, {
        const T *from = dout->data;
        T *to = dx->data;
        for (int64_t i = 0; i < rows * k; i++) {
            if (at[i] < 0 || at[i] >= n)
                return pd_fail(PD_RANGE, "Indices holds %lld; X has %lld elements a row", (long long)at[i],
                               (long long)n);
            to[i / k * n + at[i]] = from[i];
        }
    })
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {PD_DEF_INT("k", 1), {0}};

const struct pd_op pd_op_top_k = {
    .type = "top_k",
    .doc = "The k largest elements of each row and their places.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {"K", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Indices", 0}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "top_k_grad",
    .grad_in = "X Indices Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_top_k_grad = {
    .type = "top_k_grad",
    .doc = "Gradient of top_k.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"Indices", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
