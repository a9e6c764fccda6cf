/* reshape and reshape2: the same elements in another shape. In the shape 0 keeps the size of X at that place
 * and one -1 takes what is left. */
#include "ops/numbers.h"
#include "ops/out.h"
#include "ops/view.h"

enum { X, SHAPE, SHAPE_LIST };
enum { OUT, XSHAPE };
enum { SHAPE_ATTR };

static const struct pd_attr_def attrs[] = {PD_DEF_INTS("shape"), {0}};
static const struct pd_numbers_source source = {"shape", SHAPE, SHAPE_LIST, SHAPE_ATTR, 1};

static pd_status check_wish(const struct pd_meta *x, const struct pd_numbers *wish)
{
    int open = -1;
    if (wish->n == 0) return pd_fail(PD_INVALID, "no shape was given; set the attribute shape");
    if (wish->n > PD_MAX_RANK)
        return pd_fail(PD_SHAPE, "shape asks for %d dimensions; a tensor has at most %d", wish->n,
                       PD_MAX_RANK);
    for (int i = 0; i < wish->n; i++) {
        if (wish->at[i] < -1)
            return pd_fail(PD_SHAPE,
                           "shape[%d] is %lld; give a size, 0 to keep the size of X, or -1 once for the rest",
                           i, (long long)wish->at[i]);
        if (wish->at[i] == 0 && i >= x->rank)
            return pd_fail(PD_SHAPE, "shape[%d] is 0 (keep), but X has shape %s: there is no such dimension",
                           i, pd_meta_dims_text(x));
        if (wish->at[i] != -1) continue;
        if (open >= 0)
            return pd_fail(PD_SHAPE, "shape[%d] and shape[%d] are both -1; only one may be", open, i);
        open = i;
    }
    return PD_OK;
}

/* The size that -1 stands for. Kept dimensions are left out on both sides, so that empty tensors keep their
 * shape. */
static pd_status fill_open(const struct pd_meta *x, const struct pd_numbers *wish, int64_t *dim, int open)
{
    int64_t left = 1, given = 1;
    for (int i = 0; i < x->rank; i++)
        if (!(i < wish->n && wish->at[i] == 0)) left *= x->dim[i];
    for (int i = 0; i < wish->n; i++)
        if (wish->at[i] > 0) given *= wish->at[i];
    if (left % given != 0)
        return pd_fail(PD_SHAPE,
                       "X has shape %s; the rest of the shape has %lld elements, which does not divide it. "
                       "Change shape[%d] to fit",
                       pd_meta_dims_text(x), (long long)given, open);
    dim[open] = left / given;
    return PD_OK;
}

static pd_status resolve(const struct pd_meta *x, const struct pd_numbers *wish, int64_t *dim)
{
    int open = -1;
    int64_t count = 1;
    PD_TRY(check_wish(x, wish));
    for (int i = 0; i < wish->n; i++) {
        dim[i] = wish->at[i] ? wish->at[i] : x->dim[i];
        if (wish->at[i] == -1) open = i;
        count *= dim[i];
    }
    int64_t have = pd_meta_numel(x);
    if (have < 0) return PD_OK; /* known when it runs */
    if (open >= 0) return fill_open(x, wish, dim, open);
    if (count != have)
        return pd_fail(PD_SHAPE, "X has shape %s with %lld elements, the shape asked for has %lld",
                       pd_meta_dims_text(x), (long long)have, (long long)count);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    const struct pd_meta *x = pd_infer_in(c, X);
    struct pd_meta *out = pd_infer_out(c, OUT);
    struct pd_numbers wish;
    int64_t dim[PD_MAX_RANK];
    PD_TRY(pd_numbers_infer(c, &source, &wish));
    PD_TRY(pd_view_set_xshape(c, X, XSHAPE));
    if (!out) return PD_OK;
    if (wish.known) {
        PD_TRY(resolve(x, &wish, dim));
    } else {
        if (wish.n > PD_MAX_RANK)
            return pd_fail(PD_SHAPE, "shape asks for %d dimensions; a tensor has at most %d", wish.n,
                           PD_MAX_RANK);
        for (int i = 0; i < wish.n; i++)
            dim[i] = wish.at[i] == 0 && i < x->rank ? x->dim[i] : wish.at[i];
    }
    PD_TRY(pd_out_dims(out, x, wish.n, dim));
    /* Where a number of the shape is a variable, upstream hands no LoD on. */
    if (c->in[SHAPE_LIST].n) pd_meta_take_lod(out, NULL);
    return PD_OK;
}

static pd_status run(const struct pd_run *r)
{
    struct pd_tensor *out = pd_run_out(r, OUT);
    if (r->in[SHAPE].n || r->in[SHAPE_LIST].n) {
        const struct pd_tensor *x = pd_run_in(r, X);
        struct pd_numbers wish;
        int64_t dim[PD_MAX_RANK];
        PD_TRY(pd_numbers_run(r, &source, &wish));
        PD_TRY(resolve(&x->meta, &wish, dim));
        PD_TRY(pd_out_fit(out, x->meta.dtype, wish.n, dim));
    }
    return pd_view_run(r);
}

static const struct pd_slot_def inputs[] = {{"X", 0},
                                            {"Shape", PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                            {"ShapeTensor", PD_SLOT_LIST | PD_SLOT_OPTIONAL | PD_SLOT_SIZES},
                                            {0}};

const struct pd_op pd_op_reshape = {
    .type = "reshape",
    .doc = "Gives X another shape; the elements stay in order.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "reshape_grad",
    .grad_in = "X Out@",
    .grad_out = "X@",
    .share = pd_view_share,
};

const struct pd_op pd_op_reshape2 = {
    .type = "reshape2",
    .doc = "Gives X another shape; XShape keeps the old one for the gradient.",
    .inputs = inputs,
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {"XShape", PD_SLOT_HIDDEN}, {0}},
    .attrs = attrs,
    .flags = PD_OP_ON_SERVER,
    .infer = infer,
    .run = run,
    .grad_type = "reshape2_grad",
    .grad_in = "XShape Out@",
    .grad_out = "X@",
    .share = pd_view_share,
};

PD_VIEW_GRADS(reshape, attrs);
