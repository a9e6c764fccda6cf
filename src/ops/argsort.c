/* argsort: elements in order along one axis. Of equal elements the first is first. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/sort.h"
#include "ops/axis.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/scratch.h"

enum { X };
enum { OUT, INDICES };
enum { AXIS, DESCENDING };
enum { G_INDICES, G_X, G_DOUT };

static const struct pd_attr_def sort_attrs[] = {PD_DEF_INT("axis", -1), PD_DEF_BOOL("descending", 0), {0}};

struct job {
    struct pd_axis_lines lines;
    const void *x;
    void *out;
    int64_t *index;
    char *memory;
    enum pd_dtype dtype;
    int descending;
};

static pd_status sort_infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *index = pd_infer_out(c, INDICES);
    int axis;
    PD_TRY(pd_axis_of(c->attr[AXIS].i, x->rank, &axis));
    pd_out_like(c, OUT, X);
    if (index) {
        pd_meta_like(index, x);
        index->dtype = PD_DTYPE_INT64;
    }
    return PD_OK;
}

#define SORT_LINE(name, T)                                                                                   \
    pd_sort_##name((const T *)l->x + at, l->lines.n, l->lines.inner, l->descending,                          \
                   l->out ? (T *)l->out + at : NULL, l->index ? l->index + at : NULL,                        \
                   (struct pd_sort_pair_##name *)memory)

static void sort_lines(void *arg, int64_t begin, int64_t end)
{
    const struct job *l = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / l->lines.inner * l->lines.n * l->lines.inner + i % l->lines.inner;
        char *memory = l->memory + i * pd_sort_bytes(l->lines.n);
        switch ((int)l->dtype) {
        case PD_DTYPE_FP32:
            SORT_LINE(f32, float);
            break;
        case PD_DTYPE_FP64:
            SORT_LINE(f64, double);
            break;
        case PD_DTYPE_INT32:
            SORT_LINE(i32, int32_t);
            break;
        case PD_DTYPE_INT64:
            SORT_LINE(i64, int64_t);
            break;
        }
    }
}

static pd_status sort_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *index = pd_run_out(r, INDICES);
    struct job l = {.x = x->data,
                    .out = out ? out->data : NULL,
                    .index = index ? index->data : NULL,
                    .dtype = x->meta.dtype,
                    .descending = r->attr[DESCENDING].b};
    int axis;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, x->meta.rank, &axis));
    PD_TRY(pd_check_number_data(x, "X"));
    l.lines = pd_axis_lines(&x->meta, axis);
    if (pd_tensor_numel(x) == 0) return PD_OK;
    PD_TRY(pd_scratch(r, (size_t)(l.lines.outer * l.lines.inner * pd_sort_bytes(l.lines.n)),
                      (void **)&l.memory));
    pd_parallel(l.lines.outer * l.lines.inner, 4096 / l.lines.n + 1, sort_lines, &l);
    return PD_OK;
}

static pd_status sort_grad_infer(const struct pd_infer *c)
{
    pd_out_like(c, 0, G_X);
    return PD_OK;
}

static pd_status sort_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *index = pd_run_in(r, G_INDICES), *dout = pd_run_in(r, G_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    struct job l = {0};
    int axis;
    if (!dx) return PD_OK;
    PD_TRY(pd_axis_of(r->attr[AXIS].i, dx->meta.rank, &axis));
    l.lines = pd_axis_lines(&dx->meta, axis);
    const int64_t *at = index->data;
    size_t item = pd_dtype_size(dx->meta.dtype);
    pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    for (int64_t o = 0; o < l.lines.outer; o++)
        for (int64_t k = 0; k < l.lines.n; k++)
            for (int64_t i = 0; i < l.lines.inner; i++) {
                int64_t from = (o * l.lines.n + k) * l.lines.inner + i;
                if ((uint64_t)at[from] >= (uint64_t)l.lines.n)
                    return pd_fail(PD_RANGE, "Indices has %lld at position %lld; it must be in 0 to %lld",
                                   (long long)at[from], (long long)from, (long long)l.lines.n - 1);
                int64_t to = (o * l.lines.n + at[from]) * l.lines.inner + i;
                memcpy((char *)dx->data + to * (int64_t)item, (const char *)dout->data + from * (int64_t)item,
                       item);
            }
    return PD_OK;
}

const struct pd_op pd_op_argsort = {
    .type = "argsort",
    .doc = "Sorts along axis; Indices tells where each element came from.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"Indices", 0}, {0}},
    .attrs = sort_attrs,
    .infer = sort_infer,
    .run = sort_run,
    .grad_type = "argsort_grad",
    .grad_in = "Indices X Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_argsort_grad = {
    .type = "argsort_grad",
    .doc = "Gradient of argsort: each gradient back to where its element came from.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Indices", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = pd_out_x_grad,
    .attrs = sort_attrs,
    .infer = sort_grad_infer,
    .run = sort_grad_run,
};
