/* What a trainer has of what the servers of its job hold: parameters that each step brings anew, variables of
 * the learning rate that both compute. The servers' values count. Who else writes one here says so before it
 * does, and the next step looks what has become of it (exec/theirs.h): a change that is taken back, or that
 * changes nothing, is none.
 *
 * A process that is no trainer has none of these, and asks pd_held_exist once in a run. */
#ifndef PD_TENSOR_HELD_H
#define PD_TENSOR_HELD_H

#include "tensor/value.h"

enum pd_held_by {
    PD_HELD_GIVEN,    /* it was loaded, or set by the API */
    PD_HELD_FED,      /* what was fed stays */
    PD_HELD_COMPUTED, /* an op of a Program wrote it */
};

/* Is there a variable that came from servers, or lies there? */
static inline int pd_held_exist(void)
{
    extern int pd_held_any;
    return __atomic_load_n(&pd_held_any, __ATOMIC_RELAXED);
}

static inline enum pd_held_state pd_held_state(const struct pd_value *value)
{
    return (enum pd_held_state)__atomic_load_n(&value->held.state, __ATOMIC_RELAXED);
}

/* It is as servers have it. */
void pd_held_same(struct pd_value *value);
/* It was told that what is here will be lost; until the servers' value is here nobody looks. */
void pd_held_lost(struct pd_value *value);
/* All of its values lie on servers (fake_init). */
void pd_held_away(struct pd_value *value);
/* Before it is written by somebody else than an exchange with servers. `op` is the type of the op, which
 * lasts, `lineage` that of its Program; NULL and 0: no op. */
void pd_held_write(struct pd_value *value, enum pd_held_by by, const char *op, uint64_t lineage);
/* Does it differ from what servers gave? One that does not is as they have it from now on. */
int pd_held_differs(struct pd_value *value);

#endif
