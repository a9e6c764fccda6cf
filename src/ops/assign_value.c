/* assign_value: a tensor whose values stand in the Program. */
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"
#include "ops/sizes.h"

enum { OUT };
enum { SHAPE, DTYPE, BOOL, FP32, INT32, INT64 };
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
        *list = &attr[BOOL];
        return PD_OK;
    case PD_DTYPE_FP32:
    case PD_DTYPE_FP64:
        *list = &attr[FP32];
        return PD_OK;
    case PD_DTYPE_INT32:
        *list = &attr[INT32];
        return PD_OK;
    case PD_DTYPE_INT64:
        *list = &attr[INT64];
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "values of type %s cannot be given; use bool, float32, int32 or int64",
                   pd_dtype_name(dtype));
}

static pd_status assign_infer(const struct pd_infer *c)
{
    struct pd_meta *out = pd_infer_out(c, OUT);
    static const struct pd_numbers_source source = {"shape", -1, -1, SHAPE};
    const struct pd_attr *list = NULL;
    if (!out) return PD_OK;
    PD_TRY(pd_check_dtype(c->attr[DTYPE].i, "dtype", &out->dtype));
    PD_TRY(pd_sizes_infer(c, &source, out));
    PD_TRY(list_of(c->attr, out->dtype, &list));
    return pd_sizes_check_count(out, list->n);
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
    return pd_elements_cast(out->data, out->meta.dtype, from, type, list->n);
}

const struct pd_op pd_op_assign_value = {
    .type = "assign_value",
    .doc = "A tensor with the values of the list that goes with its type.",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out"}, {0}},
    .attrs = assign_attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = assign_infer,
    .run = assign_run,
};
