/* See math_util.h. */
#include "ops/math_util.h"

#include <string.h>

#include "base/map.h"
#include "kernels/ew_binary.h"
#include "kernels/ew_cast.h"
#include "ops/out.h"
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

/* ---- shapes from inputs ---- */

static pd_status integer_at(const struct pd_tensor *t, int64_t i, int64_t *value)
{
    PD_SWITCH_INDEX(t->meta.dtype, T, *value = ((const T *)t->data)[i]; return PD_OK)
    return pd_fail(PD_TYPE, "a shape must be given as int32 or int64 numbers, found %s",
                   pd_dtype_name(t->meta.dtype));
}

static pd_status check_rank(int64_t rank)
{
    if (rank >= 0 && rank <= PD_MAX_RANK) return PD_OK;
    if (rank < 0)
        return pd_fail(PD_SHAPE, "the tensor that holds the shape is declared with -1 elements: declare how "
                                 "many it has, which is the number of dimensions of the result");
    return pd_fail(PD_SHAPE, "the shape asks for %lld dimensions; a tensor has at most %d", (long long)rank,
                   PD_MAX_RANK);
}

/* Sizes from tensors whose data are there. */
static pd_status read_sizes(const struct pd_tensor *tensor, const struct pd_value *const *list, int count,
                            int64_t *dim, int *rank)
{
    int64_t n = tensor ? pd_tensor_numel(tensor) : count;
    PD_TRY(check_rank(n));
    for (int64_t i = 0; i < n; i++) {
        PD_TRY(tensor ? integer_at(tensor, i, &dim[i]) : integer_at(&list[i]->tensor, 0, &dim[i]));
        if (dim[i] < 0)
            return pd_fail(PD_SHAPE, "size %lld of the shape is %lld; sizes may not be negative",
                           (long long)i, (long long)dim[i]);
    }
    *rank = (int)n;
    return PD_OK;
}

static pd_status attr_sizes(const struct pd_attr *a, int64_t *dim, int *rank)
{
    PD_TRY(check_rank(a->n));
    for (int i = 0; i < a->n; i++)
        dim[i] = a->type == PD_ATTR_LONGS ? a->longs[i] : a->ints[i];
    *rank = a->n;
    return PD_OK;
}

pd_status pd_math_infer_shape(const struct pd_infer *c, const struct pd_shape_source *s, struct pd_meta *out)
{
    int64_t dim[PD_MAX_RANK];
    int rank = 0;
    int from_tensor = s->tensor >= 0 && c->in[s->tensor].n,
        from_list = !from_tensor && s->list >= 0 && c->in[s->list].n;
    if (from_tensor || from_list) {
        int ready = c->running && c->in_values;
        for (int i = 0; ready && i < (from_tensor ? 1 : c->in[s->list].n); i++)
            ready = c->in_values[from_tensor ? s->tensor : s->list][i]->tensor.data != NULL;
        if (ready) {
            const struct pd_value *const *list = c->in_values[from_tensor ? s->tensor : s->list];
            PD_TRY(read_sizes(from_tensor ? &list[0]->tensor : NULL, list,
                              c->in[from_tensor ? s->tensor : s->list].n, dim, &rank));
            return pd_meta_set_dims(out, rank, dim);
        }
        int64_t n = from_tensor ? pd_infer_in(c, s->tensor)->dim[0] : c->in[s->list].n;
        PD_TRY(attr_sizes(&c->attr[s->attr], dim, &rank));
        if (n < 0 || rank != n) {
            PD_TRY(check_rank(n));
            rank = (int)n;
            for (int i = 0; i < rank; i++)
                dim[i] = -1;
        }
        if (from_tensor)
            for (int i = 0; i < rank; i++)
                dim[i] = -1;
        return pd_meta_set_dims(out, rank, dim);
    }
    PD_TRY(attr_sizes(&c->attr[s->attr], dim, &rank));
    for (int i = 0; c->running && i < rank; i++)
        if (dim[i] < 0)
            return pd_fail(PD_SHAPE, "attribute %s asks for size %lld in dimension %d; give the size itself",
                           c->op->attrs[s->attr].name, (long long)dim[i], i);
    return pd_meta_set_dims(out, rank, dim);
}

pd_status pd_math_check_count(const struct pd_meta *out, int given)
{
    if (pd_meta_numel(out) == given) return PD_OK;
    return pd_fail(PD_SHAPE, "%d values were given for shape %s; the numbers must agree", given,
                   pd_meta_dims_text(out));
}

pd_status pd_math_infer_like_batch(const struct pd_infer *c, const struct pd_meta *in, int shape_attr,
                                   int in_attr, int out_attr, struct pd_meta *out)
{
    int64_t dim[PD_MAX_RANK];
    int rank, from = c->attr[in_attr].i, to = c->attr[out_attr].i;
    PD_TRY(attr_sizes(&c->attr[shape_attr], dim, &rank));
    if (from < 0 || from >= in->rank || to < 0 || to >= rank)
        return pd_fail(
            PD_RANGE,
            "dimension %d of the input %s is to give dimension %d of a shape of %d; there is none such", from,
            pd_meta_dims_text(in), to, rank);
    dim[to] = in->dim[from];
    return pd_meta_set_dims(out, rank, dim);
}

pd_status pd_math_given_sizes(const struct pd_run *r, const struct pd_shape_source *s, int64_t *dim,
                              int *rank)
{
    *rank = -1;
    if (s->tensor >= 0 && r->in[s->tensor].n) return read_sizes(pd_run_in(r, s->tensor), NULL, 0, dim, rank);
    if (s->list >= 0 && r->in[s->list].n)
        return read_sizes(NULL, (const struct pd_value *const *)r->in[s->list].at, r->in[s->list].n, dim,
                          rank);
    return PD_OK;
}

pd_status pd_math_size_output(const struct pd_run *r, const struct pd_shape_source *s, struct pd_tensor *out)
{
    int64_t dim[PD_MAX_RANK];
    int rank;
    PD_TRY(pd_math_given_sizes(r, s, dim, &rank));
    if (rank < 0) return PD_OK;
    return pd_out_fit(out, out->meta.dtype, rank, dim);
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

pd_status pd_math_number(const struct pd_tensor *t, const char *what, double *number)
{
    if (pd_tensor_numel(t) < 1) return pd_fail(PD_SHAPE, "%s is empty; it must hold one number", what);
    PD_SWITCH_ANY(t->meta.dtype, T, *number = (double)*(const T *)t->data; return PD_OK)
    return pd_fail(PD_TYPE, "%s has element type %s; use float32", what, pd_dtype_name(t->meta.dtype));
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

pd_status pd_math_class_at(const struct pd_tensor *t, const char *name, int64_t i, int64_t classes,
                           int64_t *out)
{
    int64_t v = -1;
    if (!pd_dtype_is_index(t->meta.dtype))
        return pd_fail(PD_TYPE, "%s must be int32 or int64, found %s", name, pd_dtype_name(t->meta.dtype));
    PD_SWITCH_INDEX(t->meta.dtype, T, v = ((const T *)t->data)[i])
    if (v < 0 || v >= classes)
        return pd_fail(PD_RANGE, "class %lld (number %lld of %s) is not within 0 and %lld", (long long)v,
                       (long long)i, name, (long long)classes - 1);
    *out = v;
    return PD_OK;
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
