/* Plans: a block of a Program turned into a flat list of kernel calls over numbered variables.
 *
 * A plan is made once per (Program version, feeds, fetches) from a copy of the Program, so that later changes cannot pull
 * ground from under it. It holds what does not depend on sizes: ops, their attributes, which number each argument has,
 * when a variable is last used. A frame (frame.h) holds the values and is what runs. */
#ifndef PD_EXEC_PLAN_H
#define PD_EXEC_PLAN_H

#include "program/program.h"

enum pd_plan_place {
    PD_PLACE_TEMP,  /* made and dropped inside a run; the frame owns the memory */
    PD_PLACE_SCOPE, /* persistable, or read before any op writes it: lives in the scope */
    PD_PLACE_FEED,  /* lent by the caller */
    PD_PLACE_OUTER, /* of the block around this one */
};

struct pd_plan_var {
    const char *name;
    const struct pd_var *desc; /* NULL: the Program does not declare it (fetch of a scope variable) */
    enum pd_plan_place place;
    int outer;    /* PD_PLACE_OUTER: its number in the plan around this one */
    int read_first; /* read before it is written: must be there when the run starts */
    int needs_data; /* and hold data: not only its shape is read */
    int written;
    int dynamic;  /* sized only by running: memory of its own */
    int given;    /* of a gradient block: the op that runs the block gives it its value */
    int kept;     /* the gradient block of this block reads it; 2: its data, 1: only its size */
    int pinned;   /* used by a sub-block or by the caller afterwards: memory of its own, never shared */
    int last_use; /* number of the last op that touches it; INT_MAX: fetched */
};

struct pd_plan_slot {
    int n, first; /* args[first .. first + n) of the plan; a number or -1 for a hole */
};

struct pd_plan_op {
    const struct pd_op *def;
    const struct pd_opdesc *desc;
    struct pd_attr *attrs; /* owned array; the values are the desc's or the op table's */
    struct pd_plan_slot *in, *out;
    int n_in, n_out;
    int late; /* sizes known only when it runs: infer and alloc right before run */
};

struct pd_plan {
    struct pd_program *program; /* counted */
    const struct pd_block *block;
    struct pd_plan *outer; /* borrowed: the plan of the block around; NULL: block 0 */
    PD_VEC(struct pd_plan_var) vars;
    PD_VEC(struct pd_plan_op) ops;
    PD_VEC(int) args;
    PD_VEC(struct pd_plan_slot) slots;
    struct pd_map numbers; /* name -> number + 1 */
    int *fetches, n_fetches;
};

/* Takes a reference of `program`. `outer` is NULL for block 0. feeds and fetches only there. */
pd_status pd_plan_new(struct pd_program *program, int block, struct pd_plan *outer, int n_feeds, const char *const *feeds,
                      int n_fetches, const char *const *fetches, struct pd_plan **out);
void pd_plan_free(struct pd_plan *plan);
int pd_plan_number(const struct pd_plan *plan, const char *name); /* -1: not in the plan */

#endif
