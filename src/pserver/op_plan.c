/* The ops that a plan puts in the place of a trainer's send and recv ops; see passes/fuse_exchange.c. */
#include "pserver/op_run.h"

const struct pd_op pd_op_ps_send = {
    .type = "ps_send",
    .doc = "Sends the rows of X, cut by sections, under the names to the servers in epmap.",
    .inputs = (const struct pd_slot_def[]){{"X", PD_SLOT_KEEP}, {0}},
    .outputs = (const struct pd_slot_def[]){{0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_STRINGS("epmap"),
                                          PD_DEF_STRINGS("names"),
                                          PD_DEF_INTS("sections"),
                                          PD_DEF_STRINGS("job"),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_SENDS,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_send_slices_run,
    .state_size = sizeof(struct pd_ps_state),
    .state_free = pd_ps_state_free,
};

const struct pd_op pd_op_ps_exchange = {
    .type = "ps_exchange",
    .doc = "Ends the step at the servers in endpoints and receives what `names` are there: each into the "
           "next rows of Out[into].",
    .inputs = (const struct pd_slot_def[]){{0}},
    .outputs = (const struct pd_slot_def[]){{"Out", PD_SLOT_LIST | PD_SLOT_OPTIONAL}, {0}},
    .attrs = (const struct pd_attr_def[]){PD_DEF_INT("trainer_id", 0),
                                          PD_DEF_INT("trainers", 0),
                                          PD_DEF_STRINGS("all"),
                                          PD_DEF_STRINGS("job"),
                                          PD_DEF_STRINGS("endpoints"),
                                          PD_DEF_STRINGS("epmap"),
                                          PD_DEF_STRINGS("names"),
                                          PD_DEF_INTS("into"),
                                          PD_DEF_LONGS("rows"),
                                          {0}},
    .flags = PD_OP_EFFECT | PD_OP_NO_GRAD | PD_OP_DYNAMIC | PD_OP_RECEIVES,
    .infer = pd_ps_infer_nothing,
    .run = pd_ps_exchange_run,
    .state_size = sizeof(struct pd_ps_state),
    .state_free = pd_ps_state_free,
};
