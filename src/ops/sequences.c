/* range and linspace: evenly spaced numbers. eye and diag: matrices with a diagonal. */
#include <math.h>

#include "ops/math_util.h"

static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

/* ---- range ---- */

enum { START, END, STEP };
static const struct pd_slot_def range_inputs[] = {{"Start"}, {"End"}, {"Step"}, {0}};

static pd_status line_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    if (!out) return PD_OK;
    out->dtype = pd_infer_in(c, START)->dtype;
    pd_meta_set_1d(out, -1);
    return PD_OK;
}

static pd_status range_run(const struct pd_run *r)
{
    const struct pd_tensor *start = pd_run_in(r, START), *end = pd_run_in(r, END), *step = pd_run_in(r, STEP);
    struct pd_tensor *out = pd_run_out(r, 0);
    double a, b, s;
    if (end->meta.dtype != start->meta.dtype || step->meta.dtype != start->meta.dtype)
        return pd_fail(PD_TYPE, "Start is %s, End %s, Step %s; all must have the same element type",
                       pd_dtype_name(start->meta.dtype), pd_dtype_name(end->meta.dtype),
                       pd_dtype_name(step->meta.dtype));
    PD_TRY(pd_math_number(start, "Start", &a));
    PD_TRY(pd_math_number(end, "End", &b));
    PD_TRY(pd_math_number(step, "Step", &s));
    if (s == 0 || (a < b && s < 0) || (a > b && s > 0))
        return pd_fail(PD_INVALID, "a step of %g never leads from %g to %g", s, a, b);
    double count = ceil((b - a) / s);
    if (!(count <= 1e15)) return pd_fail(PD_RANGE, "from %g to %g by %g there are too many steps", a, b, s);
    int64_t n = (int64_t)count;
    PD_TRY(pd_tensor_resize(out, start->meta.dtype, 1, &n));
    PD_SWITCH_NUMBER(start->meta.dtype, T, {
        const T first = *(const T *)start->data;
        const T by = *(const T *)step->data;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = (T)(first + (T)i * by);
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "Start is %s; use float32, float64, int32 or int64",
                   pd_dtype_name(start->meta.dtype));
}

const struct pd_op pd_op_range = {
    .type = "range",
    .doc = "Numbers from Start up to End, Step apart; End is not among them.",
    .inputs = range_inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = line_infer,
    .run = range_run,
};

/* ---- linspace ---- */

static const struct pd_slot_def linspace_inputs[] = {
    {"Start", PD_SLOT_OWN_TYPE}, {"Stop", PD_SLOT_OWN_TYPE}, {"Num", PD_SLOT_OWN_TYPE}, {0}};

static pd_status linspace_run(const struct pd_run *r)
{
    const struct pd_tensor *start = pd_run_in(r, START), *num = pd_run_in(r, STEP);
    struct pd_tensor *out = pd_run_out(r, 0);
    double a, b, count;
    PD_TRY(pd_math_number(start, "Start", &a));
    PD_TRY(pd_math_number(pd_run_in(r, END), "Stop", &b));
    PD_TRY(pd_math_number(num, "Num", &count));
    if (!(count >= 1 && count <= 1e15)) return pd_fail(PD_INVALID, "Num is %g; it must be 1 or more", count);
    if (!pd_dtype_is_float(start->meta.dtype))
        return pd_fail(PD_TYPE, "Start is %s; it must be float32 or float64",
                       pd_dtype_name(start->meta.dtype));
    int64_t n = (int64_t)count;
    PD_TRY(pd_tensor_resize(out, start->meta.dtype, 1, &n));
    double step = n > 1 ? (b - a) / (double)(n - 1) : 0;
    PD_SWITCH_FLOAT(start->meta.dtype, T, {
        for (int64_t i = 0; i < n; i++)
            ((T *)out->data)[i] = (T)(a + (double)i * step);
    })
    return PD_OK;
}

const struct pd_op pd_op_linspace = {
    .type = "linspace",
    .doc = "Num numbers from Start to Stop, both included.",
    .inputs = linspace_inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD | PD_OP_DYNAMIC,
    .infer = line_infer,
    .run = linspace_run,
};

/* ---- eye ---- */

enum { DTYPE, ROWS, COLUMNS };
static const struct pd_slot_def no_inputs[] = {{0}};
static const struct pd_attr_def eye_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONG("num_rows", 0), PD_DEF_LONG("num_columns", -1), {0}};

static pd_status eye_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, 0);
    int64_t rows = c->attr[ROWS].l, columns = c->attr[COLUMNS].l == -1 ? rows : c->attr[COLUMNS].l;
    if (rows < 0 || columns < 0)
        return pd_fail(PD_INVALID, "num_rows is %lld and num_columns %lld; neither may be negative",
                       (long long)rows, (long long)columns);
    if (!out) return PD_OK;
    pd_meta_set_2d(out, rows, columns);
    return pd_math_dtype(c->attr[DTYPE].i, "dtype", &out->dtype);
}

static pd_status eye_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t rows = out->meta.dim[0], columns = out->meta.dim[1];
    PD_TRY(pd_math_fill(out->data, out->meta.dtype, rows * columns, 0));
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
    .inputs = no_inputs,
    .outputs = outputs,
    .attrs = eye_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = eye_infer,
    .run = eye_run,
};

/* ---- diag ---- */

static const struct pd_slot_def diag_inputs[] = {{"Diagonal"}, {0}};

static pd_status diag_infer(const struct pd_infer *c)
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

static pd_status diag_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, 0);
    struct pd_tensor *out = pd_run_out(r, 0);
    int64_t n = x->meta.dim[0];
    PD_TRY(pd_math_fill(out->data, out->meta.dtype, n * n, 0));
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
    .inputs = diag_inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = diag_infer,
    .run = diag_run,
};
