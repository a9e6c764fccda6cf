/* Passes: functions from Program to Program. */
#ifndef PD_PASSES_PASSES_H
#define PD_PASSES_PASSES_H

#include "program/program.h"

/* Bits of upstream's op_role attribute. */
enum { PD_ROLE_FORWARD = 0, PD_ROLE_BACKWARD = 1, PD_ROLE_OPTIMIZE = 2, PD_ROLE_LOSS = 256 };

struct pd_clip_spec {
    const char *var;
    float min, max;
};

struct pd_backward;

/* What to differentiate. The arrays are borrowed for the call. */
struct pd_backward_spec {
    struct pd_block *block; /* whose ops are differentiated */
    struct pd_block *into;  /* where gradient ops go; NULL: the same block. Another block is one that starts
                               empty; who  runs it fills the gradients of the targets */
    int loops;              /* with `into`: the block runs again and again */
    const struct pd_backward *around; /* the pass that has come to the op which runs the block; NULL: none */
    int n_targets;
    const char *const *targets;
    const char *const *target_grads; /* NULL, or NULL entries: ones */
    int loss; /* the target is a loss: one element, its gradient op gets the loss role */
    int n_wanted;
    const char *const *wanted; /* variables whose gradients are asked for; they are differentiable whatever
                                  their flags say */
    int n_no_grad;
    const char *const *no_grad;
    int n_clips;
    const struct pd_clip_spec *clips;
};

/* Appends gradient ops. grads[i] is the name of the gradient of wanted[i], NULL where none reaches it; the
 * names live as long as the Program. On an error the Program may hold part of the gradient ops. */
pd_status pd_pass_backward(const struct pd_backward_spec *spec, const char **grads);

/* Keeps the ops of block 0 that the targets need and the variables they use; feeds count as given. Ops with
 * an effect stay only when they are marked as targets. */
pd_status pd_pass_prune(struct pd_program *program, int n_feeds, const char *const *feeds, int n_targets,
                        const char *const *targets);

/* Before a plan is made, on the plan's own copy of the Program: lets ops leave out work that nobody sees, and
 * when `fuses`, makes one op of neighbouring ops that are bound by memory (fuse.h). */
pd_status pd_pass_fuse(struct pd_program *program, int fuses, int n_fetches, const char *const *fetches);

#endif
