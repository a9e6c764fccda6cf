/* Gradients of elementwise_add, sub, mul, div, max, min and pow.
 *
 * Each operand's gradient is first a value for every element of the result. Where the operand was repeated
 * these are summed. For add and sub the values are those of Out@GRAD, so a bias gradient is one column sum.
 */
#include "ops/elementwise.h"
#include "ops/out.h"

enum { X, Y, DOUT, RESULT };
enum { DX, DY };
enum { AXIS };

static const struct pd_slot_def shape_inputs[] = {
    {"X", PD_SLOT_META}, {"Y", PD_SLOT_META}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def value_inputs[] = {{"X"}, {"Y"}, {"Out@GRAD"}, {0}};
static const struct pd_slot_def div_inputs[] = {{"X", PD_SLOT_META}, {"Y"}, {"Out@GRAD"}, {"Out"}, {0}};
static const struct pd_slot_def outputs[] = {{"X@GRAD", PD_SLOT_OPTIONAL}, {"Y@GRAD", PD_SLOT_OPTIONAL}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1), PD_DEF_STRING("x_data_format", ""), PD_DEF_STRING("y_data_format", ""), {0}};
static const struct pd_share share_same[] = {{DX, DOUT, 1}, {-1, -1, 0}};
static const struct pd_share share[] = {{DX, DOUT, 0}, {-1, -1, 0}};

static pd_status begin(const struct pd_run *r, struct pd_ew_grad *g)
{
    return pd_ew_grad_begin(g, r, pd_run_in(r, X), pd_run_in(r, Y), pd_run_in(r, DOUT), r->attr[AXIS].i);
}

/* X@GRAD may take the place of Out@GRAD, so it comes last. */
static pd_status both(const struct pd_ew_grad *g, const pd_ew_kernel *dx, const pd_ew_kernel *dy)
{
    if (pd_run_out(g->r, DY)) PD_TRY(pd_ew_grad_operand(g, dy, g->a.y, pd_run_out(g->r, DY)));
    if (pd_run_out(g->r, DX)) PD_TRY(pd_ew_grad_operand(g, dx, g->a.x, pd_run_out(g->r, DX)));
    return PD_OK;
}

static pd_status run_add(const struct pd_run *r)
{
    struct pd_ew_grad g;
    PD_TRY(begin(r, &g));
    return both(&g, NULL, NULL);
}

/* A repeated Y is summed first and negated after: there is less of it then. */
static pd_status run_sub(const struct pd_run *r)
{
    struct pd_ew_grad g;
    struct pd_tensor *dy = pd_run_out(r, DY), *dx = pd_run_out(r, DX);
    PD_TRY(begin(r, &g));
    if (dy) {
        struct pd_ew_arrays same = {dy->data, dy->data, dy->data, dy->data, dy->data};
        int64_t n = pd_tensor_numel(dy);
        struct pd_bcast flat;
        PD_TRY(pd_ew_grad_operand(&g, NULL, g.a.y, dy));
        pd_bcast_make(&flat, 1, &n, &n);
        pd_elementwise_apply(&flat, pd_ew_sub_dy[g.type], &same);
    }
    return dx ? pd_ew_grad_operand(&g, NULL, g.a.x, dx) : PD_OK;
}

static pd_status run_values(const struct pd_run *r, const pd_ew_kernel *dx, const pd_ew_kernel *dy)
{
    struct pd_ew_grad g;
    PD_TRY(begin(r, &g));
    return both(&g, dx, dy);
}

static pd_status run_mul(const struct pd_run *r)
{
    return run_values(r, pd_ew_mul_dx, pd_ew_mul_dy);
}
static pd_status run_max(const struct pd_run *r)
{
    return run_values(r, pd_ew_max_dx, pd_ew_max_dy);
}
static pd_status run_min(const struct pd_run *r)
{
    return run_values(r, pd_ew_min_dx, pd_ew_min_dy);
}
static pd_status run_pow(const struct pd_run *r)
{
    return run_values(r, pd_ew_pow_dx, pd_ew_pow_dy);
}

/* X itself is not read, and its memory may be gone. */
static pd_status run_div(const struct pd_run *r)
{
    struct pd_ew_grad g;
    PD_TRY(begin(r, &g));
    g.arrays.x = g.arrays.dout;
    g.arrays.out = pd_run_in(r, RESULT)->data;
    return both(&g, pd_ew_div_dx, pd_ew_div_dy);
}

#define GRADIENT(name, in, shares)                                                                           \
    const struct pd_op pd_op_elementwise_##name##_grad = {                                                   \
        .type = "elementwise_" #name "_grad",                                                                \
        .doc = "Gradient of elementwise_" #name ".",                                                         \
        .inputs = in,                                                                                        \
        .outputs = outputs,                                                                                  \
        .attrs = attrs,                                                                                      \
        .infer = pd_out_infer_same_both,                                                                     \
        .run = run_##name,                                                                                   \
        .share = shares,                                                                                     \
    };

GRADIENT(add, shape_inputs, share_same)
GRADIENT(sub, shape_inputs, share_same)
GRADIENT(mul, value_inputs, share)
GRADIENT(div, div_inputs, share)
GRADIENT(max, value_inputs, share)
GRADIENT(min, value_inputs, share)
GRADIENT(pow, value_inputs, share)
