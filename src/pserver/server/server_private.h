/* The inside of a server, shared by server.c (life), lane.c (one loop), session.c (one connection). */
#ifndef PD_PSERVER_SERVER_PRIVATE_H
#define PD_PSERVER_SERVER_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/vec.h"
#include "net/conn.h"
#include "pserver/server/known_names.h"
#include "pserver/server/lane_counts.h"
#include "pserver/server/server.h"
#include "pserver/shard/shard.h"

struct session;
struct pd_book;
struct pd_control;
struct pd_sums;
struct pd_durable;
struct pd_hello;
struct pd_order;
struct pd_meet;
struct pd_first_link;
struct pd_watch;

enum { PD_SERVER_TICK_MS = 200 }; /* how often it looks who is late */

/* A value that trainers may pull. */
struct served {
    char *name;
    struct pd_value *value; /* of the scope; borrowed */
    struct pd_table *table; /* what it is; NULL: a value that trainers only read */
    struct pd_table *of;    /* that it is, or is a state of; NULL: none */
    int is_shared;          /* other lanes change it too, under `engine_lock` */
};

/* What a lane knows of a trainer beside the shard's own book. */
struct member {
    struct session *session; /* NULL: no connection now */
    int64_t lost_at;         /* when its connection broke, or it began to be missed; 0: neither */
    int is_missed;           /* lost, and waited for ('wait') */
    char failed[128];        /* why, when it said so */
    int64_t failed_at;       /* and when */
    int is_back;             /* it had ended and came again, and has given nothing since */
    uint64_t seen;           /* async: `answered` of the lane when it was given values, and one; 0: never */
    char refused[256];       /* why the last process was refused that came for it, and did not get in */
    char who[192];           /* "trainer 1 (host h, pid 123, 10.0.0.2:5678)" */
};

/* Whom a lane waits for: those who have not given to the step, trainers that were lost, or that never came.
 */
enum waiting { FOR_NOBODY, FOR_STEP, FOR_RETURN, FOR_FIRST };

/* One loop and what it owns. Touched by its thread only, once the server runs. */
struct lane {
    struct pd_server *server;
    int index;
    struct pd_loop *loop;
    struct pd_shard *shard;
    struct member *members; /* by trainer */
    PD_VEC(struct session *) sessions;
    PD_VEC(struct served) served;
    struct pd_map served_at; /* name -> its place there, from 1 on */
    enum waiting waiting;
    int64_t waiting_since, noticed; /* since when someone waits for that, when that was last told */
    uint64_t waiting_step;          /* in this step */
    uint64_t refused;               /* messages that could not be served */
    struct pd_lane_counts counts;
    int64_t refusal_told; /* when this was last logged: */
    char refusal[256];
    struct pd_meet *meet; /* of the first loop; else NULL */
    int order_at;         /* changes of membership that it has taken in, and the version of the last */
    uint64_t order_version;
    _Atomic uint64_t applied;    /* the last step */
    _Atomic int64_t saves_since; /* it writes a file for a trainer; 0: none */
    int64_t save_noticed;        /* of the main thread: when that was last told */
    int finished;
};

struct pd_server {
    struct pd_engine engine;        /* what it runs */
    struct pd_server_config config; /* strings owned */
    struct pd_known_names names;    /* what trainers may name */
    struct pd_buf job_text;         /* what it trains, as trainers tell it; empty: not known */
    struct lane *lanes;
    int n_lanes;
    struct pd_book *book;        /* of its trainers */
    struct pd_control *control;  /* its loop has the listener */
    struct pd_sums *sums;        /* over the servers; NULL: the Program needs none */
    struct pd_first_link *first; /* to the first server, for the order; NULL: it is this one, or no need */
    struct pd_first_link *adds;  /* the same for the one that adds; it may be the same link */
    uint64_t applying;           /* the step whose blocks run, and on which lane; under `engine_lock` */
    int applying_lane;
    struct pd_listener *listener;
    struct pd_watch *watch; /* NULL: nobody watches by HTTP */
    int is_closed;          /* all who get in have proved that they are of the job */
    _Atomic int port;       /* 0: it does not listen yet */
    uint64_t incarnation;
    _Atomic uint64_t saves;      /* the number of the last save that it gave out */
    uint64_t calls_as;           /* its incarnation as it is told to other servers only */
    _Atomic uint64_t job_id;     /* drawn by the first server when the job is new; 0: not known yet */
    struct pd_order *order;      /* NULL: each shard applies a step when it is whole there */
    struct pd_durable *durable;  /* NULL: nothing is kept on disk */
    _Atomic uint64_t step;       /* the highest that a lane has applied */
    pthread_mutex_t engine_lock; /* blocks that run through the engine, and the learning rate */
    uint64_t lr_step;
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t changed;
    _Atomic int lanes_finished; /* the book reads it without the lock, */
    int wakes;                  /* pd_server_wake was called */
    int stops, stopped;         /* pd_server_stopped: lanes shall stand still, and how many do */
    int failed;
    _Atomic int ending;     /* and this one */
    _Atomic int draining;   /* set by the main thread: the next cut is the last */
    struct pd_server *next; /* of all that run in this process */
    pd_status failure;
    char failure_text[1024];
};

/* server.c */
/* Ends the job with this thread's error; every trainer is told. From any thread. */
void pd_server_fail(struct pd_server *server, pd_status status);
int pd_server_is_ending(struct pd_server *server);         /* or has failed: who waits in a lane gives up */
struct pd_server *pd_server_running(const char *endpoint); /* of this process; NULL: none */
uint64_t pd_server_step(const struct pd_server *server);
void pd_server_set_step(struct pd_server *server, uint64_t step); /* never goes back */
void pd_server_wake(struct pd_server *server);                    /* its main thread has something to do */
/* Runs fn(arg) on the main thread while all lanes stand still; 0: they do not yet, call it again. */
int pd_server_stopped(struct pd_server *server, void (*fn)(void *arg), void *arg);
/* lane.c */
pd_status pd_lane_open(struct lane *lane); /* shard, timer; before the loop starts */
void pd_lane_close(struct lane *lane);
void pd_lane_finish_if_done(struct lane *lane);
/* A trainer leaves (DONE, LOST): here and now, or, where there is an order, everywhere when it comes to that.
 */
pd_status pd_lane_leave(struct lane *lane, int trainer, enum pd_trainer_state how, const char *why);
/* The order says so. */
pd_status pd_lane_jump(struct lane *lane, uint64_t step); /* at this step at least, before anybody joins */
pd_status pd_lane_change(struct lane *lane, int trainer, uint64_t incarnation, enum pd_trainer_state state,
                         const char *why);
void pd_lane_tell_kept(void *lane); /* on its thread: trainers hear of the newest snapshot */
const char *pd_lane_who(struct lane *lane, int trainer);
/* Trainers that are waited for, and what is known of each: what it said before `since` of its own waiting is
 * over. */
void pd_lane_list_late(struct lane *lane, const int *trainers, int n, int64_t since, char *out, size_t cap);
/* Runs the optimize blocks of units that have no rule of their own. */
pd_status pd_server_run_blocks(struct lane *lane);
/* session.c */
extern const struct pd_conn_events pd_session_events;
const char *pd_session_message(int type); /* its name, one word; NULL: trainers send no such message */
void pd_session_accepted(void *lane, struct pd_conn *conn);
void pd_session_answer(struct session *session, uint64_t request, uint64_t step);
void pd_session_notice(struct session *session, const char *text);
void pd_session_fail(struct session *session, uint64_t request, pd_status status, const char *text);
void pd_session_tell_kept(struct session *session); /* the step of the newest snapshot */
/* It was welcomed long ago and has not opened: out with it. */
void pd_session_sweep(struct session *session, int64_t now);
/* The trainer is in the job now: its OPEN, if one waits for that, is answered. */
void pd_session_joined(struct session *session, int trainer, uint64_t incarnation);
void pd_session_left(struct session *session, enum pd_trainer_state how); /* its goodbye is answered */
int pd_session_waits(const struct session *session);                      /* for the answer of its step */
int pd_session_waits_for_servers(const struct session *session);          /* or to be let in, or out */
/* Whom the trainer waits for itself, as it has said since then; empty: for nobody. */
const char *pd_session_held_up(const struct session *session, int64_t since);
struct pd_conn *pd_session_conn(const struct session *session);

#endif
