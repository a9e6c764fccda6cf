/* prelu: X where it is positive, else X times a learnt slope. The slope is one number (mode all), one per
 * channel, or one per element of a sample. */
#include <string.h>

#include "ops/check.h"
#include "ops/elements.h"
#include "ops/elementwise.h"
#include "ops/out.h"

enum { X, ALPHA, DOUT };
enum { OUT };
enum { DX, DALPHA };
enum { MODE };

static const struct pd_slot_def inputs[] = {{"X"}, {"Alpha"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_slot_def grad_inputs[] = {{"X"}, {"Alpha"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def grad_outputs[] = {
    {"X@GRAD", PD_SLOT_OPTIONAL}, {"Alpha@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_STRING("mode", "all"), {0}};

/* The slopes in a shape that lines up with X. */
static pd_status view(const struct pd_attr *attr, const struct pd_meta *x, const struct pd_meta *alpha,
                      struct pd_meta *as)
{
    const char *mode = attr[MODE].s;
    int64_t n = pd_meta_numel(alpha), want = -1;
    *as = (struct pd_meta){.kind = PD_KIND_TENSOR, .dtype = alpha->dtype, .rank = x->rank};
    for (int i = 0; i < x->rank; i++)
        as->dim[i] = 1;
    if (strcmp(mode, "all") == 0) {
        want = 1;
    } else if (strcmp(mode, "channel") == 0) {
        if (x->rank < 2)
            return pd_fail(PD_SHAPE, "mode 'channel' needs X of two dimensions or more, found %s",
                           pd_meta_dims_text(x));
        want = as->dim[1] = x->dim[1];
    } else if (strcmp(mode, "element") == 0) {
        for (int i = 1; i < x->rank; i++)
            as->dim[i] = x->dim[i];
        want = pd_meta_span(x, 1, x->rank);
    } else {
        return pd_fail(PD_INVALID, "attribute mode is '%s'; use 'all', 'channel' or 'element'", mode);
    }
    if (n >= 0 && want >= 0 && n != want)
        return pd_fail(PD_SHAPE, "Alpha has %lld elements; mode '%s' with X of shape %s needs %lld",
                       (long long)n, mode, pd_meta_dims_text(x), (long long)want);
    return PD_OK;
}

static pd_status infer(const struct pd_infer *c)
{
    struct pd_meta as;
    PD_TRY(view(c->attr, pd_infer_in(c, X), pd_infer_in(c, ALPHA), &as));
    return pd_out_infer_same(c);
}

static pd_status run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *alpha = pd_run_in(r, ALPHA);
    struct pd_meta as;
    struct pd_bcast b;
    int type;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(view(r->attr, &x->meta, &alpha->meta, &as));
    PD_TRY(pd_elements_type(x->meta.dtype, &type));
    pd_bcast_make(&b, x->meta.rank, x->meta.dim, as.dim);
    struct pd_ew_arrays arrays = {.to = pd_run_out(r, OUT)->data, .x = x->data, .y = alpha->data};
    pd_elementwise_apply(&b, pd_ew_prelu[type], &arrays);
    return PD_OK;
}

const struct pd_op pd_op_prelu = {
    .type = "prelu",
    .doc = "X where it is positive, else Alpha X.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .infer = infer,
    .run = run,
    .grad_type = "prelu_grad",
    .grad_in = "X Alpha Out@",
    .grad_out = "X@ Alpha@",
};

static pd_status grad_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X), *alpha = pd_run_in(r, ALPHA);
    struct pd_tensor slopes = *alpha;
    struct pd_ew_grad g;
    PD_TRY(pd_check_float_data(x, "X"));
    PD_TRY(view(r->attr, &x->meta, &alpha->meta, &slopes.meta));
    PD_TRY(pd_ew_grad_begin(&g, r, x, &slopes, pd_run_in(r, DOUT), -1));
    if (pd_run_out(r, DALPHA)) PD_TRY(pd_ew_grad_operand(&g, pd_ew_prelu_dy, g.a.y, pd_run_out(r, DALPHA)));
    if (pd_run_out(r, DX)) PD_TRY(pd_ew_grad_operand(&g, pd_ew_prelu_dx, g.a.x, pd_run_out(r, DX)));
    return PD_OK;
}

const struct pd_op pd_op_prelu_grad = {
    .type = "prelu_grad",
    .doc = "Gradient of prelu.",
    .inputs = grad_inputs,
    .outputs = grad_outputs,
    .attrs = attrs,
    .infer = pd_out_infer_same_both,
    .run = grad_run,
};
