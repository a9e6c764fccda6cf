/* How an activation is written: one PD_ACT entry gives its kernels, the op and its gradient op.
 *
 *     PD_ACT_OUT(name, "doc", forward formula, backward formula, attributes...)
 *     PD_ACT_X(...)
 *
 * Formulas are in `real` (float or double). Forward: x. Backward: dout, and out for PD_ACT_OUT or x for
 * PD_ACT_X. Up to three float attributes are there as p0, p1, p2 in the order of the list. kernels/ew_math.h
 * has the functions by type. */
#ifndef PD_OPS_ACT_H
#define PD_OPS_ACT_H

#include "kernels/clones.h"
#include "kernels/ew_math.h"
#include "ops/out.h"

struct pd_act_call {
    void *to;
    const void *from; /* forward: x; backward: x or out */
    const void *dout;
    float p[3];
};

typedef void (*pd_act_kernel)(const struct pd_act_call *call, int64_t begin, int64_t end);

/* The kernels of an activation, for ops that do one along with something else. */
struct pd_act {
    const pd_act_kernel *forward, *backward; /* by type as in pd_act_forward; backward reads out */
};
extern const struct pd_act pd_act_relu, pd_act_tanh, pd_act_sigmoid;
#define PD_ACT_SHOW(name) const struct pd_act pd_act_##name = {name##_kernels, name##_grad_kernels};

enum { PD_ACT_SLOT_ANY = -1, PD_ACT_SLOT_X, PD_ACT_SLOT_OUT, PD_ACT_SLOT_DOUT }; /* inputs of a gradient op */

extern const struct pd_slot_def pd_act_inputs[], pd_act_outputs[], pd_act_grad_outputs[];
extern const struct pd_slot_def pd_act_grad_inputs[];
extern const struct pd_share pd_act_share[], pd_act_grad_share[];

pd_status pd_act_infer_grad(const struct pd_infer *c);
/* `kernels` are for float32, float64, int32, int64; NULL: not for this type. Selected rows keep their rows.
 */
pd_status pd_act_forward(const struct pd_run *r, const pd_act_kernel kernels[4]);
/* `slot`: the forward variable that the gradient reads; PD_ACT_SLOT_ANY: X where it is given, else Out. */
pd_status pd_act_backward(const struct pd_run *r, int slot, const pd_act_kernel kernels[4]);

#define PD_ACT_FORWARD_KERNEL(name, T, formula)                                                              \
    PD_CLONES static void name(const struct pd_act_call *call, int64_t begin, int64_t end)                   \
    {                                                                                                        \
        typedef T real;                                                                                      \
        const real *from = call->from;                                                                       \
        real *to = call->to;                                                                                 \
        const real p0 = (real)call->p[0], p1 = (real)call->p[1], p2 = (real)call->p[2];                      \
        (void)p0, (void)p1, (void)p2;                                                                        \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++)                                           \
        {                                                                                                    \
            const T x = from[i];                                                                             \
            to[i] = (T)(formula);                                                                            \
        }                                                                                                    \
    }

#define PD_ACT_BACKWARD_KERNEL(name, T, variable, formula)                                                   \
    PD_CLONES static void name(const struct pd_act_call *call, int64_t begin, int64_t end)                   \
    {                                                                                                        \
        typedef T real;                                                                                      \
        const real *from = call->from, *douts = call->dout;                                                  \
        real *to = call->to;                                                                                 \
        const real p0 = (real)call->p[0], p1 = (real)call->p[1], p2 = (real)call->p[2];                      \
        (void)p0, (void)p1, (void)p2;                                                                        \
        _Pragma("GCC ivdep") for (int64_t i = begin; i < end; i++)                                           \
        {                                                                                                    \
            const T variable = from[i], dout = douts[i];                                                     \
            (void)variable, (void)dout;                                                                      \
            to[i] = (T)(formula);                                                                            \
        }                                                                                                    \
    }

/* The kernels of an activation, and their tables. */
#define PD_ACT_FLOATS(name, forward, variable, backward)                                                     \
    PD_ACT_FORWARD_KERNEL(name##_f32, float, forward)                                                        \
    PD_ACT_FORWARD_KERNEL(name##_f64, double, forward)                                                       \
    PD_ACT_BACKWARD_KERNEL(name##_grad_f32, float, variable, backward)                                       \
    PD_ACT_BACKWARD_KERNEL(name##_grad_f64, double, variable, backward)                                      \
    static const pd_act_kernel name##_kernels[4] = {name##_f32, name##_f64};                                 \
    static const pd_act_kernel name##_grad_kernels[4] = {name##_grad_f32, name##_grad_f64};

/* Also for integers, in formulas of their own (`real` is then an integer). */
#define PD_ACT_NUMBERS(name, forward, variable, backward, whole, whole_backward)                             \
    PD_ACT_FORWARD_KERNEL(name##_f32, float, forward)                                                        \
    PD_ACT_FORWARD_KERNEL(name##_f64, double, forward)                                                       \
    PD_ACT_FORWARD_KERNEL(name##_i32, int32_t, whole)                                                        \
    PD_ACT_FORWARD_KERNEL(name##_i64, int64_t, whole)                                                        \
    PD_ACT_BACKWARD_KERNEL(name##_grad_f32, float, variable, backward)                                       \
    PD_ACT_BACKWARD_KERNEL(name##_grad_f64, double, variable, backward)                                      \
    PD_ACT_BACKWARD_KERNEL(name##_grad_i32, int32_t, variable, whole_backward)                               \
    PD_ACT_BACKWARD_KERNEL(name##_grad_i64, int64_t, variable, whole_backward)                               \
    static const pd_act_kernel name##_kernels[4] = {name##_f32, name##_f64, name##_i32, name##_i64};         \
    static const pd_act_kernel name##_grad_kernels[4] = {name##_grad_f32, name##_grad_f64, name##_grad_i32,  \
                                                         name##_grad_i64};

/* The two ops, over the tables. `words`: the forward variable in the gradient's table. */
#define PD_ACT_OPS(name, text, slot, words, ...)                                                             \
    static const struct pd_attr_def name##_attrs[] = {__VA_ARGS__ __VA_OPT__(, ){0}};                        \
    static pd_status name##_run(const struct pd_run *r)                                                      \
    {                                                                                                        \
        return pd_act_forward(r, name##_kernels);                                                            \
    }                                                                                                        \
    static pd_status name##_grad_run(const struct pd_run *r)                                                 \
    {                                                                                                        \
        return pd_act_backward(r, slot, name##_grad_kernels);                                                \
    }                                                                                                        \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = pd_act_inputs,                                                                             \
        .outputs = pd_act_outputs,                                                                           \
        .attrs = name##_attrs,                                                                               \
        .flags = PD_OP_ON_SERVER,                                                                            \
        .infer = pd_out_infer_same,                                                                          \
        .run = name##_run,                                                                                   \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = words " Out@",                                                                            \
        .grad_out = "X@",                                                                                    \
        .share = pd_act_share,                                                                               \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = pd_act_grad_inputs,                                                                        \
        .outputs = pd_act_grad_outputs,                                                                      \
        .attrs = name##_attrs,                                                                               \
        .infer = pd_act_infer_grad,                                                                          \
        .run = name##_grad_run,                                                                              \
        .share = pd_act_grad_share,                                                                          \
    };

#define PD_ACT_X(name, text, forward, backward, ...)                                                         \
    PD_ACT_FLOATS(name, forward, x, backward)                                                                \
    PD_ACT_OPS(name, text, PD_ACT_SLOT_X, "X", __VA_ARGS__)
#define PD_ACT_OUT(name, text, forward, backward, ...)                                                       \
    PD_ACT_FLOATS(name, forward, out, backward)                                                              \
    PD_ACT_OPS(name, text, PD_ACT_SLOT_OUT, "Out", __VA_ARGS__)
/* Steps: the gradient is zero. */
#define PD_ACT_STEP(name, text, forward)                                                                     \
    PD_ACT_FLOATS(name, forward, out, 0)                                                                     \
    PD_ACT_OPS(name, text, PD_ACT_SLOT_DOUT, "", )

#endif
