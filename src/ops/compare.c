/* Comparisons: less_than, less_equal, greater_than, greater_equal, equal, not_equal. Results are bool. */
#include "ops/elementwise.h"

enum { AXIS };

static const struct pd_slot_def inputs[] = {{"X"}, {"Y"}, {0}};
static const struct pd_slot_def outputs[] = {{"Out"}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INT("axis", -1), PD_DEF_BOOL("force_cpu", 0), {0}};

static pd_status infer(const struct pd_infer *c)
{
    return pd_elementwise_infer(c, AXIS, PD_DTYPE_BOOL);
}

#define COMPARE(name, kernels, text)                                                                         \
    static pd_status name##_run(const struct pd_run *r)                                                      \
    {                                                                                                        \
        return pd_elementwise_run(r, kernels, r->attr[AXIS].i);                                              \
    }                                                                                                        \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = outputs,                                                                                  \
        .attrs = attrs,                                                                                      \
        .flags = PD_OP_NO_GRAD | PD_OP_ON_SERVER,                                                            \
        .infer = infer,                                                                                      \
        .run = name##_run,                                                                                   \
    };

COMPARE(less_than, pd_ew_less, "Out = X < Y.")
COMPARE(less_equal, pd_ew_less_equal, "Out = X <= Y.")
COMPARE(greater_than, pd_ew_greater, "Out = X > Y.")
COMPARE(greater_equal, pd_ew_greater_equal, "Out = X >= Y.")
COMPARE(equal, pd_ew_equal, "Out = X == Y; floats also when they differ by less than 1e-8.")
COMPARE(not_equal, pd_ew_not_equal, "Out = X != Y; floats when they differ by 1e-8 or more.")
