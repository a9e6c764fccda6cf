/* The public C API of libpaddle: build Programs, derive gradients, run them, read and write their files.
 *
 * Conventions. A fallible call returns a pd_status and sets its outputs, which come last, only on success;
 * pd_error() tells what went wrong. Handles are opaque. "returns a new reference" means that the caller frees
 * it. Strings and arrays that come back without such a word are borrowed: valid until the object they belong
 * to changes. A Program, a scope and an executor belong to one thread at a time.
 *
 * Variables and ops of a Program are known by ids (int64), unique in their Program and never used again; a
 * call with the id of something removed returns PD_GONE. */
#ifndef PADDLE_PADDLE_H
#define PADDLE_PADDLE_H

#include <paddle/attr.h>
#include <paddle/log.h>
#include <paddle/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pd_program pd_program;
typedef struct pd_opdesc pd_op_builder;
typedef struct pd_scope pd_scope;
typedef struct pd_value pd_value;
typedef struct pd_executor pd_executor;
typedef struct pd_dataset pd_dataset;
typedef struct pd_peers pd_peers;
typedef struct pd_prepared pd_prepared;

/* ---- the library ---- */

PD_API const char *pd_version(void);        /* version of the library, "0.1.0" */
PD_API const char *pd_paddle_version(void); /* the Paddle whose files and names it follows, "1.8.5" */
/* "avx", "gpu", "double", "python", "rdma", "timer", "distribute", "onednn" */
PD_API int pd_build_has(const char *feature);
PD_API void pd_set_threads(int threads); /* inside an op, for the process */
PD_API int pd_get_threads(void);
/* Run-time flags, e.g. pd_flag_set("check_nan_inf", "1"). PD_NOT_FOUND for a name that is none, PD_INVALID
 * for a value that does not fit. One in the environment (FLAGS_<name>) is told by pd_flag_check, and
 * pd_executor_create. */
PD_API pd_status pd_flag_check(void);
PD_API pd_status pd_flag_set(const char *name, const char *value);
PD_API pd_status pd_flag_get(const char *name, const char **value);
PD_API const char *pd_flag_name(int index); /* NULL after the last */
/* CRC-32C, the checksum that the files of servers have. `crc` is 0 at the start, else the result so far. */
PD_API uint32_t pd_checksum(uint32_t crc, const void *bytes, size_t n);
/* Messages beside errors go to the sink set with pd_log_set: see paddle/log.h. */

/* Text or bytes handed to the caller; free with pd_bytes_free. `at` ends with a zero byte. */
typedef struct pd_bytes {
    char *at;
    size_t n;
} pd_bytes;
PD_API void pd_bytes_free(pd_bytes *bytes);

/* Element types and kinds of variables: the numbers of framework.proto, as files hold them. */
enum {
    PD_BOOL = 0,
    PD_INT16 = 1,
    PD_INT32 = 2,
    PD_INT64 = 3,
    PD_FLOAT16 = 4,
    PD_FLOAT32 = 5,
    PD_FLOAT64 = 6,
    PD_UINT8 = 20,
    PD_INT8 = 21,
};
enum {
    PD_LOD_TENSOR = 7,
    PD_SELECTED_ROWS = 8,
    PD_FEED_MINIBATCH = 9,
    PD_FETCH_LIST = 10,
    PD_STEP_SCOPES = 11,
    PD_LOD_RANK_TABLE = 12,
    PD_LOD_TENSOR_ARRAY = 13,
    PD_PLACE_LIST = 14,
    PD_READER = 15,
    PD_RAW = 17,
    PD_TUPLE = 18,
};
PD_API size_t pd_type_size(int dtype);      /* bytes of one element; 0: no such type */
PD_API const char *pd_type_name(int dtype); /* "float32" */

/* ---- the job, when it is spread over machines ---- */

/* Tells the servers of this process's job that this trainer is done (failed 0) or failed, and why, and hangs
 * up. Nothing happens in a process that has no servers. A program calls it before it ends; a trainer that
 * just goes counts as lost. A server that is down and started again would wait for this trainer: one that is
 * done waits for it, up to the flag rpc_deadline, and says so. */
PD_API void pd_leave_job(int failed, const char *why);
/* The same; poll(arg) is called now and then, and ends the waiting when it is not 0. */
PD_API void pd_leave_job_polling(int failed, const char *why, int (*poll)(void *arg), void *arg);
/* The same at the end of a process: a thread that is in the middle of a step may be stopped for good, so it
 * is not waited for longer than a second. This trainer then counts as lost. */
PD_API void pd_leave_job_at_exit(int failed, const char *why, int (*poll)(void *arg), void *arg);
/* Before atexit(), or its like, is given a function that leaves the job: what that needs to connect with a
 * secret or by TLS then ends after it. (Who comes last is called first, and OpenSSL's own end is among them
 * from its first use on.) */
PD_API void pd_leave_job_prepare(void);
/* What runs next is a step of a trainer that has left its job: when servers are not there they have ended
 * with it, and are not waited for. */
PD_API void pd_job_trains_on(void);
/* The number of this trainer in its job, which the first server may have handed out; -1 before the first
 * exchange with one. */
PD_API int pd_job_id(void);
/* The last step that counts this trainer in the job of the server at HOST:PORT, as its Program names it, also
 * one from before it was started again; 0 before the first exchange. */
PD_API uint64_t pd_job_steps(const char *endpoint);
/* What tells that job from others: servers draw it when a job is new, and keep it with its steps; 0 before
 * the first exchange. */
PD_API uint64_t pd_job_key(const char *endpoint);
/* Steps of that job that this trainer gave nothing to, as it was at a meeting, since this was asked last. Not
 * 0: what it has of the parameters is older than what the servers have; its next step is to begin with
 * theirs. */
PD_API uint64_t pd_job_passed(const char *endpoint);

/* A meeting of all trainers of a job, at its first server. Before the first step, and beside steps of other
 * threads. */
typedef struct pd_meeting {
    int n_servers; /* of the job, as its Programs name them */
    const char *const *servers;
    int trainer, trainers; /* which of how many this process is */
    const char *name;      /* 63 bytes at most; a job has 64 of them, one thread at a time uses one */
} pd_meeting;
/* Returns when all trainers have called it as often as this one; those who have ended, or that the others go
 * on without, are not waited for. A barrier: what a communicator has queued is sent first, so that servers
 * have all that any trainer gave before it. Waits no longer than the flag rpc_deadline. Broken off by
 * poll(arg), which may be NULL, when that is not 0 (PD_INTERRUPTED), it may be called again: it is the same
 * meeting. */
PD_API pd_status pd_job_barrier(const pd_meeting *meeting, int (*poll)(void *arg), void *arg);
/* The same; each gives n bytes, 1 MiB at most, and all get the same: u32 trainers, so many times {u32
 * trainer, u64 bytes}, trainers rising, then the bytes in that order; numbers are little-endian. PD_GONE: the
 * server was started again, or went on without this trainer, and others have had that answer; the next call
 * takes part in the meeting that is open. */
PD_API pd_status pd_job_gather(const pd_meeting *meeting, const void *bytes, size_t n, pd_bytes *out,
                               int (*poll)(void *arg), void *arg);

/* The communicator of a trainer: a thread that exchanges steps with the servers beside the computing. */
enum pd_communicator_mode {
    PD_COMMUNICATOR_QUEUE = 1,  /* a step is queued, and the run goes on with the newest values that came */
    PD_COMMUNICATOR_ROUNDS = 2, /* threads that train on a data set wait for each other, and give one step */
};
typedef struct pd_communicator {
    int mode;
    int queue;       /* steps that wait at most */
    int merge;       /* steps that go as one at most; */
    int wait_ms;     /* so long they may wait for each other */
    int averages;    /* steps that go as one are averaged; 0: added up */
    int pulls_every; /* so many exchanges bring the values once */
} pd_communicator;
/* Steps of this process go through it from now on. In the mode QUEUE the first one still exchanges by itself,
 * so that what is wrong with servers or Programs is told there. PD_INVALID: it runs already. */
PD_API pd_status pd_communicator_start(const pd_communicator *how);
/* Sends what is queued and ends it; PD_OK where none runs. What made it fail is told here, too. poll(arg),
 * which may be NULL, is called now and then: not 0 drops the queue (PD_INTERRUPTED). pd_leave_job does it as
 * well. */
PD_API pd_status pd_communicator_stop(int (*poll)(void *arg), void *arg);
PD_API int pd_communicator_runs(void);
/* Waits until what is queued now is with the servers; PD_OK where none runs. poll(arg) as above: not 0 ends
 * the wait, and drops nothing. */
PD_API pd_status pd_communicator_flush(int (*poll)(void *arg), void *arg);

/* A server that starts empty, at HOST:PORT: trainer 0 brings it its Programs, by the call below; then it
 * serves until the job is over (PD_JOB_OVER). With the flag ps_dir it keeps them, and needs nobody to bring
 * them again when it is started again. poll(arg), which may be NULL, is called now and then, and ends it when
 * it is not 0. */
PD_API pd_status pd_serve(const char *endpoint, int (*poll)(void *arg), void *arg);
/* Brings the server at HOST:PORT a Program that makes its variables, and one that serves (listen_and_serv),
 * unless it has them already. Waits for a server that is not there yet, up to the flag rpc_deadline. Only ops
 * that reach nothing but variables are taken: updates, schedules, fills, sums. */
PD_API pd_status pd_serve_bring(const char *endpoint, const pd_program *startup, const pd_program *serve,
                                int (*poll)(void *arg), void *arg);
/* The port of the server that this process runs (listen_and_serv) at `endpoint`, as its Program names it: one
 * at HOST:0 gets its port from the system, and trainers must be given that one. 0: none listens there, or not
 * yet. From any thread, and from the poll of the run that serves. */
PD_API int pd_serve_port(const char *endpoint);

/* What the server at `endpoint` ("host:port") holds, whom it knows and who is late: JSON (one line), or a
 * text for people. Waits some seconds at most. PD_IO: nobody is there; other codes: it is no server of ours,
 * or refuses this process. */
PD_API pd_status pd_ps_status(const char *endpoint, int as_json, pd_bytes *out);

/* ---- the ops there are ---- */

PD_API int pd_op_known(const char *type);
PD_API const char *pd_op_type_at(int index); /* NULL after the last */
PD_API const char *pd_op_doc(const char *type);
enum { PD_SLOT_DUPLICABLE = 1, PD_SLOT_DISPENSABLE = 2, PD_SLOT_INTERMEDIATE = 4 };
/* The i-th slot; *name is NULL after the last. */
PD_API pd_status pd_op_slot_def(const char *type, int is_output, int i, const char **name, unsigned *flags);
/* The i-th attribute with its default; *name is NULL after the last. */
PD_API pd_status pd_op_attr_def(const char *type, int i, const char **name, struct pd_attr *value);
/* Has a gradient: 1; gradients stop here on purpose: 0; neither: -1. */
PD_API int pd_op_has_grad(const char *type);

/* ---- Programs ---- */

/* One empty block. Returns a new reference. */
PD_API pd_status pd_program_create(pd_program **out);
PD_API void pd_program_free(pd_program *program);
/* for_test: is_test set, ops of the backward and optimize roles dropped. Returns a new reference. Ids of the
 * copy: the same as those of the original. */
PD_API pd_status pd_program_copy(const pd_program *program, int for_test, pd_program **out);
/* Upstream's ProgramDesc, as in a `__model__` file. */
PD_API pd_status pd_program_parse(const void *bytes, size_t n, pd_program **out);
PD_API pd_status pd_program_serialize(const pd_program *program, pd_bytes *out);
PD_API pd_status pd_program_dump(const pd_program *program, pd_bytes *out); /* readable text */
PD_API pd_status pd_program_check(const pd_program *program);               /* verifies every op */
PD_API uint64_t pd_program_uid(const pd_program *program);                  /* unique in this process */
PD_API uint64_t pd_program_changes(const pd_program *program);              /* raised by every change */
PD_API int64_t pd_program_seed(const pd_program *program);
PD_API void pd_program_set_seed(pd_program *program, int64_t seed);
/* How often the Program and its clones have run: with the seed, what their random numbers are a function of.
 * Setting it goes on where another process was. */
PD_API uint64_t pd_program_runs(const pd_program *program);
PD_API void pd_program_set_runs(pd_program *program, uint64_t runs);
/* The seed of Programs that have none, in place of one that this process draws. Before the first run. */
PD_API void pd_seed_programs(uint64_t seed);
/* Keeps what the targets (variables, by name) need; stops at `feeds`. Changes the Program. */
PD_API pd_status pd_program_prune(pd_program *program, int n_feeds, const char *const *feeds, int n_targets,
                                  const char *const *targets);

PD_API int pd_block_count(const pd_program *program);
PD_API pd_status pd_block_create(pd_program *program, int parent, int *index);
PD_API pd_status pd_block_parent(const pd_program *program, int block, int *parent, int *forward);
PD_API pd_status pd_block_set_forward(pd_program *program, int block, int forward);

/* ---- variables of a Program ---- */

enum {
    PD_VAR_IS_PERSISTABLE = 1,
    PD_VAR_STOPS_GRADIENT = 2,
    PD_VAR_IS_FEED = 4,     /* made by layers.data */
    PD_VAR_CHECKS_FEED = 8, /* a feed must have the declared shape */
    PD_VAR_IS_PARAMETER = 16,
    PD_VAR_IS_TRAINABLE = 32,
};

typedef struct pd_var_desc {
    const char *name;
    int block, kind, dtype; /* dtype -1: not known yet */
    int rank;
    const int64_t *dims; /* below 0: known only at run time */
    int lod_level;
    unsigned flags;
} pd_var_desc;

/* Makes the variable, or finds the one of that name in this block (*existed 1, nothing changed). */
PD_API pd_status pd_var_create(pd_program *program, int block, const char *name, int kind, int64_t *id,
                               int *existed);
PD_API pd_status pd_var_describe(const pd_program *program, int64_t id, pd_var_desc *out);
PD_API pd_status pd_var_set_shape(pd_program *program, int64_t id, int rank, const int64_t *dims);
PD_API pd_status pd_var_set_dtype(pd_program *program, int64_t id, int dtype);
PD_API pd_status pd_var_set_kind(pd_program *program, int64_t id, int kind);
PD_API pd_status pd_var_set_lod_level(pd_program *program, int64_t id, int lod_level);
/* Sets the flags in `mask` to those in `flags`. */
PD_API pd_status pd_var_set_flags(pd_program *program, int64_t id, unsigned mask, unsigned flags);
/* Renames it in its block and in all ops that see it. */
PD_API pd_status pd_var_set_name(pd_program *program, int64_t id, const char *name);
/* The same for many variables of one block, in one pass over the Program. */
PD_API pd_status pd_vars_rename(pd_program *program, int block, int n, const int64_t *ids,
                                const char *const *names);
PD_API pd_status pd_var_delete(pd_program *program, int64_t id);
/* *id is -1 when there is none. `parents`: look there too. */
PD_API pd_status pd_var_lookup(const pd_program *program, int block, const char *name, int parents,
                               int64_t *id);
/* Ids in the order of creation; borrowed copy for the caller: free with pd_ids_free. */
PD_API pd_status pd_block_vars(const pd_program *program, int block, int64_t **ids, int *n);
PD_API pd_status pd_block_ops(const pd_program *program, int block, int64_t **ids, int *n);
PD_API void pd_ids_free(int64_t *ids);
PD_API pd_status pd_var_dump(const pd_program *program, int64_t id, pd_bytes *out);

/* ---- ops of a Program ---- */

/* An op is put together by a builder, then inserted. */
PD_API pd_status pd_op_begin(pd_program *program, const char *type, pd_op_builder **out);
/* var NULL: the slot is named but empty. */
PD_API pd_status pd_op_add_arg(pd_op_builder *op, int is_output, const char *slot, const char *var);
PD_API pd_status pd_op_add_attr(pd_op_builder *op, const char *name, const struct pd_attr *value);
PD_API pd_status pd_op_add_int(pd_op_builder *op, const char *name, int value);
PD_API pd_status pd_op_add_float(pd_op_builder *op, const char *name, float value);
PD_API pd_status pd_op_add_text(pd_op_builder *op, const char *name, const char *value);
PD_API pd_status pd_op_add_ints(pd_op_builder *op, const char *name, int n, const int32_t *values);
/* Verifies, infers shapes and inserts at `index` (-1: last). Takes the builder, also on error. */
PD_API pd_status pd_op_insert(pd_op_builder *op, int block, int index, int64_t *id);
PD_API void pd_op_discard(pd_op_builder *op);

PD_API pd_status pd_op_get_type(const pd_program *program, int64_t id, const char **type);
/* `index` may be NULL: finding it may go over the block. */
PD_API pd_status pd_op_get_place(const pd_program *program, int64_t id, int *block, int *index);
PD_API pd_status pd_op_delete(pd_program *program, int64_t id);
/* Deletes many ops and variables, in one pass over the Program; when one is not there, none. */
PD_API pd_status pd_parts_delete(pd_program *program, int64_t n, const int64_t *ids);
/* The i-th slot of the op as built; *slot is NULL after the last. */
PD_API pd_status pd_op_get_slot(const pd_program *program, int64_t id, int is_output, int i,
                                const char **slot, int *n, const char *const **vars);
PD_API pd_status pd_op_set_slot(pd_program *program, int64_t id, int is_output, const char *slot, int n,
                                const char *const *vars);
/* The i-th attribute as set; *name is NULL after the last. */
PD_API pd_status pd_op_get_attr_at(const pd_program *program, int64_t id, int i, const char **name,
                                   struct pd_attr *value);
/* As set, else the default. PD_NOT_FOUND when the op knows no such attribute. */
PD_API pd_status pd_op_get_attr(const pd_program *program, int64_t id, const char *name,
                                struct pd_attr *value);
PD_API pd_status pd_op_put_attr(pd_program *program, int64_t id, const char *name,
                                const struct pd_attr *value);
PD_API pd_status pd_op_drop_attr(pd_program *program, int64_t id, const char *name);
PD_API pd_status pd_op_rename_var(pd_program *program, int64_t id, const char *from, const char *to);
PD_API pd_status pd_op_infer(pd_program *program, int64_t id); /* shapes once more */
PD_API pd_status pd_op_dump(const pd_program *program, int64_t id, pd_bytes *out);

/* ---- passes ---- */

/* A clip of the gradient that flows through a variable (upstream's error_clip). */
typedef struct pd_error_clip {
    const char *var;
    float min, max;
} pd_error_clip;

typedef struct pd_backward_options {
    int n_params; /* 0: all trainable parameters that the loss depends on */
    const char *const *params;
    int n_no_grad;
    const char *const *no_grad;
    int n_clips;
    const pd_error_clip *clips;
} pd_backward_options;

typedef struct pd_param_grad {
    const char *param, *grad; /* names in the Program's block 0 */
} pd_param_grad;

/* Appends the gradient ops of `loss` (a variable of one element). The pairs come in the order of the
 * parameters; free them with pd_pairs_free. Parameters without a gradient are left out. */
PD_API pd_status pd_append_backward(pd_program *program, const char *loss, const pd_backward_options *options,
                                    pd_param_grad **pairs, int *n);
PD_API void pd_pairs_free(pd_param_grad *pairs);
/* Gradients of targets with respect to inputs; target_grads[i] may be NULL (ones). names[i] is NULL where
 * there is none. */
PD_API pd_status pd_gradients(pd_program *program, int n_targets, const char *const *targets,
                              const char *const *target_grads, int n_inputs, const char *const *inputs,
                              int n_no_grad, const char *const *no_grad, const char **names);

/* ---- values and scopes ---- */

/* Returns a new reference. */
PD_API pd_status pd_value_create(int kind, pd_value **out);
PD_API pd_value *pd_value_retain(pd_value *value);
PD_API void pd_value_release(pd_value *value);
PD_API int pd_value_kind(const pd_value *value);
PD_API pd_status pd_value_become(pd_value *value, int kind); /* empties it */
/* Tensors, and the values of selected rows. data is NULL when there is none yet. */
typedef struct pd_tensor_desc {
    int dtype, rank;
    const int64_t *dims;
    void *data;
} pd_tensor_desc;
PD_API pd_status pd_value_tensor(const pd_value *value, pd_tensor_desc *out);
/* Before data that it has told are written by hand; the calls below do it themselves. Servers hold a
 * trainer's parameters: its next step finds out what was changed in the trainer alone, and a table that lies
 * there is refused. `name` is for the message and may be NULL. */
PD_API pd_status pd_value_will_change(pd_value *value, const char *name);
/* Copies `data` in (NULL: room only, not set). */
PD_API pd_status pd_value_set_tensor(pd_value *value, int dtype, int rank, const int64_t *dims,
                                     const void *data);
/* Dimensions only; data are dropped when they no longer fit. */
PD_API pd_status pd_value_set_dims(pd_value *value, int rank, const int64_t *dims);
/* LoD as offsets. levels 0: none. */
PD_API int pd_value_lod_levels(const pd_value *value);
PD_API const int64_t *pd_value_lod(const pd_value *value, int level, int64_t *n);
PD_API pd_status pd_value_set_lod(pd_value *value, int levels, const int64_t *const *offsets,
                                  const int64_t *counts);
/* The finest level fits the number of rows. */
PD_API int pd_value_lod_fits(const pd_value *value);
/* Selected rows. */
PD_API const int64_t *pd_value_rows(const pd_value *value, int64_t *n);
PD_API pd_status pd_value_set_rows(pd_value *value, int64_t n, const int64_t *rows);
PD_API int64_t pd_value_height(const pd_value *value);
PD_API pd_status pd_value_set_height(pd_value *value, int64_t height);
/* Tensor arrays. */
PD_API int pd_value_items(const pd_value *value);
PD_API pd_value *pd_value_item(const pd_value *value, int i);            /* borrowed */
PD_API pd_status pd_value_append(pd_value *value, const pd_value *item); /* a copy */
PD_API pd_status pd_value_assign(pd_value *to, const pd_value *from);
/* Contents shared until either is written by the API. */
PD_API pd_status pd_value_share(pd_value *to, const pd_value *from);
/* The tensor file format of upstream (also selected rows). */
PD_API pd_status pd_value_serialize(const pd_value *value, pd_bytes *out);
PD_API pd_status pd_value_parse(pd_value *value, const void *bytes, size_t n, size_t *used);

/* Returns a new reference. A child sees its parent's variables and keeps the parent alive. */
PD_API pd_status pd_scope_create(pd_scope *parent, pd_scope **out);
PD_API pd_scope *pd_scope_retain(pd_scope *scope);
PD_API void pd_scope_release(pd_scope *scope);
/* Finds in this scope or makes it there. Borrowed. */
PD_API pd_status pd_scope_var(pd_scope *scope, const char *name, pd_value **out);
/* In this scope, then in its parents; NULL: not there. Borrowed. */
PD_API pd_value *pd_scope_find(const pd_scope *scope, const char *name);
PD_API pd_status pd_scope_erase(pd_scope *scope, const char *name);
PD_API void pd_scope_drop_kids(pd_scope *scope);
/* Names of this scope's own variables; free the array (not the names) with pd_names_free. */
PD_API pd_status pd_scope_names(const pd_scope *scope, const char ***names, int *n);
PD_API void pd_names_free(const char **names);

/* ---- running ---- */

PD_API pd_status pd_executor_create(pd_executor **out);
PD_API void pd_executor_free(pd_executor *executor);
/* A plan for this Program, these feeds (by position) and these fetches, from the executor's cache or new.
 * Borrowed: it stays valid until the executor is freed or drops it from its cache, which only happens in this
 * call. */
PD_API pd_status pd_executor_prepare(pd_executor *executor, pd_program *program, int n_feeds,
                                     const char *const *feeds, int n_fetches, const char *const *fetches,
                                     pd_prepared **out);
/* 0 when a flag that plans depend on was changed since: prepare again. */
PD_API int pd_prepared_is_current(const pd_prepared *prepared);
/* Lends an array to the next run; the memory must stay until the run ends. Integers and lod offsets (as
 * pd_value_set_lod) are copied. */
PD_API pd_status pd_prepared_feed(pd_prepared *prepared, int i, int dtype, int rank, const int64_t *dims,
                                  const void *data, int levels, const int64_t *const *offsets,
                                  const int64_t *counts);
/* The same from a value (also selected rows and tensor arrays). The plan holds its memory until it is fed
 * again or let go of: who sets the value meanwhile gets other memory. */
PD_API pd_status pd_prepared_feed_value(pd_prepared *prepared, int i, const pd_value *value);
/* After a run, when its fetches were read: lets go of the values that were fed. */
PD_API void pd_prepared_unfeed(pd_prepared *prepared);

typedef struct pd_run_options {
    /* Called now and then by the running thread; non-zero ends the run with PD_INTERRUPTED. May be NULL. */
    int (*poll)(void *arg);
    void *arg;
} pd_run_options;

/* Runs once. Persistable variables live in `scope`. */
PD_API pd_status pd_prepared_run(pd_prepared *prepared, pd_scope *scope, const pd_run_options *options);
/* A fetched result; borrowed until the next run of this plan. */
PD_API const pd_value *pd_prepared_fetch(const pd_prepared *prepared, int i);

/* Prepare, feed, run in one call, for C programs. feeds[i] and fetched[i] go by position; fetched values are
 * new references. */
PD_API pd_status pd_executor_run(pd_executor *executor, pd_program *program, pd_scope *scope, int n_feeds,
                                 const char *const *feed_names, const pd_value *const *feeds, int n_fetches,
                                 const char *const *fetch_names, pd_value **fetched);

/* ---- data sets: samples from text files, and training over them ---- */

/* Files of the format MultiSlot: a line is a sample; for each slot, in their order, a count and so many
 * numbers. Samples come straight from the files, or with `in_memory` from pd_dataset_load. While one call
 * changes a data set, or trains on it, those of other threads that would change it fail with PD_INVALID. */
PD_API pd_status pd_dataset_create(int in_memory, pd_dataset **out);
PD_API void pd_dataset_release(pd_dataset *dataset);
/* Adds a slot: whole numbers of 64 bits, or floats. With `rank` >= 0 it is dense and is fed in this shape, in
 * which one dimension may be -1; with -1 it is fed as [numbers, 1] with a sequence for each sample. */
PD_API pd_status pd_dataset_add_slot(pd_dataset *dataset, const char *name, int is_float, int rank,
                                     const int64_t *dims);
/* Adds a slot whose numbers, of any kind, are read over. */
PD_API pd_status pd_dataset_skip_slot(pd_dataset *dataset, const char *name);
PD_API pd_status pd_dataset_clear_slots(pd_dataset *dataset);
/* Lines begin with "1 <id>" and then with "1 <text>". */
PD_API pd_status pd_dataset_expect(pd_dataset *dataset, int id, int text);
PD_API pd_status pd_dataset_use_files(pd_dataset *dataset, int n, const char *const *paths);
/* A file, or what a shell command writes that knows where to get it. */
typedef struct pd_data_source {
    const char *path;    /* a name for messages, where there is a command */
    const char *command; /* NULL: the file at that path. The pipe command is not for it */
    int64_t bytes;       /* beside a command: what it weighs in the progress */
} pd_data_source;
PD_API pd_status pd_dataset_use_sources(pd_dataset *dataset, int n, const pd_data_source *sources);
/* A shell command through which each file goes first; NULL, "" and "cat": none. */
PD_API pd_status pd_dataset_use_command(pd_dataset *dataset, const char *command);
PD_API pd_status pd_dataset_set_batch(pd_dataset *dataset, int64_t samples);
PD_API pd_status pd_dataset_set_threads(pd_dataset *dataset, int threads);
/* Adds the samples of the files to those in memory, by several threads. */
PD_API pd_status pd_dataset_load(pd_dataset *dataset, const pd_run_options *options);
/* The order of the samples in memory; it depends on the seed and on the samples alone. */
PD_API pd_status pd_dataset_shuffle(pd_dataset *dataset, uint64_t seed);
/* Each sample gets the numbers of another in these slots. */
PD_API pd_status pd_dataset_exchange(pd_dataset *dataset, int n, const char *const *slots, uint64_t seed);
/* Samples of one id become one; ids that do not have `size` samples are left out (0: none is). */
PD_API pd_status pd_dataset_merge(pd_dataset *dataset, int size, int64_t *left_out);
PD_API pd_status pd_dataset_drop(pd_dataset *dataset); /* what is in memory */

/* The workers of a job deal out the samples that all of them have in memory, at random among all of them,
 * straight from each to each. First each is ready to be connected to at "host:port" (port 0: the kernel
 * chooses, *port is the real one); `token` is a number that the workers of a job agree on. */
PD_API pd_status pd_peers_create(const char *address, int worker, int workers, uint64_t token, pd_peers **out,
                                 int *port);
PD_API void pd_peers_release(pd_peers *peers); /* NULL is fine */
typedef struct pd_deal_options {
    pd_peers *peers; /* for one deal */
    int worker, workers;
    const char *const *endpoints; /* of all workers, by number */
    const int64_t *counts;        /* samples of each in memory */
    uint64_t seed;                /* the same in all; the result depends on it and on the samples */
    int by_id;                    /* samples of one id go to one worker; else all get equal parts */
    int (*poll)(void *arg);       /* called now and then; not 0: end with PD_INTERRUPTED; may be NULL */
    void *arg;
} pd_deal_options;
/* All workers call it. After an error this one has no samples any more, unless it had not begun. When all
 * workers have returned from it, and only then, peers may be released. */
PD_API pd_status pd_dataset_deal(pd_dataset *dataset, const pd_deal_options *options);
/* In memory; while a call changes it, what was there before. */
PD_API void pd_dataset_size(pd_dataset *dataset, int64_t *samples, int64_t *bytes);

typedef struct pd_train_report {
    int64_t batches, samples; /* so far */
    int64_t done, all;        /* bytes of files, or samples in memory */
    int64_t read_ns, run_ns;  /* of all threads together; read_ns: until a batch was there */
    int64_t wait_ns;          /* of run_ns, for servers */
    int64_t since_pause;      /* at the end: batches of the thread that has had most of them since `pause` */
} pd_train_report;

typedef struct pd_train_options {
    int threads; /* each runs batches of its own on the same scope */
    int n_fetches;
    const char *const *fetches;
    int64_t print_period; /* `print` is called with every so many batches of the first thread */
    int64_t show_ms;      /* and with the first batch after so long; 0: not */
    void (*print)(void *arg, int64_t batch, const pd_value *const *fetched);
    /* Called in the calling thread, many times a second; not 0: stop with PD_INTERRUPTED. */
    int (*poll)(void *arg, const pd_train_report *report);
    void *arg;
    /* Going on where another run was: which batches a thread gets depends on its number alone, and the first
     * so many of each thread are read over. */
    int is_fixed;
    int64_t skip;
    /* With every so many batches of each thread (0: never) all wait, and `pause` is called in the calling
     * thread when none of them computes; not 0: stop. A thread without more batches is not waited for. Of the
     * first so many, each thread has had `since_pause` in runs before. */
    int64_t pause_every, since_pause;
    int (*pause)(void *arg, const pd_train_report *report);
} pd_train_options;

/* Runs the Program once for each batch of the data set. Slots that the Program does not know are not fed.
 * *report, if not NULL, is set at the end. */
PD_API pd_status pd_dataset_train(pd_dataset *dataset, pd_program *program, pd_scope *scope,
                                  const pd_train_options *options, pd_train_report *report);

/* The batches of a data set one by one, beside passes of others. */
typedef struct pd_batches pd_batches;
PD_API pd_status pd_batches_begin(pd_dataset *dataset, pd_batches **out);
/* *values: one for each slot, lent until the next call; NULL at the end. */
PD_API pd_status pd_batches_next(pd_batches *batches, int *n, pd_value *const **values, int64_t *samples);
/* Any thread: one that waits in pd_batches_next returns with PD_INTERRUPTED. */
PD_API void pd_batches_stop(pd_batches *batches);
PD_API void pd_batches_end(pd_batches *batches); /* NULL is fine */

/* ---- profile ---- */

PD_API void pd_profile_start(void);
PD_API void pd_profile_stop(void);
PD_API void pd_profile_reset(void);
/* A table per op type; sort by "calls", "total", "max", "min" or "ave" (NULL: total). */
PD_API pd_status pd_profile_report(const char *sort, pd_bytes *out);

#ifdef __cplusplus
}
#endif
#endif
