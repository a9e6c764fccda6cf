/* fill and assign_value: tensors whose values stand in the Program. */
#include "ops/math_util.h"

enum { OUT };
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def no_inputs[] = {{0}};

/* ---- fill ---- */

enum { VALUE, SHAPE, DTYPE };
static const struct pd_attr_def fill_attrs[] = {PD_DEF_FLOATS("value"),
                                                PD_DEF_INTS("shape"),
                                                PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                                PD_DEF_BOOL("force_cpu", 0),
                                                {0}};

static pd_status check_count(const struct pd_meta *out, int given)
{
    if (pd_meta_numel(out) == given) return PD_OK;
    return pd_fail(PD_SHAPE, "%d values were given for shape %s; the numbers must agree", given,
                   pd_meta_dims_text(out));
}

static pd_status fill_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    static const struct pd_shape_source source = {-1, -1, SHAPE};
    if (!out) return PD_OK;
    PD_TRY(pd_math_dtype(c->attr[DTYPE].i, "dtype", &out->dtype));
    PD_TRY(pd_math_infer_shape(c, &source, out));
    return check_count(out, c->attr[VALUE].n);
}

static pd_status fill_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    return pd_math_cast(out->data, out->meta.dtype, r->attr[VALUE].floats, PD_DTYPE_FP32, r->attr[VALUE].n);
}

const struct pd_op pd_op_fill = {
    .type = "fill",
    .doc = "A tensor with the given values.",
    .inputs = no_inputs,
    .outputs = outputs,
    .attrs = fill_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = fill_infer,
    .run = fill_run,
};

/* ---- assign_value ---- */

enum { AV_SHAPE, AV_DTYPE, AV_BOOL, AV_FP32, AV_INT32, AV_INT64 };
static const struct pd_attr_def assign_attrs[] = {PD_DEF_INTS("shape"),
                                                  PD_DEF_INT("dtype", PD_DTYPE_FP32),
                                                  PD_DEF_INTS("bool_values"),
                                                  PD_DEF_FLOATS("fp32_values"),
                                                  PD_DEF_INTS("int32_values"),
                                                  PD_DEF_LONGS("int64_values"),
                                                  {0}};

/* The list that goes with the type. */
static pd_status list_of(const struct pd_attr *attr, enum pd_dtype dtype, const struct pd_attr **list)
{
    switch ((int)dtype) {
    case PD_DTYPE_BOOL:
        *list = &attr[AV_BOOL];
        return PD_OK;
    case PD_DTYPE_FP32:
    case PD_DTYPE_FP64:
        *list = &attr[AV_FP32];
        return PD_OK;
    case PD_DTYPE_INT32:
        *list = &attr[AV_INT32];
        return PD_OK;
    case PD_DTYPE_INT64:
        *list = &attr[AV_INT64];
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "values of type %s cannot be given; use bool, float32, int32 or int64",
                   pd_dtype_name(dtype));
}

static pd_status assign_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    static const struct pd_shape_source source = {-1, -1, AV_SHAPE};
    const struct pd_attr *list = NULL;
    if (!out) return PD_OK;
    PD_TRY(pd_math_dtype(c->attr[AV_DTYPE].i, "dtype", &out->dtype));
    PD_TRY(pd_math_infer_shape(c, &source, out));
    PD_TRY(list_of(c->attr, out->dtype, &list));
    return check_count(out, list->n);
}

static pd_status assign_run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    const struct pd_attr *list = NULL;
    PD_TRY(list_of(r->attr, out->meta.dtype, &list));
    const void *from = list->type == PD_ATTR_FLOATS  ? (const void *)list->floats
                       : list->type == PD_ATTR_LONGS ? (const void *)list->longs
                                                     : (const void *)list->ints;
    enum pd_dtype type = list->type == PD_ATTR_FLOATS  ? PD_DTYPE_FP32
                         : list->type == PD_ATTR_LONGS ? PD_DTYPE_INT64
                                                       : PD_DTYPE_INT32;
    return pd_math_cast(out->data, out->meta.dtype, from, type, list->n);
}

const struct pd_op pd_op_assign_value = {
    .type = "assign_value",
    .doc = "A tensor with the values of the list that goes with its type.",
    .inputs = no_inputs,
    .outputs = outputs,
    .attrs = assign_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = assign_infer,
    .run = assign_run,
};
