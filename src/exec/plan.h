/* Plans: a block of a Program turned into a flat list of kernel calls over numbered variables.
 *
 * A plan is made once per (Program version, feeds, fetches) from a copy of the Program, so that later changes
 * cannot pull ground from under it. It holds what does not depend on sizes: ops, their attributes, which
 * number each argument has, when a variable is last used. A frame (frame.h) holds the values and is what
 * runs.
 *
 * A number stands for one value, not for one name: an op that writes a temporary again makes a new number,
 * with a size, a life and memory of its own, and who reads the name from then on reads that one. So an op
 * never writes what it reads, and a value stays as it is until its last reader. Variables that others know by
 * name keep one number (`single`): those of the scope, and those that sub-blocks touch. An op that reads and
 * writes such a variable writes a result of its own first (struct pd_plan_result). */
#ifndef PD_EXEC_PLAN_H
#define PD_EXEC_PLAN_H

#include "program/program.h"

enum pd_plan_place {
    PD_PLACE_TEMP,    /* made and dropped inside a run; the frame owns the memory */
    PD_PLACE_SCOPE,   /* persistable, or read before any op writes it: lives in the scope */
    PD_PLACE_FEED,    /* lent by the caller */
    PD_PLACE_OUTER,   /* of the block around this one: the block of the op that runs it */
    PD_PLACE_FORWARD, /* of a gradient block: what its forward block left behind */
};

struct pd_plan_var {
    const char *name;
    const struct pd_var *desc; /* NULL: the Program does not declare it (fetch of a scope variable) */
    enum pd_plan_place place;
    int outer;      /* PD_PLACE_OUTER, PD_PLACE_FORWARD: its number in that plan */
    int read_first; /* read before it is written: must be there when the run starts */
    int needs_data; /* and hold data: not only its shape is read */
    int written;
    int dynamic; /* sized only by running: memory of its own */
    int given;   /* of a gradient block: the op that runs the block gives it its value */
    int unsure;  /* who writes it first may also leave it: it is empty when a run starts */
    int kept;    /* the gradient block of this block reads it; 2: its data, 1: only its size */
    int pinned;  /* used by a sub-block or by the caller afterwards: memory of its own, never shared */
    int single;  /* one number for all values of the name: blocks below this one, or the op that runs it, use
                    it too */
    int first_use, last_use; /* numbers of the first and last op that touch it; last_use INT_MAX: fetched */
};

/* What an op makes for a variable that it reads too. It goes straight into the variable where the op may work
 * in place and the size stays; otherwise into a temporary, and from there into the variable when the op has
 * run. */
struct pd_plan_result {
    int to;       /* the variable; the output argument is the temporary */
    int arg;      /* place of the output argument in args */
    int in_place; /* the op may write over this input while it reads it, when both have one size */
};

struct pd_plan_slot {
    int n, first; /* args[first .. first + n) of the plan; a number or -1 for a hole */
};

struct pd_plan_op {
    const struct pd_op *def;
    const struct pd_op *forward; /* that it is the gradient op of; NULL: none */
    const struct pd_opdesc *desc;
    struct pd_attr *attrs; /* owned array; the values are the desc's or the op table's */
    struct pd_plan_slot *in, *out;
    int n_in, n_out;
    int first_in, first_out; /* in and out as places in the plan's slots */
    int first_result, n_results;
    int late; /* sizes known only when it runs: infer and alloc right before run */
};

struct pd_plan {
    struct pd_program *program; /* counted */
    const struct pd_block *block;
    struct pd_plan *outer;   /* borrowed: the plan of the block around; NULL: block 0 */
    struct pd_plan *forward; /* borrowed: of a gradient block, the plan of its forward block; else NULL */
    PD_VEC(struct pd_plan_var) vars;
    PD_VEC(struct pd_plan_op) ops;
    PD_VEC(int) args;
    PD_VEC(struct pd_plan_slot) slots;
    PD_VEC(struct pd_plan_result) results;
    struct pd_map numbers; /* name -> number of its newest value */
    struct pd_map singles; /* names that other blocks use too: their values have one number */
    int *fetches, n_fetches;
    int shares; /* values may use the memory of others, one after the other */
    int framed; /* it has a frame: it gets no more variables, and no other block uses more of them */
};

/* Of block 0. Takes a reference of `program`. */
pd_status pd_plan_new(struct pd_program *program, int n_feeds, const char *const *feeds, int n_fetches,
                      const char *const *fetches, struct pd_plan **out);
/* Of a block below that of `outer`. A gradient block finds its variables in itself, then in `forward`, which
 * is NULL for others, then in `outer`. */
pd_status pd_plan_new_sub(struct pd_plan *outer, struct pd_plan *forward, int block, struct pd_plan **out);
void pd_plan_free(struct pd_plan *plan);
/* The newest value of that name: the last one that is written, once the plan is made; -1: not in the plan.
 * Feed i has number i. */
int pd_plan_number(const struct pd_plan *plan, const char *name);

/* plan_vars.c: numbers while a plan is built. */
/* Finds the names that other blocks use too. Called before all else. */
pd_status pd_plan_find_singles(struct pd_plan *plan);
pd_status pd_plan_add_var(struct pd_plan *plan, const char *name, const struct pd_var *desc,
                          enum pd_plan_place place, int *number);
/* A temporary that is called and declared as `like`, but no name leads to it. */
pd_status pd_plan_add_hidden(struct pd_plan *plan, int like, int *number);
/* Is it the gradient block of this block? Those of upstream's Programs that no op runs do not count. */
int pd_plan_has_gradient(const struct pd_plan *plan, int block);
/* The next block that the op runs; -1: no more. *at begins with 0. One that serves runs all blocks below its
 * own, by turns. */
int pd_plan_sub_block(const struct pd_plan *plan, const struct pd_opdesc *op, int *at);
/* The value that an op reads under this name. Where it lives is decided when the name is first met. */
pd_status pd_plan_read(struct pd_plan *plan, const char *name, int *number);
/* The value that an op writes under this name: a new one, where that may be. */
pd_status pd_plan_write(struct pd_plan *plan, const char *name, const struct pd_op *op, int *number);
/* Where `to` is a temporary and `from` stays as it is: makes `to` another name of that value, so that nothing
 * has to be copied. *done tells whether. */
pd_status pd_plan_alias(struct pd_plan *plan, const char *from, const char *to, int *done);

#endif
