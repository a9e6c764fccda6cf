/* Ops of plans: several ops done in one pass over memory. passes/fuse.c puts them in; a Program cannot name
 * them. */
#define PD_OPS_PLAN(X)                                                                                       \
    X(fused_add_act)                                                                                         \
    X(fused_add_softmax)                                                                                     \
    X(fused_add_act_grad)                                                                                    \
    X(fused_entropy_softmax_grad)                                                                            \
    X(fused_embedding_concat)                                                                                \
    X(fused_embedding_concat_grad)                                                                           \
    X(fused_embedding_concat_x_grad)                                                                         \
    X(fused_mul_grad_sgd)
