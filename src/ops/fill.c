/* fill_constant and its relatives: outputs that hold one value. fill: values that stand in the Program. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/sizes.h"

enum { OUT };

static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

/* ---- fill_constant ---- */

enum { VALUE_TENSOR, SHAPE_TENSOR, SHAPE_LIST };
enum { DTYPE, SHAPE, VALUE, TEXT };

static const struct pd_slot_def constant_inputs[] = {
    {"ValueTensor", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE},
    {"ShapeTensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
    {"ShapeTensorList", PD_SLOT_OPTIONAL | PD_SLOT_LIST | PD_SLOT_SIZES},
    {0}};
static const struct pd_attr_def constant_attrs[] = {
    PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_LONGS("shape"),       PD_DEF_FLOAT("value", 0.0f),
    PD_DEF_STRING("str_value", ""),     PD_DEF_BOOL("force_cpu", 0), {0}};
static const struct pd_numbers_source constant_shape = {"shape", SHAPE_TENSOR, SHAPE_LIST, SHAPE};

/* A value that is given as text keeps all its digits; int64 needs that. */
static pd_status fill(void *to, enum pd_dtype dtype, int64_t n, float value, const char *text)
{
    char *end;
    if (!text || !*text) return pd_elements_fill(to, dtype, n, value);
    errno = 0;
    if (dtype == PD_DTYPE_INT64) {
        int64_t *out = to, number = strtoll(text, &end, 10);
        if (!*end && !errno) {
            for (int64_t i = 0; i < n; i++)
                out[i] = number;
            return PD_OK;
        }
    }
    double number = strtod(text, &end);
    if (end == text || *end)
        return pd_fail(PD_INVALID, "attribute str_value is '%s', which is no number", text);
    return pd_elements_fill(to, dtype, n, number);
}

static pd_status constant_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    if (!out) return PD_OK;
    PD_TRY(pd_check_dtype(c->attr[DTYPE].i, "dtype", &out->dtype));
    return pd_sizes_infer(c, &constant_shape, out);
}

/* Selected rows become all rows of the shape. */
static pd_status size_rows(const struct pd_run *r, struct pd_value *value)
{
    const struct pd_attr *shape = &r->attr[SHAPE];
    int64_t given[PD_MAX_RANK];
    const int64_t *dims = given;
    int rank;
    PD_TRY(pd_sizes_given(r, &constant_shape, given, &rank));
    if (rank < 0) {
        rank = shape->n;
        dims = shape->longs;
    }
    int64_t n = rank ? dims[0] : 0;
    PD_TRY(pd_rows_resize(value, n, n, (enum pd_dtype)r->attr[DTYPE].i, rank, dims));
    for (int64_t i = 0; i < n; i++)
        value->rows.at[i] = i;
    return PD_OK;
}

static pd_status constant_run(const struct pd_run *r)
{
    struct pd_value *value = pd_run_out_value(r, OUT);
    struct pd_tensor *out = &value->tensor;
    PD_TRY(pd_value_is_rows(value) ? size_rows(r, value) : pd_sizes_fit(r, &constant_shape, out));
    int64_t n = pd_tensor_numel(out);
    const struct pd_tensor *given = pd_run_in(r, VALUE_TENSOR);
    if (!given) return fill(out->data, out->meta.dtype, n, r->attr[VALUE].f, r->attr[TEXT].s);
    PD_TRY(pd_number_check(given, "ValueTensor"));
    if (given->meta.dtype == PD_DTYPE_INT64 && out->meta.dtype == PD_DTYPE_INT64) {
        int64_t whole;
        PD_TRY(pd_number_at(given, "ValueTensor", 0, &whole));
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)out->data)[i] = whole;
        return PD_OK;
    }
    double number;
    PD_TRY(pd_number_any(given, "ValueTensor", &number));
    return pd_elements_fill(out->data, out->meta.dtype, n, number);
}

const struct pd_op pd_op_fill_constant = {
    .type = "fill_constant",
    .doc = "A tensor of the given shape and type, filled with value.",
    .inputs = constant_inputs,
    .outputs = outputs,
    .attrs = constant_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = constant_infer,
    .run = constant_run,
};

/* ---- fill_constant_batch_size_like ---- */

enum { LIKE_SHAPE, LIKE_IN, LIKE_OUT, LIKE_DTYPE, LIKE_VALUE, LIKE_TEXT };

static const struct pd_slot_def like_inputs[] = {{"Input", PD_SLOT_META}, {0}};
static const struct pd_attr_def like_attrs[] = {PD_DEF_INTS("shape"),
                                                PD_DEF_INT("input_dim_idx", 0),
                                                PD_DEF_INT("output_dim_idx", 0),
                                                PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                                PD_DEF_FLOAT("value", 0.0f),
                                                PD_DEF_STRING("str_value", ""),
                                                PD_DEF_BOOL("force_cpu", 0),
                                                {0}};

static pd_status like_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    const struct pd_meta *in = pd_infer_in(c, 0);
    if (!out) return PD_OK;
    PD_TRY(pd_check_dtype(c->attr[LIKE_DTYPE].i, "dtype", &out->dtype));
    PD_TRY(pd_sizes_infer_batch(c, in, LIKE_SHAPE, LIKE_IN, LIKE_OUT, out));
    /* The batch of a tensor with LoD is counted in sequences. */
    if (c->attr[LIKE_IN].i == 0 && in->lod) out->dim[c->attr[LIKE_OUT].i] = pd_lod_sequences(in->lod);
    return PD_OK;
}

static pd_status like_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    return fill(out->data, out->meta.dtype, pd_tensor_numel(out), r->attr[LIKE_VALUE].f,
                r->attr[LIKE_TEXT].s);
}

const struct pd_op pd_op_fill_constant_batch_size_like = {
    .type = "fill_constant_batch_size_like",
    .doc = "A tensor filled with value, of which one size is that of the input.",
    .inputs = like_inputs,
    .outputs = outputs,
    .attrs = like_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = like_infer,
    .run = like_run,
};

/* ---- fill_zeros_like, fill_any_like ---- */

enum { ANY_VALUE, ANY_DTYPE };

static const struct pd_slot_def any_inputs[] = {{"X", PD_SLOT_META}, {0}};
static const struct pd_attr_def any_attrs[] = {PD_DEF_FLOAT("value", 0.0f), PD_DEF_INT("dtype", -1), {0}};
static const struct pd_attr_def zeros2_attrs[] = {PD_DEF_INT("dtype", PD_DTYPE_FP32), {0}};

/* Zeros in the place of selected rows are no rows. */
static pd_status zeros_run(const struct pd_run *r)
{
    struct pd_value *from = pd_run_in_value(r, 0), *to = pd_run_out_value(r, OUT);
    if (pd_value_is_rows(to)) {
        const struct pd_meta *m = &from->tensor.meta;
        return pd_rows_resize(to, 0, from->height, m->dtype, m->rank, m->dim);
    }
    return pd_elements_fill(to->tensor.data, to->tensor.meta.dtype, pd_tensor_numel(&to->tensor), 0);
}

const struct pd_op pd_op_fill_zeros_like = {
    .type = "fill_zeros_like",
    .doc = "Zeros in the shape of X.",
    .inputs = any_inputs,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = pd_out_infer_same,
    .run = zeros_run,
};

static pd_status zeros2_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    pd_out_same(c, OUT, 0);
    return out ? pd_check_dtype(c->attr[0].i, "dtype", &out->dtype) : PD_OK;
}

const struct pd_op pd_op_fill_zeros_like2 = {
    .type = "fill_zeros_like2",
    .doc = "Zeros of the given type in the shape of X.",
    .inputs = any_inputs,
    .outputs = outputs,
    .attrs = zeros2_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = zeros2_infer,
    .run = zeros_run,
};

static pd_status any_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    pd_out_same(c, OUT, 0);
    return out && c->attr[ANY_DTYPE].i >= 0 ? pd_check_dtype(c->attr[ANY_DTYPE].i, "dtype", &out->dtype)
                                            : PD_OK;
}

/* Whether an integer type has the number, or one that it is cut down to. */
static int fits(enum pd_dtype dtype, double value)
{
    int bits = 8 * (int)pd_dtype_size(dtype), is_signed = dtype != PD_DTYPE_UINT8;
    if (pd_dtype_is_float(dtype) || dtype == PD_DTYPE_BOOL) return 1;
    double end = ldexp(1, bits - is_signed); /* the first number above */
    return value < end && value > (is_signed ? -end - 1 : -1);
}

static pd_status any_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    if (!fits(out->meta.dtype, r->attr[ANY_VALUE].f))
        return pd_fail(PD_RANGE, "value is %g, which is no number of type %s", (double)r->attr[ANY_VALUE].f,
                       pd_dtype_name(out->meta.dtype));
    return pd_elements_fill(out->data, out->meta.dtype, pd_tensor_numel(out), r->attr[ANY_VALUE].f);
}

const struct pd_op pd_op_fill_any_like = {
    .type = "fill_any_like",
    .doc = "A tensor in the shape of X, filled with value.",
    .inputs = any_inputs,
    .outputs = outputs,
    .attrs = any_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = any_infer,
    .run = any_run,
};

/* ---- fill ---- */

enum { FILL_VALUE, FILL_SHAPE, FILL_DTYPE };
static const struct pd_attr_def fill_attrs[] = {PD_DEF_FLOATS("value"),
                                                PD_DEF_INTS("shape"),
                                                PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                                PD_DEF_BOOL("force_cpu", 0),
                                                {0}};

static pd_status fill_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    static const struct pd_numbers_source source = {"shape", -1, -1, FILL_SHAPE};
    if (!out) return PD_OK;
    PD_TRY(pd_check_dtype(c->attr[FILL_DTYPE].i, "dtype", &out->dtype));
    PD_TRY(pd_sizes_infer(c, &source, out));
    return pd_sizes_check_count(out, c->attr[FILL_VALUE].n);
}

static pd_status fill_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    return pd_elements_cast(out->data, out->meta.dtype, r->attr[FILL_VALUE].floats, PD_DTYPE_FP32,
                            r->attr[FILL_VALUE].n);
}

const struct pd_op pd_op_fill = {
    .type = "fill",
    .doc = "A tensor with the given values.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = outputs,
    .attrs = fill_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = fill_infer,
    .run = fill_run,
};
