/* diag: a square matrix with a given diagonal. */
#include "ops/elements.h"

static const struct pd_slot_def inputs[] = {{"Diagonal"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, 0);
    struct pd_meta *out = pd_infer_out(c, 0);
    if (x->rank != 1)
        return pd_fail(PD_SHAPE, "Diagonal has shape %s; it must have one dimension", pd_meta_dims_text(x));
    if (!out) return PD_OK;
    out->dtype = x->dtype;
    pd_meta_set_2d(out, x->dim[0], x->dim[0]);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t n = x->meta.dim[0];
    PD_TRY(pd_elements_fill(out->data, out->meta.dtype, n * n, 0));
    PD_SWITCH_ANY(x->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            ((T *)out->data)[i * n + i] = ((const T *)x->data)[i];
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "Diagonal is %s; use float32", pd_dtype_name(x->meta.dtype));
}

const struct pd_op pd_op_diag = {
    .type = "diag",
    .doc = "A square matrix with the given diagonal.",
    .inputs = inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
