/* The inside of a client, for client.c (connections), client_group.c (which servers are of one job),
 * client_step.c (what is exchanged), client_turn.c (whose it is), client_goodbye.c and client_minder.c. */
#ifndef PD_PSERVER_CLIENT_PRIVATE_H
#define PD_PSERVER_CLIENT_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/vec.h"
#include "net/conn.h"
#include "pserver/client/client.h"
#include "pserver/stall.h"

enum { PD_CLIENT_TURN_MS = 50 };

/* A piece of a gradient: kept until the step is acknowledged. */
struct piece {
    int name;
    uint32_t part;
    int64_t rows; /* 0: dense */
    const int64_t *row_numbers;
    const void *data;
    size_t bytes;
};

struct wish {
    int name;
    void *to;
    size_t bytes;
};

/* One connection: a loop of a server. */
struct wire {
    struct link *link;
    int index;
    struct pd_conn *conn; /* NULL: broken */
    int is_welcome;       /* the handshake is through, */
    int is_open;          /* and the OPEN */
    int said_job;         /* what this trainer trains was told to this connection */
    int names_opened;     /* names told to this connection */
    int names_answered;
    uint64_t step;    /* the one being exchanged: last applied + 1 */
    uint64_t next;    /* at least this one after it: the others have gone on */
    uint64_t counted; /* the last one that counts this trainer */
    uint64_t request; /* of the last message that wants an answer */
    int waits;        /* for the answer of `request` */
    PD_VEC(struct piece) pieces;
    int sent_pieces; /* handed to the connection */
    int is_meant;    /* a sparse gradient of this step is for it, also when it has no rows: the step is ended
                        there */
    PD_VEC(struct wish) wishes;
    int is_ended; /* END was asked for */
    int sent_end;
    int passes;     /* it gives nothing to this step, which others are in already */
    uint64_t until; /* the server has what this trainer gives to the steps before this one: others lack it */
    int is_pull_only;    /* wishes without a push */
    const int64_t *rows; /* the wish is for these rows of its value; NULL: for all of it */
    int64_t n_rows;
    struct pd_client_save *save;  /* the wish is to have the value written; NULL: it is not */
    PD_VEC(struct pd_span) spans; /* where the answer goes */
    int64_t broke_at, retry_at;
    int was_opened; /* at least once */
    int retries;    /* connections that ended since it was open */
    int refusals;   /* ... of them, those that the handshake refused */
    int breaks;     /* open connections that ended in the present wait */
    int is_taken;   /* another process has our id; `trouble` tells, and `refusal` when the server is gone */
    char refusal[288];
    int said_bye;   /* on this connection, */
    int64_t bye_at; /* then */
    int is_quit;    /* goodbye was answered */
    int has_parts;  /* of the next step, which a process before this one had begun */
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
    _Atomic uint64_t steps; /* the last that counts this trainer on all of them */
    _Atomic uint64_t job;   /* the one that they are in, as one told or all agreed; 0: not known yet */
    uint64_t common; /* the newest snapshot that all of them have, as they were told; 0: none is known */
    uint64_t cut;    /* the step of the next snapshot, as one of them told: passed on to all */
};

struct link {
    struct pd_client *client;
    struct group *group;
    char *endpoint;
    PD_VEC(struct wire *) wires; /* by the server's loops */
    uint64_t incarnation;        /* of the server */
    int n_loops;                 /* 0: not known yet */
    struct pd_buf job;           /* what is trained there (job_text.h); empty: not known */
    uint64_t job_id, applied;    /* the job it is in (0: none yet) and the step it is at, as it told last */
    int job_flags;               /* PD_PS_JOB_* */
    uint64_t ahead;              /* the number of a snapshot there less its step */
    char on_loss[16];            /* what it does about lost trainers; empty: not known yet */
    uint64_t answers, expected;  /* how often it has told that, and how often it is to have */
    uint64_t kept[PD_LINK_KEPT]; /* the steps of its newest snapshots, as it told; the last one first */
    uint64_t agreed;             /* the job that all servers are in; 0: not known yet */
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
    pthread_mutex_t lock; /* all that follows, and the loop: held during each call, else by the minder */
    pthread_cond_t over;
    pthread_t minder;
    int has_minder, is_over;
    int64_t left_at; /* when the last call ended */
    struct pd_loop *loop;
    _Atomic int id; /* -1: not known */
    pid_t pid;      /* a forked child has none of its connections */
    uint64_t incarnation;
    int comes_again; /* its process had another client, which said goodbye */
    int is_beside;   /* it was refused, as another process had its id */
    int is_leaving;  /* it says goodbye, and asks for nothing more */
    PD_VEC(struct link *) links;
    pthread_mutex_t links_lock; /* what links there are, and their groups: for who asks without `lock` */
    PD_VEC(struct name) names;
    int failed; /* a server ended the job */
    pd_status failure;
    char failure_text[1024];
    pd_status refusal; /* the last thing that a server could not do, and the job goes on; PD_OK: none */
    char refusal_text[1024];
    char spoilt[1024]; /* why this trainer cannot push any more; empty: it can */
    char halfway[400]; /* the same for others, when it leaves; empty: it leaves between two steps */
    int deadline_ms, notice_ms;
    int silence_ms;    /* after which a connection counts as stalled; 0: never */
    int64_t noticed;   /* when a server told last whom it waits for */
    int64_t explained; /* when servers were told last why this trainer is late */
};

/* client.c */
/* The next connection asks for all names anew. One for a goodbye needs none, and what was refused before
 * would be again. */
void pd_wire_forget_names(struct wire *wire);
pd_status pd_client_new(int trainer_id, int comes_again, struct pd_client **out);
void pd_client_free(struct pd_client *client); /* after pd_client_unmind */
pd_status pd_client_connect(struct pd_client *client, const struct pd_run *run, const char *endpoint,
                            struct link **out);
/* Turns the loop until done(arg), an error of the job, an interruption or the deadline. `what` is for
 * messages. */
pd_status pd_client_turn_until(struct pd_client *client, const struct pd_run *run, int (*done)(void *arg),
                               void *arg, const char *what);
/* Opens what is not open yet and tries again what broke. */
void pd_client_tend(struct pd_client *client, int64_t now);
void pd_client_describe(const struct pd_client *client, char *out,
                        size_t cap);         /* who is waited for, and why */
void pd_client_ask_names(struct wire *wire); /* OPEN, also when no name is new */
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
void pd_group_count(struct link *link); /* one of its wires counts another step: notes it in `steps` */
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
/* client_turn.c: does this process leave its job, because another thread has failed? */
int pd_client_breaks_off(void);
/* client_goodbye.c: says it everywhere, within limits. The minder has ended. */
void pd_client_part(struct pd_client *client, int failed, const char *why, int (*poll)(void *arg), void *arg);
/* client_minder.c */
struct pd_client *pd_client_enter(struct pd_client *client);
void pd_client_leave(struct pd_client **client);
/* At the top of each call of client.h: until it returns the minder keeps still. */
#define PD_CLIENT_HOLD(client)                                                                               \
    __attribute__((cleanup(pd_client_leave))) struct pd_client *held_until_return = pd_client_enter(client); \
    (void)held_until_return
void pd_client_mind(struct pd_client *client); /* makes the lock and starts the minder */
/* Ends the minder, and keeps the lock. 0, unless it waits: another thread is in a call. */
int pd_client_unmind(struct pd_client *client, int waits);
/* client_finite.c: of all that is to be pushed in a step. */
pd_status pd_group_check_finite(const struct pd_client *client, const struct group *group);
/* client_step.c */
int pd_client_is_pushing(struct pd_client *client); /* a step is begun */
void pd_client_drop_step(struct pd_client *client); /* pd_client_abandon, for who has the turn */
void pd_wire_flush(struct wire *wire);              /* sends what can be sent of the step */
/* After a new connection: what the server has not, once more. The next step there is behind `applied`; of
 * those before, the last that counts this trainer is `counted`. */
void pd_wire_again(struct wire *wire, uint64_t applied, uint64_t counted);
/* client_own.c: before the first step in a job. In one that has begun it says what this process holds alone
 * and nobody has kept. */
void pd_client_tell_own(const struct pd_client *client, const struct pd_run *run, int has_begun);
/* Notes for goodbyes that servers have, or may have, a part of a step that this trainer will not end. */
void pd_client_note_halfway(struct pd_client *client, const char *why);
void pd_wire_clear(struct wire *wire); /* nothing is pushed or wished for any more */
pd_status pd_wire_head(struct wire *wire, struct pd_message *message);
pd_status pd_wire_done(struct wire *wire, const struct pd_message *message);
/* Does this FAILED only say that a wish could not be fulfilled? Then it is noted, and pd_client_wait tells.
 */
int pd_wire_refused(struct wire *wire, uint64_t request, pd_status status, const char *text);

#endif
