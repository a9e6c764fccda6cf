/* What the Programs of server and trainers are made of: the names and shapes that both sides know, and ops in
 * few words. What is made lives as long as its process. */
#ifndef PADDLE_CLI_PSBENCH_JOB_H
#define PADDLE_CLI_PSBENCH_JOB_H

#include "cli/psbench/crew.h"

struct pd_psbench_shape {
    int rank;
    int64_t dims[2];
};

/* How many parameters the server holds: the pieces of a dense one, or the table. */
int pd_psbench_parameters(const struct pd_psbench_case *c);
/* Names of what the server holds: "w0", "w0@GRAD". */
void pd_psbench_name(int piece, int is_grad, char name[32]);
/* The shape of each, and of its gradient. */
struct pd_psbench_shape pd_psbench_shape(const struct pd_psbench_case *c);

pd_status pd_psbench_add_var(pd_program *program, const char *name, int kind, int dtype,
                             struct pd_psbench_shape shape, unsigned flags);
/* Parameter `piece`, or its gradient, as the case has it. */
pd_status pd_psbench_add_piece(const struct pd_psbench_case *c, pd_program *program, int piece, int is_grad);
pd_status pd_psbench_add_texts(pd_op_builder *op, const char *name, int n, const char *const *texts);
pd_status pd_psbench_end_op(pd_op_builder *op, int block);

#endif
