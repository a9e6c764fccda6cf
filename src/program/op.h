/* The interface of an op. An op file ends with one `const struct pd_op` per op type, named in ops/list.h.
 *
 * Slots and attributes are addressed by their position in the op's tables, so an op file opens with enums:
 *     enum { X, Y };  enum { OUT };  enum { AXIS };
 * The engine checks before it calls: required inputs are there, single slots hold one variable, attributes
 * have the declared types. Errors carry only what the op knows; the engine adds the op's name and its
 * variables. */
#ifndef PD_PROGRAM_OP_H
#define PD_PROGRAM_OP_H

#include "base/error.h"
#include "program/attr.h"
#include "tensor/value.h"

enum pd_slot_flag {
    PD_SLOT_LIST = 1,     /* any number of variables (upstream: duplicable) */
    PD_SLOT_OPTIONAL = 2, /* may be left out (upstream: dispensable) */
    PD_SLOT_HIDDEN = 4,   /* an output that only the gradient reads (upstream: intermediate) */
    PD_SLOT_META = 8,     /* an input of which only shape, dtype and LoD are read: its data may be gone */
    /* An input whose data say how large the outputs are: where it is used, sizes wait for the run. */
    PD_SLOT_SIZES = 16,
    /* An input that is still read after run() returned, until the step ends: it keeps memory of its own. */
    PD_SLOT_KEEP = 32,
    /* An input that may hold nothing yet: run() looks; where it is an output too, its op is PD_OP_DYNAMIC. */
    PD_SLOT_UNSET = 64,
    /* An input whose element type is its own (ids, labels, a number that run() converts): all inputs without
     * this flag and PD_SLOT_SIZES are of one type, see pd_infer_one_type. */
    PD_SLOT_OWN_TYPE = 128,
    /* An input list in which Programs of upstream name gradients that no op writes: they are holes, NULL. */
    PD_SLOT_UNWRITTEN = 256,
    /* Programs of upstream fill it, the op neither reads nor writes it: always a hole. */
    PD_SLOT_UNUSED = 512,
    /* An input that may be of another kind than tensor and selected rows: run() looks. */
    PD_SLOT_OTHERS = 1024,
};

struct pd_slot_def {
    const char *name;
    unsigned flags;
};

enum pd_op_flag {
    /* Only running it can size its outputs: run() sizes them itself (pd_tensor_resize). */
    PD_OP_DYNAMIC = 1,
    /* Does something beside its outputs (writes a file, prints, sends): never pruned away. */
    PD_OP_EFFECT = 2,
    /* Gradients stop here on purpose; without this flag and without a gradient, append_backward across the
     * op is an error. */
    PD_OP_NO_GRAD = 4,
    /* Gives the variables that its blocks only read their values: they need none before. */
    PD_OP_SERVES = 8,
    /* May leave its outputs, or parts of them, as they were: their gradient goes on to who wrote them before.
     */
    PD_OP_UPDATES = 16,
    /* Only says where data comes in or goes out: plans leave it out, and the tensors that it gives must be
     * fed. */
    PD_OP_MARK = 32,
    /* An update that treats each element of its parameter, or each row, by itself: it may run on any part. */
    PD_OP_ELEMENTWISE = 64,
    /* Reaches nothing but its variables and blocks (no file, process, terminal or Python), so that a server
     * may run it in a Program that somebody else brought. */
    PD_OP_ON_SERVER = 128,
    /* Its outputs come from servers, which hold them (exec/theirs.h). */
    PD_OP_RECEIVES = 256,
    /* Sends gradients to servers: its Program does a step of their job. */
    PD_OP_SENDS = 512,
    /* Reads of its inputs without data what lies on servers: what is here of them is not used. */
    PD_OP_ASKS = 1024,
    /* An update by a sparse gradient changes only the rows that it names. (With lazy_mode, where an op has
     * it, also without this flag.) */
    PD_OP_OWN_ROWS = 2048,
};

/* Output `out` may use the memory of input `in` when that input is not needed afterwards. With `view` the
 * contents are the same too (reshape): run() then copies only when the pointers differ. */
struct pd_share {
    int out, in, view;
};

/* ---- shape inference ---- */

/* The variables of a slot. A list keeps its positions: at[i] is NULL where an output is not wanted. */
struct pd_metas {
    int n;
    struct pd_meta **at;
};

struct pd_infer {
    const struct pd_op *op;
    const struct pd_attr *attr;                     /* in the order of op->attrs */
    const struct pd_metas *in, *out;                /* in the order of op->inputs, op->outputs */
    const struct pd_value *const *const *in_values; /* while running: in_values[slot][i]; NULL in a Program */
    int running; /* 0: building a Program, dimensions may be -1 and LoDs are not there, only their level
                    counts */
    const struct pd_opdesc *desc; /* the op in its Program; NULL while running */
};

/* Are the inputs that have no type of their own of one type? The engine asks after infer() said yes, in a
 * Program and before a run: kernels count on it. */
pd_status pd_infer_one_type(const struct pd_infer *c);
/* The input, where it is there and its type is known, is of this type. */
pd_status pd_infer_need_type(const struct pd_infer *c, int slot, enum pd_dtype dtype);

static inline struct pd_meta *pd_infer_in(const struct pd_infer *c, int slot)
{
    return c->in[slot].n ? c->in[slot].at[0] : NULL;
}
/* NULL when the slot was left out. */
static inline struct pd_meta *pd_infer_out(const struct pd_infer *c, int slot)
{
    return c->out[slot].n ? c->out[slot].at[0] : NULL;
}

/* ---- running ---- */

struct pd_values {
    int n;
    struct pd_value **at;
};

struct pd_run;

/* What the running step offers to ops; filled by the executor. */
struct pd_step {
    uint64_t seed;   /* of ops without one: the Program's, else one drawn for it */
    uint64_t number; /* how often the Program and its clones have run before */
    /* Memory for the time of this run() call, aligned to 64 bytes; grows as needed; one block per call. NULL
     * when short. */
    void *(*scratch)(const struct pd_run *run, size_t bytes);
    /* PD_INTERRUPTED when the user wants to stop; ops that may run for more than a second ask now and then.
     */
    pd_status (*poll)(const struct pd_run *run);
    /* Runs a block of the Program once, in the frame of this op. */
    pd_status (*run_block)(const struct pd_run *run, int block);
    /* A variable of such a block, before or after a run; *value is NULL when it has none of that name. */
    pd_status (*block_value)(const struct pd_run *run, int block, const char *name, struct pd_value **value);
    /* Steps of a block, for its gradient block. Does an op after this one read them from this output slot? */
    int (*keeps_steps)(const struct pd_run *run, int slot);
    /* Moves what the gradient block needs of the block's last run into `steps`, as the newest step. */
    pd_status (*push_step)(const struct pd_run *run, int block, struct pd_value *steps);
    /* Moves the newest step back to the block that `grad_block` is the gradient of; *found is 0 when there is
     * none. */
    pd_status (*pop_step)(const struct pd_run *run, int grad_block, struct pd_value *steps, int *found);
    /* A variable of the scope by name; NULL when it is not there. */
    struct pd_value *(*find)(const struct pd_run *run, const char *name);
    /* Name of the i-th variable of an output or input slot. */
    const char *(*name)(const struct pd_run *run, int is_output, int slot, int i);
    /* What the Program declares it to be, -1 for a size that is free; NULL: it does not say. */
    const struct pd_meta *(*declared)(const struct pd_run *run, int is_output, int slot, int i);
    /* On servers: a sparse gradient without rows is a slice of one whose rows are all in other slices, and
     * the update is a step. Elsewhere it is no gradient at all, and the update does nothing. */
    int is_slice;
    /* Set by an op that has begun something beyond its own run(), NULL when a run starts: called when the run
     * is over, with its status, while all that its ops lent out is still there. Returns the status; that of a
     * failure, and pd_error(), stay as they are. */
    pd_status (*over)(const struct pd_step *step, pd_status status);
};

struct pd_run {
    const struct pd_op *op;
    const struct pd_attr *attr;
    const struct pd_values *in, *out;
    void *state; /* op->state_size zeroed bytes of this op in this plan: prepared kernels, counters */
    struct pd_step *step;
    int64_t place; /* of the op in the user's Program (pd_opdesc_place) */
    void *frame;   /* the executor's own */
};

/* First variable of a slot; NULL when it was left out. */
static inline struct pd_value *pd_run_in_value(const struct pd_run *r, int slot)
{
    return r->in[slot].n ? r->in[slot].at[0] : NULL;
}
static inline struct pd_value *pd_run_out_value(const struct pd_run *r, int slot)
{
    return r->out[slot].n ? r->out[slot].at[0] : NULL;
}
static inline const struct pd_tensor *pd_run_in(const struct pd_run *r, int slot)
{
    return r->in[slot].n && r->in[slot].at[0] ? &r->in[slot].at[0]->tensor : NULL;
}
static inline struct pd_tensor *pd_run_out(const struct pd_run *r, int slot)
{
    return r->out[slot].n && r->out[slot].at[0] ? &r->out[slot].at[0]->tensor : NULL;
}
/* The i-th of a list. A list of gradient outputs keeps its positions: NULL where nobody wants that gradient.
 */
static inline const struct pd_tensor *pd_run_in_at(const struct pd_run *r, int slot, int i)
{
    return r->in[slot].at[i] ? &r->in[slot].at[i]->tensor : NULL;
}
static inline struct pd_tensor *pd_run_out_at(const struct pd_run *r, int slot, int i)
{
    return r->out[slot].at[i] ? &r->out[slot].at[i]->tensor : NULL;
}

/* ---- gradients ---- */

struct pd_grad_maker; /* passes/backward.c; the calls are in program/grad.h */

struct pd_op {
    const char *type;
    const char *doc;                            /* one sentence */
    const struct pd_slot_def *inputs, *outputs; /* each ends with {0} */
    const struct pd_attr_def *attrs;            /* ends with {0}; NULL: none */
    unsigned flags;

    /* Sets kind (if not a tensor), dtype, dims and LoD of every output that is there. Called while a Program
     * is built and again whenever sizes change at run time. May not look at data unless c->running says so
     * (in_values). */
    pd_status (*infer)(const struct pd_infer *c);
    /* Computes. Output tensors have their sizes and memory, except for PD_OP_DYNAMIC and selected rows. May
     * not keep pointers. */
    pd_status (*run)(const struct pd_run *r);

    /* The gradient as a table: grad_type is the type of the gradient op; grad_in and grad_out list its slots.
     * A word is NAME (a forward slot), NAME@ (the gradient of a forward slot, slot name NAME@GRAD), or
     * SLOT=NAME and SLOT=NAME@ to give the slot another name. E.g. "X Y Out@" -> "X@ Y@". Attributes are
     * copied. */
    const char *grad_type, *grad_in, *grad_out;
    /* Or as a function, where a table cannot say it. */
    pd_status (*make_grad)(struct pd_grad_maker *g);
    /* Inputs that the gradient op does not get, or not always, as words INPUT=SLOT or INPUT=SLOT@: the input
     * has the shape of that slot of the gradient op, with SLOT- of all but its last dimension; INPUT=1: it is
     * one number. So the engine can ask infer() whether what the gradient op gets fits (exec/grad_check.h). X
     * needs no word where there is XShape: it has the dimensions after the first of that. */
    const char *grad_like;
    /* Of a gradient op: the type of its forward op, where that is not its own without _grad. */
    const char *grad_of;

    const struct pd_share *share; /* ends with {-1, -1}; NULL: none */
    size_t state_size;
    void (*state_free)(void *state); /* frees what the state points to, not the state itself; NULL: nothing */
};

/* All ops of the library; each list ends with NULL. */
struct pd_op_set {
    const struct pd_op *const *ops;
    /* That only passes put into plans: Programs cannot name them; may be NULL. */
    const struct pd_op *const *plan_ops;
};

const struct pd_op *pd_op_find(const struct pd_op_set *set, const char *type);
const struct pd_op *pd_op_find_for_plan(const struct pd_op_set *set, const char *type); /* among plan_ops */
/* The op that `op` is the gradient op of; NULL: it is none. */
const struct pd_op *pd_op_forward(const struct pd_op_set *set, const struct pd_op *op);
/* Position in the table, -1 when there is none of that name. */
int pd_slot_index(const struct pd_slot_def *slots, const char *name);
int pd_attr_index(const struct pd_attr_def *attrs, const char *name);
int pd_slot_count(const struct pd_slot_def *slots);
int pd_attr_count(const struct pd_attr_def *attrs);

#endif
