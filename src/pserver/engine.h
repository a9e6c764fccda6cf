/* What a server runs: a Program, the variables of it that last, and the means to run a block. Whoever starts
 * the server gives it one; listen_and_serv makes it of the plan that it stands in. */
#ifndef PD_PSERVER_ENGINE_H
#define PD_PSERVER_ENGINE_H

#include "base/map.h"
#include "exec/frame.h"

struct pd_engine {
    const struct pd_program *program;
    struct pd_scope *scope;
    struct pd_frame *frame;   /* of the Program's main block */
    const struct pd_run *run; /* the op that serves; NULL: blocks cannot be run */
    const struct pd_map
        *parts;     /* variables that take what one trainer gives -> of which gradient; may be NULL */
    int is_checked; /* FLAGS_check_nan_inf: gradients and updates with NaN or Inf are refused */
};

struct pd_engine pd_engine_of(struct pd_frame *frame, const struct pd_run *run);
/* A variable that lasts; NULL: there is none of this name. */
struct pd_value *pd_engine_lasting(const struct pd_engine *engine, const char *name);
/* The same as blocks see it: one of the main block (a learning rate that a schedule computes) comes first. */
struct pd_value *pd_engine_seen(const struct pd_engine *engine, const char *name);
/* Is it the gradient, or a variable that takes what one trainer gives of it? */
int pd_engine_is_of(const struct pd_engine *engine, const char *name, const char *grad);
/* `is_slice`: as pd_step.is_slice. One thread at a time. */
pd_status pd_engine_run(const struct pd_engine *engine, int block, int is_slice);
/* Is the user's program asked to stop? On the thread that runs the op only. */
pd_status pd_engine_poll(const struct pd_engine *engine);

#endif
