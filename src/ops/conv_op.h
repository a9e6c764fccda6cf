/* What the ops of conv.c and conv_transpose.c share beside the shape: slots, running, gradients, tables. */
#ifndef PD_OPS_CONV_OP_H
#define PD_OPS_CONV_OP_H

#include "ops/conv_shape.h"

/* Inputs of an op and of its gradient; the op's own inputs come after Bias. */
enum { PD_CONV_SLOT_INPUT, PD_CONV_SLOT_FILTER, PD_CONV_SLOT_BIAS, PD_CONV_SLOT_GRAD_OUTPUT };

/* Reads the shape of the convolution from Input to Output; that of a transposed one leads from Output to
 * Input. */
typedef pd_status pd_conv_op_shape(const struct pd_attr *attr, const struct pd_meta *input,
                                   const struct pd_meta *filter, struct pd_conv *conv);

/* Output = Input * Filter + Bias, and the wanted gradients. */
pd_status pd_conv_op_run(const struct pd_run *r, pd_conv_op_shape *shape_of, int transposed);
pd_status pd_conv_op_grad_run(const struct pd_run *r, pd_conv_op_shape *shape_of, int transposed);
pd_status pd_conv_op_grad_infer(const struct pd_infer *c);
void pd_conv_op_state_free(void *state);

extern const struct pd_slot_def pd_conv_op_outputs[], pd_conv_op_grad_inputs[], pd_conv_op_grad_outputs[];

/* The attributes that every table starts with: enum in conv_shape.h. */
#define PD_CONV_EACH_2(n) n, n
#define PD_CONV_EACH_3(n) n, n, n
#define PD_CONV_ATTRS(axes, format)                                                                          \
    PD_DEF_INTS_OF("strides", PD_CONV_EACH_##axes(1)), PD_DEF_INTS_OF("paddings", PD_CONV_EACH_##axes(0)),   \
        PD_DEF_STRING("padding_algorithm", "EXPLICIT"), PD_DEF_INT("groups", 1),                             \
        PD_DEF_INTS_OF("dilations", PD_CONV_EACH_##axes(1)), PD_DEF_STRING("data_format", format)

/* An op and its gradient, from the file's inputs, attrs_2d or attrs_3d, infer, run and grad_run. */
#define PD_CONV_OPS(name, axes, text)                                                                        \
    const struct pd_op pd_op_##name = {                                                                      \
        .type = #name,                                                                                       \
        .doc = text,                                                                                         \
        .inputs = inputs,                                                                                    \
        .outputs = pd_conv_op_outputs,                                                                       \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = infer,                                                                                      \
        .run = run,                                                                                          \
        .grad_type = #name "_grad",                                                                          \
        .grad_in = "Input Filter Bias Output@",                                                              \
        .grad_out = "Input@ Filter@ Bias@",                                                                  \
        .state_size = sizeof(struct pd_conv_cache),                                                          \
        .state_free = pd_conv_op_state_free,                                                                 \
    };                                                                                                       \
    const struct pd_op pd_op_##name##_grad = {                                                               \
        .type = #name "_grad",                                                                               \
        .doc = "Gradient of " #name ".",                                                                     \
        .inputs = pd_conv_op_grad_inputs,                                                                    \
        .outputs = pd_conv_op_grad_outputs,                                                                  \
        .attrs = attrs_##axes##d,                                                                            \
        .infer = pd_conv_op_grad_infer,                                                                      \
        .run = grad_run,                                                                                     \
        .state_size = sizeof(struct pd_conv_cache),                                                          \
        .state_free = pd_conv_op_state_free,                                                                 \
    }

#endif
