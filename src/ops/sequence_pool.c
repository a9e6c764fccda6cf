/* sequence_pool: each sequence of the finest level becomes one row; a coarser level becomes the output's LoD.
 */
#include <string.h>

#include "kernels/seq_pool.h"
#include "ops/check.h"
#include "ops/out.h"
#include "ops/seq.h"
#include "program/grad.h"

enum { X };
enum { OUT, MAX_INDEX };
enum { IS_TEST, POOLTYPE, PAD };

static pd_status pool_of(const struct pd_attr *attr, enum pd_seq_pool *how)
{
    static const char *const names[] = {
        [PD_SEQ_SUM] = "SUM", [PD_SEQ_AVERAGE] = "AVERAGE", [PD_SEQ_SQRT] = "SQRT",
        [PD_SEQ_MAX] = "MAX", [PD_SEQ_LAST] = "LAST",       [PD_SEQ_FIRST] = "FIRST"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(attr->s, names[i]) == 0) {
            *how = (enum pd_seq_pool)i;
            return PD_OK;
        }
    return pd_fail(PD_INVALID, "pooltype is '%s'; it may be AVERAGE, SUM, SQRT, MAX, LAST or FIRST", attr->s);
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT), *index = pd_infer_out(c, MAX_INDEX);
    enum pd_seq_pool how = PD_SEQ_SUM;
    PD_TRY(pool_of(&c->attr[POOLTYPE], &how));
    if (x->rank < 1) return pd_fail(PD_SHAPE, "X must have rows, found shape %s", pd_meta_dims_text(x));
    out->dtype = x->dtype;
    pd_meta_copy_dims(out, x);
    if (c->running) {
        const struct pd_lod_level *level = NULL;
        struct pd_lod *outer = NULL;
        PD_TRY(pd_seq_level(c, X, &level));
        PD_TRY(pd_lod_slice(x->lod, 0, x->lod->levels - 1, &outer));
        pd_meta_take_lod(out, outer);
        out->dim[0] = level->n - 1;
    } else {
        out->lod_level = x->lod_level > 0 ? x->lod_level - 1 : 0;
    }
    if (!index) return PD_OK;
    index->dtype = PD_DTYPE_INT32;
    if (how == PD_SEQ_MAX)
        pd_meta_copy_dims(index, out);
    else if (c->running)
        pd_meta_set_1d(index, 0);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    struct pd_tensor *out = pd_run_out(r, OUT), *index = pd_run_out(r, MAX_INDEX);
    const struct pd_lod_level *level = pd_seq_last(x);
    enum pd_seq_pool how = PD_SEQ_SUM;
    PD_TRY(pool_of(&r->attr[POOLTYPE], &how));
    PD_TRY(pd_check_float_data(x, "X"));
    int32_t *at = how == PD_SEQ_MAX && index ? index->data : NULL;
    if (x->meta.dtype == PD_DTYPE_FP32)
        pd_seq_pool_f32(how, x->data, level->offset, level->n - 1, pd_seq_width(x), r->attr[PAD].f, out->data,
                        at);
    else
        pd_seq_pool_f64(how, x->data, level->offset, level->n - 1, pd_seq_width(x), r->attr[PAD].f, out->data,
                        at);
    return PD_OK;
}

/* Only the maximum needs the index. */
static pd_status make_grad(struct pd_grad_maker *g)
{
    const struct pd_attr *type = pd_opdesc_attr(g->op, "pooltype");
    int is_max = type && strcmp(type->s, "MAX") == 0;
    struct pd_opdesc *op;
    PD_TRY(pd_grad_from_table(g, "sequence_pool_grad", is_max ? "X MaxIndex Out@" : "X Out@", "X@", &op));
    return g->emit(g, op);
}

enum { G_X, G_INDEX, G_OUT };

static pd_status infer_grad(const struct pd_infer *c)
{
    PD_TRY(pd_infer_need_type(c, G_INDEX, PD_DTYPE_INT32));
    pd_out_same(c, 0, G_X);
    return PD_OK;
}

static pd_status run_grad(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, G_X), *index = pd_run_in(r, G_INDEX),
                           *dout = pd_run_in(r, G_OUT);
    struct pd_tensor *dx = pd_run_out(r, 0);
    enum pd_seq_pool how = PD_SEQ_SUM;
    if (!dx) return PD_OK;
    PD_TRY(pool_of(&r->attr[POOLTYPE], &how));
    PD_TRY(pd_check_float_data(dout, "Out@GRAD"));
    if (!x->meta.lod) return pd_fail(PD_INVALID, "X has no sequences (no LoD)");
    const struct pd_lod_level *level = pd_seq_last(x);
    int64_t width = pd_seq_width(x), n = level->n - 1;
    if (pd_tensor_numel(dout) != n * width)
        return pd_fail(PD_SHAPE, "Out@GRAD has shape %s, but X has %lld sequences of width %lld",
                       pd_meta_dims_text(&dout->meta), (long long)n, (long long)width);
    if (how == PD_SEQ_MAX && (!index || pd_tensor_numel(index) != n * width))
        return pd_fail(PD_INVALID, "the gradient of MAX needs MaxIndex as the forward op gave it");
    const int32_t *at = how == PD_SEQ_MAX ? index->data : NULL;
    if (dout->meta.dtype == PD_DTYPE_FP32)
        pd_seq_pool_grad_f32(how, dout->data, at, level->offset, n, width, dx->data);
    else
        pd_seq_pool_grad_f64(how, dout->data, at, level->offset, n, width, dx->data);
    return PD_OK;
}

static const struct pd_attr_def attrs[] = {
    PD_DEF_BOOL("is_test", 0), PD_DEF_STRING("pooltype", "AVERAGE"), PD_DEF_FLOAT("pad_value", 0), {0}};

const struct pd_op pd_op_sequence_pool = {
    .type = "sequence_pool",
    .doc = "One row per sequence: its sum, average, sum over the root of its length, maximum, last or first "
           "row.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"MaxIndex", PD_SLOT_OPTIONAL | PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .make_grad = make_grad,
};

const struct pd_op pd_op_sequence_pool_grad = {
    .type = "sequence_pool_grad",
    .doc = "Gradient of sequence_pool.",
    .inputs =
        (const struct pd_slot_def[]){
            {"X", PD_SLOT_META}, {"MaxIndex", PD_SLOT_OPTIONAL | PD_SLOT_OWN_TYPE}, {"Out@GRAD", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"X@GRAD", PD_SLOT_OPTIONAL}, {0}},
    .attrs = attrs,
    .infer = infer_grad,
    .run = run_grad,
};
