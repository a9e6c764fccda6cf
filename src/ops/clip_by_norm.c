/* clip_by_norm: X made shorter when it is longer than max_norm. Selected rows have their repeated rows added
 * up first, so that the bound holds for the gradient they stand for. */
#include <math.h>

#include "kernels/reduce.h"
#include "ops/check.h"
#include "ops/elements.h"
#include "ops/out.h"
#include "ops/rows.h"
#include "ops/scratch.h"

enum { X };
enum { OUT };

static const struct pd_slot_def inputs[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_FLOAT("max_norm", 0.0f), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

static pd_status infer(const struct pd_infer *c)
{
    if (!(c->attr[0].f > 0))
        return pd_fail(PD_INVALID, "attribute max_norm is %g; it must be larger than 0", c->attr[0].f);
    return pd_out_infer_same(c);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x;
    struct pd_tensor *out;
    struct pd_reduce plan;
    int type;
    char *memory;
    PD_TRY(pd_rows_source(r, &x, &out));
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(pd_elements_type(x->meta.dtype, &type));
    int64_t n = pd_tensor_numel(x);
    pd_reduce_make(&plan, 1, &n, &(const uint8_t){1});
    size_t parts = pd_scratch_round(pd_reduce_scratch(&plan, &pd_reduce_square[type]));
    PD_TRY(pd_scratch(r, parts + 64, (void **)&memory));
    pd_reduce_run(&plan, &pd_reduce_square[type], x->data, memory + parts, memory);
    PD_SWITCH_FLOAT(x->meta.dtype, T, {
        const T norm = (T)sqrt((double)*(const T *)(memory + parts)), most = (T)r->attr[0].f;
        const T factor = norm <= most ? 1 : most / norm;
        const T *from = x->data;
        T *to = out->data;
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i] * factor;
    })
    return PD_OK;
}

const struct pd_op pd_op_clip_by_norm = {
    .type = "clip_by_norm",
    .doc = "X, made shorter to max_norm when its length is larger.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .share = share,
};
