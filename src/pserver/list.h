/* The ops that speak with servers; each line names `const struct pd_op pd_op_<name>` of op_tables.c. */
#ifndef PD_PSERVER_LIST_H
#define PD_PSERVER_LIST_H

#define PD_OPS_PSERVER(X)                                                                                    \
    X(send)                                                                                                  \
    X(recv)                                                                                                  \
    X(send_barrier)                                                                                          \
    X(fetch_barrier)                                                                                         \
    X(listen_and_serv)                                                                                       \
    X(split_byref)                                                                                           \
    X(prefetch)                                                                                              \
    X(distributed_lookup_table)                                                                              \
    X(checkpoint_notify)                                                                                     \
    X(recv_save)                                                                                             \
    X(delete_var)                                                                                            \
    X(ps_sum)                                                                                                \
    X(geo_sgd)

/* Ops of plans that stand for several of these. */
#define PD_OPS_PSERVER_PLAN(X)                                                                               \
    X(ps_send)                                                                                               \
    X(ps_exchange)

#endif
