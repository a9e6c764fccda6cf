/* What the fusion rules share. A rule finds ops of block 0 that can be done in one pass over memory, and puts
 * one op of the plan (ops/list_plan.h) in their place.
 *
 * A variable may go only when nobody can miss it: a temporary of the block that is written once, read by the
 * ops that go with it, not fetched, and not seen by another block. */
#ifndef PD_PASSES_FUSE_H
#define PD_PASSES_FUSE_H

#include "passes/passes.h"

/* While the rules work the block has no list of ops. They stand in places of fixed numbers, so that nobody is
 * counted anew when ops go: before each op of the block is a place for one more, and an op that goes leaves
 * its place empty. A position is the number of a place. */
struct pd_fuse {
    struct pd_program *program;
    struct pd_block *block;
    PD_VEC(struct pd_opdesc *) places; /* NULL: empty */
    struct pd_map kept;                /* names that must stay: fetched, or used by other blocks */
    struct pd_map users;               /* fuse.c's own: by name, the ops that name it */
};

/* How the ops of the block use a variable. */
struct pd_fuse_use {
    int reads, writes;
    int writer, first_read,
        reader; /* positions: of the last write, of the first and the last read; -1: none */
};

/* The rules. Each changes the block as often as it fits, by pd_fuse_replace and pd_fuse_insert only. */
pd_status pd_fuse_add_act(struct pd_fuse *f);
pd_status pd_fuse_entropy(struct pd_fuse *f);
pd_status pd_fuse_embedding(struct pd_fuse *f);
pd_status pd_fuse_mul_sgd(struct pd_fuse *f);
pd_status pd_fuse_exchanges(struct pd_fuse *f);
/* This one puts no op in the place of others; it runs also when nothing shall be fused. */
pd_status pd_fuse_rows(struct pd_fuse *f);

/* `name` is a string of the Program's pool, as the arguments of its ops are. */
struct pd_fuse_use pd_fuse_use_of(const struct pd_fuse *f, const char *name);
/* A temporary that may go when its `reads` readers go; fills `use`. */
int pd_fuse_may_go(const struct pd_fuse *f, const char *name, int reads, struct pd_fuse_use *use);
/* The first op behind position `from` that reads the variable and fits `op`; NULL: there is none. */
struct pd_opdesc *pd_fuse_reader(const struct pd_fuse *f, const char *name, int from,
                                 int (*fits)(const struct pd_opdesc *reader, const struct pd_opdesc *op),
                                 const struct pd_opdesc *op);
/* Does an op between these two positions write the variable? */
int pd_fuse_written_between(const struct pd_fuse *f, const char *name, int from, int to);
/* The same for every input of the op at `from`. */
int pd_fuse_inputs_change(const struct pd_fuse *f, int from, int to);
/* Does an op between these two positions read or write the variable? */
int pd_fuse_used_between(const struct pd_fuse *f, const char *name, int from, int to);

/* NULL: the place is empty, or there is none of that number. */
struct pd_opdesc *pd_fuse_op(const struct pd_fuse *f, int at);
int pd_fuse_is(const struct pd_opdesc *op, const char *type);
/* The single variable of a slot; NULL: none, a hole, or several. */
const char *pd_fuse_arg(const struct pd_opdesc *op, int is_output, const char *slot);
/* A variable of the block that has the declared size at every op: not one that several ops write; NULL: it is
 * not. */
const struct pd_var *pd_fuse_sized(const struct pd_fuse *f, const char *name);
/* Such a variable that is a tensor of float32 or float64; NULL: it is not. */
const struct pd_var *pd_fuse_float(const struct pd_fuse *f, const char *name);

/* An op of the plan with these parts, not yet in the block; *out is NULL when the library has none of that
 * type. */
pd_status pd_fuse_new(struct pd_fuse *f, const char *type, struct pd_opdesc **out);
/* Adds the slot's variables of `from` under the name `slot`. */
pd_status pd_fuse_take_slot(struct pd_opdesc *to, int is_output, const char *slot,
                            const struct pd_opdesc *from, const char *from_slot);
/* Puts `op` in the place of ops[at] and takes all n ops out of the block. They become its parts, in this
 * order. Takes `op`, also on an error. */
pd_status pd_fuse_replace(struct pd_fuse *f, struct pd_opdesc *op, int n, struct pd_opdesc *const *ops,
                          int at);
/* Puts `op` before `next`, which no other was put before. Takes it, also on an error. */
pd_status pd_fuse_insert(struct pd_fuse *f, struct pd_opdesc *op, struct pd_opdesc *next);

#endif
