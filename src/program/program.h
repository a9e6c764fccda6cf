/* The Program: blocks of ops over named variables. The single truth; Python holds ids only.
 *
 * Every variable and op has an id that is never used again in its Program. `version` is raised by every
 * change, so that plans know when they are stale. Strings of a Program live in its pool until it is freed. */
#ifndef PD_PROGRAM_PROGRAM_H
#define PD_PROGRAM_PROGRAM_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"
#include "program/op.h"

struct pd_program;
struct pd_block;

#define PD_EMPTY_VAR "@EMPTY@"
#define PD_GRAD_SUFFIX "@GRAD"
/* Of an op that runs a gradient block: variables of the block that it gives their values. */
#define PD_GIVEN_ATTR "original_output_grad"
/* Of an op that sends: variables of its Program that servers compute and keep as well. */
#define PD_KEPT_ATTR "also_kept"
/* Of the same: what servers call what it sends, one for each. */
#define PD_AT_SERVERS_ATTR "at_servers"

enum pd_var_flag {
    PD_VAR_PERSISTABLE = 1,
    PD_VAR_STOP_GRADIENT = 2,
    PD_VAR_IS_DATA = 4,
    PD_VAR_CHECK_FEED = 8, /* the feed must have the declared shape */
    PD_VAR_PARAMETER = 16,
    PD_VAR_TRAINABLE = 32,
};

struct pd_var {
    int64_t id;
    const char *name;
    struct pd_block *block;
    struct pd_meta meta;
    unsigned flags;
    struct pd_buf extra; /* bytes of VarType that we only pass on (readers, tuples) */
};

/* A slot of an op in a Program and the variables in it. */
struct pd_io {
    const char *slot;
    PD_VEC(const char *) args;
};

struct pd_named_attr {
    const char *name;
    struct pd_attr value;
};

/* A variable that an op writes with another size than it had. A variable's own meta is that of its last
 * writer. */
struct pd_resized {
    const char *var;
    struct pd_meta was;
};

struct pd_opdesc {
    int64_t id;
    struct pd_block *block; /* NULL until it is inserted */
    struct pd_program *program;
    const char *type;
    const struct pd_op *def; /* NULL: a type we do not know (from a file) */
    PD_VEC(struct pd_io) in;
    PD_VEC(struct pd_io) out;
    PD_VEC(struct pd_named_attr) attrs;
    PD_VEC(struct pd_resized) resized; /* noted when the op is inferred */
    int is_target;
    _Atomic int index; /* its position, where the block has numbered it; ask pd_block_op_index */
    PD_VEC(struct pd_opdesc *)
    parts; /* owned; an op of a plan that stands for several: these, for messages */
};

struct pd_block {
    struct pd_program *program;
    int index, parent, forward;   /* -1: none */
    PD_VEC(struct pd_var *) vars; /* in the order of creation, which is that of their ids */
    struct pd_map by_name;
    PD_VEC(struct pd_opdesc *) ops;
    _Atomic int n_numbered; /* so many of them know their position (block.c) */
};

/* What a Program shares with its clones. */
struct pd_lineage {
    int refs;      /* atomic */
    uint64_t salt; /* tells Programs of this process apart */
    uint64_t runs; /* atomic: how often they ran */
};

struct pd_program {
    int refs;                   /* atomic */
    struct pd_lineage *lineage; /* counted */
    const struct pd_op_set *op_set;
    PD_VEC(struct pd_block *) blocks;
    struct pd_map pool;
    PD_VEC(struct pd_var *) var_by_id;   /* NULL: removed, or an op's id */
    PD_VEC(struct pd_opdesc *) op_by_id; /* NULL: removed, or a variable's id */
    uint64_t uid, version;
    int64_t random_seed;
    int64_t file_version;     /* version field of the file it came from, or what we write */
    struct pd_buf compatible; /* op_compatible_map, passed on */
};

/* program.c */
pd_status pd_program_new(const struct pd_op_set *ops, struct pd_program **out);
struct pd_program *pd_program_ref(struct pd_program *program);
void pd_program_unref(struct pd_program *program);
/* Takes over the lineage of a Program that it is a copy of. */
void pd_program_join(struct pd_program *copy, const struct pd_program *origin);
/* The pool's copy of a string; NULL when memory is short. */
const char *pd_program_text(struct pd_program *program, const char *text);
pd_status pd_block_new(struct pd_program *program, int parent, struct pd_block **out);
struct pd_block *pd_program_block(const struct pd_program *program, int index); /* NULL: no such block */
/* Takes the last block away, with all that is in it; block 0 stays. */
void pd_program_drop_last_block(struct pd_program *program);

/* var.c */
/* Adds a variable; when the name is taken in this block, that variable is returned unchanged and *existed
 * is 1. */
pd_status pd_var_new(struct pd_block *block, const char *name, enum pd_kind kind, struct pd_var **out,
                     int *existed);
struct pd_var *pd_block_var(const struct pd_block *block, const char *name); /* this block only */
struct pd_var *pd_block_find(const struct pd_block *block,
                             const char *name); /* this block, its forward block, then its parents */
/* Other names for variables of one block, also in the ops that see them: one pass over the Program for all. A
 * name that the block has already is refused, and nothing is renamed. */
pd_status pd_block_rename_vars(struct pd_block *block, int n, struct pd_var *const *vars,
                               const char *const *names);
pd_status pd_var_remove(struct pd_var *var);
/* The part of pd_program_remove for the variables of a block. */
void pd_block_remove_vars(struct pd_block *block, const char *gone);
struct pd_var *pd_program_var(const struct pd_program *program, int64_t id);
/* Gives the op the next id; 0 when memory is short. For opdesc.c. */
int pd_program_take_op_id(struct pd_program *program, struct pd_opdesc *op);

/* opdesc.c */
pd_status pd_opdesc_new(struct pd_program *program, const char *type, struct pd_opdesc **out);
void pd_opdesc_free(struct pd_opdesc *op); /* one that is not in a block */
pd_status pd_opdesc_add_arg(struct pd_opdesc *op, int is_output, const char *slot, const char *var);
/* Replaces the slot's variables; none: the slot stays, empty. */
pd_status pd_opdesc_set_args(struct pd_opdesc *op, int is_output, const char *slot, int n,
                             const char *const *vars);
/* Sets or replaces. Known attributes are converted to their declared type; unknown ones are refused when
 * `strict`. */
pd_status pd_opdesc_set_attr(struct pd_opdesc *op, const char *name, const struct pd_attr *value, int strict);
void pd_opdesc_remove_attr(struct pd_opdesc *op, const char *name);
/* The value as set, else the op's default, else NULL. */
const struct pd_attr *pd_opdesc_attr(const struct pd_opdesc *op, const char *name);
/* The op's place in the user's Program, which random numbers follow: its id there. Clones and pruned Programs
 * keep ids; whoever copies an op into another Program keeps its place in the attribute op_place. */
int64_t pd_opdesc_place(const struct pd_opdesc *op);
/* Shorthands for passes. */
pd_status pd_opdesc_set_int(struct pd_opdesc *op, const char *name, int value);
pd_status pd_opdesc_set_strings(struct pd_opdesc *op, const char *name, int n, const char *const *strings);
struct pd_io *pd_opdesc_slot(const struct pd_opdesc *op, int is_output,
                             const char *slot); /* NULL: not there */
/* First variable of a slot; NULL when there is none. */
const char *pd_opdesc_arg(const struct pd_opdesc *op, int is_output, const char *slot);
pd_status pd_opdesc_clone(const struct pd_opdesc *op, struct pd_program *into, struct pd_opdesc **out);
/* How often the op names the variable among its inputs or outputs. */
int pd_opdesc_names(const struct pd_opdesc *op, int is_output, const char *var);
/* Renames a variable wherever the op uses it. */
pd_status pd_opdesc_rename_arg(struct pd_opdesc *op, const char *from,
                               const char *to); /* in its slots and in op_role_var */
/* The same for all variables that `new_name` has a name of the pool for; NULL: the variable keeps its own. */
pd_status pd_opdesc_rename_args(struct pd_opdesc *op,
                                const char *(*new_name)(const char *old, const void *context),
                                const void *context);
/* The i-th block that the op's attributes name; -1 after the last. */
int pd_opdesc_sub_block(const struct pd_opdesc *op, int i);

/* block.c */
/* Verifies, infers the outputs and puts the op at `index` (-1: last). Takes `op` on success; on an error the
 * block is as before and the caller still owns `op`. Outputs without a variable get one when `make_vars`. */
pd_status pd_block_insert(struct pd_block *block, int index, struct pd_opdesc *op, int make_vars);
/* Ops that go between others, all in one pass: each before the op that stood at `before`, which falls from
 * one to the next; of several before one op the last comes first. Their outputs have their sizes already:
 * variables have those of their last writer, which says nothing about what an op before it reads. Takes all
 * of them, or none on an error. */
struct pd_place {
    struct pd_opdesc *op;
    int before;
};
pd_status pd_block_insert_many(struct pd_block *block, int n, const struct pd_place *places);
void pd_block_remove_op(struct pd_block *block, int index); /* frees the op */
/* For a pass that has the list of the block's ops in its own hands (passes/fuse.c): verifies an op and makes
 * it one of the block's; makes it nobody's, and the caller owns it. */
pd_status pd_block_adopt(struct pd_block *block, struct pd_opdesc *op);
void pd_block_disown(struct pd_block *block, struct pd_opdesc *op);
/* Removes and frees every op and variable whose gone[id] is set, in one pass. */
void pd_program_remove(struct pd_program *program, const char *gone);
int pd_block_op_index(struct pd_block *block, struct pd_opdesc *op);
struct pd_opdesc *pd_program_op(const struct pd_program *program, int64_t id);

/* verify.c: slots, variables and attributes fit the op's tables; messages name op, slot and variable. */
pd_status pd_opdesc_verify(const struct pd_opdesc *op, const struct pd_block *block);
pd_status pd_program_verify(const struct pd_program *program);
/* The argument stands for nothing: @EMPTY@, an optional gradient input that names no variable of the
 * block, or anything in a slot that is not used. */
int pd_arg_is_hole(const struct pd_slot_def *slot, const char *name, const struct pd_block *block);
/* Shape, dtype and LoD inference of one op, into the variables of the block. */
pd_status pd_opdesc_infer(struct pd_opdesc *op, struct pd_block *block);
/* Adds " [op mul: X=x [20, 13], ...]" to the stored error; of an op with parts, the part that failed. */
void pd_opdesc_blame(const struct pd_opdesc *op, const struct pd_block *block);
/* Attributes in the order of the op's table, defaults filled in; borrowed from the op and its table. */
pd_status pd_opdesc_bind_attrs(const struct pd_opdesc *op, struct pd_attr **out, int *n);
/* The same in the order of another op's table: a gradient op has the attributes of its forward op. */
pd_status pd_opdesc_bind_attrs_of(const struct pd_opdesc *op, const struct pd_op *def, struct pd_attr **out,
                                  int *n);

/* clone.c: with for_test the ops' is_test is set, and ops go that only training needs: backward, optimize,
 * learning rate, exchange with servers. */
pd_status pd_program_clone(const struct pd_program *program, int for_test, struct pd_program **out);
/* print.c */
pd_status pd_program_print(const struct pd_program *program, struct pd_buf *out);
pd_status pd_opdesc_print(const struct pd_opdesc *op, struct pd_buf *out);
pd_status pd_var_print(const struct pd_var *var, struct pd_buf *out);
/* proto.c: upstream's ProgramDesc. */
pd_status pd_program_write(const struct pd_program *program, struct pd_buf *out);
pd_status pd_program_read(const struct pd_op_set *ops, const void *bytes, size_t n, struct pd_program **out);

#endif
