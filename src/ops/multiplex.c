/* multiplex and where: each row, or each element, from one of several tensors. */
#include <string.h>

#include "base/parallel.h"
#include "kernels/copy.h"
#include "ops/shape_util.h"

enum { IDS, X };
enum { GRAD_OUT = 1 };
enum { OUT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *ids = pd_infer_in(c, IDS), *first = c->in[X].at[0];
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t n;
    PD_TRY(pd_shape_index_count(ids, "Ids", &n));
    if (first->rank < 1) return pd_fail(PD_SHAPE, "the tensors X have no rows to choose from");
    if (n >= 0 && first->dim[0] >= 0 && n != first->dim[0])
        return pd_fail(PD_SHAPE, "Ids has %lld numbers, but the tensors X have %lld rows; they must be equal",
                       (long long)n, (long long)first->dim[0]);
    for (int i = 1; i < c->in[X].n; i++)
        if (!pd_meta_dims_match(first, c->in[X].at[i]))
            return pd_fail(PD_SHAPE,
                           "candidate 0 has shape %s, candidate %d has shape %s; all must have the same",
                           pd_meta_dims_text(first), i, pd_meta_dims_text(c->in[X].at[i]));
    if (!out) return PD_OK;
    out->dtype = first->dtype;
    pd_meta_copy_dims(out, first);
    return PD_OK;
}

static pd_status candidate(const struct pd_tensor *ids, int64_t row, int n, int64_t *k)
{
    PD_TRY(pd_number_at(ids, "Ids", row, k));
    if ((uint64_t)*k < (uint64_t)n) return PD_OK;
    return pd_fail(PD_RANGE, "Ids has %lld for row %lld; there are %d candidates, so it must be in 0 to %d",
                   (long long)*k, (long long)row, n, n - 1);
}

static int64_t row_bytes(const struct pd_meta *m)
{
    return pd_meta_span(m, 1, m->rank) * (int64_t)pd_dtype_size(m->dtype);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *ids = pd_run_in(r, IDS);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t width = row_bytes(&out->meta);
    for (int64_t i = 0; i < out->meta.dim[0]; i++) {
        int64_t k;
        PD_TRY(candidate(ids, i, r->in[X].n, &k));
        memcpy((char *)out->data + i * width, (const char *)pd_run_in_at(r, X, (int)k)->data + i * width,
               (size_t)width);
    }
    return PD_OK;
}

static pd_status grad_infer(const struct pd_infer *c)
{
    for (int i = 0; i < c->out[0].n; i++)
        if (c->out[0].at[i]) pd_meta_like(c->out[0].at[i], pd_infer_in(c, GRAD_OUT));
    return PD_OK;
}

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *ids = pd_run_in(r, IDS), *dout = pd_run_in(r, GRAD_OUT);
    int64_t width = row_bytes(&dout->meta);
    for (int i = 0; i < r->out[0].n; i++) {
        struct pd_tensor *dx = pd_run_out_at(r, 0, i);
        if (dx) pd_copy_zero(dx->data, pd_tensor_bytes(dx));
    }
    for (int64_t i = 0; i < dout->meta.dim[0] && r->out[0].n; i++) {
        int64_t k;
        PD_TRY(candidate(ids, i, r->out[0].n, &k));
        struct pd_tensor *dx = pd_run_out_at(r, 0, (int)k);
        if (dx) memcpy((char *)dx->data + i * width, (const char *)dout->data + i * width, (size_t)width);
    }
    return PD_OK;
}

/* ---- where ---- */

enum { W_COND, W_X, W_Y, W_DOUT };

static pd_status where_infer(const struct pd_infer *c)
{
    const struct pd_meta *cond = pd_infer_in(c, W_COND), *x = pd_infer_in(c, W_X), *y = pd_infer_in(c, W_Y);
    if (cond->dtype != PD_DTYPE_NONE && cond->dtype != PD_DTYPE_BOOL)
        return pd_fail(PD_TYPE, "Condition is %s; it must be bool", pd_dtype_name(cond->dtype));
    if (!pd_meta_dims_match(cond, x) || !pd_meta_dims_match(x, y))
        return pd_fail(PD_SHAPE, "Condition has shape %s, X %s and Y %s; they must be the same",
                       pd_meta_dims_text(cond), pd_meta_dims_text(x), pd_meta_dims_text(y));
    if (x->dtype != PD_DTYPE_NONE && y->dtype != PD_DTYPE_NONE && x->dtype != y->dtype)
        return pd_fail(PD_TYPE, "X is %s and Y is %s; cast one of them", pd_dtype_name(x->dtype),
                       pd_dtype_name(y->dtype));
    pd_shape_like(c, OUT, W_X);
    return PD_OK;
}

/* to[i] = cond[i] ? x[i] : y[i]; a tensor that is not there counts as zeros. */
struct choice {
    const uint8_t *cond;
    const void *x, *y;
    void *to;
    size_t item;
};

#define CHOOSE(T)                                                                                            \
    do {                                                                                                     \
        const T *x = s->x, *y = s->y;                                                                        \
        T *to = s->to;                                                                                       \
        for (int64_t i = begin; i < end; i++)                                                                \
            to[i] = s->cond[i] ? (x ? x[i] : 0) : (y ? y[i] : 0);                                            \
    } while (0)

static void choose(void *arg, int64_t begin, int64_t end)
{
    const struct choice *s = arg;
    switch (s->item) {
    case 1:
        CHOOSE(uint8_t);
        break;
    case 2:
        CHOOSE(uint16_t);
        break;
    case 4:
        CHOOSE(uint32_t);
        break;
    case 8:
        CHOOSE(uint64_t);
        break;
    }
}

static pd_status where_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, W_X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    struct choice s = {pd_run_in(r, W_COND)->data, x->data, pd_run_in(r, W_Y)->data, out->data,
                       pd_dtype_size(x->meta.dtype)};
    pd_parallel(pd_tensor_numel(out), 32768, choose, &s);
    return PD_OK;
}

static pd_status where_grad_infer(const struct pd_infer *c)
{
    pd_shape_like(c, 0, W_X);
    pd_shape_like(c, 1, W_Y);
    return PD_OK;
}

static pd_status where_grad_run(const struct pd_run *r)
{
    const struct pd_tensor *dout = pd_run_in(r, W_DOUT);
    struct pd_tensor *dx = pd_run_out(r, 0), *dy = pd_run_out(r, 1);
    struct choice s = {.cond = pd_run_in(r, W_COND)->data, .item = pd_dtype_size(dout->meta.dtype)};
    if (dx) {
        s.x = dout->data, s.y = NULL, s.to = dx->data;
        pd_parallel(pd_tensor_numel(dx), 32768, choose, &s);
    }
    if (dy) {
        s.x = NULL, s.y = dout->data, s.to = dy->data;
        pd_parallel(pd_tensor_numel(dy), 32768, choose, &s);
    }
    return PD_OK;
}

const struct pd_op pd_op_multiplex = {
    .type = "multiplex",
    .doc = "Row i of tensor Ids[i].",
    .inputs = (const struct pd_slot_def[]){{"Ids", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "multiplex_grad",
    .grad_in = "Ids Out@",
    .grad_out = "X@",
};

const struct pd_op pd_op_multiplex_grad = {
    .type = "multiplex_grad",
    .doc = "Gradient of multiplex: each row's gradient to the tensor it came from.",
    .inputs = (const struct pd_slot_def[]){{"Ids", PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .infer = grad_infer,
    .run = grad_run,
};

const struct pd_op pd_op_where = {
    .type = "where",
    .doc = "Elements of X where Condition holds, of Y elsewhere.",
    .inputs = (const struct pd_slot_def[]){{"Condition", PD_SLOT_OWN_TYPE}, {"X", 0}, {"Y", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = where_infer,
    .run = where_run,
    .grad_type = "where_grad",
    .grad_in = "Condition X Y Out@",
    .grad_out = "X@ Y@",
};

const struct pd_op pd_op_where_grad = {
    .type = "where_grad",
    .doc = "Gradient of where.",
    .inputs =
        (const struct pd_slot_def[]){
            {"Condition", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .infer = where_grad_infer,
    .run = where_grad_run,
};
