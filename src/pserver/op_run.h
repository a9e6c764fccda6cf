/* What the ops of op_tables.c do when they run, and the state they keep in a plan. */
#ifndef PD_PSERVER_OP_RUN_H
#define PD_PSERVER_OP_RUN_H

#include "program/op.h"

/* Ops that only mean something to other versions are built, printed and saved; plans leave them out. */
#define PD_PS_RUN(name) PD_PS_RUN_##name
#define PD_PS_RUN_send pd_ps_send_run
#define PD_PS_RUN_recv pd_ps_recv_run
#define PD_PS_RUN_send_barrier pd_ps_send_barrier_run
#define PD_PS_RUN_fetch_barrier pd_ps_fetch_barrier_run
#define PD_PS_RUN_listen_and_serv pd_ps_listen_and_serv_run
#define PD_PS_RUN_ps_sum pd_ps_ps_sum_run
#define PD_PS_RUN_prefetch pd_ps_prefetch_run
#define PD_PS_RUN_distributed_lookup_table pd_ps_distributed_lookup_table_run
#define PD_PS_RUN_checkpoint_notify pd_ps_checkpoint_notify_run
#define PD_PS_RUN_recv_save pd_ps_recv_save_run
#define PD_PS_RUN_delete_var pd_ps_delete_var_run

/* Names at servers that an op uses, looked up once in a plan. */
struct pd_ps_state {
    int *numbers;
    int n;
    void *rows; /* of a sparse gradient cut into slices: row numbers, then rows; kept until the exchange */
    size_t rows_size;
};

void pd_ps_state_free(void *state);

/* The state of a lookup (op_lookup.c). */
struct pd_ps_lookup {
    void *shares;
    int n;
    struct {
        int64_t *at;
        int n, cap;
    } places;
    void *map_memory;
    size_t map_size;
};

void pd_ps_lookup_free(void *state);

/* op_exchange.c: the trainer's ops */
/* What the Program declares of an argument; NULL: nothing. */
const struct pd_meta *pd_ps_declared(const struct pd_run *r, int is_output, int slot, int i);
pd_status pd_ps_send_run(const struct pd_run *r);
pd_status pd_ps_send_slices_run(const struct pd_run *r);
pd_status pd_ps_recv_run(const struct pd_run *r);
pd_status pd_ps_send_barrier_run(const struct pd_run *r);
pd_status pd_ps_fetch_barrier_run(const struct pd_run *r);
pd_status pd_ps_exchange_run(const struct pd_run *r);
/* op_lookup.c */
pd_status pd_ps_distributed_lookup_table_run(const struct pd_run *r);
pd_status pd_ps_prefetch_run(const struct pd_run *r);
/* op_save.c */
pd_status pd_ps_recv_save_run(const struct pd_run *r);
pd_status pd_ps_checkpoint_notify_run(const struct pd_run *r);
pd_status pd_ps_delete_var_run(const struct pd_run *r);
/* op_sum.c */
pd_status pd_ps_ps_sum_run(const struct pd_run *r);
/* op_serve.c */
pd_status pd_ps_listen_and_serv_run(const struct pd_run *r);

#endif
