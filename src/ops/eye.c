/* eye: a matrix with ones on its diagonal. */
#include "ops/check.h"
#include "ops/elements.h"

enum { DTYPE, ROWS, COLUMNS };
static const struct pd_slot_def inputs[] = {{0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONG("num_rows", 0), PD_DEF_LONG("num_columns", -1), {0}};

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    int64_t rows = c->attr[ROWS].l, columns = c->attr[COLUMNS].l == -1 ? rows : c->attr[COLUMNS].l;
    if (rows < 0 || columns < 0)
        return pd_fail(PD_INVALID, "num_rows is %lld and num_columns %lld; neither may be negative",
                       (long long)rows, (long long)columns);
    if (!out) return PD_OK;
    pd_meta_set_2d(out, rows, columns);
    return pd_check_dtype(c->attr[DTYPE].i, "dtype", &out->dtype);
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t rows = out->meta.dim[0], columns = out->meta.dim[1];
    PD_TRY(pd_elements_fill(out->data, out->meta.dtype, rows * columns, 0));
    PD_SWITCH_ANY(out->meta.dtype, T, {
        for (int64_t i = 0; i < rows && i < columns; i++)
            ((T *)out->data)[i * columns + i] = 1;
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "attribute dtype asks for %s; use float32", pd_dtype_name(out->meta.dtype));
}

const struct pd_op pd_op_eye = {
    .type = "eye",
    .doc = "A matrix with ones on its diagonal.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = infer,
    .run = run,
};
