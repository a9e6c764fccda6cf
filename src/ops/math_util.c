/* See math_util.h. */
#include "ops/math_util.h"

#include <string.h>

#include "base/map.h"
#include "kernels/ew_binary.h"
#include "kernels/ew_cast.h"
#include "tensor/half.h"

pd_status pd_math_type(enum pd_dtype dtype, int *type)
{
    switch ((int)dtype) {
    case PD_DTYPE_FP32:
        *type = PD_EW_F32;
        return PD_OK;
    case PD_DTYPE_FP64:
        *type = PD_EW_F64;
        return PD_OK;
    case PD_DTYPE_INT32:
        *type = PD_EW_I32;
        return PD_OK;
    case PD_DTYPE_INT64:
        *type = PD_EW_I64;
        return PD_OK;
    case PD_DTYPE_BOOL:
    case PD_DTYPE_UINT8:
        *type = PD_EW_U8;
        return PD_OK;
    case PD_DTYPE_INT16:
        *type = PD_EW_I16;
        return PD_OK;
    case PD_DTYPE_INT8:
        *type = PD_EW_I8;
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "this op does not work on %s; cast the input first", pd_dtype_name(dtype));
}

/* ---- running ---- */

pd_status pd_math_rows_like(struct pd_value *to, const struct pd_value *from)
{
    const struct pd_meta *m = &from->tensor.meta;
    if (to == from) return PD_OK;
    PD_TRY(pd_rows_resize(to, from->rows.n, from->height, m->dtype, m->rank, m->dim));
    if (from->rows.n) memcpy(to->rows.at, from->rows.at, (size_t)from->rows.n * sizeof *from->rows.at);
    return PD_OK;
}

pd_status pd_math_pair(const struct pd_run *r, const struct pd_tensor **x, struct pd_tensor **out)
{
    struct pd_value *from = pd_run_in_value(r, 0), *to = pd_run_out_value(r, 0);
    if (pd_value_is_rows(from)) PD_TRY(pd_math_rows_like(to, from));
    *x = &from->tensor;
    *out = &to->tensor;
    return PD_OK;
}

static pd_status cast_type(enum pd_dtype dtype, enum pd_cast_type *type)
{
    switch ((int)dtype) {
    case PD_DTYPE_FP32:
        *type = PD_CAST_F32;
        return PD_OK;
    case PD_DTYPE_FP64:
        *type = PD_CAST_F64;
        return PD_OK;
    case PD_DTYPE_INT32:
        *type = PD_CAST_I32;
        return PD_OK;
    case PD_DTYPE_INT64:
        *type = PD_CAST_I64;
        return PD_OK;
    case PD_DTYPE_INT16:
        *type = PD_CAST_I16;
        return PD_OK;
    case PD_DTYPE_INT8:
        *type = PD_CAST_I8;
        return PD_OK;
    case PD_DTYPE_UINT8:
        *type = PD_CAST_U8;
        return PD_OK;
    case PD_DTYPE_BOOL:
        *type = PD_CAST_BOOL;
        return PD_OK;
    case PD_DTYPE_FP16:
        *type = PD_CAST_F16;
        return PD_OK;
    }
    return pd_fail(PD_TYPE, "element type %s cannot be converted", pd_dtype_name(dtype));
}

pd_status pd_math_cast(void *to, enum pd_dtype to_type, const void *from, enum pd_dtype from_type, int64_t n)
{
    enum pd_cast_type t = PD_CAST_F32, f = PD_CAST_F32;
    PD_TRY(cast_type(to_type, &t));
    PD_TRY(cast_type(from_type, &f));
    pd_cast(t, to, f, from, n);
    return PD_OK;
}

pd_status pd_math_fill(void *to, enum pd_dtype dtype, int64_t n, double value)
{
    if (value == 0 && n >= 0 && pd_dtype_size(dtype)) {
        memset(to, 0, (size_t)n * pd_dtype_size(dtype));
        return PD_OK;
    }
    if (dtype == PD_DTYPE_BOOL) {
        memset(to, 1, (size_t)n);
        return PD_OK;
    }
    if (dtype == PD_DTYPE_FP16) {
        uint16_t *out = to, v = pd_half_from_float((float)value);
        for (int64_t i = 0; i < n; i++)
            out[i] = v;
        return PD_OK;
    }
    PD_SWITCH_ANY(dtype, T, {
        T *out = to;
        const T v = (T)value;
        for (int64_t i = 0; i < n; i++)
            out[i] = v;
        return PD_OK;
    })
    return pd_fail(PD_TYPE, "an output of element type %s cannot be filled; use float32",
                   pd_dtype_name(dtype));
}

pd_status pd_math_scratch(const struct pd_run *r, size_t bytes, void **memory)
{
    *memory = r->step->scratch(r, bytes ? bytes : 1);
    return *memory ? PD_OK : pd_no_memory();
}

struct pd_rng pd_math_rng(const struct pd_run *r)
{
    struct pd_math_draws *draws = r->state;
    if (draws->number != r->step->number) *draws = (struct pd_math_draws){.number = r->step->number};
    uint64_t stream = pd_rng_mix(pd_rng_mix((uint64_t)r->place) + draws->number);
    return pd_rng_make(r->step->seed, pd_rng_mix(stream + draws->count++));
}
