/* sequence_mask: lengths as ones and zeros. */
#include <string.h>

#include "ops/check.h"
#include "ops/numbers.h"

enum { X, MAXLEN_TENSOR };
enum { MAXLEN, OUT_DTYPE };

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *y = pd_infer_out(c, 0);
    int64_t dim[PD_MAX_RANK];
    if (x->rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has shape %s; it has too many dimensions", pd_meta_dims_text(x));
    memcpy(dim, x->dim, (size_t)x->rank * sizeof *dim);
    dim[x->rank] = c->in[MAXLEN_TENSOR].n || c->attr[MAXLEN].i <= 0 ? -1 : c->attr[MAXLEN].i;
    PD_TRY(pd_check_dtype(c->attr[OUT_DTYPE].i, "out_dtype", &y->dtype));
    return pd_meta_set_dims(y, x->rank + 1, dim);
}

static double length_at(const struct pd_tensor *x, int64_t i)
{
    PD_SWITCH_NUMBER(x->meta.dtype, T, return (double)((const T *)x->data)[i])
    return 0;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *limit = pd_run_in(r, MAXLEN_TENSOR);
    struct pd_tensor *y = pd_run_out(r, 0);
    int64_t n = pd_tensor_numel(x), maxlen = r->attr[MAXLEN].i, dim[PD_MAX_RANK];
    enum pd_dtype dtype = PD_DTYPE_NONE;
    PD_TRY(pd_check_dtype(r->attr[OUT_DTYPE].i, "out_dtype", &dtype));
    PD_TRY(pd_check_number_data(x, "X"));
    if (limit) {
        PD_TRY(pd_number_whole(limit, "MaxLenTensor", &maxlen));
        if (maxlen < 1)
            return pd_fail(PD_RANGE, "MaxLenTensor is %lld; it must be at least 1", (long long)maxlen);
    } else if (maxlen <= 0) {
        maxlen = 0;
        for (int64_t i = 0; i < n; i++)
            if (length_at(x, i) > (double)maxlen) maxlen = (int64_t)length_at(x, i);
    }
    if (x->meta.rank >= PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "X has too many dimensions: %s", pd_meta_dims_text(&x->meta));
    memcpy(dim, x->meta.dim, sizeof dim);
    dim[x->meta.rank] = maxlen;
    PD_TRY(pd_tensor_resize(y, dtype, x->meta.rank + 1, dim));
    PD_SWITCH_ANY(dtype, T, {
        T *to = y->data;
        for (int64_t i = 0; i < n; i++) {
            double length = length_at(x, i);
            for (int64_t k = 0; k < maxlen; k++)
                *to++ = (double)k < length;
        }
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "out_dtype %s cannot be made by this op", pd_dtype_name(dtype));
}

const struct pd_op pd_op_sequence_mask = {
    .type = "sequence_mask",
    .doc = "Ones for the first X[i] places of maxlen, zeros for the others.",
    .inputs =
        (const struct pd_slot_def[]){{"X", 0}, {"MaxLenTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Y", 0}, {0}},
    .attrs =
        (const struct pd_attr_def[]){PD_DEF_INT("maxlen", -1), PD_DEF_INT("out_dtype", PD_DTYPE_INT64), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = infer,
    .run = run,
};
