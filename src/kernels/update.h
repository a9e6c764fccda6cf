/* Update rules of the optimizers: one pass over a parameter, its state and its gradient.
 *
 * Arrays: [0] is the parameter, then the rule's state in the order given below. Each is read from `in` and
 * written to `out`; both may be the same memory. A gradient is dense, or given as rows; then rows without
 * gradient are either left alone or, with `all`, updated by a gradient of zero. */
#ifndef PD_KERNELS_UPDATE_H
#define PD_KERNELS_UPDATE_H

#include "kernels/rows.h"

#define PD_UPDATE_ARRAYS 4

/* rule: arrays after the parameter; numbers k[] */
enum pd_rule {
    PD_RULE_SGD,              /* none; scale, shift: p - (scale g + shift) */
    PD_RULE_MOMENTUM,         /* velocity; lr, mu, weight decay */
    PD_RULE_NESTEROV,         /* velocity; lr, mu, weight decay */
    PD_RULE_LARS,             /* velocity; local lr, mu, weight decay */
    PD_RULE_ADAM,             /* moment 1, moment 2; lr (corrected), beta1, beta2, epsilon */
    PD_RULE_ADAMAX,           /* moment, infinity norm; lr (corrected), beta1, beta2, epsilon */
    PD_RULE_ADAGRAD,          /* moment; lr, epsilon */
    PD_RULE_DECAYED_ADAGRAD,  /* moment; lr, decay, epsilon */
    PD_RULE_ADADELTA,         /* mean squared gradient, mean squared update; rho, epsilon */
    PD_RULE_RMSPROP,          /* mean square, moment; lr, rho, epsilon, momentum */
    PD_RULE_RMSPROP_CENTERED, /* mean square, moment, mean gradient; lr, rho, epsilon, momentum */
    PD_RULE_FTRL,             /* squares, linear; lr, l1, l2 (power -0.5) */
    PD_RULE_FTRL_POWER,       /* squares, linear; lr, l1, l2, power */
    PD_RULE_PROXIMAL_GD,      /* none; lr, l1, l2 */
    PD_RULE_PROXIMAL_ADAGRAD, /* moment; lr, l1, l2 */
    PD_RULE_LAMB_MOMENTS, /* moment 1, moment 2, direction (written only); beta1, beta2, epsilon, weight decay
                           */
    PD_RULES,
};

struct pd_update {
    enum pd_rule rule;
    int is_double;
    int arrays;
    int64_t n; /* elements of each array */
    const void *in[PD_UPDATE_ARRAYS];
    void *out[PD_UPDATE_ARRAYS];
    double k[5];
    const void *grad;
    /* Rows, all below n / width; groups == NULL: the gradient is dense. */
    const struct pd_rows_groups *groups;
    int64_t width;
    int all;
};

void pd_update_run(const struct pd_update *u);

/* Square root of the sum of squares, in fixed parts: the same on any number of threads. */
double pd_update_norm(const void *x, int is_double, int64_t n);

#endif
