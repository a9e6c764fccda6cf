/* The one set of ops: those of src/ops and those that speak with servers. */
#ifndef PD_API_OP_LIST_H
#define PD_API_OP_LIST_H

#include "program/op.h"

extern const struct pd_op_set pd_ops;

#endif
