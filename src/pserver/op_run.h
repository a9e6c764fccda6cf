/* What the ops of op_tables.c do when they run, and the state they keep in a plan. */
#ifndef PD_PSERVER_OP_RUN_H
#define PD_PSERVER_OP_RUN_H

#include "base/vec.h"
#include "program/op.h"

/* An attribute of the running op by name: for tables that are too long to number. The op has it. */
static inline const struct pd_attr *pd_ps_attr(const struct pd_run *r, const char *name)
{
    return &r->attr[pd_attr_index(r->op->attrs, name)];
}

/* Sizes of the outputs are those that the Program declares, or that the server tells. */
pd_status pd_ps_infer_nothing(const struct pd_infer *c);

/* Names at servers that an op uses, looked up once in a plan. */
struct pd_ps_state {
    uint64_t client; /* whose the numbers are */
    int *numbers;
    int n;
    void *rows; /* of a sparse gradient cut into slices: row numbers, then rows; kept until the exchange */
    size_t rows_size;
};

void pd_ps_state_free(void *state);

/* The state of a lookup (op_lookup.c). */
struct pd_ps_lookup {
    uint64_t client;            /* whose the numbers in `shares` are */
    struct pd_ps_share *shares; /* what is asked of each part of the table */
    int n;
    PD_VEC(int64_t) places; /* for each different id: share, and position in it */
    void *map_memory;
    size_t map_size;
};

void pd_ps_lookup_free(void *state);

/* op_exchange.c: the trainer's ops */
struct pd_client;
/* The client for an op that runs, and pushes or not (client.h). *known is the one that its state has numbers
 * of: with another one, because this process has said goodbye since, *is_new is 1. Both may be NULL. */
pd_status pd_ps_client(const struct pd_run *r, int pushes, uint64_t *known, int *is_new,
                       struct pd_client **out);
/* The end of such an op, with its status: other threads may have the turn, unless a step is begun. */
pd_status pd_ps_done(const struct pd_run *r, struct pd_client *client, pd_status status);
/* The same for an op with a struct pd_ps_state at the head of its state, which forgets its numbers with
 * another client; says what the job trains. */
pd_status pd_ps_client_of(const struct pd_run *r, int pushes, struct pd_client **out);
/* A process is one trainer until it says goodbye. */
pd_status pd_ps_check_id(const struct pd_run *r, const struct pd_client *client);
/* The number of a gradient, as its server calls it. */
pd_status pd_ps_push_name(struct pd_client *client, const struct pd_run *r, const char *endpoint,
                          const char *name, const struct pd_meta *meta, int *number);
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
/* op_sum.c */
pd_status pd_ps_ps_sum_run(const struct pd_run *r);
/* op_serve.c */
pd_status pd_ps_listen_and_serv_run(const struct pd_run *r);

#endif
