/* one_hot, one_hot_v2: rows with a single 1. */
#include <string.h>

#include "ops/check.h"
#include "ops/elements.h"
#include "ops/numbers.h"

enum { X, DEPTH_TENSOR };
enum { OUT };
enum { DEPTH, DTYPE, ALLOW_OUT_OF_RANGE };

static const struct pd_slot_def hot_inputs[] = {
    {"X"}, {"depth_tensor", PD_SLOT_OPTIONAL | PD_SLOT_SIZES}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def hot_attrs[] = {
    PD_DEF_INT("depth", -1), PD_DEF_INT("dtype", PD_DTYPE_FP32), PD_DEF_BOOL("allow_out_of_range", 0), {0}};

/* The first version replaces the last dimension, which has size 1; the second adds one. */
static pd_status hot_infer(const struct pd_infer *c, int adds)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    int64_t dim[PD_MAX_RANK + 1], depth = c->attr[DEPTH].i;
    if (!adds && (x->rank < 2 || (c->running && x->dim[x->rank - 1] != 1)))
        return pd_fail(PD_SHAPE, "X has shape %s; it needs two dimensions or more, the last of size 1",
                       pd_meta_dims_text(x));
    if (!out) return PD_OK;
    if (c->in[DEPTH_TENSOR].n) {
        depth = -1;
        const struct pd_value *given = c->running && c->in_values ? c->in_values[DEPTH_TENSOR][0] : NULL;
        if (given && given->tensor.data) PD_TRY(pd_number_whole(&given->tensor, "depth_tensor", &depth));
    }
    if (c->running && depth < 1)
        return pd_fail(PD_INVALID, "the depth is %lld; it must be 1 or more", (long long)depth);
    memcpy(dim, x->dim, sizeof x->dim);
    dim[x->rank - !adds] = depth;
    PD_TRY(pd_check_dtype(c->attr[DTYPE].i, "dtype", &out->dtype));
    pd_meta_share_lod(out, x);
    return pd_meta_set_dims(out, x->rank + adds, dim);
}

static pd_status hot1_infer(const struct pd_infer *c)
{
    return hot_infer(c, 0);
}
static pd_status hot2_infer(const struct pd_infer *c)
{
    return hot_infer(c, 1);
}

static pd_status set_one(struct pd_tensor *out, int64_t at)
{
    PD_SWITCH_ANY(out->meta.dtype, T, ((T *)out->data)[at] = 1; return PD_OK)
    return pd_fail(PD_TYPE, "attribute dtype asks for %s; use float32", pd_dtype_name(out->meta.dtype));
}

static pd_status hot_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT);
    int64_t n = pd_tensor_numel(x), depth = out->meta.dim[out->meta.rank - 1];
    PD_TRY(pd_check_index_data(x, "X"));
    PD_TRY(pd_elements_fill(out->data, out->meta.dtype, pd_tensor_numel(out), 0));
    PD_SWITCH_INDEX(x->meta.dtype, T, {
        const T *id = x->data;
        for (int64_t i = 0; i < n; i++) {
            if (id[i] >= 0 && id[i] < depth)
                PD_TRY(set_one(out, i * depth + id[i]));
            else if (!r->attr[ALLOW_OUT_OF_RANGE].b)
                return pd_fail(PD_RANGE, "element %lld of X is %lld; it must lie in [0, %lld)", (long long)i,
                               (long long)id[i], (long long)depth);
        }
    })
    return PD_OK;
}

const struct pd_op pd_op_one_hot = {
    .type = "one_hot",
    .doc = "Each number of X as a row of zeros with a 1 at its place.",
    .inputs = hot_inputs,
    .outputs = outputs,
    .attrs = hot_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = hot1_infer,
    .run = hot_run,
};

const struct pd_op pd_op_one_hot_v2 = {
    .type = "one_hot_v2",
    .doc = "one_hot with a dimension of its own.",
    .inputs = hot_inputs,
    .outputs = outputs,
    .attrs = hot_attrs,
    .flags = PD_OP_NO_GRAD,
    .infer = hot2_infer,
    .run = hot_run,
};
