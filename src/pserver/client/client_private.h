/* The inside of a client, for client*.c only: client.c (connections, names, where messages go),
 * client_wait.c (waiting), client_loop.c (whose thread turns the loop), client_turn.c (the process's client,
 * and whose step it is), client_group.c (which servers are of one job, and the step to begin with there),
 * client_job.c (the job's id), client_ask.c and client_step.c (what is asked and exchanged), client_finite.c
 * (no NaN is), client_own.c (what the trainer alone holds), client_meet.c (where trainers meet),
 * client_goodbye.c. */
#ifndef PD_PSERVER_CLIENT_PRIVATE_H
#define PD_PSERVER_CLIENT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/vec.h"
#include "base/wait.h"
#include "net/conn.h"
#include "pserver/client/client.h"
#include "pserver/proto.h"
#include "pserver/stall.h"

enum { PD_CLIENT_TURN_MS = 50 };

/* What a trainer's flags say: read once, when its client is made. */
struct pd_client_settings {
    char job[sizeof((struct pd_hello *)0)->job];
    int deadline_ms, notice_ms;
    int silence_ms;       /* after which a connection counts as stalled; 0: never */
    int retry_times;      /* how often a connection may break under one wait; -1: any */
    int accepts_rollback; /* servers may have less than they acknowledged */
};
struct pd_client_settings pd_client_settings_read(void);

/* ---- requests ---- */

struct wanted {
    int name;
    void *to;
    size_t bytes;
};

enum request_kind {
    REQUEST_STEP,   /* the end of this trainer's push */
    REQUEST_PASS,   /* the same of a step that it gives nothing to */
    REQUEST_VALUES, /* whole values */
    REQUEST_ROWS,   /* some rows of one */
    REQUEST_SAVE,   /* a value shall be written */
    REQUEST_GATHER, /* a meeting of all trainers */
    REQUEST_BYE,
};

/* Where trainers meet under this name. */
struct gathering {
    char name[PD_PS_MEET_NAME + 1];
    uint64_t round; /* the next; 0: the one that is open there */
    int is_asked;   /* a thread waits for it: */
    const void *bytes;
    size_t n;
    struct pd_buf *out; /* NULL: a barrier */
};

/* Something that is asked on one connection and has not been answered. When that breaks it is asked again on
 * the next one. */
struct request {
    enum request_kind kind;
    uint64_t number; /* on this connection; 0: not sent there yet */
    struct wire *wire;
    struct pd_ask *ask;   /* whose it is; NULL: the connection's own */
    int is_asked;         /* the connection's list has it */
    struct request *next; /* of the same ask */
    PD_VEC(struct wanted) wanted;
    const int64_t *rows; /* of the first that is wanted */
    int64_t n_rows;
    struct pd_client_save *save;
    struct gathering *gathering;
};

/* ---- the push of a step ---- */

/* A piece of a gradient: kept until the step is acknowledged. */
struct piece {
    int name;
    uint32_t part;
    int64_t rows; /* 0: dense */
    const int64_t *row_numbers;
    const void *data;
    size_t bytes;
};

enum push_state {
    PUSH_GATHERS, /* pieces come, and are sent as they do */
    PUSH_ENDS,    /* all are there */
    PUSH_ENDED,   /* the server knows that, or will: its answer is waited for */
};

struct push {
    enum push_state state;
    PD_VEC(struct piece) pieces;
    int sent;     /* pieces that were handed to the connection */
    int is_meant; /* a sparse gradient of this step is for it, also when it has no rows: the step is ended
                     there */
    struct request end;
};

/* ---- connections ---- */

enum wire_state {
    WIRE_DOWN,    /* there is none, or its handshake is not through */
    WIRE_WELCOME, /* it is, and the OPEN is not answered */
    WIRE_OPEN,
    WIRE_QUIT, /* goodbye was answered: it is not made again */
};

/* One connection: a loop of a server. */
struct wire {
    struct link *link;
    int index;
    struct pd_conn *conn; /* NULL: broken */
    enum wire_state state;
    int said_program; /* what this trainer trains was told to this connection */
    int names_opened; /* names told to this connection */
    int names_answered;
    uint64_t step;    /* the one being exchanged: last applied + 1 */
    uint64_t next;    /* at least this one after it: the others have gone on */
    uint64_t counted; /* the last one that counts this trainer */
    uint64_t until; /* the server has what this trainer gives to the steps before this one: others lack it */
    int has_parts;  /* of the next step, which a process before this one had begun */
    int passes;     /* it gives nothing to this step, which others are in already */
    int is_aside;   /* ... because this trainer is at a meeting */
    uint64_t awaited, calls; /* the step of the last AWAITED, and how many there were */
    struct push push;
    struct request pass, bye;
    uint64_t asked, answered;          /* the number of the last request, and how many answers came */
    PD_VEC(struct request *) requests; /* of asks, in their order */
    size_t rows_asked;                 /* bytes of rows that are on their way here */
    PD_VEC(struct pd_span) spans;      /* where an answer goes */
    int64_t broke_at, retry_at;
    int was_opened; /* at least once */
    int retries;    /* connections that ended since it was open */
    int refusals;   /* ... of them, those that the handshake refused */
    int breaks;     /* open connections that ended since it answered last */
    int is_taken;   /* another process has our id; `trouble` tells, and `refusal` when the server is gone */
    char refusal[288];
    int64_t bye_at; /* when goodbye was said on this connection */
    struct pd_stall stall;
    uint64_t notices;  /* bytes of them that came on this connection */
    char trouble[512]; /* the last thing that went wrong */
    char said[512];    /* whom the server waits for, by its last notice; empty: it has answered since */
    int64_t said_at;
};

/* Of a server's snapshots, so many are remembered: the others may be that far behind with theirs. */
enum { PD_LINK_KEPT = 16 };

/* The servers of one job, and where this trainer is in it. A process has one for each model that it trains
 * with servers of its own. */
struct group {
    int n_links;
    int trainers;         /* how many there are; 0: not known */
    int is_aligned;       /* all servers are in the same step for this trainer: nothing is pushed before */
    int checks;           /* a server refuses NaN: nothing of a step is sent before all of it was looked at */
    _Atomic int is_asked; /* for `steps`, before that: what is repeated is the batch that it was */
    _Atomic uint64_t steps;  /* the last that counts this trainer on all of them */
    _Atomic uint64_t job;    /* the one that they are in, as one told or all agreed; 0: not known yet */
    _Atomic uint64_t passed; /* steps of others, at meetings, since somebody asked */
    uint64_t common;  /* the newest snapshot that all of them have, as they were told; 0: none is known */
    uint64_t cut;     /* the step of the next snapshot, as one of them told: passed on to all */
    int is_passed_on; /* a server that has heard the goodbye tells it those that are down */
};

struct link {
    struct pd_client *client;
    int index;
    struct group *group;
    char *endpoint;
    PD_VEC(struct wire *) wires; /* by the server's loops */
    uint64_t incarnation;        /* of the server */
    int n_loops;                 /* 0: not known yet */
    struct pd_buf program;       /* what is trained there (job_text.h); empty: not known */
    uint64_t job_id, applied;    /* the job it is in (0: none yet) and the step it is at, as it told last */
    int job_flags;               /* PD_PS_JOB_* */
    uint64_t ahead;              /* the number of a snapshot there less its step */
    char on_loss[16];            /* what it does about lost trainers; empty: not known yet */
    uint64_t answers, expected;  /* how often it has told that, and how often it is to have */
    uint64_t kept[PD_LINK_KEPT]; /* the steps of its newest snapshots, as it told; the last one first */
    PD_VEC(struct gathering *) gatherings;
    uint64_t agreed; /* the job that all servers are in; 0: not known yet */
};

struct name {
    struct link *link;
    char *text;
    int is_pull;
    struct pd_meta meta; /* kind 0: not told */
    int wire;            /* which loop has it; -1: not known yet */
    uint32_t number;
};

struct pd_client {
    /* All that follows, and the loop, are for one thread at a time (client_loop.c). */
    pthread_mutex_t lock;
    pthread_cond_t freed, over;
    int is_owned, is_turning; /* a thread has them; it waits for events */
    int wanting, waiting;     /* threads that want them: for a moment, or to turn the loop */
    atomic_int in_wait;       /* threads in pd_client_wait_until */
    pthread_t minder;
    int has_minder, is_over;
    int64_t left_at; /* when the last call ended */
    struct pd_loop *loop;
    _Atomic int id; /* -1: not known */
    pid_t pid;      /* a forked child has none of its connections */
    uint64_t incarnation;
    int comes_again; /* its process had another client, which said goodbye */
    int trains_on;   /* ... in the middle of training: servers that are not there have ended */
    int is_beside;   /* it was refused, as another process had its id */
    int is_leaving;  /* it says goodbye, and asks for nothing more */
    PD_VEC(struct link *) links;
    pthread_mutex_t links_lock; /* what links there are, and their groups: for who asks without a call */
    PD_VEC(struct name) names;
    PD_VEC(struct request *) spare; /* requests that were answered */
    int failed;                     /* a server ended the job */
    pd_status failure;
    char failure_text[1024];
    char spoilt[1024]; /* why this trainer cannot push any more; empty: it can */
    char halfway[400]; /* the same for others, when it leaves; empty: it leaves between two steps */
    struct pd_client_settings settings;
    int64_t noticed;   /* when a server told last whom it waits for */
    int64_t explained; /* when servers were told last why this trainer is late */
};

/* All connections, or those of one job. */
struct wire *pd_wire_after(const struct pd_client *client, const struct wire *wire); /* NULL: the first */
#define PD_EACH_WIRE(c, w) for (struct wire *w = pd_wire_after(c, NULL); w; w = pd_wire_after(c, w))
#define PD_EACH_WIRE_OF(c, g, w)                                                                             \
    PD_EACH_WIRE(c, w)                                                                                       \
        if (w->link->group == (g))

/* client.c */
/* The next connection asks for all names anew. One for a goodbye needs none, and what was refused before
 * would be again. */
void pd_wire_forget_names(struct wire *wire);
pd_status pd_client_new(int trainer_id, int comes_again, struct pd_client **out);
void pd_client_free(struct pd_client *client); /* after pd_client_unmind */
pd_status pd_client_connect(struct pd_client *client, const struct pd_run *run, const char *endpoint,
                            struct link **out);
/* Opens what is not open yet and tries again what broke. */
void pd_client_tend(struct pd_client *client, int64_t now);
void pd_client_ask_names(struct wire *wire); /* OPEN, also when no name is new */
/* A server ended the job, or cannot be in it. */
void pd_client_job_failed(struct pd_client *client, pd_status status, const char *endpoint, const char *text);
/* client_wait.c */
int pd_wire_is_waited_for(const struct wire *wire);
/* Waits until done(arg), an error of the job, an interruption or the deadline. `what` is for messages. Other
 * threads have the client meanwhile; `done` is asked when this one has it. */
pd_status pd_client_wait_until(struct pd_client *client, const struct pd_run *run, int (*done)(void *arg),
                               void *arg, const char *what);
/* Says that it waits, or gives up, when it is `now` time for that. is_found: somebody has said why. */
pd_status pd_client_tell_waits(const struct pd_patience *patience, enum pd_patience_now now, const char *what,
                               const char *why, int is_found);
void pd_client_describe(const struct pd_client *client, char *out,
                        size_t cap); /* who is waited for, and why */
/* client_loop.c: the client is this thread's. */
struct pd_client *pd_client_enter(struct pd_client *client); /* soon: who waits for events makes room */
void pd_client_leave(struct pd_client **client);
/* At the top of each call of client.h: the client is this thread's until it returns. */
#define PD_CLIENT_HOLD(client)                                                                               \
    __attribute__((cleanup(pd_client_leave))) struct pd_client *held_until_return = pd_client_enter(client); \
    (void)held_until_return
/* For who has it, and waits: handles events, or sleeps until one comes (PD_CLIENT_TURN_MS at most). */
void pd_client_turn_loop(struct pd_client *client);
/* Between two turns: hands it to who wants it, */
void pd_client_yield(struct pd_client *client);
void pd_client_resume(struct pd_client *client); /* and has it again */
void pd_client_mind(struct pd_client *client);   /* makes the lock and starts the minder */
/* Ends the minder, and has the client for good. 0, unless it waits: another thread is in a call. */
int pd_client_unmind(struct pd_client *client, int waits);
/* client_turn.c */
int pd_client_has_turn(const struct pd_run *run); /* does its step push? */
/* It gets the turn if nobody has it; 0: it does not. Given back by pd_client_pass_turn. */
int pd_client_try_turn(const struct pd_run *run);
void pd_client_pass_turn(const struct pd_run *run);
int pd_client_breaks_off(void); /* does this process leave its job, because another thread has failed? */
/* client_group.c */
void pd_client_make_groups(struct pd_client *client);
void pd_client_free_groups(struct pd_client *client); /* and links */
/* The link to a server, a new one at the first call. */
pd_status pd_client_find(struct pd_client *client, const char *endpoint, struct link **out);
void pd_client_join(struct link *link, struct link *other); /* they are of one job */
pd_status pd_client_find_all(struct pd_client *client, int n, const char *const *endpoints); /* and joins */
/* Of the job of that server; 0: not known. Any thread. */
uint64_t pd_client_steps_at(struct pd_client *client, const char *endpoint);
uint64_t pd_client_job_at(struct pd_client *client, const char *endpoint);
uint64_t pd_client_passed_at(struct pd_client *client, const char *endpoint); /* it counts from 0 again */
void pd_group_count(struct link *link); /* one of its wires counts another step: notes it in `steps` */
/* Has this trainer come through all steps that it gives nothing to, at the servers of this one's job? */
int pd_group_passes_nothing(void *link);
/* Does an exchange that ends steps on `endpoints` end one there? */
int pd_link_is_pushed_to(const struct link *link, int n, const char *const *endpoints);
/* Before the first step with the servers of this one. */
pd_status pd_group_align(struct link *link, const struct pd_run *run, int n, const char *const *endpoints);
/* client_job.c */
struct pd_reader;
void pd_link_read_job(struct link *link, struct pd_reader *r, uint64_t applied); /* the end of OPENED */
void pd_link_kept(struct link *link, uint64_t step);                             /* KEPT came */
/* All of them are connected: are they of one job? Tells those that are new. */
pd_status pd_client_agree(struct pd_client *client, const struct pd_run *run, int n, struct link **links);
pd_status pd_link_returned(struct wire *wire); /* after the OPENED of a new connection */
/* client_goodbye.c: says it everywhere, within limits. The minder has ended. */
void pd_client_depart(struct pd_client *client, int failed, const char *why, int (*poll)(void *arg),
                      void *arg);
/* client_finite.c: of all that is to be pushed in a step. */
pd_status pd_group_check_finite(const struct pd_client *client, const struct group *group);
/* client_own.c: before the first step in a job. In one that has begun it says what this process holds alone
 * and nobody has kept. */
void pd_client_tell_own(const struct pd_client *client, const struct pd_run *run, int has_begun);
/* client_ask.c */
/* The numbers of what it wants. */
void pd_request_put(const struct pd_client *client, const struct request *request, struct pd_buf *meta);
uint64_t pd_wire_number(struct wire *wire, struct request *request); /* for a message that wants an answer */
int pd_wire_asks(const struct wire *wire); /* has it asks of which some are not answered? */
void pd_wire_send_asks(struct wire *wire); /* those that were not sent on this connection */
struct wire *pd_client_wire_of(const struct pd_client *client, int number); /* of a name */
/* The connection still reads from and writes to memory of a run that has failed, so it ends too; a new one is
 * made at the next use, and what others asked for there is asked again. */
void pd_wire_break_off(struct wire *wire);
void pd_wire_unsend(struct wire *wire);      /* the next connection is asked all of it again */
void pd_wire_forget_asks(struct wire *wire); /* nobody waits for them any more */
pd_status pd_ask_head(struct wire *wire, struct pd_message *message);
pd_status pd_ask_done(struct wire *wire, const struct pd_message *message);
/* Does this FAILED only say that one request could not be fulfilled? Then pd_ask_wait tells. */
int pd_ask_refused(struct wire *wire, uint64_t request, pd_status status, const char *text);
pd_status pd_ask_gathering(struct pd_client *client, struct pd_ask *ask, struct wire *wire,
                           struct gathering *gathering);
/* Moves the values that `ask` wants there to `to`. */
void pd_ask_move(struct pd_ask *ask, struct wire *wire, struct request *to);
pd_status pd_ask_send(struct pd_ask *ask);
/* The end of a wait for it, with that status: a refusal is one, too. */
pd_status pd_ask_over(struct pd_ask *ask, pd_status status);
/* All its requests go. One that is under way ends with its connection. */
void pd_ask_drop(struct pd_ask *ask);
void pd_client_free_asks(struct pd_client *client);
/* client_meet.c */
void pd_gathering_send(struct wire *wire, struct request *request);
pd_status pd_gathering_answered(struct gathering *gathering, const struct pd_message *message);
void pd_gatherings_free(struct link *link);
/* client_step.c */
int pd_client_is_pushing(struct pd_client *client); /* a step is begun */
int pd_client_is_halfway(struct pd_client *client); /* ... and servers have, or may have, a part of it */
void pd_client_drop_step(struct pd_client *client); /* pd_client_abandon, for who has the turn */
void pd_push_flush(struct wire *wire);              /* sends what can be sent: asks, and of the step */
/* After a new connection: what the server has not, once more. The next step there is behind `applied`; of
 * those before, the last that counts this trainer is `counted`. */
void pd_push_again(struct wire *wire, uint64_t applied, uint64_t counted);
/* Gives nothing to the steps up to this one, which others wait in, at all of them. For who has the turn. */
pd_status pd_push_stand_aside(struct pd_client *client, struct link *one, const struct pd_run *run,
                              uint64_t step, int n, const char *const *endpoints);
void pd_push_passed(struct wire *wire); /* the answer of a PASS came */
void pd_push_ended(struct wire *wire);  /* that of the end of a push did */
/* Notes for goodbyes that servers have, or may have, a part of a step that this trainer will not end. */
void pd_client_note_halfway(struct pd_client *client, const char *why);
void pd_push_clear(struct wire *wire); /* nothing is pushed any more */

#endif
