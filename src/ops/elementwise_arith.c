/* elementwise_add, sub, mul, div, max, min, pow, mod, floordiv.
 *
 * The operand of lower rank is repeated along the dimensions it lacks (attribute axis says where it begins),
 * and so is an operand along each dimension where it has size 1. Gradients are in elementwise_grad.c. */
#include "ops/elementwise.h"

enum { X, Y };
enum { OUT };
enum { AXIS };

static const struct pd_slot_def inputs[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {
    PD_DEF_INT("axis", -1), PD_DEF_STRING("x_data_format", ""), PD_DEF_STRING("y_data_format", ""), {0}};
static const struct pd_share share[] = {{OUT, X, 0}, {-1, -1, 0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_elementwise_infer(c, AXIS, PD_DTYPE_NONE);
}

/* Floats have infinities for it; integers have nothing. */
static pd_status refuse_zero(const struct pd_tensor *y)
{
    int64_t n = pd_tensor_numel(y);
    PD_SWITCH_INDEX(y->meta.dtype, T, {
        const T *v = y->data;
        for (int64_t i = 0; i < n; i++)
            if (v[i] == 0)
                return pd_fail(PD_INVALID, "integer division by zero: element %lld of Y is 0", (long long)i);
    })
    return PD_OK;
}

static pd_status divide(const struct pd_run *r, const pd_ew_kernel *kernels)
{
    PD_TRY(refuse_zero(pd_run_in(r, Y)));
    return pd_elementwise_run(r, kernels, r->attr[AXIS].i);
}

static pd_status run_add(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_add, r->attr[AXIS].i);
}
static pd_status run_sub(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_sub, r->attr[AXIS].i);
}
static pd_status run_mul(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_mul, r->attr[AXIS].i);
}
static pd_status run_max(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_max, r->attr[AXIS].i);
}
static pd_status run_min(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_min, r->attr[AXIS].i);
}
static pd_status run_pow(const struct pd_run *r)
{
    return pd_elementwise_run(r, pd_ew_pow, r->attr[AXIS].i);
}
static pd_status run_div(const struct pd_run *r)
{
    return divide(r, pd_ew_div);
}
static pd_status run_mod(const struct pd_run *r)
{
    return divide(r, pd_ew_mod);
}
static pd_status run_floordiv(const struct pd_run *r)
{
    return divide(r, pd_ew_floordiv);
}

#define ELEMENTWISE(name, text, ...)                                                                         \
    const struct pd_op pd_op_elementwise_##name = {                                                          \
        .type = "elementwise_" #name,                                                                        \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs,                                                                                      \
        .infer = infer,                                                                                      \
        .run = run_##name,                                                                                   \
        .share = share,                                                                                      \
        __VA_ARGS__,                                                                                         \
    };
#define GRAD(name, in) .grad_type = "elementwise_" #name "_grad", .grad_in = in, .grad_out = "X@ Y@"

ELEMENTWISE(add, "Out = X + Y.", GRAD(add, "X Y Out@"))
ELEMENTWISE(sub, "Out = X - Y.", GRAD(sub, "X Y Out@"))
ELEMENTWISE(mul, "Out = X * Y.", GRAD(mul, "X Y Out@"))
ELEMENTWISE(div, "Out = X / Y; integers are cut towards zero.", GRAD(div, "X Y Out Out@"))
ELEMENTWISE(max, "Out is the larger of X and Y.", GRAD(max, "X Y Out@"))
ELEMENTWISE(min, "Out is the smaller of X and Y.", GRAD(min, "X Y Out@"))
ELEMENTWISE(pow, "Out = X to the power of Y.", GRAD(pow, "X Y Out@"))
ELEMENTWISE(mod, "Out is the remainder of X / Y.", .flags = PD_OP_NO_GRAD)
ELEMENTWISE(floordiv, "Out = X / Y without the fraction.", .flags = PD_OP_NO_GRAD)
