/* The trainer's side: one client for the process, connections to all loops of all servers of its job, or of
 * its jobs (client_group.c).
 *
 * Threads ask for values, rows and files side by side (struct pd_ask), each for what it waits for itself.
 * One of them at a time has the turn to push (client_turn.c): gradients go out as they come
 * (pd_client_push_*), their memory is borrowed until the exchange is over, so that what was not acknowledged
 * can be sent again after a broken connection, and pd_client_exchange ends the step on every server.
 *
 * The loop is turned by whoever waits: no hand-over where there is one thread. Nothing is held while one
 * waits. Only while all are elsewhere for long, another thread looks after the connections (client_loop.c).
 * Waiting never is silent and has a deadline. */
#ifndef PD_PSERVER_CLIENT_H
#define PD_PSERVER_CLIENT_H

#include "program/op.h"

struct pd_client;

/* The client of this process, made at the first call, for an op of this run: each op that uses it asks anew.
 * `pushes`: it will push or end a step, and waits for its turn. trainer_id -1: the first server hands one
 * out. */
pd_status pd_client_get(int trainer_id, const struct pd_run *run, int pushes, struct pd_client **out);
/* The op is done with it; the turn is given back, unless a step is begun. */
void pd_client_rest(struct pd_client *client, const struct pd_run *run);
int pd_client_id(const struct pd_client *client); /* as asked for; -1: a server hands one out */

/* Servers of one job that names will be asked of: they are connected to at the same time, and when one is
 * missing all that are missing are told. `trainers`: how many the job has, which servers check; 0: not known.
 */
pd_status pd_client_expect(struct pd_client *client, int trainers, int n, const char *const *endpoints);
/* What is trained at these servers (separated by commas): each compares it with its own before anything else
 * is said. */
pd_status pd_client_trains(struct pd_client *client, const char *endpoints, int n, const char *const *lines);
/* Waits until all of them are connected to. */
pd_status pd_client_reach(struct pd_client *client, const struct pd_run *run, int n,
                          const char *const *endpoints);
/* A name at a server, known by a small number from then on. `meta` (may be NULL) is what the Program
 * declares: the server checks it. Connects when that server is met for the first time. */
pd_status pd_client_name(struct pd_client *client, const struct pd_run *run, const char *endpoint,
                         int is_pull, const char *name, const struct pd_meta *meta, int *number);

/* Queues a gradient and starts to send it. `row` is the size of a row in bytes. */
pd_status pd_client_push_dense(struct pd_client *client, int number, const void *data, size_t bytes,
                               size_t row);
/* `is_slice`: the gradient has rows, if not here then on other servers, so that this is a step of the slice.
 */
pd_status pd_client_push_rows(struct pd_client *client, int number, int64_t n, const int64_t *rows,
                              const void *data, size_t row, int is_slice);
/* What one thread asks of servers, all of it at the same time, by pd_ask_wait or pd_client_exchange: only
 * then is it sent, and it is over when they return, however they do. */
struct pd_ask {
    struct pd_client *client;
    struct request *first;
    int left; /* requests that were not answered */
    pd_status refusal;
    char refusal_text[1024];
};

/* A new one, which ends with its block. */
#define PD_ASK(name) __attribute__((cleanup(pd_ask_end))) struct pd_ask name = {0}
void pd_ask_end(struct pd_ask *ask);

/* A whole value, straight into `to`. */
pd_status pd_ask_value(struct pd_client *client, struct pd_ask *ask, int number, void *to, size_t bytes);
/* n rows of a value, for pd_client_rows_most(row) of them at most. `rows` is borrowed. */
pd_status pd_ask_rows(struct pd_client *client, struct pd_ask *ask, int number, int64_t n,
                      const int64_t *rows, size_t row, void *out);
int64_t pd_client_rows_most(size_t row);
/* One part of a value that several servers hold, and have to write. */
struct pd_client_save {
    const char *folder;
    uint32_t part, parts; /* parts 0: nothing is written; `save` gets the number of a new save */
    uint64_t save;
    int is_placed; /* it is written, as all others: it gets its name */
};
/* The server of a value shall write it beside <folder>/<name>_<part> on its own disk, or give it that name.
 * `save` is borrowed. */
pd_status pd_ask_save(struct pd_client *client, struct pd_ask *ask, int number, struct pd_client_save *save);
pd_status pd_ask_wait(struct pd_client *client, const struct pd_run *run, struct pd_ask *ask,
                      const char *what);
/* What a trainer gives to a meeting of all trainers of its job. */
struct pd_gather {
    int n_servers; /* of the job; the first one gathers */
    const char *const *servers;
    int trainer, trainers; /* who it is, and how many there are */
    const char *name;      /* one thread at a time */
    const void *bytes;     /* 1 MiB at most; borrowed */
    size_t n;
    struct pd_buf *out; /* gets what all gave: u32 n, n times {u32 trainer, u64 bytes}, trainers rising, then
                         * the bytes. NULL: nothing is given or got, it is a barrier */
};
/* Waits until all trainers have called it as often as this one, but for those who have left. One that was
 * broken off may be called again: it is the same meeting. Others whose step waits for this trainer end it
 * without: it is passed, unless another thread of this process trains (pd_client_own_passed). */
pd_status pd_client_gather(struct pd_client *client, const struct pd_run *run, const struct pd_gather *what);
/* Ends this run's step on `endpoints`, and on every server that it pushed to; waits for that, and for all
 * that is asked for: the values are those after the step. */
pd_status pd_client_exchange(struct pd_client *client, const struct pd_run *run, struct pd_ask *ask, int n,
                             const char *const *endpoints);

/* When a run has the turn, after something failed: nothing is read from or written to memory that it lent any
 * more, and the next run begins its step anew. Where that cannot be, because servers have a part of the step,
 * all further pushes are refused. Keeps pd_error(). */
void pd_client_abandon(const struct pd_step *step);
/* For pd_step.over: that, and an error when a run that went well has not ended its step. */
pd_status pd_client_run_over(const struct pd_step *step, pd_status status);

/* Never 0. Numbers of names are those of one client: another has another incarnation. */
uint64_t pd_client_incarnation(const struct pd_client *client);
int pd_client_own_id(void); /* of the client that this process has; -1: it has none yet */
/* This process has said goodbye, and its next client is for a step: servers that are not there have ended. */
void pd_client_own_trains_on(void);
/* The last step that counts this trainer in the job of this server, also one of a process that stood for it
 * before; 0: there is none, or no word from there yet. */
uint64_t pd_client_own_steps(const char *endpoint);
uint64_t pd_client_own_job(const char *endpoint); /* the id that the servers of that job keep; 0: the same */
/* Steps of that job that this trainer has passed in pd_client_gather since this was asked last: what it has
 * of the parameters is older than theirs. */
uint64_t pd_client_own_passed(const char *endpoint);
/* Tells all servers that this trainer is done (or failed, and why), waits a moment for them to hear it, and
 * frees the client. One that is done waits for a server that is down, up to the deadline; poll(arg), which
 * may be NULL, ends that when it is not 0. A step of another thread is waited for, for busy_ms at most; -1:
 * until it ends. */
void pd_client_goodbye(int failed, const char *why, int busy_ms, int (*poll)(void *arg), void *arg);

#endif
