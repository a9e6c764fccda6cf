/* See elements.h. */
#include "ops/elements.h"

#include "base/parallel.h"
#include "kernels/copy.h"
#include "kernels/ew_binary.h"
#include "kernels/ew_cast.h"
#include "tensor/half.h"

/* The names that kernels have for element types; -1: none. */
static const struct {
    enum pd_dtype dtype;
    int ew, cast;
} types[] = {
    {PD_DTYPE_FP32, PD_EW_F32, PD_CAST_F32},  {PD_DTYPE_FP64, PD_EW_F64, PD_CAST_F64},
    {PD_DTYPE_INT32, PD_EW_I32, PD_CAST_I32}, {PD_DTYPE_INT64, PD_EW_I64, PD_CAST_I64},
    {PD_DTYPE_INT16, PD_EW_I16, PD_CAST_I16}, {PD_DTYPE_INT8, PD_EW_I8, PD_CAST_I8},
    {PD_DTYPE_UINT8, PD_EW_U8, PD_CAST_U8},   {PD_DTYPE_BOOL, PD_EW_U8, PD_CAST_BOOL},
    {PD_DTYPE_FP16, -1, PD_CAST_F16},
};
enum { TYPES = sizeof types / sizeof types[0] };

pd_status pd_elements_type(enum pd_dtype dtype, int *type)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype && types[i].ew >= 0) {
            *type = types[i].ew;
            return PD_OK;
        }
    return pd_fail(PD_TYPE, "this op does not work on %s; cast the input first", pd_dtype_name(dtype));
}

static pd_status cast_type(enum pd_dtype dtype, enum pd_cast_type *type)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype) {
            *type = (enum pd_cast_type)types[i].cast;
            return PD_OK;
        }
    return pd_fail(PD_TYPE, "element type %s cannot be converted", pd_dtype_name(dtype));
}

pd_status pd_elements_cast(void *to, enum pd_dtype to_type, const void *from, enum pd_dtype from_type,
                           int64_t n)
{
    enum pd_cast_type t, f;
    PD_TRY(cast_type(to_type, &t));
    PD_TRY(cast_type(from_type, &f));
    pd_cast(t, to, f, from, n);
    return PD_OK;
}

struct fill {
    void *to;
    enum pd_dtype dtype;
    double value;
};

static void fill_part(void *arg, int64_t begin, int64_t end)
{
    const struct fill *f = arg;
    if (f->dtype == PD_DTYPE_FP16) {
        uint16_t *out = f->to, v = pd_half_from_float((float)f->value);
        for (int64_t i = begin; i < end; i++)
            out[i] = v;
        return;
    }
    PD_SWITCH_ANY(f->dtype, T, {
        T *out = f->to;
        const T v = (T)f->value;
        for (int64_t i = begin; i < end; i++)
            out[i] = v;
    })
}

pd_status pd_elements_fill(void *to, enum pd_dtype dtype, int64_t n, double value)
{
    enum { GRAIN = 65536 };
    if (!pd_dtype_size(dtype))
        return pd_fail(PD_TYPE, "an output of element type %s cannot be filled; use float32",
                       pd_dtype_name(dtype));
    struct fill f = {to, dtype, dtype == PD_DTYPE_BOOL ? value != 0 : value};
    if (value == 0)
        pd_copy_zero(to, (size_t)n * pd_dtype_size(dtype));
    else
        pd_parallel(n, GRAIN, fill_part, &f);
    return PD_OK;
}

void pd_elements_copy_box(const struct pd_meta *whole, const int64_t *start, const int64_t *size,
                          int to_whole, void *to, const void *from)
{
    int64_t wide[PD_MAX_RANK], dense[PD_MAX_RANK], at = 0, item = (int64_t)pd_dtype_size(whole->dtype);
    struct pd_copy copy;
    pd_copy_steps(whole->rank, whole->dim, wide);
    pd_copy_steps(whole->rank, size, dense);
    for (int i = 0; i < whole->rank; i++)
        at += start[i] * wide[i] * item;
    pd_copy_make(&copy, (size_t)item, whole->rank, size, to_whole ? wide : dense, to_whole ? dense : wide);
    if (copy.count == 0) return;
    if (to_whole)
        pd_copy_run(&copy, (char *)to + at, from);
    else
        pd_copy_run(&copy, to, (const char *)from + at);
}
