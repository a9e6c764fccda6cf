/* The inside of a server, shared by server.c (life), lane.c (one loop), session.c (one connection). */
#ifndef PD_PSERVER_SERVER_PRIVATE_H
#define PD_PSERVER_SERVER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/vec.h"
#include "pserver/server.h"
#include "pserver/shard.h"

struct session;
struct pd_control;
struct pd_sum_link;
struct pd_durable;

/* A value that trainers may pull. */
struct served {
    char *name;
    struct pd_value *value; /* of the scope; borrowed */
};

/* What a lane knows of a trainer beside the shard's own book. */
struct member {
    struct session *session; /* NULL: no connection now */
    int64_t lost_at;         /* when its connection broke; 0: it did not */
    char who[192];           /* "trainer 1 (host h, pid 123, 10.0.0.2:5678)" */
};

/* One loop and what it owns. Touched by its thread only, once the server runs. */
struct lane {
    struct pd_server *server;
    int index;
    struct pd_loop *loop;
    struct pd_shard *shard;
    struct pd_timer *timer;
    struct member *members; /* by trainer */
    PD_VEC(struct session *) sessions;
    PD_VEC(struct served) served;
    int64_t waiting_since, noticed; /* the present step: since when someone waits, when that was last told */
    uint64_t waiting_step;
    uint64_t refused; /* messages that could not be served */
    int finished;
};

struct pd_server {
    const struct pd_run *run;
    struct pd_server_config config; /* strings owned */
    struct lane *lanes;
    int n_lanes;
    struct pd_control *control; /* its loop has the listener */
    struct pd_sum_link
        *sum_link;     /* to the first server; NULL: not needed yet. Of the lane that runs blocks */
    uint64_t applying; /* the step whose blocks run; under `engine` */
    struct pd_listener *listener;
    int port;
    uint64_t incarnation, seed;
    struct pd_durable *durable; /* NULL: nothing is kept on disk */
    _Atomic uint64_t step;      /* the highest that a lane has applied */
    _Atomic int connected;      /* trainers' connections, on all lanes */
    pthread_mutex_t engine;     /* blocks that run through the engine, and the learning rate */
    uint64_t lr_step;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    int lanes_finished;
    int wakes;          /* pd_server_wake was called */
    int stops, stopped; /* pd_server_stopped: lanes shall stand still, and how many do */
    int failed, ending;
    int draining;           /* of the main thread: the next cut is the last */
    struct pd_server *next; /* of all that run in this process */
    pd_status failure;
    char failure_text[1024];
    uint64_t *incarnations; /* by trainer; 0: not seen yet */
};

/* server.c */
/* Ends the job with this thread's error; every trainer is told. From any thread. */
void pd_server_fail(struct pd_server *server, pd_status status);
int pd_server_is_ending(struct pd_server *server);         /* or has failed: who waits in a lane gives up */
struct pd_server *pd_server_running(const char *endpoint); /* of this process; NULL: none */
uint64_t pd_server_step(const struct pd_server *server);
void pd_server_set_step(struct pd_server *server, uint64_t step); /* never goes back */
void pd_server_wake(struct pd_server *server);                    /* its main thread has something to do */
/* Runs fn(arg) on the main thread while all lanes stand still. */
void pd_server_stopped(struct pd_server *server, void (*fn)(void *arg), void *arg);
/* op_sum.c */
void pd_sum_link_free(struct pd_sum_link *link);
/* lane.c */
pd_status pd_lane_open(struct lane *lane); /* shard, timer; before the loop starts */
void pd_lane_close(struct lane *lane);
void pd_lane_finish_if_done(struct lane *lane);
const char *pd_lane_who(struct lane *lane, int trainer);
/* Runs the optimize blocks of units that have no rule of their own. */
pd_status pd_server_run_blocks(struct lane *lane);
/* session.c */
extern const struct pd_conn_events pd_session_events;
void pd_session_accepted(void *lane, struct pd_conn *conn);
void pd_session_answer(struct session *session, uint64_t request, uint64_t step);
void pd_session_notice(struct session *session, const char *text);
void pd_session_fail(struct session *session, uint64_t request, pd_status status, const char *text);
int pd_session_waits(const struct session *session);
struct pd_conn *pd_session_conn(const struct session *session);

#endif
