/* What a plan has to do with variables that the servers of a job hold (tensor/held.h): which of them an
 * exchange of the plan brings, which servers compute as well, and which its other ops write.
 *
 * Before a step the trainer's values are those of the servers. Where they are not, because the script loaded,
 * set, fed or computed others, the step would lose that change, and send a gradient of it: before the first
 * step, when such values are a start that the servers do not know of, this is told; later it is an error. */
#ifndef PD_EXEC_THEIRS_H
#define PD_EXEC_THEIRS_H

#include "program/program.h"

struct pd_frame;
struct pd_plan;

/* Numbers of variables of the scope. */
struct pd_theirs {
    PD_VEC(int) brought; /* by an exchange of this plan */
    PD_VEC(int) kept;    /* servers compute them, too; */
    PD_VEC(const char *)
    outside;             /* those that this plan does not touch: on several places another one does */
    PD_VEC(int) written; /* by other ops, those two apart */
    int sends;           /* it is a step */
    int fed;             /* one of what is in the first two, or lies on servers, is fed; -1: none */
};

/* Of the plan of block 0. */
pd_status pd_theirs_find(const struct pd_plan *plan, struct pd_theirs *out);
void pd_theirs_free(struct pd_theirs *theirs);
/* Before and after the ops run, where pd_held_exist() or it is a step, and where it brings some. */
pd_status pd_theirs_begin(const struct pd_frame *frame);
void pd_theirs_end(const struct pd_frame *frame);

/* Steps of a trainer, of all threads of this process: one begins, one is over. How many are under way, and
 * how many have begun so far. */
void pd_theirs_enter(void);
void pd_theirs_leave(void);
int pd_theirs_under_way(void);
uint64_t pd_theirs_begun(void);

#endif
