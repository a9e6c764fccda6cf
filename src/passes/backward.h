/* What backward.c (which variables get a gradient) and gradient.c (the gradient ops of one op) share. */
#ifndef PD_PASSES_BACKWARD_H
#define PD_PASSES_BACKWARD_H

#include "passes/passes.h"
#include "program/grad.h"

/* One gradient op's output that adds to a variable's gradient. */
struct pd_backward_part {
    struct pd_opdesc *op;
    int slot, arg;
};

/* What is known of one forward variable. */
struct pd_backward_node {
    const char *var, *grad; /* grad: canonical name, made when first asked for */
    int reachable;          /* a gradient makes sense: leads to a leaf that wants one */
    int needed;             /* the targets depend on it */
    int blocked;            /* stop_gradient or in the no-grad set */
    int wanted;
    int stops;   /* wanted, and has stop_gradient: its gradient goes no further */
    int filled;  /* its gradient is complete and has been written */
    int carried; /* more contributions may come, to be added to what has been written */
    int met;     /* a gradient was complete for some value of the variable */
    PD_VEC(struct pd_backward_part) parts;
};

/* A copy that the forward block makes of a variable before an op overwrites it, because a gradient op reads
 * the old value (versions.c). */
struct pd_backward_copy {
    const char *var, *name;
    int before; /* number of the forward op; that of the last + 1: at the end of the block */
};

/* Before op `op` the variable was reachable or not: a name may stand for several values, one after the other.
 */
struct pd_backward_reach {
    int op, was;
    struct pd_backward_node *node;
};

struct pd_backward {
    const struct pd_backward_spec *spec;
    struct pd_block *into;
    int nested; /* into another block */
    struct pd_program *program;
    struct pd_map nodes;  /* name -> struct pd_backward_node */
    struct pd_map before; /* names that the block had before the pass, for unique gradient names */
    int forward_ops;
    int at; /* number of the forward op that is differentiated now; -1: none */
    int role;
    PD_VEC(struct pd_backward_copy) copies;
    PD_VEC(struct pd_backward_reach) reaches; /* in the order of the forward ops */
    struct pd_map writers;                    /* versions.c: name -> the forward ops that write it */
};

/* A gradient makes sense for values of this type. */
static inline int pd_backward_allows(const struct pd_var *var)
{
    return !var || pd_dtype_is_float(var->meta.dtype) || var->meta.dtype == PD_DTYPE_FP16 ||
           var->meta.dtype == PD_DTYPE_NONE || var->meta.kind == PD_KIND_TENSOR_ARRAY;
}

static inline int pd_backward_reaches(const struct pd_backward_node *n)
{
    return n->reachable && !n->blocked;
}

/* The node of a variable, made when first asked for; NULL when memory is short. */
struct pd_backward_node *pd_backward_node(struct pd_backward *p, const char *var);
/* Gives the node its gradient's name. */
pd_status pd_backward_name(struct pd_backward *p, struct pd_backward_node *n);
/* An op X -> Out, not yet in a block; returns a new one. */
pd_status pd_backward_op(struct pd_backward *p, const char *type, int n, const char *const *in,
                         const char *out, struct pd_opdesc **made);
/* Appends an op to the gradient's block with the pass's role. Takes the op, also on error. */
pd_status pd_backward_insert(struct pd_backward *p, struct pd_opdesc *op);
/* Adds up the contributions, so that the canonical gradient holds the whole; then the error clip, if any. */
pd_status pd_backward_complete(struct pd_backward *p, struct pd_backward_node *n);
/* versions.c: finds who writes what. Called first; _free at the end. */
pd_status pd_backward_find_writers(struct pd_backward *p);
void pd_backward_free_writers(struct pd_backward *p);
/* Number of the first forward op in [from, to) that writes the variable; -1: none. */
int pd_backward_writer(const struct pd_backward *p, const char *var, int from, int to);
/* Size and type that the variable has before forward op `at`; an op behind it, or behind the op that runs
 * this block, may have given it others. */
struct pd_meta pd_backward_meta(const struct pd_backward *p, const struct pd_var *var, int at);
/* Makes a gradient op read the values that forward op p->at saw. */
pd_status pd_backward_pin(struct pd_backward *p, struct pd_opdesc *op);
/* The name under which the variable's value before forward op `at` can be read. */
pd_status pd_backward_version(struct pd_backward *p, const char *var, int at, const char **name);
/* Puts the copies into the forward block. */
pd_status pd_backward_insert_copies(struct pd_backward *p);
/* Of an op that no gradient passes through: what its outputs held before has no gradient. */
pd_status pd_backward_pass_over(struct pd_backward *p, const struct pd_opdesc *op);
/* Appends the gradient ops of one forward op. */
pd_status pd_backward_differentiate(struct pd_backward *p, struct pd_opdesc *op);

#endif
