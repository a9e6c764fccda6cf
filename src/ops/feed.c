/* feed: a mark in inference models that says which variables come in. The executor acts on it; as an op it
 * does nothing. */
#include "program/op.h"

const struct pd_op pd_op_feed = {
    .type = "feed",
    .doc = "Marks a variable that the user feeds.",
    .inputs = (const struct pd_slot_def[]){{"X", 0}, {0}},
    .outputs = (const struct pd_slot_def[]){{"Out", 0}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("col", 0), {0}},
    .flags = PD_OP_NO_GRAD | PD_OP_MARK,
};
