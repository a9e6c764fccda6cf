/* Embeddings, sequences, selected rows, optimizers, metrics, files. */
#define PD_OPS_SPARSE(X)                                                                                       \
    X(lookup_table)                                                                                            \
    X(lookup_table_grad)                                                                                       \
    X(lookup_table_v2)                                                                                         \
    X(lookup_table_v2_grad)                                                                                    \
    X(sgd)                                                                                                     \
    X(dpsgd)                                                                                                   \
    X(momentum)                                                                                                \
    X(lars_momentum)                                                                                           \
    X(adam)                                                                                                    \
    X(adamax)                                                                                                  \
    X(lamb)                                                                                                    \
    X(adagrad)                                                                                                 \
    X(decayed_adagrad)                                                                                         \
    X(adadelta)                                                                                                \
    X(rmsprop)                                                                                                 \
    X(ftrl)                                                                                                    \
    X(proximal_gd)                                                                                             \
    X(proximal_adagrad)                                                                                        \
    X(sequence_pool)                                                                                           \
    X(sequence_pool_grad)                                                                                      \
    X(sequence_conv)                                                                                           \
    X(sequence_conv_grad)                                                                                      \
    X(cos_sim)                                                                                                 \
    X(cos_sim_grad)                                                                                            \
    X(top_k)                                                                                                   \
    X(top_k_grad)                                                                                              \
    X(accuracy)                                                                                                \
    X(auc)                                                                                                     \
    X(save)                                                                                                    \
    X(save_combine)                                                                                            \
    X(load)                                                                                                    \
    X(load_combine)
