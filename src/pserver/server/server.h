/* A parameter server: loops with their shards, a listener, and the life of a job from the first trainer to
 * the last.
 *
 * The server's half of the Program says what it holds: optimize blocks, the gradients that feed them, the
 * block of the learning rate. It runs inside the op listen_and_serv (op_serve.c) until all trainers are done,
 * the user stops it or the job fails. */
#ifndef PD_PSERVER_SERVER_H
#define PD_PSERVER_SERVER_H

#include "pserver/engine.h"

struct pd_server;
struct pd_durable_config; /* durable.h */

/* What happens when a trainer is gone without a word. */
enum pd_loss_policy { PD_LOSS_FAIL, PD_LOSS_SHRINK, PD_LOSS_WAIT };
extern const char *const pd_loss_names[3]; /* as FLAGS_ps_on_trainer_loss has them */

struct pd_server_grad {
    const char *name;
    int block;
    /* By trainer: the variable that takes what it gives, where the Program itself merges them; NULL: `name`
     * does. Borrowed until the server is freed. */
    const char *const *parts;
};

struct pd_server_config {
    const char *endpoint;
    const char *job;
    int trainers, is_sync;
    int compensates; /* async: for the delay of gradients (shard_delay.c) */
    int servers;     /* of the job */
    int n_grads;
    const struct pd_server_grad *grads;
    int n_hashed; /* tables of rows by id, each as pd_hashed_options_read takes it */
    const char *const *hashed;
    int lr_block, prepare_block; /* -1: none */
    int loops;                   /* 0: chosen by size and cores */
    enum pd_loss_policy on_loss;
    int reconnect_ms; /* a trainer whose connection broke may take this long to come back */
    int notice_ms;    /* a step that waits longer says whom it waits for, again and again */
    int deadline_ms;  /* and fails after this */
    int silence_ms; /* a connection to another server that is silent for this long counts as stalled; 0: none
                     */
    int wait_seconds; /* for trainers that never came, while nobody is there; 0: for ever */
    /* It goes on with less than was acknowledged. Asked where each such case is found: order_doubt.c,
     * book_file.c; of the store durable_load.c, durable_log.c (for journal_read.c as well), durable_steps.c
     * and durable_set.c. Trainers have their own (pd_client_settings), and ask it in client_step.c,
     * client_group.c and client_job.c. */
    int accepts_rollback;
    int accepts_anew;                        /* an optimizer may begin without what it has kept */
    const struct pd_durable_config *durable; /* what is kept on disk */
    const char *save_root; /* where trainers may have files written; empty: see session_save.c */
    const char *kept_root; /* FLAGS_ps_dir; empty: none */
    const char *http;      /* FLAGS_ps_http, where it can be watched; empty or NULL: nowhere */
    int n_lines;           /* what the job trains (job_text.h); 0: not known, trainers are not asked */
    const char *const *lines;
    int (*wants_end)(void); /* has the process been asked to end? NULL: never */
};

/* What the user's flags say, of both; the rest stays as it is. `is_sync` is set before. The texts are those
 * of the flags. */
pd_status pd_server_config_read(struct pd_server_config *config, struct pd_durable_config *durable);
/* Binds, starts the loops, accepts trainers. What `engine` names is borrowed until the server is freed, the
 * config for the call only. */
pd_status pd_server_start(const struct pd_engine *engine, const struct pd_server_config *config,
                          struct pd_server **out);
/* Waits for the end of the job; polls the engine now and then. */
pd_status pd_server_wait(struct pd_server *server);
/* Ends all connections and loops. NULL is fine. */
void pd_server_free(struct pd_server *server);
int pd_server_port(const struct pd_server *server);
/* Of the one that this process runs at `endpoint`; 0: none listens there. From any thread. */
int pd_server_port_at(const char *endpoint);

#endif
