/* The one set of ops; see op_list.h. Nothing registers itself: a folder's list names what it has. */
#include "api/op_list.h"

#include "ops/list.h"
#if PD_WITH_DISTRIBUTE
#include "pserver/list.h"
#else
#define PD_OPS_PSERVER(X)
#define PD_OPS_PSERVER_PLAN(X)
#endif

#define DECLARE(name) extern const struct pd_op pd_op_##name;
PD_OPS_ALL(DECLARE)
PD_OPS_PSERVER(DECLARE)
PD_OPS_PLAN(DECLARE)
PD_OPS_PSERVER_PLAN(DECLARE)
#undef DECLARE

#define NAME(name) &pd_op_##name,
static const struct pd_op *const all[] = {PD_OPS_ALL(NAME) PD_OPS_PSERVER(NAME) 0};
static const struct pd_op *const of_plans[] = {PD_OPS_PLAN(NAME) PD_OPS_PSERVER_PLAN(NAME) 0};
#undef NAME

const struct pd_op_set pd_ops = {all, of_plans};
