/* logical_and, logical_or, logical_xor and logical_not, on bools. */
#include "ops/elementwise.h"
#include "ops/out.h"

enum { X, Y };
enum { OUT };

static const struct pd_slot_def two[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def one[] = {{"X"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};

static pd_status check_bool(const struct pd_meta *m, const char *slot)
{
    if (!m || m->dtype == PD_DTYPE_BOOL || m->dtype == PD_DTYPE_NONE) return PD_OK;
    return pd_fail(PD_TYPE, "%s is %s; it must be bool, cast it or compare it first", slot,
                   pd_dtype_name(m->dtype));
}

static pd_status logic_infer(const struct pd_infer *c)
{
    PD_TRY(check_bool(pd_infer_in(c, X), "X"));
    PD_TRY(check_bool(pd_infer_in(c, Y), "Y"));
    return pd_elementwise_infer(c, -1, PD_DTYPE_BOOL);
}

#define LOGIC(name, kernels, text)                                                                           \
    static pd_status name##_run(const struct pd_run *r)                                                      \
    {                                                                                                        \
        return pd_elementwise_run(r, kernels, -1);                                                           \
    }                                                                                                        \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = two,                                                                                       \
        .outputs = outputs,                                                                                  \
        .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,                                                            \
        .infer = logic_infer,                                                                                \
        .run = name##_run,                                                                                   \
    };

LOGIC(logical_and, pd_ew_and, "Out = X and Y.")
LOGIC(logical_or, pd_ew_or, "Out = X or Y.")
LOGIC(logical_xor, pd_ew_xor, "Out is true where one of X and Y is.")

static pd_status not_infer(const struct pd_infer *c)
{
    PD_TRY(check_bool(pd_infer_in(c, X), "X"));
    return pd_out_infer_same(c);
}

static pd_status not_run(const struct pd_run *r)
{
    const struct pd_tensor *x = pd_run_in(r, X);
    const uint8_t *from = x->data;
    uint8_t *to = pd_run_out(r, OUT)->data;
    int64_t n = pd_tensor_numel(x);
    for (int64_t i = 0; i < n; i++)
        to[i] = !from[i];
    return PD_OK;
}

const struct pd_op pd_op_logical_not = {
    .type = "logical_not",
    .doc = "Out = not X.",
    .inputs = one,
    .outputs = outputs,
    .flags = PD_OP_NO_GRAD,
    .infer = not_infer,
    .run = not_run,
};
