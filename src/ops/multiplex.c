/* multiplex: each row from one of several tensors. */
#include <string.h>

#include "kernels/copy.h"
#include "ops/numbers.h"
#include "ops/row_numbers.h"

enum { IDS, X };
enum { GRAD_OUT = 1 };
enum { OUT };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *ids = pd_infer_in(c, IDS), *first = c->in[X].at[0];
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t n;
    PD_TRY(pd_row_numbers_count(ids, "Ids", &n));
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

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *ids = pd_run_in(r, IDS);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t width = (int64_t)pd_meta_row_bytes(&out->meta);
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
    int64_t width = (int64_t)pd_meta_row_bytes(&dout->meta);
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

const struct pd_op pd_op_multiplex = {
    .type = "multiplex",
    .doc = "Row i of tensor Ids[i].",
    .inputs = (const struct pd_slot_def[]){{"Ids", PD_SLOT_OWN_TYPE}, {"X", PD_SLOT_LIST}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .infer = infer,
    .run = run,
    .grad_type = "multiplex_grad",
    .grad_in = "Ids Out@",
    .grad_like = "X=Out@",
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
