/* Frames: the values of one plan and the calls ready to make. A frame is what runs.
 *
 * Binding: when the sizes of feeds and scope variables differ from the last run, one pass over the ops infers
 * all sizes and gives temporaries their memory; otherwise a run does no binding, no look-up and no
 * allocation. */
#ifndef PD_EXEC_FRAME_H
#define PD_EXEC_FRAME_H

#include "exec/plan.h"
#include "exec/scope.h"
#include "exec/theirs.h"

#include <pthread.h>

struct pd_frame;
struct pd_grad_check;

struct pd_frame_op {
    struct pd_run run;
    struct pd_infer infer;
    struct pd_frame *frame;
    const struct pd_plan_op *plan;
    struct pd_grad_check *check; /* of a gradient op; NULL: there is nothing to compare */
    int late;                    /* as in the plan, or because sizes of variables change within a run */
    int stores;                  /* something that it makes must be brought to its variable after it ran */
};

/* Memory that several temporaries use one after the other; it only grows. */
struct pd_chunk {
    void *data;
    size_t size;
};

/* A temporary that an op writes into the memory of one it reads. */
struct pd_takeover {
    int from, to;
};

/* What lives on was like this before ops that have not run said what they would make of it. */
struct pd_before {
    struct pd_meta meta;
    const void *data;
};

struct pd_frame {
    struct pd_plan *plan;             /* borrowed */
    struct pd_frame *outer, *forward; /* as the plan's; borrowed */
    struct pd_value **values;         /* by variable number; counted */
    const struct pd_plan_var
        *lacking;             /* one of another frame that has not run, so that it is not there yet */
    struct pd_meta *seen;     /* sizes of feeds and scope variables at the last binding */
    struct pd_before *before; /* by variable number */
    int *chunk_of;            /* by variable number; -1: memory of its own */
    PD_VEC(struct pd_chunk) chunks;
    PD_VEC(struct pd_takeover) takeovers;
    struct pd_frame_op *ops;
    /* Flat storage that the ops' argument arrays point into. */
    struct pd_value **flat_values;
    struct pd_meta **flat_metas;
    struct pd_values *value_slots;
    struct pd_metas *meta_slots;
    const struct pd_value ***infer_values;
    int *externals, n_externals; /* numbers of feed and scope variables */
    struct pd_theirs theirs;     /* of block 0 */
    int *fresh, n_fresh; /* numbers of this block's variables that are empty when a run starts: tensor arrays,
                            and those that the run may leave without a value */
    int bound, planned;
    int loose; /* a variable of the scope has several sizes within a run: every op is sized when it runs */
    uint64_t scope_uid, scope_stamp;
    struct pd_scope *scope; /* of the present run; borrowed */
    struct pd_step *step;
    void *scratch;
    size_t scratch_size;
    struct pd_frame **subs; /* by block number, made when first run */
    struct pd_plan **sub_plans;
    /* Interruption: asked for on the thread of the run, and by nobody who runs a block on another. */
    int (*poll)(void *arg);
    void *poll_arg;
    int64_t next_poll;
    pthread_t thread;
};

pd_status pd_frame_new(struct pd_plan *plan, struct pd_frame *outer, struct pd_frame *forward,
                       struct pd_step *step, struct pd_frame **out);
void pd_frame_free(struct pd_frame *frame);
/* Which of the two has the variable; NULL: the frame itself, or the scope. */
const struct pd_frame *pd_frame_other(const struct pd_plan_var *var, const struct pd_frame *outer,
                                      const struct pd_frame *forward);
/* Finds the scope's variables, binds when sizes changed, runs all ops. */
pd_status pd_frame_run(struct pd_frame *frame, struct pd_scope *scope);

/* bind.c */
pd_status pd_frame_bind(struct pd_frame *frame);
/* Sizes changed since the last binding? */
int pd_frame_stale(const struct pd_frame *frame);
/* Infers one op and gives its outputs memory, right before it runs. */
pd_status pd_frame_bind_late(struct pd_frame_op *op);
/* Brings what the op has made for variables that it reads too to these variables, right after it ran. */
pd_status pd_frame_store(struct pd_frame_op *op);

/* step.c: what ops may ask of the running step. */
void pd_step_init(struct pd_step *step);
/* The frame of a block that an op of this frame runs, made when first asked for. */
pd_status pd_frame_sub(struct pd_frame *frame, int block, struct pd_frame **out);
pd_status pd_frame_poll(struct pd_frame *frame);

/* steps.c: what a block's runs leave for its gradient block, newest last, in a value of kind step scopes. */
int pd_steps_kept(const struct pd_run *run, int slot);
pd_status pd_steps_push(const struct pd_run *run, int block, struct pd_value *steps);
pd_status pd_steps_pop(const struct pd_run *run, int grad_block, struct pd_value *steps, int *found);

#endif
