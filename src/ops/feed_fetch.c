/* feed and fetch: marks in inference models that say which variables come in and go out. The executor acts on
 * them; as ops they do nothing. */
#include "program/op.h"

static const struct pd_slot_def inputs[] = {{"X", 0}, {0}};
static const struct pd_slot_def outputs[] = {{"Out", 0}, {0}};
static const struct pd_attr_def attrs[] = {PD_DEF_INT("col", 0), {0}};

const struct pd_op pd_op_feed = {
    .type = "feed",
    .doc = "Marks a variable that the user feeds.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_MARK,
};

const struct pd_op pd_op_fetch = {
    .type = "fetch",
    .doc = "Marks a variable that the user fetches.",
    .inputs = inputs,
    .outputs = outputs,
    .attrs = attrs,
    .flags = PD_OP_NO_GRAD | PD_OP_EFFECT | PD_OP_MARK,
};
