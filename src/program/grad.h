/* What an op's make_grad function may do. The maker belongs to passes/gradient.c. */
#ifndef PD_PROGRAM_GRAD_H
#define PD_PROGRAM_GRAD_H

#include "program/program.h"

struct pd_grad_maker {
    const struct pd_opdesc *op; /* the forward op */
    struct pd_block *block;     /* where gradient ops go */
    struct pd_program *program;
    void *backward; /* the pass's own */
    /* Name of the gradient of variable `var` as a gradient op reads it (the gradient of an output). Never
     * NULL: where no gradient reached the output it names a variable that the pass fills with zeros. */
    pd_status (*grad_of_output)(struct pd_grad_maker *g, const char *var, const char **name);
    /* Name under which a gradient op writes the gradient of an input; PD_EMPTY_VAR when nobody wants it. */
    pd_status (*grad_of_input)(struct pd_grad_maker *g, const char *var, const char **name);
    /* Has a gradient reached this output? */
    int (*has_grad)(struct pd_grad_maker *g, const char *var);
    /* Does anyone care for the value that this output had before the op? */
    int (*lives_before)(struct pd_grad_maker *g, const char *var);
    /* Hands a finished gradient op over (taken also on error). Ops come in the order they are to run. */
    pd_status (*emit)(struct pd_grad_maker *g, struct pd_opdesc *grad_op);
    /* Differentiates the block `forward` that the op runs, into a new block *grad_block that sees the forward
     * block's variables. targets[i] are variables around the block that it writes, wanted[i] variables around
     * it that it reads. All gradients are local to the new block: that of a target is VAR@GRAD and the
     * gradient op must fill it before each run; that of wanted[i] has the name grads[i], NULL where none
     * reaches it. With `loops`, VAR@GRAD of a target holds after a run what the run before it in the loop
     * must get. */
    pd_status (*block_grad)(struct pd_grad_maker *g, int forward, int loops, int n_targets,
                            const char *const *targets, int n_wanted, const char *const *wanted,
                            const char **grads, int *grad_block);
};

/* A gradient op from the table form (see struct pd_op). Not emitted yet, so that a maker can add to it. */
pd_status pd_grad_from_table(struct pd_grad_maker *g, const char *type, const char *in, const char *out,
                             struct pd_opdesc **op);

#endif
