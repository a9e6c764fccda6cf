/* The inside of an order, for order.c (what is decided), order_link.c (messages between servers) and
 * order_doubt.c (what a first server that was started again does not know). */
#ifndef PD_PSERVER_ORDER_PRIVATE_H
#define PD_PSERVER_ORDER_PRIVATE_H

#include <pthread.h>

#include "pserver/proto.h"
#include "pserver/server/order.h"

/* Why a trainer is lost; empty: not known. */
struct reason {
    char text[PD_PS_WHY_MOST + 1];
};

/* A change of membership. `after` is the last step before it. */
struct change {
    int trainer;
    uint64_t incarnation;
    enum pd_trainer_state state;
    uint64_t version, after;
    struct reason why;
};

struct wish {
    int trainer;
    uint64_t incarnation; /* 0: whichever it is */
    enum pd_trainer_state state;
    int64_t since;
    int is_sent; /* on the present connection to the first server */
    struct reason why;
};

struct membership {
    enum pd_trainer_state state;
    uint64_t incarnation;
    int64_t failed_at; /* at the first server: when it said that it failed; 0: it did not */
    struct reason why; /* and this */
};

/* Whole up to `step`, as far as the changes up to `version` are concerned. */
struct progress {
    uint64_t step, version;
};

struct order_peer {
    struct pd_conn *conn;  /* NULL: not connected; the first server itself has none */
    struct progress ready; /* as told on this connection */
    uint64_t applied;      /* as far as is known */
    uint64_t told;         /* it has kept all changes up to this version; under the lock */
    int has_spoken;        /* while there is doubt: it has said how far it is */
    int64_t away_since;    /* when it was last connected, or this server started */
};

struct pd_order {
    struct pd_server *server;
    struct pd_loop *loop; /* the control loop */
    int self, n_servers;  /* 0 is the first server */
    char **names;         /* of all servers */
    pthread_mutex_t lock; /* what lanes read or write; written by the control loop with it */
    uint64_t version, committed;
    PD_VEC(struct change) changes; /* those that a lane has not taken in yet */
    PD_VEC(struct wish) wishes;
    struct progress *lanes;
    uint64_t *taken;            /* by lane: the version of the last change that it has taken in */
    struct membership *members; /* by trainer; of the control loop */
    struct order_peer *peers;
    struct pd_waiters *waiters; /* at the first server of several */
    struct pd_timer *timer;     /* of the doubt */
    uint64_t came_with;         /* at the start: what all loops had, applied or prepared */
    /* Steps up to this one are passed over by loops that came back without them (FLAGS_ps_accept_rollback).
     */
    uint64_t jump;
    int runs; /* a step was committed since this server started */
    /* At the first server: a step that another server may have applied; 0: there is no doubt. And the most
     * that any of them has. */
    uint64_t doubt, most;
    int64_t doubts_since, noticed;
    uint64_t ready; /* the step that this server is ready for, and since when */
    int64_t ready_since;
    /* Not at the first server. */
    struct pd_conn *link;
    int is_open, was_open;
    int64_t broke_at;
    uint64_t known,
        heard; /* what the first server was told on this connection, and has answered; 0: nothing */
    /* It and the first server, at that step, are further apart than they can agree over: nothing is applied.
     */
    int is_apart;
    uint64_t apart_from;
};

/* order.c; on the control loop */
int pd_order_is_so(const struct pd_order *order, const struct wish *wish);
void pd_order_wish(struct pd_order *order, const struct wish *wish);
void pd_order_commit(struct pd_order *order);
void pd_order_give_up(struct pd_order *order); /* at the first, now and then: have all trainers failed? */
int pd_order_is_ready(const struct pd_order *order, int k); /* at the first: server k, for the next step */
struct progress pd_order_own(struct pd_order *order);       /* under the lock */
void pd_order_tidy(struct pd_order *order);                 /* drops wishes that are so */
/* What is wished, or was told, is so. */
pd_status pd_order_change(struct pd_order *order, const struct wish *so, uint64_t version, uint64_t after);
void pd_order_tell_lanes(struct pd_order *order);
void pd_order_drain(void *order); /* deals with what lanes have left for the control loop */
/* order_doubt.c; on the control loop */
/* Before the loops run: the last step that was committed for sure. */
uint64_t pd_order_look_back(struct pd_order *order);
pd_status pd_order_doubt(struct pd_order *order); /* at the start of the first server: is there a doubt? */
/* Server k has applied all up to `step`. 0: nothing can be decided yet. */
int pd_order_hear(struct pd_order *order, int k, uint64_t step);
int pd_order_may_decide(struct pd_order *order);
/* At another server: the first is at `step`. Can they go on together? If not, this one is apart; in a job
 * that runs it ends. */
void pd_order_meet(struct pd_order *order, uint64_t step, int runs);
pd_status pd_order_apart(const struct pd_order *order); /* the error; under the lock */
/* order_link.c */
/* At the first server: who is not connected is named; trainers that have all failed are given up. */
pd_status pd_order_watch(struct pd_order *order);
void pd_order_ask(struct pd_order *order, struct progress own); /* wishes and READY, to the first server */
void pd_order_say_known(struct pd_order *order); /* to the first server: what all lanes have taken in */
void pd_order_send_change(struct pd_conn *conn, const struct change *change);
void pd_order_send_commit(struct pd_conn *conn, uint64_t step);

#endif
